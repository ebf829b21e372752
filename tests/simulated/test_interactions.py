"""A grid finds how its factors act on each other, and with which interval."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from pgdrag.designs.grid import GridFinding
from pgdrag.findings.find import design_finding, find
from pgdrag.model import Level, Outcome, Rung, RunRecord, Study
from pgdrag.model.design import make_design
from pgdrag.report.markdown import render_markdown
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, run_blocks, simulated_ladder

RUNS = 400
MARGIN = 2 * math.sqrt(0.05 * 0.95 / RUNS)
TOGETHER = frozenset("ab")


def grid(*factors: str, replicates: int = 3) -> Study:
    """Return a grid whose rungs each change one factor."""
    ladder = simulated_ladder(*factors, replicates=replicates)
    start = ladder.rungs[0]
    rungs = [start] + [
        replace(rung, treatment=start.treatment.with_levels(rung.name, rung.added))
        for rung in ladder.rungs[1:]
    ]
    return replace(ladder, rungs=tuple(rungs)).with_design("grid")


def record(study: Study, truth: Truth, *, seed: int = 1) -> RunRecord:
    return run_blocks(study, SimulatedTrialRunner(truth, seed=seed), seed=seed)


def found(study: Study, truth: Truth, *, seed: int = 1) -> GridFinding:
    told = design_finding(record(study, truth, seed=seed))
    assert isinstance(told, GridFinding)
    return told


def test_a_combination_that_is_a_rung_is_run_under_its_name() -> None:
    treatments = make_design(grid("a", "b")).ask().treatments
    assert {one.name for one in treatments} == {"R0", "R1", "R2", "a=on b=on"}
    rungs = find(record(grid("a", "b"), Truth())).rungs
    assert [rung.rung.name for rung in rungs] == ["R0", "R1", "R2", "a=on b=on"]
    assert all(rung.tps is not None for rung in rungs)


def test_a_planted_interaction_is_told_in_words() -> None:
    truth = Truth(slowdowns={"a": 1.5, "b": 2.0}, interactions={TOGETHER: 0.5}, noise=0.01)
    (one,) = found(grid("a", "b"), truth).interactions
    assert one.is_significant
    assert one.product == pytest.approx(3.0, rel=0.05)
    assert one.both.center == pytest.approx(1.5, rel=0.05)
    assert one.sentence.startswith(
        "a default → on and b default → on: together 1.5× slower, without an interaction 3"
    )
    assert "the interaction is 2× faster (" in one.sentence or "1.9" in one.sentence


def test_factors_that_do_not_act_on_each_other_are_said_to_show_none() -> None:
    (one,) = found(grid("a", "b"), Truth(slowdowns={"a": 3.0, "b": 0.5}, noise=0.02)).interactions
    assert not one.is_significant
    assert "not significant; these trials can detect" in one.sentence


@pytest.mark.parametrize(("replicates", "planted"), [(2, 1.0), (3, 1.3)])
def test_the_interaction_is_covered(replicates: int, planted: float) -> None:
    truth = Truth(slowdowns={"a": 2.0}, interactions={TOGETHER: planted}, noise=0.05)
    study = grid("a", "b", replicates=replicates)
    hits = 0
    for seed in range(RUNS):
        (one,) = found(study, truth, seed=seed).interactions
        hits += one.interaction.low <= planted <= one.interaction.high
    assert hits / RUNS >= 0.95 - 1.5 * MARGIN


def three_levels() -> Study:
    """Return a grid of two values of "a" beside the default, and one of "b"."""
    study = grid("a", "b")
    start = study.rungs[0]
    more = Level("block_device", "c", "256")
    rung = Rung("R3", "", start.treatment.with_levels("R3", [more]), (more,))
    higher = Level("setting", "a", "high")
    another = Rung("R4", "", start.treatment.with_levels("R4", [higher]), (higher,))
    return replace(study, rungs=(*study.rungs, rung, another))


def test_larger_grids_look_at_each_pair_of_levels_averaged_over_the_others() -> None:
    told = found(three_levels(), Truth(slowdowns={"a": 2.0, "c": 3.0}, noise=0.01))
    assert [(one.name, one.levels) for one in told.factors] == [
        ("a", ("default", "on", "high")),
        ("b", ("default", "on")),
        ("c", ("default", "256")),
    ]
    assert len(told.combinations) == 12
    assert [(one.factors, one.averaged_over) for one in told.interactions] == [
        *[(("a", "b"), 2)] * 2,
        *[(("a", "c"), 2)] * 2,
        (("b", "c"), 3),
    ]
    assert not any(one.is_significant for one in told.interactions)


def test_what_cannot_be_measured_leaves_the_rest() -> None:
    told = found(grid("a", "b"), Truth(outcomes={"b": Outcome.CRASHED}))
    assert told.interactions == ()
    assert "No interaction can be estimated" in told.answer


def test_an_unfinished_grid_is_reported() -> None:
    whole = record(grid("a", "b", replicates=2), Truth(noise=0.01))
    for cut in range(len(whole.results) + 1):
        findings = find(replace(whole, results=whole.results[:cut]))
        assert "How the factors combine" in render_markdown(findings)


def test_one_factor_has_no_interaction() -> None:
    assert find(record(grid("a"), Truth())).found is None


def test_every_combination_is_asked_for_once() -> None:
    told = found(grid("a", "b", "c"), Truth())
    assert len({one.levels for one in told.combinations}) == 8
    assert {one.levels for one in told.combinations} == set(
        itertools.product(("default", "on"), repeat=3)
    )


def test_what_cannot_be_set_here_is_no_combination() -> None:
    run = record(grid("a", "b"), Truth(slowdowns={"a": 2.0}, lacking=frozenset("b")))
    told = find(run).found
    assert isinstance(told, GridFinding)
    assert told.interactions == ()
    assert told.answer.endswith("b could not be set here.")
