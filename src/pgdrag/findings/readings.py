"""What does each trial say of throughput, on the logarithm?

Designs that choose their next treatment see no more than this number and its error.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import scipy

from pgdrag.findings.combine import measured_if_numbered, rate_of
from pgdrag.model import Result
from pgdrag.stats.hosts import Measured, host_shifts
from pgdrag.stats.rates import TrialRate, rate_interval, within_spread

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Reading:
    """Throughput of one trial as a natural logarithm of transactions/s.

    Attributes:
        log_per_s: the logarithm of the rate; of a stalled trial that of the exact one-sided 95 % bound.
        log_se: its standard error from within the trial; what differs from trial to trial is not in it.
        is_bound: nothing was committed: the rate is only known to lie below.
        block: trials of one block ran close together.
        is_brief: not to be compared with trials of the whole length.
        host: of a fleet, that ran it.
    """

    log_per_s: float
    log_se: float
    is_bound: bool
    block: int
    is_brief: bool
    host: str = ""


_BOUND_CONFIDENCE = 0.95
_STALLED_MASS = -math.log(1 - _BOUND_CONFIDENCE)  # commits expected at the bound of a stalled trial


def stalled_time_s(stalled: Reading) -> float:
    """Return how long a trial went on in which nothing was committed: its bound says so."""
    assert stalled.is_bound, "a rate says nothing of the time"
    return _STALLED_MASS / math.exp(stalled.log_per_s)


def log_rate(commits: float, time_s: float) -> tuple[float, float]:
    """Estimate the logarithm of a rate of few commits: its mean and variance.

    Those of the logarithm of a gamma distribution: the posterior of a Poisson rate under Jeffreys'
    prior, which has a value where nothing committed, too.
    """
    shape = 0.5 + commits
    mean = float(scipy.special.digamma(shape)) - math.log(time_s)
    return mean, float(scipy.special.polygamma(1, shape))


def rate_if_numbered(result: Result) -> TrialRate | None:
    """Return a result's throughput, nothing committed included; None where it says nothing of it."""
    measured = measured_if_numbered(result)
    return None if measured is None else rate_of(result, measured)


def rates_of(results: Iterable[Result]) -> list[TrialRate]:
    """Return the throughput of those results that have a number."""
    found = (rate_if_numbered(result) for result in results)
    return [rate for rate in found if rate is not None]


def reading(result: Result) -> Reading | None:
    """Return what a result says of throughput; None where it has no number."""
    trial, rate = result.trial, rate_if_numbered(result)
    if rate is None:
        return None
    if rate.committed == 0:
        bound = rate_interval(rate).high
        return Reading(math.log(bound), 0.0, True, trial.block, trial.is_brief, result.host)
    se = within_spread(rate).log_se
    return Reading(math.log(rate.per_s), se, False, trial.block, trial.is_brief, result.host)


def of_mean_host(readings: Mapping[K, Sequence[Reading]]) -> dict[K, list[Reading]]:
    """Return the readings of each treatment as if one host had run them all, where hosts differ significantly.

    Blocks that stand for themselves need no such thing: a host is one of their blocks.
    """
    keys = [(key, one) for key, of in readings.items() for one in of]
    known = [(key, one) for key, one in keys if not one.is_bound]
    shifts = iter(host_shifts([Measured(key, one.host, one.log_per_s) for key, one in known]))
    found: dict[K, list[Reading]] = {key: [] for key in readings}
    for key, one in keys:
        shift = 0.0 if one.is_bound else next(shifts)
        found[key].append(replace(one, log_per_s=one.log_per_s + shift) if shift else one)
    return found
