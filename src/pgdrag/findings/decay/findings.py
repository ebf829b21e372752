"""What became of a rung's throughput while its trials went on: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.stats.interval import Interval

Direction = Literal["falling", "steady", "rising", "cannot be told"]
# A change over the window that stays within this is called none; the interval must show it.
STEADY_WITHIN = 0.10
AT_S = 30.0  # when the rate is compared with the first, in seconds; published series are, too


@dataclass(frozen=True)
class CurvePoint:
    """The fitted rate at one moment of the window, with its 95 % interval."""

    t_s: float
    low: float
    center: float
    high: float


@dataclass(frozen=True)
class DecayTrace:
    """One trial's whole window: the middle of each interval, and its rate.

    Attributes:
        is_wrong: its results failed their check: updates were lost, say.
    """

    trial: int
    is_wrong: bool
    times_s: tuple[float, ...]
    rates_per_s: tuple[float, ...]


@dataclass(frozen=True)
class DecayFinding:
    """How throughput went within the windows of one rung.

    Attributes:
        direction: "falling" or "rising" where the interval of a straight line through the logarithms
            excludes none; "steady" where it lies within `steady_within`; else "cannot be told".
        curve: the family with the lowest information criterion, or "" where there is no trend.
        margin: by how much that criterion is lower than the next family's; under 2 is hardly anything.
        begin_s, end_s: the part of the window that was fitted: where something was held, only so long.
        change: the fitted rate at the end divided by that at the beginning.
        slope_per_min: what a minute makes of the rate, on average over that part: -0.5 halves it.
        half_life_s: from the beginning until half the rate is left; where center is infinite, `low` is
            a lower bound. Longer than the part that was fitted, it is the curve's word alone.
        begin_per_s, end_per_s: fitted rates.
        ratio_at_30_s: the fitted rate 30 s after the beginning divided by that; None where the part is
            shorter.
        points: of the fitted curve.
        trials: that were fitted, one by one; intervals hold what they differ by.
        wrong: "loses updates", or "fails its check", where a trial of the rung did: its throughput is that of
            wrong results; else "".
        sentence: all that in words.
        is_whole_window: no part was left out because nothing was held in it.
    """

    direction: Direction
    curve: Literal["", "exponential", "hyperbolic", "exponential toward a floor"]
    margin: float
    begin_s: float
    end_s: float
    change: Interval
    slope_per_min: Interval
    half_life_s: Interval
    begin_per_s: Interval
    end_per_s: Interval
    ratio_at_30_s: Interval | None
    points: tuple[CurvePoint, ...]
    traces: tuple[DecayTrace, ...]
    trials: int
    wrong: str
    sentence: str
    is_whole_window: bool = True
    steady_within: float = STEADY_WITHIN

    @property
    def has_trend(self) -> bool:
        """A mean over the window would be of no moment of it."""
        return self.direction in ("falling", "rising")
