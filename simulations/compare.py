"""Does compare keep its promises: few false verdicts, the power it states, intervals that cover?

The analyses are those of `pgdrag.designs.compare.rules`; only the trials are made up. Trials follow each
other on a machine that drifts, is autocorrelated, or is disturbed; the order within each pair is random.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdrag.designs.compare.rules import (
    CompareParameters,
    Interim,
    analyse_logs,
    pairs_needed,
)
from pgdrag.findings.values import Gate, Verdict
from pgdrag.stats.interval import EQUIVALENCE
from pgdrag.stats.multiple_testing import holm
from pgdrag.stats.paired import (
    PairedLogs,
    interval,
    p_value,
    smallest_effect,
    t_p_value,
)
from pgdrag.stats.sequential import interim_confidence, planned_interims
from simulations.rows import Row, share_row, value_row

REPEATS = 2000
TRULY = 0.1  # the log slowdown planted where coverage is counted


@dataclass(frozen=True)
class Machine:
    """How the log throughput of one treatment changes from trial to trial.

    Attributes:
        sd: its standard deviation, of what is left after the rest.
        memory: autocorrelation of that from trial to trial.
        drift: added each trial.
        walk: standard deviation of the steps of a random walk.
        disturbed: share of trials that run at half speed.
    """

    name: str
    sd: float
    memory: float = 0.0
    drift: float = 0.0
    walk: float = 0.0
    disturbed: float = 0.0

    def trials(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Return the logs of trials, one after the other."""
        shocks = rng.standard_normal(count) * self.sd
        noise = np.empty(count)
        noise[0] = shocks[0]
        for at in range(1, count):
            noise[at] = self.memory * noise[at - 1] + math.sqrt(1 - self.memory**2) * shocks[at]
        walk = np.cumsum(rng.standard_normal(count)) * self.walk
        disturbed = (rng.random(count) < self.disturbed) * math.log(2)
        return np.asarray(noise + walk + self.drift * np.arange(count) - disturbed)

    def pairs(self, rng: np.random.Generator, count: int, slowdown: float) -> PairedLogs:
        """Return pairs of a treatment that is slower by a log slowdown."""
        trials = self.trials(rng, 2 * count).reshape(-1, 2)
        signs = rng.choice([-1, 1], count)
        logs = signs * (trials[:, 0] - trials[:, 1]) + slowdown
        return PairedLogs(tuple(logs.tolist()), tuple(signs.tolist()))


QUIET = Machine("independent noise of 2 %", 0.02)
MACHINES = (
    QUIET,
    Machine("noise of 2 % that lasts (autocorrelation 0.7)", 0.02, memory=0.7),
    Machine("noise of 0.5 %, drift of 1 % a trial", 0.005, drift=0.01),
    Machine("noise of 0.1 %, drift of 2 % a trial", 0.001, drift=0.02),
    Machine("noise of 0.5 %, a random walk of 2 % a trial", 0.005, walk=0.02),
    Machine("noise of 0.5 %, 1 trial in 20 at half speed", 0.005, disturbed=0.05),
)


def simulate(scale: float) -> list[Row]:
    """Return every promise of compare, and whether it is kept."""
    repeats = max(round(REPEATS * scale), 20)
    return [
        *(_false_verdicts(machine, repeats) for machine in MACHINES),
        *_errors_at_the_margins(repeats),
        *(_power(pairs, QUIET, repeats) for pairs in (4, 6, 8, 20, 40)),
        *(_power(pairs, MACHINES[2], repeats) for pairs in (20, 40)),
        *(_false_quantities(likeness, repeats) for likeness in (0.0, 0.5, 0.9, 1.0)),
        *(_forecast(percent, QUIET, repeats // 2) for percent in (0, 1, 4, 8)),
        *(
            _coverage(pairs, machine, repeats)
            for pairs in (10, 14, 20, 30)
            for machine in MACHINES[:3]
        ),
        *(_adaptive_coverage(machine, repeats) for machine in MACHINES[:3]),
        *(_exact_test(pairs, machine, repeats) for pairs in (10, 20) for machine in MACHINES[:3]),
        *(_cost(percent, max(repeats // 3, 20)) for percent in (0, 2, 5, 10, 50)),
    ]


def run_to_end(pairs: PairedLogs, rules: CompareParameters) -> Interim:
    """Analyse the pairs as the design does, until an analysis decides."""
    found: Interim | None = None
    for count in planned_interims(rules.max_pairs):
        found = analyse_logs(PairedLogs(pairs.logs[:count], pairs.signs[:count]), rules)
        if found.is_decided:
            break
    assert found is not None, "no interim analysis was planned"
    return found


def _ends(
    name: str, machine: Machine, slowdown: float, rules: CompareParameters, repeats: int
) -> list[Interim]:
    rng = _rng(name)
    return [
        run_to_end(machine.pairs(rng, rules.max_pairs, slowdown), rules) for _ in range(repeats)
    ]


def _false_verdicts(machine: Machine, repeats: int) -> Row:
    name = f"compare: false verdict on A/A, adaptive stop, {machine.name}"
    # Without equivalence every run without a verdict goes on to its last analysis: the worst case.
    ends = _ends(name, machine, 0.0, CompareParameters(equivalence=0.0), repeats)
    wrong = sum(one.verdict is not Verdict.INCONCLUSIVE for one in ends)
    return share_row(name, wrong, repeats, "<= 0.05")


def _errors_at_the_margins(repeats: int) -> list[Row]:
    rows = []
    at_margin = math.log1p(EQUIVALENCE)
    name = "compare: called equivalent at a slowdown of exactly the margin, adaptive stop"
    ends = _ends(name, Machine("", 0.01), at_margin, CompareParameters(), repeats)
    equal = sum(one.verdict is Verdict.EQUIVALENT for one in ends)
    rows.append(share_row(name, equal, repeats, "<= 0.05"))
    gate = CompareParameters(fail_if_slower=0.03)
    for wrong in (Gate.PASS, Gate.FAIL):
        name = f"compare: gate says {wrong.value} at a slowdown of exactly its margin"
        ends = _ends(name, Machine("", 0.01), math.log(1.03), gate, repeats)
        rows.append(share_row(name, sum(x.gate is wrong for x in ends), repeats, "<= 0.05"))
    name = "compare: interval of --precision 1 % misses the truth"
    precise = CompareParameters(max_pairs=60, precision=0.01)
    repeats = max(repeats // 5, 20)
    ends = _ends(name, Machine("", 0.015), TRULY, precise, repeats)
    missed = sum(not one.slowdown.low <= math.exp(TRULY) <= one.slowdown.high for one in ends)
    return [*rows, share_row(name, missed, repeats, "<= 0.05")]


def _power(pairs: int, machine: Machine, repeats: int) -> Row:
    name = f"compare: power at the stated smallest effect of {pairs} pairs, {machine.name}"
    rules = CompareParameters(max_pairs=pairs, equivalence=0.0)
    sure = interim_confidence(pairs, pairs, confidence=rules.confidence)
    # The noise of a pair is that of two trials.
    planted = smallest_effect(machine.sd * math.sqrt(2), pairs, confidence=sure)
    ends = _ends(name, machine, planted, rules, repeats)
    return share_row(name, sum(x.verdict is Verdict.SLOWER for x in ends), repeats, ">= 0.8")


def _false_quantities(likeness: float, repeats: int) -> Row:
    """Compare six quantities, more or less like throughput, where throughput stopped the pairs."""
    name = (
        f"compare: any of 6 quantities significant on A/A, correlation with throughput {likeness:g}"
    )
    rng, rules, wrong = _rng(name), CompareParameters(), 0
    own = math.sqrt(1 - likeness**2)
    for _ in range(repeats):
        pairs = QUIET.pairs(rng, rules.max_pairs, 0.0)
        count = run_to_end(pairs, rules).pairs
        ps = []
        for _ in range(6):
            noise = QUIET.pairs(rng, count, 0.0).values
            logs = likeness * pairs.values[:count] + own * noise
            ps.append(t_p_value(PairedLogs(tuple(logs.tolist()), pairs.signs[:count])))
        wrong += min(holm(ps)) <= 1 - rules.confidence
    return share_row(name, wrong, repeats, "<= 0.05")


def _forecast(percent: float, machine: Machine, repeats: int) -> Row:
    """Run as many pairs as a comparison forecasts that saw exactly the effect and noise planted."""
    planted, log_sd = math.log1p(percent / 100), machine.sd * math.sqrt(2)
    typical = log_sd * math.sqrt(3 / 4)  # of four numbers one such deviation off, on either side
    seen = [planted + side * typical for side in (1, -1, -1, 1)]
    pairs = pairs_needed(PairedLogs(tuple(seen), (1, -1, 1, -1)), CompareParameters())
    assert pairs is not None, "more pairs than are ever forecast"
    name = f"compare: decided by the pairs forecast ({pairs}), {percent:g} % slower, {machine.name}"
    ends = _ends(name, machine, planted, CompareParameters(max_pairs=pairs), repeats)
    return share_row(name, sum(one.is_decided for one in ends), repeats, ">= 0.8")


def _coverage(pairs: int, machine: Machine, repeats: int) -> Row:
    name = f"compare: coverage of the 95 % interval of {pairs} pairs, {machine.name}"
    rng = _rng(name)
    hits = 0
    for _ in range(repeats):
        found = interval(machine.pairs(rng, pairs, TRULY), confidence=0.95)
        hits += found.low <= TRULY <= found.high
    return share_row(name, hits, repeats, "0.93 .. 0.97")


def _adaptive_coverage(machine: Machine, repeats: int) -> Row:
    name = f"compare: coverage of the interval that the verdict rests on, {machine.name}"
    ends = _ends(name, machine, TRULY / 2, CompareParameters(), repeats)
    hits = sum(x.slowdown.low <= math.exp(TRULY / 2) <= x.slowdown.high for x in ends)
    return share_row(name, hits, repeats, ">= 0.95")


def _exact_test(pairs: int, machine: Machine, repeats: int) -> Row:
    name = f"compare: exact test of {pairs} pairs finds p <= 0.05 on A/A, {machine.name}"
    rng = _rng(name)
    wrong = sum(p_value(machine.pairs(rng, pairs, 0.0)) <= 0.05 for _ in range(repeats))
    return share_row(name, wrong, repeats, "<= 0.05")


def _cost(percent: int, repeats: int) -> Row:
    name = f"compare: mean pairs to the end, {percent} % slower, noise of 1 % a trial"
    ends = _ends(name, Machine("", 0.01), math.log1p(percent / 100), CompareParameters(), repeats)
    counted = Counter(one.pairs for one in ends)
    return value_row(name, sum(pairs * often for pairs, often in counted.items()) / repeats)


def _rng(name: str) -> np.random.Generator:
    """Return a random generator of a row's own, whatever else is simulated."""
    return np.random.default_rng(zlib.crc32(name.encode()))
