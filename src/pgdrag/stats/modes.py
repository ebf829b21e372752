"""Which values does a distribution of times gather around? Its shape in steps of equal ratio, and its modes.

Percentiles hide that a server answers in two ways, from its cache and from storage, say: two modes do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

STEPS_PER_DECADE = 24  # each step is 10 % long
LEAST_VALUES = 100  # fewer make no shape
_KERNEL = np.exp(-0.5 * np.arange(-3, 4) ** 2)
_KERNEL /= _KERNEL.sum()
_NOISE = float(
    np.sum(_KERNEL**2)
)  # of the variance of a count, what is left of it once it is smoothed
# A valley between two modes is at most this part of the lower one, by this many standard errors.
_DEEPEST_BUMP, _STANDARD_ERRORS = 0.85, 4.0
_LEAST_SHARE = 0.02  # of all values, about a mode

Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """A distribution in steps of equal ratio.

    Attributes:
        first: the number of the first step; step n reaches from 10^(n/24) to 10^((n+1)/24).
        counts: values in each step, not smoothed.
    """

    first: int
    counts: tuple[float, ...]

    def edge(self, at: int) -> float:
        """Return where the step of that place begins; of the place behind the last one, where that ends."""
        return float(10 ** ((self.first + at) / STEPS_PER_DECADE))


@dataclass(frozen=True)
class Mode:
    """A value that a distribution gathers around.

    Attributes:
        center: the middle of the fullest step about it.
        low, high: the valleys beside it, or the ends of the distribution.
        share: of all values, those between the valleys.
    """

    center: float
    low: float
    high: float
    share: float


def shape_of(
    lowest: npt.NDArray[np.int64], width: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Shape:
    """Return the shape of a histogram of positive values.

    Args:
        lowest: of each place of the histogram, growing; the first may be 0.
        width: of each place. Its values are taken to be spread evenly over it.
        counts: values in each place.
    """
    used = np.flatnonzero(counts)
    if not len(used):
        return Shape(0, ())
    low, high = max(float(lowest[used[0]]), 0.5), float(lowest[used[-1]] + width[used[-1]])
    first = math.floor(math.log10(low) * STEPS_PER_DECADE)
    last = math.ceil(math.log10(high) * STEPS_PER_DECADE)
    edges = 10 ** (np.arange(first, last + 1) / STEPS_PER_DECADE)
    places = np.append(lowest, lowest[-1] + width[-1])
    below = np.interp(edges, places, np.append(0, np.cumsum(counts)))
    below[0], below[-1] = 0, counts.sum()
    return Shape(first, tuple(float(x) for x in np.diff(below)))


def modes_of(shape: Shape) -> tuple[Mode, ...]:
    """Return the modes, from the lowest value on; none of a distribution of too few values.

    Two peaks are two modes if the valley between them is at most 85 % of the lower one, by four standard errors
    of counting, and if each has 2 % of all values about it.
    """
    counts = np.asarray(shape.counts)
    total = float(counts.sum())
    if total < LEAST_VALUES:
        return ()
    smooth = np.convolve(np.pad(counts, 3), _KERNEL, mode="same")[3:-3]
    peaks = [
        at
        for at in range(len(smooth))
        if smooth[at] > 0
        and (at == 0 or smooth[at] > smooth[at - 1])
        and (at == len(smooth) - 1 or smooth[at] >= smooth[at + 1])
    ]
    while (weak := _weakest(smooth, counts, peaks)) is not None:
        peaks.remove(weak)
    ends = _ends(smooth, peaks)
    return tuple(
        Mode(
            math.sqrt(shape.edge(peak) * shape.edge(peak + 1)),
            shape.edge(low),
            shape.edge(high),
            float(counts[low:high].sum()) / total,
        )
        for peak, (low, high) in zip(peaks, pairwise(ends), strict=True)
    )


def _weakest(smooth: Counts, counts: Counts, peaks: Sequence[int]) -> int | None:
    """Return the peak that is least of a mode of its own; None where each is one."""
    found: list[tuple[float, int]] = []
    for left, right in pairwise(peaks):
        valley = float(smooth[left : right + 1].min())
        lower = min((left, right), key=lambda at: smooth[at])
        height = float(smooth[lower])
        error = math.sqrt(_NOISE * (height + valley))
        if valley > _DEEPEST_BUMP * height or height - valley < _STANDARD_ERRORS * error:
            found.append((valley / height, lower))
    if found:
        return max(found)[1]
    ends = _ends(smooth, peaks)
    about = [
        (float(counts[low:high].sum()), peak)
        for peak, (low, high) in zip(peaks, pairwise(ends), strict=True)
    ]
    least, peak = min(about)
    return peak if least < _LEAST_SHARE * counts.sum() and len(peaks) > 1 else None


def _ends(smooth: Counts, peaks: Sequence[int]) -> list[int]:
    """Return where the part of each peak begins, and where the last one ends."""
    valleys = [left + int(smooth[left : right + 1].argmin()) for left, right in pairwise(peaks)]
    return [0, *valleys, len(smooth)]
