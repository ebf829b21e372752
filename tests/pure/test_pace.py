"""A collector samples every two seconds, and every five in a long window."""

from __future__ import annotations

import pytest

from pgdrag.collectors._session import FREQUENT_SAMPLES, is_due


@pytest.mark.parametrize(
    ("samples", "waiting", "due"),
    [
        (1, 1.8, 1.9),  # asked each second, a little early
        (FREQUENT_SAMPLES, 1.8, 1.9),
        (FREQUENT_SAMPLES + 1, 4.8, 4.9),
    ],
)
def test_a_sample_is_due_so_long_after_the_last_began(
    samples: int, waiting: float, due: float
) -> None:
    assert not is_due(waiting, samples=samples)
    assert is_due(due, samples=samples)
