"""How does a trend of throughput read in a few words?"""

from __future__ import annotations

from pgdrag.findings.combine import RungTrials, rate_of
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.together import finding_of, rung_decay
from pgdrag.model import Result, Rung
from pgdrag.model.measurement import Measurement
from pgdrag.stats.interval import Interval
from pgdrag.units import format_duration, format_number, format_rate


def trial_rate_words(result: Result, measured: Measurement) -> str:
    """Return a trial's rate, `1,187/s`; with a trend that at both ends, `7,200 → 4,300/s`."""
    treatment = result.trial.treatment
    decay = rung_decay(RungTrials(Rung(treatment.name, "", treatment), (result,)))
    if decay is not None and decay.has_trend:
        return way_words(finding_of(decay))
    return format_rate(rate_of(result, measured).per_s)


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
