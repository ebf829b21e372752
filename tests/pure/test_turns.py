"""The cost of looking, from turns of looking and resting within one window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis_runs import result, run_of, rung
from pgdrag.collectors import BLOCK_S, Turns
from pgdrag.designs.turns import Turns as TurnsDesign
from pgdrag.designs.turns import TurnsFinding, TurnsParameters, TurnsSection, blocks_of
from pgdrag.findings.find import find
from pgdrag.model import Outcome, Result
from pgdrag.model.recordings import LOOKING
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from turn_trials import looked_at_in_turns


def found_in(*results: Result) -> TurnsFinding:
    return find(run_of([rung("in turns")], results, design="turns")).found


def test_each_block_has_two_turns_of_each_kind_and_comes_in_both_orders() -> None:
    turns = Turns(7)
    seen = [
        tuple(turns.looks(block * BLOCK_S + turn * BLOCK_S / 4) for turn in range(4))
        for block in range(64)
    ]
    assert set(seen) == {(True, False, False, True), (False, True, True, False)}
    again = Turns(7)
    assert [again.looks(at / 2) for at in range(100)] == [turns.looks(at / 2) for at in range(100)]


def test_only_turns_that_were_had_whole_are_told() -> None:
    turns = Turns(3)
    for at in range(10):
        turns.looks(float(at))
    turns.begin(50.0)
    turns.end(57.5)
    events = turns.recordings(49.0).events
    assert [(x.start_s, x.end_s) for x in events] == [(1.0, 3.0), (3.0, 5.0), (5.0, 7.0)]
    assert [x.text == LOOKING for x in events] == [turns.looks(at * 2.0) for at in range(3)]


@pytest.mark.parametrize("cost", [1.0, 1.01, 1.5])
def test_a_known_cost_is_found_whatever_the_drift(cost: float) -> None:
    found = found_in(looked_at_in_turns(blocks=8, cost=cost, drift_per_s=0.002, late_s=0.0625))
    assert found.slowdown is not None
    # A border that lies a sixteenth within an interval gives so much of a turn to its neighbour.
    assert found.slowdown.center == pytest.approx(cost, rel=0.07 * abs(cost - 1) + 2e-4)
    assert len(found.blocks) == 8
    assert found.trials == 1


def test_intervals_that_a_border_cuts_belong_to_no_turn() -> None:
    (first, *_) = blocks_of(looked_at_in_turns(blocks=1, cost=2.0, late_s=0.5))
    assert first.slowdown == pytest.approx(2.0, rel=1e-3)


def test_a_turn_without_a_commit_leaves_its_block_out() -> None:
    trial = looked_at_in_turns(blocks=3, cost=1.0)
    assert trial.measurement is not None
    samples = list(trial.measurement.samples)
    samples[0:2] = [replace(x, committed=0) for x in samples[0:2]]
    spoilt = replace(trial, measurement=replace(trial.measurement, samples=tuple(samples)))
    assert len(blocks_of(spoilt)) == 2


def test_trials_that_were_not_measured_say_nothing() -> None:
    crashed = replace(looked_at_in_turns(blocks=4, cost=3.0), outcome=Outcome.CRASHED)
    found = found_in(crashed, result("in turns", None, outcome=Outcome.DID_NOT_START))
    assert (found.slowdown, found.blocks, found.trials) == (None, (), 0)
    assert found.answer == "No trial has measured yet what the collectors cost."


def test_the_design_asks_for_all_trials_at_once() -> None:
    design = TurnsDesign([rung("in turns")], TurnsParameters(trials=3))
    assert [x.name for x in design.ask().treatments] == ["in turns"] * 3
    design.tell([])
    assert not design.ask().treatments


def test_the_report_says_the_cost_and_that_few_blocks_are_few() -> None:
    run = run_of([rung("in turns")], [looked_at_in_turns(blocks=4, cost=1.02)], design="turns")
    findings = find(run)
    assert "Throughput with the collectors paused is 1.02× " in findings.answer
    assert any("only 4 blocks of turns" in x for x in findings.warnings)
    assert TurnsSection().applies(findings)
    assert "4 blocks in 1 trial" in render_markdown(findings)
    assert '"looked_first"' in render_json(findings)
