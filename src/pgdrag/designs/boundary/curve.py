"""How small may a value be, and beyond which value does more of it gain nothing?

Two questions, one after the other: a bisection over candidate values for the smallest that works, which
tolerates trials that fail by chance; then a curve over the values that work, and its knee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pgdrag.stats.distributions import f_beyond, f_quantile

Floats = npt.NDArray[np.float64]

_FAILURES = 2  # more than successes, before a value is believed not to work
_SUCCESSES = 2  # of the smallest value, before it is believed to work
_CONFIDENCE = 0.95
_MOST_TRIES = 5  # of a value; the majority decides then


class State(StrEnum):
    """What is known of the boundary."""

    SEARCHING = "searching"
    FOUND = "found"
    ALL_WORK = "all values work"
    NONE_WORKS = "no value works"


@dataclass(frozen=True)
class Step:
    """Where the search for the smallest working value is.

    Attributes:
        next: place of the value to try now; None: the search is over.
        smallest: place of the smallest value that works; None: there is none, or it is not known yet.
        failing: place of the largest value below it that does not work; None: there is none.
    """

    state: State
    next: int | None
    smallest: int | None
    failing: int | None


def search(tries: Sequence[Sequence[bool]]) -> Step:
    """Return where the search over the values, ascending, stands.

    The largest comes first, then the smallest, then the middle of what is left. A value fails when two
    more of its trials failed than worked; the smallest that works must have worked twice. A value above
    one that works is assumed to work.

    Args:
        tries: of each value, which of its trials worked.
    """
    assert tries, "no values"
    top = len(tries) - 1
    works = _verdict(tries[top])
    if works is None:
        return Step(State.SEARCHING, top, None, None)
    if not works:
        return Step(State.NONE_WORKS, None, None, top)
    # `low` fails (-1: nothing does) and `high` works; the smallest value is the first to be tried between.
    low, high, middle = -1, top, 0
    while high - low > 1:
        works = _verdict(tries[middle])
        if works is None:
            return Step(State.SEARCHING, middle, high, low if low >= 0 else None)
        low, high = (low, middle) if works else (middle, high)
        middle = (low + high) // 2
    # The value found must work again; where it then fails, the next larger one is tried.
    for at in range(high, top + 1):
        works = _verdict(tries[at], _SUCCESSES)
        failing = at - 1 if at > 0 else None
        if works is None:
            return Step(State.SEARCHING, at, at, failing)
        if works:
            return Step(State.ALL_WORK if at == 0 else State.FOUND, None, at, failing)
    return Step(State.NONE_WORKS, None, None, top)


def _verdict(tried: Sequence[bool], successes: int = 1) -> bool | None:
    """Tell whether a value works, from its trials; None: another one is needed."""
    lead = 2 * sum(tried) - len(tried)
    if lead <= -_FAILURES or len(tried) >= _MOST_TRIES:
        return lead > 0
    return True if lead >= successes else None


def spread(first: int, count: int, points: int) -> tuple[int, ...]:
    """Return places from `first` to the last of `count`, both among them, as evenly as can be."""
    last = count - 1
    points = min(points, last - first + 1)
    if points <= 1:
        return (last,)
    return tuple(
        sorted({first + round(at * (last - first) / (points - 1)) for at in range(points)})
    )


class KneeVerdict(StrEnum):
    """The shape of the curve."""

    KNEE = "knee"  # rises, then stays
    RISING = "still rising"  # up to the largest value
    FLAT = "flat"  # no significant difference between values
    UNKNOWN = "unknown"  # too few points


@dataclass(frozen=True)
class Knee:
    """A rising line that becomes level, on logarithms of value and throughput.

    Attributes:
        at: the smallest value tried that lies at or above the knee, as it is written; None without one.
        size: the knee itself, as a number; None without one.
        low, high: its 95 % profile interval, held within the values tried.
        slope: of the rising part: 0.5 is a gain of 41 % for each doubling; None where there is none.
        plateau_per_s: throughput beyond the knee, or at the largest value.
    """

    verdict: KneeVerdict
    at: str | None = None
    size: float | None = None
    low: float | None = None
    high: float | None = None
    slope: float | None = None
    plateau_per_s: float | None = None


def knee(values: Sequence[float], logs: Sequence[float]) -> Knee:
    """Return where the curve has its knee, from trials at positive values.

    Args:
        values: of each trial.
        logs: logarithm of its throughput.

    Returns:
        A knee only where the curve differs significantly from a level one, and the knee from the largest
        value. `at` is left to the caller.

    Source: segmented regression by profile over the break (Lerman 1980), the second segment level; the
    interval holds every break that an F test does not reject.
    """
    x, y = np.log(np.asarray(values, dtype=float)), np.asarray(logs, dtype=float)
    if len(np.unique(x)) < 3 or len(x) < 5:
        return Knee(KneeVerdict.UNKNOWN)
    dof = len(x) - 3
    breaks = np.linspace(float(x.min()), float(x.max()), 201)[1:]
    # Once more around the best, as finely as the interval may be narrow.
    near = int(np.argmin(_fits(x, y, breaks)[0]))
    ends = float(breaks[max(near - 2, 0)]), float(breaks[min(near + 2, len(breaks) - 1)])
    breaks = np.unique(np.concatenate([breaks, np.linspace(*ends, 401)]))
    errors, plateaus, slopes = _fits(x, y, breaks)
    best = int(np.argmin(errors))
    level = float(((y - y.mean()) ** 2).sum())
    least = max(float(errors[best]), 1e-12 * max(level, 1e-12))
    slope, top = float(slopes[best]), math.exp(plateaus[best])
    # Two parameters more than a level line: break and slope.
    p_flat = f_beyond((level - least) / 2 / (least / dof), 2, dof)
    if p_flat > 1 - _CONFIDENCE or slope <= 0:
        return Knee(KneeVerdict.FLAT, plateau_per_s=math.exp(y.mean()))
    inside = breaks[errors <= least * (1 + f_quantile(_CONFIDENCE, 1, dof) / dof)]
    low, high = math.exp(inside.min()), math.exp(inside.max())
    if inside.max() >= x.max() - 1e-9:
        return Knee(KneeVerdict.RISING, low=low, slope=slope, plateau_per_s=top)
    size = math.exp(breaks[best])
    return Knee(KneeVerdict.KNEE, None, size, low, high, slope, top)


def _fits(x: Floats, y: Floats, breaks: Floats) -> tuple[Floats, Floats, Floats]:
    """Return squared errors, plateaus and slopes of the lines that are level from each break on."""
    short = np.minimum(x[np.newaxis, :] - breaks[:, np.newaxis], 0.0)
    centre = short.mean(axis=1)
    away = short - centre[:, np.newaxis]
    rest = y - y.mean()
    slopes = (away @ rest) / (away**2).sum(axis=1)
    errors = ((rest - slopes[:, np.newaxis] * away) ** 2).sum(axis=1)
    return errors, y.mean() - slopes * centre, slopes
