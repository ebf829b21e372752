"""Which single change accounts for the whole? In words, and only where the intervals allow it."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.ladder.findings import RungChange
from pgdrag.english import listed, percent_words
from pgdrag.findings.values import Comparison, Interval, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.units import format_ratio


def is_significant(comparison: Comparison | None) -> bool:
    """Tell whether the interval of a comparison excludes 1."""
    return comparison is not None and comparison.verdict in (Verdict.SLOWER, Verdict.FASTER)


def carrier_sentence(whole: Comparison | None, changes: Sequence[RungChange]) -> str:
    """Say which change accounts for more than half of the whole, or why none can be named."""
    if whole is None:
        return "The whole cannot be attributed: all changes together have no measured throughput."
    if not is_significant(whole):
        return "All changes together have no significant effect, so none is attributed to a single one."
    if carriers := [one for one in changes if one.carries]:
        return " ".join(_carrier_words(one) for one in carriers)
    measured = [one for one in changes if one.alone_part is not None]
    if not measured:
        return "The whole cannot be attributed: no change was tried alone."
    largest = max(measured, key=_part)
    found = largest.alone
    assert found is not None, largest.rung
    start = (
        "No single change accounts for half of it"
        if all(_is_less_than_half(one) for one in measured)
        else "No single change can be shown to account for more than half of it"
    )
    return f"{start}: the largest alone is {_named(largest)}, {slowdown_words(found.slowdown)}{_part_words(largest)}."


def together_sentence(whole: Comparison | None, together: Interval | None) -> str:
    """Say that the changes interact; "" where that is not significant."""
    if whole is None or together is None or together.low <= 1 <= together.high:
        return ""
    product = whole.slowdown.center / together.center
    return (
        f"The product of the changes alone is {_times(product)}; together they are "
        f"{slowdown_words(together)} than that, so they interact."
    )


def _carrier_words(change: RungChange) -> str:
    assert change.alone is not None, change.rung
    assert change.with_others is not None, change.rung
    return (
        f"{_named(change)} accounts for more than half of it{_part_words(change)}: alone it is "
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


def warnings(changes: Sequence[RungChange], *, has_repeats: bool) -> tuple[str, ...]:
    """Return warnings about the single changes, each with the remedy still untried."""
    found = []
    if not has_repeats:
        found.append(
            "no treatment was repeated, so no interval of the single changes includes trial-to-trial noise; "
            "run 2 or more replicates"
        )
    undecided = [one.rung for one in changes if one.label.name == "UNDECIDED"]
    if undecided and has_repeats:
        found.append(
            f"these trials cannot tell what {listed(undecided)} {'adds' if len(undecided) == 1 else 'add'} to the "
            "whole; run more replicates or longer windows"
        )
    return tuple(found)
