"""What does a search maximize or minimize? One number per trial, as a logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgdrag.findings.quantities import quantities
from pgdrag.findings.readings import reading
from pgdrag.model import Result

_SERVER_CPU = "server_cpu_s_per_transaction"


@dataclass(frozen=True)
class Value:
    """What one trial says of an objective.

    Attributes:
        log: its natural logarithm, where more is faster: of a time, with the sign turned.
        variance: of that, from within the trial.
    """

    log: float
    variance: float


@dataclass(frozen=True)
class Objective:
    """A quantity to search for.

    Attributes:
        words: what it is, in a few words.
        value: reads it from a result in which something was committed; None where it is not known.
        better, worse: what a configuration is whose value is 1.2 times as good, or as bad: "1.2× faster".
    """

    words: str
    value: Callable[[Result], Value | None]
    better: str = "faster"
    worse: str = "slower"


def _throughput(result: Result) -> Value | None:
    found = reading(result)
    return None if found is None or found.is_bound else Value(found.log_per_s, found.log_se**2)


def _latency_p99(result: Result) -> Value | None:
    if result.measurement is None or not result.measurement.latency:
        return None
    commonest = max(result.measurement.latency.values(), key=lambda x: x.count)
    if not commonest.count or commonest.p99_us <= 0:
        return None
    # A percentile of few transactions is hardly known: by binomial chance among those beyond it.
    return Value(-math.log(commonest.p99_us), 1 / max(0.01 * commonest.count, 1.0))


def _server_cpu(result: Result) -> Value | None:
    found = quantities(result).get(_SERVER_CPU)
    return None if found is None else Value(-found.log, found.counting_variance)


OBJECTIVES: Mapping[str, Objective] = {
    "throughput": Objective("committed transactions per second", _throughput),
    "latency-p99": Objective(
        "99th percentile of the latency of the commonest transaction", _latency_p99
    ),
    "server-cpu": Objective(
        "server's processor time per transaction", _server_cpu, "cheaper", "dearer"
    ),
}
