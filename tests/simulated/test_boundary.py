"""The search for a boundary on the simulated laboratory."""

import math
from dataclasses import replace

from pgdrag.findings.find import find
from pgdrag.model import Outcome, Rung, Treatment
from pgdrag.model.design import parameters_of
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.conformance_sections import run_blocks
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, simulated_ladder

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


def run_to(blocks, bench=Cache):
    """Return what so many blocks find."""
    study = replace(
        simulated_ladder("a"),
        rungs=(Rung("base", "", Treatment("base")),),
        design="boundary",
        design_parameters=parameters_of(
            "boundary", {"setting": "shared_buffers", "values": VALUES}
        ),
    )
    return find(run_blocks(study, bench(Truth(noise=0.03), seed=1), blocks=blocks))


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
