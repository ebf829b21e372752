"""The instrument as a factor: what can be said of it, and what cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pgdrag.collectors import optional_collectors
from pgdrag.experiment.questions import PROFILED
from pgdrag.factors import Here
from pgdrag.factors.instrument import PROFILE, Instrument, is_asked, is_observed
from pgdrag.model import Level, Treatment
from pgdrag.testing.simulated import simulated_ladder

NOTHING: Any = None  # what a server says of its settings does not matter
HERE = Here(NOTHING, NOTHING, optional_collectors=optional_collectors())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("collectors", "on", ""),
        ("collectors", "off", ""),
        ("collectors", "turns", ""),
        ("profile", "turns", '"profile" cannot be "turns"'),
        ("profile", "on", ""),
        ("profile", "cpu", '"profile" cannot be "cpu"'),
        ("row_versions", "on", ""),
        ("update_cost", "turns", '"update_cost" cannot be "turns"'),
        ("collectors", "some", '"collectors" cannot be "some"'),
        ("driver", "off", 'the instrument has no "driver"'),
    ],
)
def test_only_what_the_instrument_has_can_be_on_or_off(name: str, value: str, message: str) -> None:
    problems = Instrument().check([Level("instrument", name, value)], HERE)
    assert [problem.message for problem in problems] == ([message] if message else [])
    assert all(problem.is_mistake and problem.hint for problem in problems)


def test_an_optional_collector_of_a_plug_in_can_be_asked_for() -> None:
    here = replace(HERE, optional_collectors=frozenset({"mine"}))
    assert Instrument().check([Level("instrument", "mine", "on")], here) == []
    (problem,) = Instrument().check([Level("instrument", "profile", "on")], here)
    assert problem.hint == 'It has "collectors" and "mine".'


def test_trials_are_looked_at_unless_they_say_otherwise() -> None:
    assert is_observed(Treatment("any"))
    assert not is_observed(Treatment("any", (Level("instrument", "collectors", "off"),)))


def test_a_study_is_profiled_in_all_of_its_trials_or_none() -> None:
    study = simulated_ladder("a", "b")
    assert not any(is_asked(rung.treatment, PROFILE) for rung in study.rungs)
    profiled = study.with_levels([PROFILED])
    assert all(is_asked(rung.treatment, PROFILE) for rung in profiled.rungs)
    # What a rung changes is what it changed before.
    assert [rung.added for rung in profiled.rungs] == [rung.added for rung in study.rungs]
    assert [len(rung.treatment.levels) for rung in profiled.rungs] == [1, 2, 3]
