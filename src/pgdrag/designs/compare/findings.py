"""What a comparison of two treatments found: the values that its report is made of.

Latency and the processor time of a transaction are compared like throughput, on the log ratios of the
pairs. Among many quantities some differ by chance: the p-values of all of them are adjusted together.

Source: Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import geometric_mean
from typing import ClassVar

from pgdrag.designs._moves import MoveFinding, Quantities, move_findings
from pgdrag.designs.compare.rules import End, Interim, NoiseFloor, Pair
from pgdrag.english import as_sentence, counted
from pgdrag.findings.driver_limits import cpu_us_per_transaction
from pgdrag.findings.quantities import quantities as amounts
from pgdrag.findings.values import Comparison, DesignFinding, Gate, Interval, Verdict
from pgdrag.model import Outcome, Result
from pgdrag.stats.multiple_testing import holm
from pgdrag.stats.paired import ORDER_PAIRS, PairedLogs, interval, t_p_value
from pgdrag.units import format_ratio

_SERVER_CPU = "server_cpu_s_per_transaction"  # as the collector `cpu` names it
_PERCENTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
_BEYOND = 3  # transactions that must lie beyond a percentile: else it is one slow transaction


class Direction(StrEnum):
    """Which way a quantity differs on the treatment."""

    HIGHER = "higher"
    LOWER = "lower"
    NOT_SIGNIFICANT = "not significant"


@dataclass(frozen=True)
class Quantity:
    """One quantity on both sides.

    Attributes:
        name: "latency_p99_us payment", "driver_cpu_s_per_transaction".
        label: for people.
        reference, treatment: geometric means over the pairs, in seconds.
        ratio: treatment divided by reference, at a confidence of its own, not adjusted for their number.
        p: p-value; `p_adjusted`: for all quantities of the comparison together.
        pairs: that have it on both sides.
    """

    name: str
    label: str
    reference: float
    treatment: float
    ratio: Interval
    p: float
    p_adjusted: float
    direction: Direction
    pairs: int


@dataclass(frozen=True)
class TrialPair:
    """One pair of trials.

    Attributes:
        block: its number in the run.
        reference_per_s, treatment_per_s: committed transactions per second; 0 where nothing was.
        slowdown: reference divided by treatment; infinite where the treatment committed nothing,
            and 1 where neither did.
        is_reference_first: the reference's trial ran first.
    """

    block: int
    reference_per_s: float
    treatment_per_s: float
    slowdown: float
    is_reference_first: bool


@dataclass(frozen=True)
class Prospect:
    """How many pairs it takes to detect a slowdown, at the noise seen.

    Attributes:
        slowdown: a ratio over 1.
        pairs: that detect it four times in five; None: more than 1,000.
    """

    slowdown: float
    pairs: int | None


@dataclass(frozen=True)
class Failures:
    """Trials of one side that have no number.

    Attributes:
        trials: how many.
        outcome, reason: of the last one.
    """

    trials: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Trend:
    """How the speed of both sides changed over the run, as a straight line.

    Attributes:
        change: from the first pair to the last, as a ratio over 1 or under.
        lasted_s: from the start of the first trial to that of the last one.
    """

    change: float
    lasted_s: float


@dataclass(frozen=True)
class CompareFinding(DesignFinding):
    """The verdict on two treatments.

    Attributes:
        reference, treatment: their names.
        verdict: how the treatment compares, at the confidence of the whole comparison.
        confidence: of all interim analyses together.
        slowdown: throughput of the reference divided by that of the treatment, with the interval that
            the verdict rests on: widened for the earlier interim analyses. None without a number.
        p: p-value of the exact randomization test (of t tests with fewer than 10 pairs), not adjusted for
            interim analyses. None where commits are counted (`slowdown` is exact then), or with fewer than two pairs.
        gate: whether it passes `margin`; None where none was set.
        margin: the largest slowdown that passes, as a share.
        equivalence: slowdowns within 1/(1 + equivalence) … 1 + equivalence count as equal.
        end: why no further pair was run.
        interims: each interim analysis, in order.
        pairs: each pair that was compared, in the order run.
        detectable: the smallest slowdown (over 1) that these pairs would have detected four times in
            five; infinite where they could have detected none.
        more_pairs: how many more would decide it four times in five, if effect and noise stay as
            they are; 0 where it is decided, None where that cannot be said or is over 1,000.
        pair_log_sd: standard deviation of the log slowdown from pair to pair; None as for `p`.
        prospects: how many pairs it takes to detect which slowdown; none without `pair_log_sd`.
        is_same: both sides are the same treatment, so all differences are noise.
        noise_floor: what pairs of one treatment differed by on this machine; None: not calibrated.
        is_noisier: pairs differ significantly more than the noise floor.
        order: how many times slower the second trial of a pair was, whichever treatment it ran; None
            where that is not significant.
        trend: None where there is none that matters.
        quantities: latency and processor time on both sides.
        moves: the amounts per transaction that the treatment moves, the surest first.
        defaults: of the two servers, that differ and that neither arm sets, each in words.
        reference_outcomes, treatment_outcomes: how often each side's trials ended in each way.
        reference_failures, treatment_failures: each side's trials without a number; None: there are none.
    """

    # Its interval allows for the interim analyses.
    has_rungs: ClassVar[bool] = False

    reference: str
    treatment: str
    verdict: Verdict
    confidence: float
    slowdown: Interval | None
    p: float | None
    gate: Gate | None
    margin: float | None
    equivalence: float
    end: End
    interims: tuple[Interim, ...]
    pairs: tuple[TrialPair, ...]
    detectable: float
    more_pairs: int | None
    pair_log_sd: float | None
    prospects: tuple[Prospect, ...]
    is_same: bool
    noise_floor: NoiseFloor | None
    is_noisier: bool
    order: float | None
    trend: Trend | None
    quantities: tuple[Quantity, ...]
    moves: tuple[MoveFinding, ...]
    defaults: tuple[str, ...]
    reference_outcomes: dict[str, int]
    treatment_outcomes: dict[str, int]
    reference_failures: Failures | None
    treatment_failures: Failures | None

    @property
    def decision(self) -> Gate | None:
        return self.gate

    @property
    def bound(self) -> str:
        if self.margin is None:
            return ""
        return f"{self.treatment} is at most {self.margin * 100:.3g} % slower than {self.reference}"

    @property
    def significance(self) -> str:
        parts = []
        if self.p is not None:
            interims = len(self.interims)
            last = f", the last of {interims} interim analyses" if interims > 1 else ""
            parts.append(f"p = {max(self.p, 1e-9):.2g} ({counted(len(self.pairs), 'pair')}{last})")
        if math.isfinite(self.detectable):
            parts.append(f"{format_ratio(self.detectable)} or more is detected four times in five")
        return as_sentence("; ".join(parts)) if parts else ""

    def comparison(self, rung: str) -> Comparison | None:
        if rung != self.treatment or self.slowdown is None:
            return None
        return Comparison(self.verdict, self.slowdown, self.detectable)


def quantities(pairs: Sequence[Pair], *, confidence: float) -> tuple[Quantity, ...]:
    """Compare every quantity that enough pairs have; those of latency first.

    Args:
        pairs: those that the comparison of throughput stopped at.
        confidence: of all quantities together, and of each interval. That throughput, which correlates
            with some of them, decided when to stop costs no more: see simulations/compare.py.
    """
    values = [(_values(pair.reference), _values(pair.treatment), pair.sign) for pair in pairs]
    names = dict.fromkeys(name for *both, _ in values for one in both for name in one)
    found = []
    for name, label in sorted(names, key=lambda x: not x[0].startswith("latency")):
        both = [(x.get((name, label)), y.get((name, label)), sign) for x, y, sign in values]
        shown = [(before, after, sign) for before, after, sign in both if before and after]
        if len(shown) < ORDER_PAIRS:
            continue
        before, after, signs = zip(*shown, strict=True)
        logs = PairedLogs(tuple(math.log(y / x) for x, y, _ in shown), signs)
        ratio, p = interval(logs, confidence=confidence).ratio, t_p_value(logs)
        means = (geometric_mean(before), geometric_mean(after))
        none = Direction.NOT_SIGNIFICANT
        found.append(Quantity(name, label, *means, ratio, p, 1.0, none, len(shown)))
    for at, p in enumerate(holm([one.p for one in found])):
        one = replace(found[at], p_adjusted=p)
        if p <= 1 - confidence:
            way = Direction.HIGHER if one.ratio.center > 1 else Direction.LOWER
            one = replace(one, direction=way)
        found[at] = one
    return tuple(found)


def moves(pairs: Sequence[Pair]) -> tuple[MoveFinding, ...]:
    """Return which amounts of work and waits per transaction the treatment moves, the surest first."""
    neither, changed = frozenset[int](), frozenset({0})
    sides = {
        neither: [pair.reference for pair in pairs],
        changed: [pair.treatment for pair in pairs],
    }
    labels = {one.name: one.label for side in sides.values() for x in side for one in x.evidence}
    measured = {key: [amounts(result) for result in side] for key, side in sides.items()}
    return move_findings(Quantities(measured).fingerprint((neither, changed)), labels)


def _values(result: Result) -> dict[tuple[str, str], float | None]:
    """Return a trial's quantities by name and label, in seconds; None: not known, or of too few transactions."""
    measured = result.measurement
    assert measured is not None, f"trial {result.trial.number} has no number"
    found: dict[tuple[str, str], float | None] = {}
    for kind, latency in measured.latency.items():
        for percentile, share in _PERCENTILES:
            us = float(getattr(latency, f"{percentile}_us"))
            name = (f"latency_{percentile}_us {kind}", f"latency {percentile}, {kind}")
            found[name] = us / 1e6 if latency.count * (1 - share) >= _BEYOND else None
    name = ("driver_cpu_s_per_transaction", "driver's processor time per transaction")
    driver_us = cpu_us_per_transaction(measured)
    found[name] = None if driver_us is None else driver_us / 1e6
    server = (one.value for one in result.evidence if one.name == _SERVER_CPU)
    found[_SERVER_CPU, "server's processor time per transaction"] = next(server, None)
    return found
