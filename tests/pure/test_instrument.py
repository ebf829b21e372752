"""The instrument as a factor: what can be said of it, and what cannot."""

from __future__ import annotations

from typing import Any

import pytest

from pgdrag.factors.instrument import Instrument, is_observed
from pgdrag.plan import Level, Treatment

HERE: Any = None  # what a server says of its settings does not matter


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("collectors", "on", ""),
        ("collectors", "off", ""),
        ("collectors", "some", '"collectors" cannot be "some"'),
        ("driver", "off", 'the instrument has no "driver"'),
    ],
)
def test_only_the_collectors_can_be_on_or_off(name: str, value: str, message: str) -> None:
    problems = Instrument().check([Level("instrument", name, value)], HERE)
    assert [problem.message for problem in problems] == ([message] if message else [])
    assert all(problem.is_mistake and problem.hint for problem in problems)


def test_trials_are_looked_at_unless_they_say_otherwise() -> None:
    assert is_observed(Treatment("any"))
    assert not is_observed(Treatment("any", (Level("instrument", "collectors", "off"),)))
