"""What observes a study's trials: read from the file, the same in all trials, and from older journals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.agenda import expand
from pgdrag.errors import ExperimentError
from pgdrag.experiment import parse_experiment
from pgdrag.journal._older import of_today
from pgdrag.model import Block, Instrument, Level, Study, Treatment
from pgdrag.testing.simulated import simulated_ladder

FILE = """
pgdrag = 1
name = "observed"
{top}
[workload]
kind = "pgbench"
[baseline]
{baseline}
[[rungs]]
name = "A1"
setting = {{ work_mem = "1MB" }}
{rung}
[scales.small]
{scale}
"""


def study_of(top: str = "", baseline: str = "", rung: str = "", scale: str = "") -> Study:
    text = FILE.format(top=top, baseline=baseline, rung=rung, scale=scale)
    return parse_experiment(text, Path("observed.toml")).study("small")


def test_collectors_run_unless_the_file_says_otherwise() -> None:
    assert study_of().instrument == Instrument("on", ())
    assert study_of("instrument.collectors = 'off'").instrument == Instrument("off", ())


def test_optional_collectors_are_named_and_a_scale_has_the_last_word() -> None:
    both = "instrument = { profile = 'on', row_versions = true }"
    assert study_of(both).instrument.optional == ("profile", "row_versions")
    found = study_of(both, scale="instrument.profile = 'off'").instrument
    assert found.optional == ("row_versions",)


def test_the_older_place_is_the_baseline() -> None:
    assert study_of(baseline="instrument.profile = 'on'").instrument.optional == ("profile",)


@pytest.mark.parametrize(
    ("place", "line", "message"),
    [
        ("top", "instrument.profile = 'turns'", '"profile" in [instrument]'),
        ("top", "instrument.collectors = 'some'", '"collectors" in [instrument]'),
        ("scale", "instrument.driver = 'off'", '"driver" in [scales.small.instrument]'),
        ("rung", "instrument.profile = 'on'", '"instrument" in [[rungs]]'),
    ],
)
def test_what_the_instrument_does_not_have_is_a_mistake(
    place: str, line: str, message: str
) -> None:
    with pytest.raises(ExperimentError) as caught:
        study_of(**{place: line})
    assert message in caught.value.message
    assert caught.value.line is not None


def test_off_switches_optional_collectors_off_too() -> None:
    off = Instrument("off", ("profile",))
    assert not off.includes("wal", is_optional=False)
    assert not off.includes("profile", is_optional=True)
    assert Instrument("turns").includes("wal", is_optional=False)
    assert not Instrument().includes("profile", is_optional=True)


def test_all_trials_of_a_study_are_observed_alike() -> None:
    study = replace(simulated_ladder("a"), instrument=Instrument(optional=("profile",)))
    block = Block(tuple(rung.treatment for rung in study.rungs))
    trials = expand(block, study, seed=1, block_number=1, first_number=1)
    assert {trial.instrument for trial in trials} == {study.instrument}


def test_what_was_a_level_once_is_the_instrument_now() -> None:
    study = simulated_ladder("a")
    turns = Level("instrument", "collectors", "turns")
    profile, rows = (Level("instrument", name, "on") for name in ("profile", "row_versions"))
    old_rungs = tuple(
        replace(x, treatment=Treatment(x.treatment.name, (*x.treatment.levels, turns, profile)))
        for x in study.rungs
    )
    read = of_today(replace(study, rungs=old_rungs))
    assert read == replace(study, instrument=Instrument("turns", ("profile",)))
    block = Block((Treatment("T", (rows, *study.rungs[1].treatment.levels)),))
    (trial,) = expand(block, study, seed=1, block_number=1, first_number=1)
    assert of_today(trial).instrument == Instrument("on", ("row_versions",))
    assert of_today(trial).treatment.levels == study.rungs[1].treatment.levels
