"""How much do trials of one treatment differ from each other? One estimate, from everything that was repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pgdrag.stats.distributions import f_quantile

# A warning of intervals that cannot include it.
ONE_TRIAL = "one trial: the interval leaves out trial-to-trial noise; run 3 or more replicates"


@dataclass(frozen=True)
class Noise:
    """Trial-to-trial noise on the log scale.

    Attributes:
        log_sd: standard deviation of log throughput between trials of one treatment.
        dof: degrees of freedom of that estimate.
    """

    log_sd: float
    dof: int


_UNEQUAL = 0.01  # significance level at which one side is noisier than the other
_Some = TypeVar("_Some", bound=Noise)


def pooled_noise(
    groups: Iterable[Sequence[float]], *, within: Sequence[float] = (), prior: Noise | None = None
) -> Noise | None:
    """Estimate the noise between trials of one treatment, pooled over all that were repeated.

    Args:
        groups: for each treatment (or each treatment within a block) one value a trial, on the log scale.
        within: for each group the variance that comes from within its trials, which is subtracted. Default:
            nothing is, so the noise includes it.
        prior: what is known beforehand; it counts for as many repeats as it has degrees of freedom.

    Returns:
        None where nothing was repeated and there is no prior.
    """
    squares, dof = (prior.log_sd**2 * prior.dof, prior.dof) if prior else (0.0, 0)
    for at, values in enumerate(groups):
        if len(values) > 1:
            # By hand: groups are of a few values, for which numpy takes fifty times as long.
            mean = math.fsum(values) / len(values)
            variance = math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)
            squares += (len(values) - 1) * max(variance - (within[at] if within else 0.0), 0.0)
            dof += len(values) - 1
    return Noise(math.sqrt(squares / dof), dof) if dof else None


def noise_by_side(sides: tuple[_Some | None, _Some | None], pooled: _Some) -> tuple[_Some, _Some]:
    """Return the noise of each of two sides: its own where one is significantly noisier, else the pooled one.

    Args:
        sides: the noise of each; None where nothing was repeated there.
        pooled: that of both together.
    """
    first, second = (one or pooled for one in sides)
    quiet, loud = sorted((first, second), key=lambda one: one.log_sd)
    limit = quiet.log_sd**2 * f_quantile(1 - _UNEQUAL, loud.dof, quiet.dof)
    return (first, second) if loud.log_sd**2 > limit else (pooled, pooled)
