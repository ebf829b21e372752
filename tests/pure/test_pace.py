"""A collector looks every two seconds, and every five in a long window."""

from __future__ import annotations

import pytest

from pgdrag.collectors._session import FREQUENT_LOOKS, is_due


@pytest.mark.parametrize(
    ("looks", "waiting", "due"),
    [
        (1, 1.8, 1.9),  # asked each second, a little early
        (FREQUENT_LOOKS, 1.8, 1.9),
        (FREQUENT_LOOKS + 1, 4.8, 4.9),
    ],
)
def test_a_look_is_due_so_long_after_the_last_began(looks: int, waiting: float, due: float) -> None:
    assert not is_due(waiting, looks=looks)
    assert is_due(due, looks=looks)
