"""How does a decay read in a sentence?"""

from __future__ import annotations

import math

from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.stats.interval import Interval
from pgdrag.units import format_duration, format_number, format_rate

_FAR = 3600 * 24  # a half-life beyond it is none that a window can tell


def decay_sentence(found: DecayFinding) -> str:
    """Return what became of throughput within the window, with all its intervals."""
    length = format_duration(_rounded_s(found.end_s - found.begin_s))
    if found.direction == "steady":
        told = (
            f"steady: over {length} throughput changed by {share_words(found.change)}, which lies "
            f"within ±{found.steady_within * 100:.0f} %"
        )
    elif found.direction == "cannot be told":
        told = (
            f"cannot be told: over {length} throughput changed by {share_words(found.change)}, which "
            f"neither excludes none nor lies within ±{found.steady_within * 100:.0f} %; measure longer, or "
            "run more replicates"
        )
    else:
        told = (
            f"{found.direction} from {way_words(found)} within {length}, {share_words(found.slope_per_min, is_share=True)} "
            f"a minute; {half_life_words(found)}"
        )
    return (
        f"{told}; it {found.wrong}, so this is the speed of wrong results" if found.wrong else told
    )


def drift_sentence(found: DecayFinding) -> str:
    """Return why a mean over the window is to be doubted."""
    verb = "fell" if found.direction == "falling" else "rose"
    begin, end = (format_rate(x.center) for x in (found.begin_per_s, found.end_per_s))
    length = format_duration(_rounded_s(found.end_s - found.begin_s))
    size = format_number(abs(found.change.center - 1) * 100, significant=2)
    return (
        f"throughput {verb} by {size} % during {_part(found)} of {length} ({begin} to {end}); its mean depends "
        "on the length of the window"
    )


def _part(found: DecayFinding) -> str:
    return "the window" if found.is_whole_window else "the hold"


def way_words(found: DecayFinding) -> str:
    """Return the rates at the beginning and the end of the fit: `7,200 → 4,300/s`."""
    begin = format_rate(found.begin_per_s.center).removesuffix("/s")
    return f"{begin} → {format_rate(found.end_per_s.center)}"


def half_life_words(found: DecayFinding) -> str:
    """Return how long half of the rate takes to go, or from when on at the earliest."""
    half_s = found.half_life_s
    if found.direction == "rising":
        return "it never halves"
    if math.isinf(half_s.center) or half_s.center > _FAR:
        if half_s.low >= _FAR:
            return "no half-life"
        return f"half-life at least {format_duration(_rounded_s(half_s.low))}"
    beyond = ", beyond what was seen" if half_s.center > found.end_s - found.begin_s else ""
    return f"half-life {duration_words(half_s)}{beyond}"


def duration_words(found: Interval) -> str:
    """Return `25 s (20 s to 31 s)`; `over 20 s` where it has no upper bound."""
    center, low = (format_duration(_rounded_s(x)) for x in (found.center, found.low))
    if math.isinf(found.high) or found.high > _FAR:
        return f"{center} (over {low})"
    return f"{center} ({low} to {format_duration(_rounded_s(found.high))})"


def share_words(found: Interval, *, is_share: bool = False) -> str:
    """Return a ratio, or a share, as a change in per cent with its interval: `-40 % (-44 to -35 %)`."""
    values = (found.low, found.center, found.high)
    low, center, high = (
        format_number((x if is_share else x - 1) * 100, significant=2) for x in values
    )
    sign = "+" if found.center > (0 if is_share else 1) else ""
    return f"{sign}{center} % ({low} to {high} %)"


def _rounded_s(seconds: float) -> float:
    return round(seconds, 1) if seconds < 10 else round(seconds)
