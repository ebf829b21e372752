"""The search for a boundary on the simulated laboratory."""

import math
from dataclasses import replace

import pytest

from pgdrag.factors import Problem
from pgdrag.findings.claim_kinds.analysis import StatedClaims
from pgdrag.findings.claim_kinds.bound import BoundClaim
from pgdrag.findings.claim_kinds.outcome import OutcomeClaim
from pgdrag.findings.find import find
from pgdrag.findings.values import Answer
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Applied, Level, Outcome, Rung, Treatment
from pgdrag.model.design import parameters_of
from pgdrag.model.measurement import Counts
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    run_blocks,
    simulated_ladder,
)
from pgdrag.units import size_of

VALUES = [f"{2**power}MB" for power in range(12)]


class Cache(SimulatedTrialRunner):
    """A server that does not start below 4 MB, and gains up to 128 MB."""

    def run(self, trial, listen):
        size = int(trial.treatment.of_kind("setting")["shared_buffers"].removesuffix("MB"))
        if size < 4:
            result = super().run(trial, listen)
            reason = "no unpinned buffers available"
            return replace(result, outcome=Outcome.DID_NOT_START, measurement=None, reason=reason)
        self.truth = replace(self.truth, base_tps=1000 * min(size / 128, 1.0) ** 0.6)
        return super().run(trial, listen)


STUDY = replace(
    simulated_ladder("a"),
    rungs=(Rung("base", "", Treatment("base")),),
    design="boundary",
    design_parameters=parameters_of("boundary", {"setting": "shared_buffers", "values": VALUES}),
)


def run_to(blocks, bench=Cache):
    """Return what so many blocks find."""
    return find(run_blocks(STUDY, bench(Truth(noise=0.03), seed=1), blocks=blocks))


def test_boundary_and_knee_are_found():
    findings = run_to(100)
    found = findings.found
    assert (found.state, found.smallest, found.failing) == ("found", "4MB", "2MB")
    assert found.curve.verdict == "knee"
    assert found.curve.low <= 128 * 2**20 <= found.curve.high
    assert math.isclose(found.curve.slope, 0.6, rel_tol=0.15)
    # Noise of 3 % and two trials each: all values share their noise, so each is known to 5 %.
    assert all(x.tps.high / x.tps.low < 1.15 for x in found.values if x.tps)
    assert "2MB does not work (no unpinned buffers available)" in findings.answer
    assert "Throughput rises up to about 128MB" in findings.answer
    assert "4MB" in terminal_text(findings, width=80)


def test_an_unfinished_search_says_so():
    for blocks in range(6):
        assert run_to(blocks).answer.startswith("No answer yet")


class Failing(SimulatedTrialRunner):
    """A server on which half of the transactions fail below 4 MB."""

    def run(self, trial, listen):
        result = super().run(trial, listen)
        size = int(trial.treatment.of_kind("setting")["shared_buffers"].removesuffix("MB"))
        if size >= 4:
            return result
        done = result.measurement.total
        counts = Counts(2 * done.committed, done.committed, failed=done.committed)
        window = replace(
            result.measurement,
            transactions={"all": counts},
            errors=(("all", "53000", "no unpinned buffers available", done.committed),),
        )
        return replace(result, measurement=window)


def test_a_value_may_be_said_to_work_only_while_few_transactions_fail():
    def found(**more):
        parameters = {"setting": "shared_buffers", "values": VALUES, **more}
        study = replace(STUDY, design_parameters=parameters_of("boundary", parameters))
        runner = Failing(Truth(noise=0.03), seed=1)
        return find(run_blocks(study, runner, blocks=100))

    assert found().found.smallest == "1MB"
    few = found(most_failed=0.05)
    assert few.found.smallest == "4MB"
    assert "50 % of its transactions fail: no unpinned buffers" in few.answer


@pytest.mark.parametrize(
    ("least", "answer"),
    [("4MB", Answer.REPRODUCED), ("7MB", Answer.REPRODUCED), ("64MB", Answer.NOT_REPRODUCED)],
)
def test_the_boundary_answers_what_was_published_of_it(least, answer):
    claim = BoundClaim(text="the least", setting="shared_buffers", least=least)
    study = replace(STUDY, claims=(claim,))
    (one,) = (
        find(run_blocks(study, Cache(Truth(noise=0.03), seed=1), blocks=100))
        .get(StatedClaims)
        .claims
    )
    assert (one.answer, one.found) == (answer, "4MB works, 2MB does not")


def test_a_value_that_a_rung_names_is_a_trial_of_that_rung():
    """The treatments of a search have names of their own."""
    level = Level("setting", "shared_buffers", "1MB")
    rungs = (*STUDY.rungs, Rung("least", "", Treatment("least", (level,)), (level,)))
    claim = OutcomeClaim(text="fails", at="least", outcome="fails", message="no unpinned")
    study = replace(STUDY, rungs=rungs, claims=(claim,))
    (one,) = (
        find(run_blocks(study, Cache(Truth(noise=0.03), seed=1), blocks=100))
        .get(StatedClaims)
        .claims
    )
    assert one.answer is Answer.REPRODUCED


class Damaged(Cache):
    """A laboratory whose dataset is torn at the values of the middle."""

    def run(self, trial, listen):
        result = super().run(trial, listen)
        if trial.treatment.of_kind("setting")["shared_buffers"] != "32MB":
            return result
        reason = "the dataset is damaged"
        return replace(result, outcome=Outcome.INVALID, measurement=None, reason=reason)


def test_invalid_trials_say_nothing_of_a_value_and_end_the_search():
    findings = run_to(100, Damaged)
    assert findings.answer.startswith(
        "No answer: 3 invalid trials of shared_buffers = 32MB (the dataset is damaged)."
    )
    (tried,) = [one for one in findings.found.values if one.value == "32MB"]
    assert (tried.worked, tried.failed) == (0, 0)


class Bounded(Cache):
    """A server that takes at most 512 MB: it says so, or leaves the value out without a word."""

    says_so = True

    def check(self, levels, workload):
        too_large = [x for x in levels if size_of(x.value) > 512 * 2**20 and self.says_so]
        return [Problem(x, False, f"{x.value} is outside the valid range") for x in too_large]

    def run(self, trial, listen):
        result = super().run(trial, listen)
        left_out = [x for x in trial.treatment.levels if size_of(x.value) > 512 * 2**20]
        applied = tuple(Applied(x, None, "left out") for x in left_out)
        return replace(result, applied=applied or result.applied)


class Silent(Bounded):
    says_so = False


@pytest.mark.parametrize("bench", [Bounded, Silent])
def test_a_value_that_is_not_in_force_has_no_number(tmp_path, bench):
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, STUDY)
    run = run_experiment(run_id, bench(Truth(noise=0.03), seed=1), journal)
    tried = {one.value: one for one in find(run).found.values}
    assert tried["2048MB"].tps is None
    assert (tried["2048MB"].worked, tried["2048MB"].outcomes) == (0, {"untestable here": 2})
