"""How likely is it, and from where on is it unlikely: the distributions that tests and intervals rest on.

By SciPy's special functions: they give what the distributions of `scipy.stats` give, tens to hundreds of
times faster, which a simulation feels that asks a million times.  SciPy loads a submodule when its name
is first used, so a command that asks for no number does not wait for it; `scipy.stats` takes nearly a second
of processor time, more than all else that most commands do, so only studies of the horizon use it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import scipy

POWER = 0.8  # with which a detectable effect would have been significant


def normal_quantile(probability: float) -> float:
    """Return what a standard normal variable stays below with a probability in [0, 1]."""
    return float(scipy.special.ndtri(probability))


def normal_beyond(at: float) -> float:
    """Return the probability that a standard normal variable is above `at`."""
    return float(scipy.special.ndtr(-at))


@lru_cache(maxsize=65536)
def t_multiplier(confidence: float, dof: float) -> float:
    """Return how many standard errors a two-sided t interval reaches to each side; infinite dof: a normal one."""
    return float(scipy.special.stdtrit(dof, (1 + confidence) / 2))


@lru_cache(maxsize=65536)
def student_beyond(at: float, dof: float) -> float:
    """Return the probability that a variable of Student's t is above `at`."""
    return float(scipy.special.stdtr(dof, -at))


def noncentral_student_beyond(at: float, dof: float, shift: float) -> float:
    """Return the probability that t is above `at` where the truth lies `shift` standard errors off."""
    return 1 - float(scipy.special.nctdtr(dof, shift, at))


@lru_cache(maxsize=256)
def noncentrality(dof: float, confidence: float, power: float = POWER) -> float:
    """Return how many standard errors an effect must have to be significant with a probability of `power`."""
    quantile = t_multiplier(confidence, dof)
    if not math.isfinite(dof) or dof > 200:
        return quantile + normal_quantile(power)
    return float(scipy.special.nctdtrinc(dof, 1 - power, quantile))


def correlation_p_value(r: float, count: int) -> float:
    """Return the probability that two independent normal series of 3 or more values correlate by `r` or more.

    It is also the p-value of the slope of a line through them.
    """
    if abs(r) >= 1:
        return 0.0
    dof = count - 2
    return 2 * student_beyond(abs(r) * math.sqrt(dof / (1 - r * r)), dof)


@lru_cache(maxsize=4096)
def f_quantile(probability: float, dof_above: float, dof_below: float) -> float:
    """Return what the ratio of two mean squares of the same noise stays below (Fisher's F)."""
    return float(scipy.special.fdtri(dof_above, dof_below, probability))


def f_beyond(ratio: float, dof_above: float, dof_below: float) -> float:
    """Return the probability that the ratio of two mean squares of the same noise is above `ratio`."""
    if ratio == math.inf:
        return 0.0
    return float(scipy.special.fdtrc(dof_above, dof_below, ratio))


def binomial_from(count: int, tries: int, share: float) -> float:
    """Return the probability of `count` or more successes in this many tries, each with probability `share`."""
    if count <= 0:
        return 1.0
    return float(scipy.special.betainc(count, tries - count + 1, share))
