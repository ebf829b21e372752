"""Which single change carries the whole, in words, and only where the intervals allow it?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.designs.ladder.findings import RungChange
from pgdrag.english import listed, percent_words
from pgdrag.findings.values import Comparison, Interval, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.units import format_ratio


def is_significant(comparison: Comparison | None) -> bool:
    """Tell whether a comparison excludes that nothing changes."""
    return comparison is not None and comparison.verdict in (Verdict.SLOWER, Verdict.FASTER)


def carrier_sentence(whole: Comparison | None, changes: Sequence[RungChange]) -> str:
    """Say which change carries more than half of the whole, or why that cannot be said."""
    if whole is None:
        return "Which change carries it cannot be said: all changes together have no number."
    if not is_significant(whole):
        return (
            "Nothing can be credited to a single change, since all of them together cannot be told from "
            f"none (an effect of {format_ratio(whole.detectable)} or more would have been seen)."
            if math.isfinite(whole.detectable)
            else "Nothing can be credited to a single change: these trials could not have shown any effect."
        )
    if carriers := [one for one in changes if one.carries]:
        return " ".join(_carrier_words(one) for one in carriers)
    looked_at = [one for one in changes if one.alone_part is not None]
    if not looked_at:
        return "Which change carries it cannot be said: none of them was tried alone."
    largest = max(looked_at, key=_part)
    found = largest.alone
    assert found is not None, largest.rung
    start = (
        "No single change carries half of that"
        if all(_is_less_than_half(one) for one in looked_at)
        else "No single change can be said to carry more than half of that"
    )
    return f"{start}: the largest alone is {_named(largest)}, {slowdown_words(found.slowdown)}{_part_words(largest)}."


def together_sentence(whole: Comparison | None, together: Interval | None) -> str:
    """Say whether the changes act on each other; "" where that cannot be told."""
    if whole is None or together is None or together.low <= 1 <= together.high:
        return ""
    product = whole.slowdown.center / together.center
    return (
        f"Each alone, multiplied, would make {_times(product)}: together they are "
        f"{slowdown_words(together)} than that, so they act on each other."
    )


def _carrier_words(change: RungChange) -> str:
    assert change.alone is not None, change.rung
    assert change.with_others is not None, change.rung
    return (
        f"{_named(change)} carries more than half of that{_part_words(change)}: alone it is "
        f"{slowdown_words(change.alone.slowdown)}, and the whole is "
        f"{slowdown_words(change.with_others.slowdown)} with it than without it."
    )


def _part_words(change: RungChange) -> str:
    part = change.alone_part
    if part is None:
        return ""
    return (
        f" ({percent_words(part.center)} on the log scale, {percent_words(part.low)} to "
        f"{percent_words(part.high)})"
    )


def _part(change: RungChange) -> float:
    assert change.alone_part is not None, change.rung
    return change.alone_part.center


def _is_less_than_half(change: RungChange) -> bool:
    parts = [part for part in (change.alone_part, change.with_others_part) if part is not None]
    return bool(parts) and all(part.high < 0.5 for part in parts)


def _named(change: RungChange) -> str:
    return f"{change.rung} ({change.title})" if change.title else change.rung


def _times(slowdown: float) -> str:
    way, size = ("slower", slowdown) if slowdown >= 1 else ("faster", 1 / slowdown)
    return f"{format_ratio(size)} {way}"


def doubts(changes: Sequence[RungChange], *, has_repeats: bool) -> tuple[str, ...]:
    """Return what to doubt of the single changes, each with the remedy still untried."""
    found = []
    if not has_repeats:
        found.append(
            "no treatment was repeated: what differs from trial to trial is in no interval of the single "
            "changes; run 2 or more replicates"
        )
    undecided = [one.rung for one in changes if one.label.name == "UNDECIDED"]
    if undecided and has_repeats:
        found.append(
            f"what {listed(undecided)} {'does' if len(undecided) == 1 else 'do'} to the whole these trials "
            "cannot tell; run more replicates or longer windows"
        )
    return tuple(found)
