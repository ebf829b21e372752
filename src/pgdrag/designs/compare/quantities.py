"""What else differs between two treatments: latency, and the processor time of a transaction?

Each quantity is compared like throughput, on the log ratios of the pairs. Among many quantities some
differ by chance: the p-values of all of them are adjusted together.

Source: Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import geometric_mean

from pgdrag.designs.compare.pairs import Pair
from pgdrag.findings.driver_limits import cpu_us_per_transaction
from pgdrag.findings.values import Interval
from pgdrag.model import Result
from pgdrag.model.measurement import Latency
from pgdrag.stats.multiple_testing import holm
from pgdrag.stats.pair_logs import ORDER_PAIRS, PairedLogs
from pgdrag.stats.paired import interval, t_p_value

SERVER_CPU = "server_cpu_s_per_transaction"  # as collectors/cpu.py names it
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


def quantities(pairs: Sequence[Pair], *, confidence: float) -> tuple[Quantity, ...]:
    """Compare every quantity that enough pairs have; those of latency first.

    Args:
        pairs: those that the comparison of throughput stopped at.
        confidence: of all quantities together, and of each interval. That throughput, which correlates
            with some of them, decided when to stop costs no more: see simulations/compare.py.
    """
    found = [
        one
        for name, label, value in _sources(pairs)
        if (one := _compare(pairs, name, label, value, confidence)) is not None
    ]
    adjusted = holm([one.p for one in found])
    return tuple(
        replace(one, p_adjusted=p, direction=_direction(one, p, confidence))
        for one, p in zip(found, adjusted, strict=True)
    )


_Value = Callable[[Result], float | None]


def _sources(pairs: Sequence[Pair]) -> Iterator[tuple[str, str, _Value]]:
    kinds = {
        kind: None
        for pair in pairs
        for result in (pair.reference, pair.treatment)
        if result.measurement is not None
        for kind in result.measurement.latency
    }
    for kind in kinds:
        for percentile, share in _PERCENTILES:
            yield (
                f"latency_{percentile}_us {kind}",
                f"latency {percentile}, {kind}",
                _latency(kind, percentile, share),
            )
    yield "driver_cpu_s_per_transaction", "driver's processor time per transaction", _driver_cpu
    yield SERVER_CPU, "server's processor time per transaction", _server_cpu


def _latency(kind: str, percentile: str, share: float) -> _Value:
    def value(result: Result) -> float | None:
        assert result.measurement is not None, f"trial {result.trial.number} has no number"
        found: Latency | None = result.measurement.latency.get(kind)
        if found is None or found.count * (1 - share) < _BEYOND:
            return None
        return float(getattr(found, f"{percentile}_us")) / 1e6

    return value


def _driver_cpu(result: Result) -> float | None:
    assert result.measurement is not None, f"trial {result.trial.number} has no number"
    found = cpu_us_per_transaction(result.measurement)
    return None if found is None else found / 1e6


def _server_cpu(result: Result) -> float | None:
    return next((one.value for one in result.evidence if one.name == SERVER_CPU), None)


def _compare(
    pairs: Sequence[Pair], name: str, label: str, value: _Value, confidence: float
) -> Quantity | None:
    both = [(value(pair.reference), value(pair.treatment), pair.sign) for pair in pairs]
    shown = [(before, after, sign) for before, after, sign in both if before and after]
    if len(shown) < ORDER_PAIRS:
        return None
    logs = PairedLogs(
        tuple(math.log(after / before) for before, after, _ in shown),
        tuple(sign for _, _, sign in shown),
    )
    return Quantity(
        name,
        label,
        geometric_mean([before for before, _, _ in shown]),
        geometric_mean([after for _, after, _ in shown]),
        interval(logs, confidence=confidence).ratio,
        t_p_value(logs),
        1.0,
        Direction.NOT_SIGNIFICANT,
        len(shown),
    )


def _direction(one: Quantity, p_adjusted: float, confidence: float) -> Direction:
    if p_adjusted > 1 - confidence:
        return Direction.NOT_SIGNIFICANT
    return Direction.HIGHER if one.ratio.center > 1 else Direction.LOWER
