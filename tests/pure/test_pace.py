"""A collector looks every two seconds, and every five in a long window."""

from __future__ import annotations

import pytest

from pgdrag.collectors._pace import FREQUENT_LOOKS, Pace


def test_the_first_look_is_due_at_any_moment() -> None:
    assert Pace().is_due(0.0, looks=0)


@pytest.mark.parametrize(
    ("looks", "waiting", "due"),
    [
        (1, 1.8, 1.9),  # asked each second, a little early
        (FREQUENT_LOOKS, 1.8, 1.9),
        (FREQUENT_LOOKS + 1, 4.8, 4.9),
    ],
)
def test_a_look_is_due_so_long_after_the_last_began(looks: int, waiting: float, due: float) -> None:
    pace = Pace()
    pace.begin(0.0)
    assert not pace.is_due(waiting, looks=looks)
    assert pace.is_due(due, looks=looks)
    pace.begin(due)
    assert not pace.is_due(due, looks=looks)
