"""How small may a value be, and from where on does more of it gain nothing?

Two questions, one after the other: a bisection over candidate values for the smallest that works, which
bears trials that fail by chance; then a curve over the values that work, and the place of its knee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pgdrag.stats.distributions import f_beyond, f_quantile

Floats = npt.NDArray[np.float64]

FAILURES = 2  # of a value before it is believed not to work
SUCCESSES = 2  # of the smallest value before it is believed to work


@dataclass(frozen=True)
class Tally:
    """Trials of one value that worked, and that failed."""

    worked: int = 0
    failed: int = 0


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
        largest_failing: place of the largest value below it that does not; None: there is none.
        is_flaky: places that worked in one trial and failed in another.
    """

    state: State
    next: int | None
    smallest: int | None
    largest_failing: int | None
    is_flaky: tuple[int, ...]


def search(count: int, tallies: Mapping[int, Tally]) -> Step:
    """Return where the search over values 0 … count - 1, ascending, stands.

    The largest comes first, then the smallest, then the middle of what is left. A value fails only when
    two more of its trials failed than worked; the smallest that works must have worked twice. What
    works is taken to work above, too.
    """
    assert count > 0, "no values"
    flaky = tuple(at for at, x in sorted(tallies.items()) if x.worked and x.failed)
    top = _verdict(tallies.get(count - 1))
    if top is None:
        return Step(State.SEARCHING, count - 1, None, None, flaky)
    if not top:
        return Step(State.NONE_WORKS, None, None, count - 1, flaky)
    low, high, wanted = _halved(count, tallies)
    if wanted is not None:
        return Step(State.SEARCHING, wanted, high, low if low >= 0 else None, flaky)
    # The one that was found must work again; where it then fails, the next larger one is found.
    for at in range(high, count):
        works = _verdict(tallies.get(at), is_final=True)
        below = at - 1 if at > 0 else None
        if works is None:
            return Step(State.SEARCHING, at, at, below, flaky)
        if works:
            return Step(State.ALL_WORK if at == 0 else State.FOUND, None, at, below, flaky)
    return Step(State.NONE_WORKS, None, None, count - 1, flaky)


def _halved(count: int, tallies: Mapping[int, Tally]) -> tuple[int, int, int | None]:
    """Return the largest place that fails (-1: none), the smallest that works, and what to try between."""
    low, high = -1, count - 1
    if count > 1:
        bottom = _verdict(tallies.get(0))
        if bottom is None:
            return low, high, 0
        low, high = (-1, 0) if bottom else (0, high)
    while high - low > 1:
        middle = (low + high) // 2
        works = _verdict(tallies.get(middle))
        if works is None:
            return low, high, middle
        low, high = (low, middle) if works else (middle, high)
    return low, high, None


def _verdict(tally: Tally | None, *, is_final: bool = False) -> bool | None:
    """Tell whether a value works; None: another trial is wanted."""
    tally = tally or Tally()
    lead = tally.worked - tally.failed
    if lead <= -FAILURES or tally.worked + tally.failed >= 5:
        return lead > 0
    if lead >= (SUCCESSES if is_final else 1):
        return True
    return None


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
    """What the curve looks like."""

    KNEE = "knee"  # rises, then stays
    RISING = "still rising"  # up to the largest value
    FLAT = "flat"  # no value is told from another
    UNKNOWN = "unknown"  # too few points


@dataclass(frozen=True)
class Knee:
    """A rising line that becomes level, on logarithms of value and throughput.

    Attributes:
        at: the value from which on more gains nothing; None without a knee.
        low, high: its profile interval, held within the values tried.
        slope: of the rising part: 0.5 is a gain of 41 % for each doubling; None where there is none.
        plateau_per_s: throughput beyond the knee, or at the largest value.
    """

    verdict: KneeVerdict
    at: float | None
    low: float | None
    high: float | None
    slope: float | None
    plateau_per_s: float | None


def knee(values: Sequence[float], logs: Sequence[float], *, confidence: float = 0.95) -> Knee:
    """Return where the curve has its knee, from trials at positive values.

    Args:
        values: of each trial.
        logs: logarithm of its throughput.

    Returns:
        A knee only where the curve is told from a level one, and its place from the largest value.

    Source: segmented regression by profile over the break (Lerman 1980), the second segment level; the
    interval holds every break that an F test does not refuse.
    """
    x, y = np.log(np.asarray(values, dtype=float)), np.asarray(logs, dtype=float)
    if len(np.unique(x)) < 3 or len(x) < 5:
        return Knee(KneeVerdict.UNKNOWN, None, None, None, None, None)
    dof = len(x) - 3
    breaks = np.linspace(float(x.min()), float(x.max()), 201)[1:]
    errors = _fits(x, y, breaks)[0]
    # Once more around the best, as finely as the interval may be narrow.
    near = int(np.argmin(errors))
    ends = (float(breaks[max(near - 2, 0)]), float(breaks[min(near + 2, len(breaks) - 1)]))
    breaks = np.unique(np.concatenate([breaks, np.linspace(*ends, 401)]))
    errors, plateaus, slopes = _fits(x, y, breaks)
    best = int(np.argmin(errors))
    level = float(((y - y.mean()) ** 2).sum())
    least = max(float(errors[best]), 1e-12 * max(level, 1e-12))
    plateau, slope = float(plateaus[best]), float(slopes[best])
    # Two parameters more than a level line: break and slope.
    p_flat = f_beyond((level - least) / 2 / (least / dof), 2, dof)
    if p_flat > 1 - confidence or slope <= 0:
        return Knee(KneeVerdict.FLAT, None, None, None, None, float(math.exp(y.mean())))
    limit = least * (1 + f_quantile(confidence, 1, dof) / dof)
    inside = breaks[errors <= limit]
    low, high = float(inside.min()), float(inside.max())
    if high >= float(x.max()) - 1e-9:
        top = math.exp(plateau)
        return Knee(KneeVerdict.RISING, None, math.exp(low), None, slope, top)
    return Knee(
        KneeVerdict.KNEE,
        math.exp(float(breaks[best])),
        math.exp(low),
        math.exp(high),
        slope,
        math.exp(plateau),
    )


def _fits(x: Floats, y: Floats, breaks: Floats) -> tuple[Floats, Floats, Floats]:
    """Return squared errors, plateaus and slopes of the lines that are level from each break on."""
    short = np.minimum(x[np.newaxis, :] - breaks[:, np.newaxis], 0.0)
    centre = short.mean(axis=1)
    away = short - centre[:, np.newaxis]
    rest = y - y.mean()
    slopes = (away @ rest) / (away**2).sum(axis=1)
    errors = ((rest - slopes[:, np.newaxis] * away) ** 2).sum(axis=1)
    return errors, y.mean() - slopes * centre, slopes
