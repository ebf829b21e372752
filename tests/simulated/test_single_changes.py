"""A ladder whose changes are tried alone and left out finds what was planted, and shares treatments."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ladder import LadderFinding
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.find import find
from pgdrag.findings.values import Answer, Findings
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import OPERATIONAL_SPEED, Claim, Source, Study
from pgdrag.model.design import make_design
from pgdrag.report.markdown import render_markdown
from pgdrag.report.terminal import render_terminal
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder


def study(*factors: str, replicates: int = 3) -> Study:
    made = simulated_ladder(*factors, replicates=replicates)
    return made.with_design("ladder", alone=True, without=True, threshold=0.1, headline=0)


def found(tmp_path: Path, made: Study, truth: Truth, *, seed: int = 7) -> Findings:
    journal = Journal(tmp_path / f"{seed}.sqlite")
    run_id = begin_simulated(journal, made, seed=seed)
    return find(run_experiment(run_id, SimulatedTrialRunner(truth, seed=seed), journal))


def single(findings: Findings) -> LadderFinding:
    assert isinstance(findings.found, LadderFinding)
    return findings.found


def labels(findings: Findings) -> list[Label]:
    return [one.label for one in single(findings).changes]


def test_treatments_that_are_rungs_already_are_run_once() -> None:
    treatments = make_design(study("a", "b", "c")).ask().treatments
    assert [one.name for one in treatments] == [
        *("R0", "R1", "R2", "R3"),
        *("R2 alone", "R3 alone", "without R1", "without R2"),
    ]
    assert [one.name for one in make_design(study("a", "b")).ask().treatments] == [
        *("R0", "R1", "R2", "R2 alone"),
    ]
    assert len(make_design(study("a")).ask().treatments) == 2


def test_without_being_asked_a_ladder_has_its_rungs_only(tmp_path: Path) -> None:
    plain = simulated_ladder("a", "b", "c")
    assert len(make_design(plain).ask().treatments) == 4
    assert found(tmp_path, plain, Truth(slowdowns={"a": 2.0})).found is None


def test_one_change_that_does_it_all_is_said_to_carry_it(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"b": 0.6}, noise=0.02)
    findings = found(tmp_path, study("a", "b", "c"), truth)
    assert labels(findings) == [Label.INERT, Label.BOTH, Label.INERT]
    assert [one.carries for one in single(findings).changes] == [False, True, False]
    part = single(findings).changes[1].alone_part
    assert part is not None
    assert part.center == pytest.approx(1, rel=0.1)
    assert part.low > 0.5
    assert "R2 (b as well) accounts for more than half of it" in findings.answer
    # One number and not two: the ladder's own columns have the same.
    assert findings.rungs[2].to_previous == single(findings).changes[1].step


def test_two_that_need_each_other_say_so_and_none_carries_it(tmp_path: Path) -> None:
    truth = Truth(interactions={frozenset("ab"): 2.0}, noise=0.02)
    findings = found(tmp_path, study("a", "b", "c"), truth)
    assert labels(findings) == [Label.NEEDS_PARTNER, Label.NEEDS_PARTNER, Label.INERT]
    assert "No single change" in findings.answer
    assert "they interact" in findings.answer


def test_two_that_do_the_same_are_redundant(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 2.0, "b": 2.0}, interactions={frozenset("ab"): 0.5}, noise=0.02)
    assert labels(found(tmp_path, study("a", "b", "c"), truth)) == [
        *(Label.REDUNDANT, Label.REDUNDANT, Label.INERT),
    ]


def test_noise_alone_is_credited_to_nothing(tmp_path: Path) -> None:
    findings = found(tmp_path, study("a", "b", "c", replicates=2), Truth(noise=0.1))
    assert set(labels(findings)) == {Label.UNDECIDED}
    assert "none is attributed to a single one" in findings.answer
    assert any("cannot tell" in doubt for doubt in findings.warnings)


def test_what_is_lacking_here_is_untestable_and_the_rest_is_told(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 2.0, "c": 9.0}, lacking=frozenset("c"), noise=0.01)
    findings = found(tmp_path, study("a", "b", "c"), truth)
    assert labels(findings) == [Label.BOTH, Label.INERT, Label.UNTESTABLE]
    assert single(findings).target == "R2"
    assert "R3 could not be tested here" in findings.answer
    last = single(findings).changes[2]
    assert (last.alone, last.with_others, last.step) == (None, None, None)


def test_single_trials_say_that_they_were_not_repeated(tmp_path: Path) -> None:
    findings = found(tmp_path, study("a", "b", replicates=1), Truth(slowdowns={"a": 3.0}))
    assert any("no treatment was repeated" in doubt for doubt in findings.warnings)


@pytest.mark.parametrize("cut", [0, 1, 2, 5, 7])
def test_an_unfinished_run_is_reported(tmp_path: Path, cut: int) -> None:
    whole = found(tmp_path, study("a", "b", "c", replicates=2), Truth(noise=0.02)).run
    findings = find(replace(whole, results=whole.results[:cut], status="interrupted"))
    assert "Each change alone" in render_markdown(findings)
    console = Console(file=io.StringIO(), width=80)
    render_terminal(findings, console)


def test_a_claim_is_answered_with_what_carries_it_and_what_its_source_could_not_know(
    tmp_path: Path,
) -> None:
    made = study("a", "b", "c")
    *others, last = made.rungs
    claim = Claim(speedup=1.65, of=OPERATIONAL_SPEED)
    made = replace(
        made,
        rungs=(*others, replace(last, claim=claim)),
        source=Source("A study", limits="It took each step once."),
    )
    findings = found(tmp_path, made, Truth(slowdowns={"b": 0.6}, noise=0.02))
    told = findings.rungs[-1].get(ClaimsFinding).total
    assert told is not None
    assert told.answer is Answer.REPRODUCED
    assert told.in_kind is not None
    assert told.in_kind.low < 0.6 < told.in_kind.high
    report = render_markdown(findings)
    assert "By operational speed as pg_expecto defines it" in report
    assert report.count("accounts for more than half of it") >= 2
    assert "It took each step once." in report
