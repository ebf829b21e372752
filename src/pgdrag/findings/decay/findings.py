"""How did a treatment's throughput change within its windows: the values handed to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgdrag.stats.interval import Interval
from pgdrag.units import format_duration, format_number, format_rate

Direction = Literal["falling", "steady", "rising", "inconclusive"]
STEADY_WITHIN = 0.10  # throughput is steady where the interval of the change lies within this
AT_S = 30.0  # seconds after which the rate is compared with the first, as in published series


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
        is_wrong: its results failed a check, such as for lost updates.
    """

    trial: int
    is_wrong: bool
    times_s: tuple[float, ...]
    rates_per_s: tuple[float, ...]


@dataclass(frozen=True)
class DecayFinding:
    """How throughput changed within the windows of one treatment.

    Attributes:
        direction: "falling" or "rising" where the interval of a straight line through the logarithms
            excludes no change; "steady" where it lies within `steady_within`; else "inconclusive".
        curve: the family with the lowest information criterion, or "" without a trend.
        margin: by how much that criterion is lower than the next family's; under 2 is weak evidence.
        begin_s, end_s: the part of the window that was fitted: only the hold, where something was held.
        change: the fitted rate at the end divided by that at the beginning.
        slope_per_min: relative change of the rate a minute, on average over that part: -0.5 halves it.
        half_life_s: from the beginning until half the rate is left; where center is infinite, `low` is
            a lower bound. Longer than the part that was fitted, it extrapolates the curve.
        begin_per_s, end_per_s: fitted rates.
        ratio_at_30_s: the fitted rate 30 s after the beginning divided by that; None where the part is
            shorter.
        points: of the fitted curve.
        trials: how many were fitted; the intervals cover what they differ by.
        wrong: "loses updates", or "fails its check", where a trial does: its throughput is that of
            wrong results; else "".
        is_whole_window: no part of the window was left out.
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
    is_whole_window: bool = True
    steady_within: float = STEADY_WITHIN

    @property
    def has_trend(self) -> bool:
        """Whether a mean over the window depends on its length."""
        return self.direction in ("falling", "rising")


def way_words(found: DecayFinding) -> str:
    """Return the rates at the beginning and the end of the fit: `7,200 → 4,300/s`."""
    begin = format_rate(found.begin_per_s.center).removesuffix("/s")
    return f"{begin} → {format_rate(found.end_per_s.center)}"


def share_words(found: Interval, *, is_share: bool = False) -> str:
    """Return a ratio, or a share, as a change in per cent with its interval: `-40 % (-44 to -35 %)`."""
    low, center, high = (
        format_number((x if is_share else x - 1) * 100, significant=2)
        for x in (found.low, found.center, found.high)
    )
    sign = "+" if found.center > (0 if is_share else 1) else ""
    return f"{sign}{center} % ({low} to {high} %)"


def drift_sentence(found: DecayFinding) -> str:
    """Return why a mean over the window says little."""
    verb = "fell" if found.direction == "falling" else "rose"
    begin, end = (format_rate(x.center) for x in (found.begin_per_s, found.end_per_s))
    length = format_duration(rounded_s(found.end_s - found.begin_s))
    size = format_number(abs(found.change.center - 1) * 100, significant=2)
    part = "the window" if found.is_whole_window else "the hold"
    return (
        f"throughput {verb} by {size} % during {part} of {length} ({begin} to {end}); its mean depends "
        "on the length of the window"
    )


def rounded_s(seconds: float) -> float:
    """Return a time with as many digits as a fit supports."""
    return round(seconds, 1) if seconds < 10 else round(seconds)
