"""Designs that ask for all they want at once: one-at-a-time, grid and screen."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from pgdrag.designs.grid import MOST_TREATMENTS, Grid, GridParameters
from pgdrag.designs.rungs import OneAtATime, OneAtATimeParameters
from pgdrag.designs.screen import Screen, ScreenParameters
from pgdrag.model import Level, Rung, Study, Treatment
from pgdrag.testing.simulated import simulated_ladder


def level(name, value="on"):
    return Level("setting", name, value)


BASE = Rung("base", "", Treatment("base", (level("a", "off"),)))


def rungs(*levels):
    """Return the baseline and a rung for each level upon it."""
    return (
        BASE,
        *(
            Rung(f"r{at}", "", BASE.treatment.with_levels(f"r{at}", [one]), (one,))
            for at, one in enumerate(levels)
        ),
    )


def test_one_at_a_time_asks_for_the_baseline_and_each_rung():
    design = OneAtATime(rungs(level("a"), level("b")), OneAtATimeParameters(baseline_repeats=2))
    assert [x.name for x in design.ask().treatments] == ["base", "base", "r0", "r1"]
    design.tell([])
    assert not design.ask().treatments


def test_a_grid_crosses_the_levels_that_it_is_given():
    parameters = GridParameters(levels={"a": ["on", "off"], "w": ["1MB", "4MB", "16MB"]})
    found = Grid((BASE,), parameters).ask().treatments
    # Six combinations, and the baseline, of which none is a copy.
    assert len(found) == 7
    assert {tuple(sorted(x.of_kind("setting").items())) for x in found[1:]} == {
        (("a", a), ("w", w)) for a in ("on", "off") for w in ("1MB", "4MB", "16MB")
    }
    assert found[1].name == "a=on w=1MB"


def test_a_grid_without_levels_crosses_what_the_rungs_add():
    found = Grid(rungs(level("b"), level("c"), level("c", "auto")), GridParameters())
    assert len(found.ask().treatments) == 2 * 3


def test_a_grid_of_too_many_combinations_is_refused_or_cut():
    with pytest.raises(ValidationError, match="1024 combinations; at most 256"):
        GridParameters(levels={f"s{at}": ["on", "off"] for at in range(10)})
    wide = Grid(rungs(*(level(f"s{at}") for at in range(12))), GridParameters())
    assert len(wide.ask().treatments) == MOST_TREATMENTS


def test_names_of_combinations_fit_and_differ():
    long = [level(f"a_setting_with_a_long_name_{at}") for at in range(4)]
    names = [x.name for x in Grid(rungs(*long), GridParameters()).ask().treatments]
    assert max(map(len, names)) <= 60
    assert len(set(names)) == len(names)


def test_a_screening_runs_every_change_in_half_of_its_trials():
    target = BASE.treatment.with_levels("target", [level(f"s{at}") for at in range(11)])
    ends = (BASE, Rung("target", "", target, target.levels))
    block = Screen(ends, ScreenParameters()).ask()
    assert block.is_brief
    assert len(block.treatments) == 24
    for at in range(11):
        assert sum(level(f"s{at}") in x.levels for x in block.treatments) == 12
    assert len(Screen(ends, ScreenParameters(is_folded=False)).ask().treatments) == 12


def test_a_screening_of_nothing_is_the_reference():
    assert Screen((BASE, BASE), ScreenParameters()).ask().treatments == (BASE.treatment,)


def test_a_study_has_the_parameters_of_its_own_design():
    assert simulated_ladder("a").with_design("grid").design_parameters == GridParameters()


def test_an_older_journal_still_loads_and_what_the_design_no_longer_takes_is_left_out():
    stored = TypeAdapter(Study)
    study = stored.dump_python(simulated_ladder("a", baseline_repeats=2), mode="json")
    assert stored.validate_python(study).design_parameters.baseline_repeats == 2
    study["design_parameters"] = {"baseline_repeats": 3, "gone": 1}
    assert stored.validate_json(json.dumps(study)).design_parameters.baseline_repeats == 3


def test_the_parameters_of_a_design_that_is_not_here_are_kept():
    stored = TypeAdapter(Study)
    study = stored.dump_python(simulated_ladder("a"), mode="json")
    study |= {"design": "somebody's own", "design_parameters": {"theirs": 1}}
    kept = stored.validate_python(study)
    assert stored.dump_python(kept, mode="json")["design_parameters"] == {"theirs": 1}
