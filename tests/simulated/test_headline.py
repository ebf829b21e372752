"""Pairs of the headline come first, in no more trials than blocks alone would take, and decide it honestly."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.rules import End
from pgdrag.designs.ladder import LadderFinding
from pgdrag.designs.rungs import RungsFinding
from pgdrag.experiment import shipped_experiments
from pgdrag.findings.find import design_finding, find, trials_left
from pgdrag.findings.values import Findings, Verdict
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome, RunRecord, Study
from pgdrag.model.design import make_design
from pgdrag.model.events import ignore
from pgdrag.report.markdown import render_markdown
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    run_blocks,
    run_design,
    simulated_ladder,
)
from simulations.headline import simulate
from simulations.headline import study as os_io

PAIR = ["R0", "R5"]
RUNGS = ["R0", "R1", "R2", "R3", "R4", "R5"]


def plain(replicates: int = 3) -> Study:
    return simulated_ladder(*"abcde", replicates=replicates)


def blocks_of(study: Study, truth: Truth, *, seed: int = 1) -> list[list[str]]:
    """Return the treatments of each block that a design asks for, to its end."""
    bench = SimulatedTrialRunner(truth, seed=seed)
    asked = run_design(
        make_design(study), study, lambda trial: bench.run(trial, ignore), blocks=99, seed=seed
    )
    return [[x.name for x in block.treatments] for block, _ in asked]


def run(directory: Path, study: Study, truth: Truth, *, seed: int = 4) -> RunRecord:
    journal = Journal(directory / "journal.sqlite")
    return run_experiment(
        begin_simulated(journal, study), SimulatedTrialRunner(truth, seed=seed), journal
    )


def ladder(findings: Findings) -> LadderFinding:
    assert isinstance(findings.found, LadderFinding)
    return findings.found


def headline(findings: Findings) -> CompareFinding:
    found = ladder(findings).headline
    assert found is not None
    return found


def test_a_headline_that_is_decided_leaves_its_trials_to_the_steps() -> None:
    """Of 18 trials 8 decide it; ten more are two blocks of the baseline and the rungs that are open."""
    asked = blocks_of(plain(), Truth(slowdowns={"a": 5.0}, noise=0.01))
    assert asked == [PAIR] * 4 + [RUNGS[:-1]] * 2


def test_a_headline_that_stays_open_has_pairs_in_its_part_of_the_trials_and_then_in_blocks() -> (
    None
):
    truth = Truth(noise=0.3)
    assert blocks_of(plain(), truth) == [PAIR] * 6 + [RUNGS]
    # 20 of 28 trials, then too few are left for the single changes.
    assert blocks_of(os_io(is_first=True), truth) == [PAIR] * 10 + [RUNGS, PAIR]


def test_single_changes_are_tried_once_the_whole_is_decided() -> None:
    asked = blocks_of(os_io(is_first=True), Truth(slowdowns={"d": 3.0}, noise=0.02))
    assert [len(block) for block in asked] == [2, 2, 2, 2, 14, 5]
    assert asked[4][-1] == "without R4"


HARDLY = {"c": 5.0, "d": 4000.0, "e": 3.0}  # R4 and R5 commit next to nothing


def test_what_hardly_commits_decides_the_headline_at_once_and_is_not_run_in_each_block() -> None:
    asked = blocks_of(plain(), Truth(slowdowns=HARDLY, noise=0.3))
    # 18 trials: what is left over counts the commits of R4 and R5 again.
    assert asked == [PAIR, RUNGS[:5], RUNGS[:4], RUNGS[:4], ["R4", "R5"]]
    never = plain().with_design("ladder", obvious=0.0)
    assert blocks_of(never, Truth(slowdowns=HARDLY, noise=0.3))[:3] == [PAIR, PAIR, RUNGS[:5]]


@pytest.mark.parametrize("base_tps", [0.4, 1000.0])
def test_nothing_is_obvious_by_chance(base_tps: float) -> None:
    """Neither where all commit little, nor where a treatment is nine times slower with few commits."""
    study, bench = plain(), SimulatedTrialRunner(Truth(base_tps=base_tps, noise=0.3), seed=2)
    blocks = run_design(make_design(study), study, lambda x: bench.run(x, ignore), blocks=99)
    assert [len(block.treatments) for block, _ in blocks][:2] == [2, 2]
    slower = Truth(base_tps=4.0, slowdowns={"e": 9.0}, noise=0.01)
    assert blocks_of(plain(), slower)[:2] == [PAIR, PAIR]


def test_an_obvious_headline_says_so_and_steps_have_an_interval(tmp_path: Path) -> None:
    findings = find(run(tmp_path, plain(replicates=2), Truth(slowdowns=HARDLY, noise=0.1)))
    assert "R5 against R0: one trial of each was enough." in findings.answer
    assert "undecided" not in findings.answer.lower()
    found = headline(findings)
    assert (found.end, found.verdict, len(found.pairs)) == (End.DECIDED, Verdict.SLOWER, 1)
    text = render_markdown(findings)
    assert "No answer yet" not in text
    for step in findings.rungs[1:4]:
        assert step.trials == 2
        assert step.to_previous is not None
        assert 0 < step.to_previous.slowdown.low < step.to_previous.slowdown.high < 10


def test_a_run_from_before_what_is_obvious_ended_pairs_goes_on_as_it_began(tmp_path: Path) -> None:
    stored = TypeAdapter(Study).dump_python(plain(), mode="json")
    assert stored["design_parameters"].pop("obvious")
    old = TypeAdapter(Study).validate_json(json.dumps(stored))
    found = run(tmp_path, old, Truth(slowdowns=HARDLY, noise=0.01))
    assert [x.trial.treatment.name for x in found.results[:4]].count("R5") == 2


def test_summaries_of_scales_promise_no_replicates_where_pairs_come_first() -> None:
    for experiment in shipped_experiments().values():
        for scale, words in experiment.scales.items():
            study = experiment.study(scale)
            if study.replicates > 1 and make_design(study).plan():
                assert "as many trials as" in words, (experiment.name, scale)


@pytest.mark.parametrize("design", ["ladder", "one-at-a-time"])
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_no_run_has_more_trials_than_blocks_alone_and_each_treatment_has_one(
    design: str, noise: float
) -> None:
    for rungs in (1, 2, 5):
        for replicates in (1, 2, 3, 6):
            study = simulated_ladder(*"abcde"[:rungs], replicates=replicates)
            study = study.with_design(design, baseline_repeats=3)
            truth = Truth(slowdowns={"a": 1.5}, noise=noise)
            asked = blocks_of(study, truth)
            once = [len(x) for x in asked] == [rungs + 3]  # run as often as the study says
            trials = sum(map(len, asked)) * (replicates if once else 1)
            assert trials <= replicates * (rungs + 3)
            assert {x for block in asked for x in block} == {x.name for x in study.rungs}


def test_without_replicates_a_ladder_has_its_block_as_ever() -> None:
    (block,) = (make_design(plain(replicates=1)).ask(),)
    assert ([x.name for x in block.treatments], block.replicates) == (RUNGS, None)
    assert make_design(plain(replicates=1)).plan() == ""


def test_the_plan_is_said_beforehand() -> None:
    assert make_design(os_io(is_first=True)).plan() == (
        "First up to 10 pairs of R0 and R5, until these are decided; then blocks of all 14 treatments or of the "
        "6 rungs, as many as 28 trials allow."
    )


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
@pytest.mark.parametrize(
    ("study", "slowdowns"),
    [
        (os_io(is_first=True), {"d": 1.5}),
        (os_io(is_first=True), HARDLY),
        (plain(), {"a": 4000.0}),
        (plain(), {"c": 4000.0, "d": 1 / 4000.0}),
        (plain(replicates=2), HARDLY),
        (simulated_ladder("a", replicates=5), {"a": 4000.0}),
        (simulated_ladder("a", "b", replicates=5), {"b": 4000.0}),
        (plain().with_design("one-at-a-time"), {"a": 4000.0, "c": 4000.0}),
    ],
)
def test_what_is_foretold_holds_after_every_block(
    study: Study, slowdowns: dict[str, float], noise: float
) -> None:
    design, bench = (
        make_design(study),
        SimulatedTrialRunner(Truth(slowdowns=slowdowns, noise=noise)),
    )
    foretold, done = [(0, design.trials_left())], 0
    for _, results in run_design(design, study, lambda x: bench.run(x, ignore), blocks=99):
        done += len(results)
        foretold.append((done, design.trials_left()))
    assert all(at + left.fewest <= done <= at + left.greatest for at, left in foretold)
    assert foretold[-1][1].greatest == 0


@pytest.mark.parametrize("kind", ["plain", "single changes", "one-at-a-time"])
def test_a_run_killed_anywhere_goes_on_with_the_same_plan(tmp_path: Path, kind: str) -> None:
    study = os_io(is_first=True) if kind == "single changes" else plain()
    study = study.with_design(kind) if kind == "one-at-a-time" else study
    truth = Truth(slowdowns={"a": 1.4}, noise=0.1)
    uncut = run(tmp_path, study, truth)
    journal = Journal(tmp_path / "cut.sqlite")
    for number in (1, 4, 12, 14, len(uncut.results)):
        run_id = begin_simulated(journal, study)
        killed = SimulatedTrialRunner(truth, seed=4, faults={number: SimulatedKill()})
        with pytest.raises(SimulatedKill):
            run_experiment(run_id, killed, journal)
        left = trials_left(journal.run(run_id))
        assert number - 1 + left.fewest <= len(uncut.results) <= number - 1 + left.greatest
        resumed = run_experiment(run_id, SimulatedTrialRunner(truth, seed=4), journal)
        assert resumed.results == uncut.results


def test_a_run_of_before_there_were_pairs_goes_on_in_blocks(tmp_path: Path) -> None:
    stored = TypeAdapter(Study).dump_python(plain(), mode="json")
    assert stored["design_parameters"].pop("headline")
    old = TypeAdapter(Study).validate_json(json.dumps(stored))
    found = run(tmp_path, old, Truth(slowdowns={"a": 5.0}, noise=0.01))
    assert len(found.results) == 18
    assert {x.trial.replicate for x in found.results} == {1, 2, 3}
    assert find(found).found is None


def test_the_answer_rests_on_the_pairs_and_says_how_many(tmp_path: Path) -> None:
    findings = find(run(tmp_path, plain(), Truth(slowdowns={"d": 1 / 3}, noise=0.02)))
    found = headline(findings)
    assert (found.end, found.verdict) == (End.DECIDED, Verdict.FASTER)
    last, (*_, step) = findings.rungs[-1], findings.rungs
    assert last.to_baseline is not None
    assert last.to_baseline.slowdown == found.slowdown
    assert step.to_previous == ladder(findings).step("R5")
    assert "R5 against R0: decided by 4 pairs of trials." in findings.answer
    assert "The headline, pair by pair" in render_markdown(findings)
    assert "Each change alone" not in render_markdown(findings)


def test_what_is_not_decided_says_what_it_would_take(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"d": 1 / 1.1}, noise=0.26, overheads_s=(5.0,))
    findings = find(run(tmp_path, os_io(is_first=True), truth))
    ((pairs, minutes),) = re.findall(
        r"R5 against R0: undecided after 12 pairs of trials; at this noise, 1\.2× takes about (\d+) pairs \((\d+) min\)",
        terminal_text(findings, width=400),
    )
    # Two trials of 30 s make a pair a minute.
    assert 20 < int(pairs) < 80
    assert pairs == minutes
    assert headline(findings).end is End.MAX_PAIRS


def test_what_cannot_be_had_here_is_no_headline_and_the_rung_before_is(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 5.0}, lacking=frozenset("e"), noise=0.01)
    made = run(tmp_path, plain(), truth)
    findings = find(made)
    assert (ladder(findings).target, len(headline(findings).pairs)) == ("R4", 4)
    assert sum(x.trial.treatment.name == "R5" for x in made.results) <= 3


def test_a_headline_that_commits_nothing_is_decided_and_run_again_last(tmp_path: Path) -> None:
    made = run(tmp_path, plain(), Truth(outcomes={"e": Outcome.STALLED}, noise=0.01))
    assert headline(find(made)).verdict is Verdict.SLOWER
    tried = [x.trial.treatment.name for x in made.results]
    assert (tried.count("R5"), tried.count("R3"), tried[-1]) == (2, 3, "R5")


@pytest.mark.parametrize("outcome", [Outcome.DID_NOT_START, Outcome.CRASHED, Outcome.INVALID])
def test_a_headline_that_breaks_is_tried_twice_and_the_steps_are_run(
    tmp_path: Path, outcome: Outcome
) -> None:
    made = run(tmp_path, plain(), Truth(outcomes={"e": outcome}, noise=0.01))
    tried = [x.trial.treatment.name for x in made.results]
    assert tried.count("R5") == 2
    assert tried.count("R3") == 2
    findings = find(made)
    assert findings.rungs[-1].outcome is outcome
    assert terminal_text(findings)


def test_pairs_of_one_order_alone_say_nothing_and_the_model_of_all_trials_does() -> None:
    """Lots put the baseline first in all pairs once in a while: no analysis of pairs can decide then."""
    study = simulated_ladder("a", "b", replicates=6).with_design("one-at-a-time")
    bench = SimulatedTrialRunner(Truth(slowdowns={"a": 2.0}, noise=0.02))

    def is_one_order(run: RunRecord) -> bool:
        places: dict[int, list[str]] = {}
        for x in run.results:
            places.setdefault(x.trial.block, []).append(x.trial.treatment.name)
        return all(x.index("R0") < x.index("R1") for x in places.values() if "R1" in x)

    runs = (run_blocks(study, bench, seed=seed) for seed in range(200))
    finding = design_finding(next(run for run in runs if is_one_order(run)))
    assert isinstance(finding, RungsFinding)
    assert finding.headline is not None
    assert finding.headline.detectable == float("inf")
    first = finding.comparison("R1")
    assert first is not None
    assert first.verdict is Verdict.SLOWER
    assert first.slowdown.low < 2.0 < first.slowdown.high


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 9, 13])
def test_an_unfinished_run_is_reported(tmp_path: Path, cut: int) -> None:
    whole = run(tmp_path, plain(), Truth(slowdowns={"a": 1.4}, noise=0.1))
    findings = find(replace(whole, results=whole.results[:cut], status="interrupted"))
    assert render_markdown(findings)
    assert terminal_text(findings)


def test_no_promise_is_broken_in_a_short_simulation() -> None:
    """The whole one is `make simulate`; this one finds what is badly wrong."""
    rows = simulate(0.0)
    assert [row.name for row in rows if row.met is False] == []
    assert len(rows) > 40
