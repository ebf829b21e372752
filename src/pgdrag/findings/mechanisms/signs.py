"""Did an observation move, and could that be chance?

A trial is the unit: its value over the whole window is one number, and trials do not resemble their
neighbours in time as seconds do. What differs from trial to trial of the same treatment is pooled over
all treatments of the run; chance in counting few events comes on top of it. No smoothing, and no
correlation of series, which finds structure in noise: docs/method.md shows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdrag.findings.mechanisms.findings import Direction
from pgdrag.model import Observation
from pgdrag.stats.distributions import binomial_from, student_beyond
from pgdrag.stats.multiple_testing import false_discovery_rates
from pgdrag.stats.noise import Noise, pooled_noise

UNMOVED_BELOW = math.log(1.1)  # under 10 % (of the value, or of the odds) is called unmoved
_OF_EVENTS = ("1/s", "1/transaction")
_FEW_EVENTS = 30  # on both sides together; of so few chance in counting is what matters
_LEAST_SD = 0.01  # a pooled spread under 1 % is luck: nothing on a machine is steadier


@dataclass(frozen=True)
class Reading:
    """One trial's value of an observation, on the scale on which it is compared.

    Attributes:
        value: a logarithm, of a share that of its odds.
        counting_variance: of that, by chance in counting the events behind it.
        events: how many there were; None where it is no count of events.
        exposure: seconds or transactions in which they were counted.
    """

    value: float
    counting_variance: float
    events: int | None = None
    exposure: float = 1.0


@dataclass(frozen=True)
class Test:
    """What a test of one sign came to.

    Attributes:
        p: probability of such a movement or a larger one the wanted way by chance alone; None where no
            treatment was repeated, so that nobody knows what trials differ by.
        distance: from before to after, the wanted way, on the scale of `Reading`.
    """

    __test__ = False  # pytest looks for this name

    p: float | None
    distance: float

    @property
    def has_moved(self) -> bool:
        """It moved by 10 % or more the wanted way."""
        return self.distance >= UNMOVED_BELOW


def reading(seen: Observation, committed: int, resolution: float) -> Reading | None:
    """Return a trial's value as it is compared; None where it was not seen.

    Args:
        committed: transactions of the trial.
        resolution: the coarser one of all that it is compared with: one event in a long trial and in a
            short one are different rates, and none in either is the same.
    """
    if seen.value is None or not math.isfinite(seen.value):
        return None
    value = scaled(seen.value, seen.unit, resolution)
    # A number per transaction is no surer than the number of transactions; of few, a logarithm is less
    # sure than its first approximation, 1/n.
    per_commit = 1 / max(committed - 0.5, 0.5) if seen.unit.endswith("/transaction") else 0.0
    whole = 1 / seen.resolution
    if seen.unit != "ratio":
        events = round(seen.value * whole) if seen.unit in _OF_EVENTS else None
        return Reading(value, 1 / max(seen.value * whole, 1.0) + per_commit, events, whole)
    share = 1 / (1 + math.exp(-value))
    return Reading(value, 1 / max(share * whole, 1.0) + 1 / max((1 - share) * whole, 1.0))


def scaled(value: float, unit: str, resolution: float) -> float:
    """Return a value on the scale on which it is compared: its logarithm, of a share that of its odds.

    What is under its resolution counts as that, and a share is at most 1 less it.
    """
    if unit != "ratio":
        return math.log(max(value, resolution))
    clip = min(resolution, 0.5)
    inside = min(max(value, clip), 1 - clip)
    return math.log(inside / (1 - inside)) if 0 < inside < 1 else 0.0


def spread(groups: Sequence[Sequence[Reading]]) -> Noise | None:
    """Return what trials of the same treatment differ by, pooled over the treatments; None where none was repeated."""
    found = pooled_noise([one.value for one in group] for group in groups)
    return None if found is None else Noise(max(found.log_sd, _LEAST_SD), found.dof)


def tested(
    wanted: Direction, before: Sequence[Reading], after: Sequence[Reading], noise: Noise | None
) -> Test:
    """Test whether an observation moved the wanted way, with one reading a trial, at least one each side.

    Student's t, one-sided, on the pooled spread; of few events the exact binomial test.
    """
    distance = _mean(after) - _mean(before)
    distance = distance if wanted == "up" else -distance
    p = _chance(distance, wanted, before, after, noise) if noise else None
    return Test(p, distance)


def _chance(
    distance: float,
    wanted: Direction,
    before: Sequence[Reading],
    after: Sequence[Reading],
    noise: Noise,
) -> float:
    counted = [one.events for one in (*before, *after) if one.events is not None]
    if len(counted) == len(before) + len(after) and sum(counted) < _FEW_EVENTS:
        return _chance_of_few(wanted, before, after)
    between = noise.log_sd**2 * (1 / len(before) + 1 / len(after))
    counting = sum(
        sum(x.counting_variance for x in side) / len(side) ** 2 for side in (before, after)
    )
    # What chance in counting does is known, and not estimated: degrees of freedom by Satterthwaite.
    dof = noise.dof * ((between + counting) / between) ** 2
    return student_beyond(distance / math.sqrt(between + counting), dof)


def _chance_of_few(wanted: Direction, before: Sequence[Reading], after: Sequence[Reading]) -> float:
    """Return how likely so few events fall so onto the two sides: the exact conditional binomial test.

    A logarithm of none is as little as its floor, so that ten events against none would hardly count.
    """
    more, less = (after, before) if wanted == "up" else (before, after)
    events = sum(one.events or 0 for one in more)
    every = events + sum(one.events or 0 for one in less)
    exposure = sum(one.exposure for one in more)
    share = exposure / (exposure + sum(one.exposure for one in less))
    return binomial_from(events, every, share)


def adjusted(values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values as rates of false discovery among all of them (Benjamini and Yekutieli 2001).

    Theirs and not Benjamini and Hochberg's, since counters of one server depend on each other.
    """
    return dict(zip(values, false_discovery_rates(list(values.values()), "by"), strict=True))


def _mean(side: Sequence[Reading]) -> float:
    return sum(one.value for one in side) / len(side)
