"""How do numbers read in a sentence? One way for all findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pgdrag.findings.values import Interval
from pgdrag.model import Observation
from pgdrag.units import (
    format_bytes,
    format_duration,
    format_interval,
    format_number,
    format_rate,
    format_ratio,
)

_SAYS_NOTHING = 1000.0  # a bound divided by the other one


def slowdown_words(found: Interval) -> str:
    """Return `2× slower (1.9× to 2.1×)`, `1.2× faster (…)` or `at least 2,000× slower`.

    Where the treatment is the faster one, estimate and bounds are turned round together.
    """
    if math.isinf(found.center):
        return f"at least {format_ratio(found.low)} slower"
    if found.center == 0:
        return f"at least {format_ratio(inverse(found.high))} faster"
    low, center, high = found.low, found.center, found.high
    way, other = "slower", "faster"
    if center < 1:
        low, center, high = inverse(high), inverse(center), inverse(low)
        way, other = other, way
    if 0 < low < 0.1 and high > 1:  # as people say it: neither "1/17.6" nor "0.0568×"
        bounds = f"{format_ratio(1 / low)} {other} to {format_ratio(high)} {way}"
        return f"{format_ratio(center)} {way} ({bounds})"
    number, _, interval = format_interval(low, center, high).partition(" ")
    return f"{number} {way} {interval}"


def so_far_words(found: Interval) -> str:
    """Return the same of an interval that may be of very few trials; bounds a thousandfold apart are left out."""
    words = slowdown_words(found)
    is_known = found.low > 0 and found.high / found.low < _SAYS_NOTHING
    return words if is_known or words.startswith("at least") else words.partition(" (")[0]


def published_words(ratio: float) -> str:
    """Return a published slowdown as `442,625× slower` or `1.2× faster`; `no change` at exactly 1."""
    if ratio == 1:
        return "no change"
    return f"{published_size(ratio)} {'slower' if ratio > 1 else 'faster'}"


def published_size(ratio: float) -> str:
    """Return the size of a published slowdown or speedup: `442,625×`, and `1.2×` for 1/1.2."""
    size = max(ratio, inverse(ratio))
    # Published numbers carry no error: whole ones keep their digits, for the reader to find again.
    digits = min(max(3, math.floor(math.log10(size)) + 1), 6)
    return format_ratio(size, significant=digits)


def detectable_words(detectable: float) -> str:
    """Say which slowdown the trials can detect."""
    if math.isinf(detectable):
        return "these trials cannot detect a slowdown of any size"
    return f"these trials can detect {format_ratio(detectable)} or more"


def value_words(observation: Observation, value: float) -> str:
    """Return a value of the observation's unit for people."""
    return _BY_UNIT.get(observation.unit, format_number)(value)


def inverse(ratio: float) -> float:
    """Return a ratio the other way round; 0 and infinity change places."""
    if ratio == 0:
        return math.inf
    return 0.0 if math.isinf(ratio) else 1 / ratio


def _percent(share: float) -> str:
    """Return a share in per cent; near 0 and 1 with as many digits as tell it from them."""
    rest = min(share, 1 - share)
    if rest <= 0:
        return f"{share:.0%}".replace("%", " %")
    decimals = min(-math.floor(math.log10(rest * 100)), 6) if rest < 0.01 else 1
    return f"{share * 100:.{decimals}f} %"


_BY_UNIT: Mapping[str, Callable[[float], str]] = {
    "ratio": _percent,
    "bytes": format_bytes,
    "bytes/transaction": format_bytes,
    "1/s": format_rate,
    "bytes/s": lambda rate: f"{format_bytes(rate)}/s",
    "s": format_duration,
    "s/transaction": format_duration,
}
