"""How does an interaction read in a sentence?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.grid.findings import InteractionFinding
from pgdrag.english import counted, listed
from pgdrag.findings.values import Interval
from pgdrag.findings.wording import inverse, slowdown_words
from pgdrag.units import format_ratio

_MOST_NAMED = 3  # interactions in the answer


def interaction_sentence(found: InteractionFinding) -> str:
    """Return what both do together, beside the product of what each does, with the interaction."""
    names = " and ".join(
        f"{name} {change}" for name, change in zip(found.factors, found.changes, strict=True)
    )
    over = (
        f" (averaged over {counted(found.averaged_over, 'combination')} of the other factors)"
        if found.averaged_over > 1
        else ""
    )
    start = (
        f"{names}{over}: together {_times(found.both.center)}, without an interaction "
        f"{_times(found.product)}; the interaction is {slowdown_words(found.interaction)}"
    )
    if found.is_significant:
        return f"{start}."
    if _excludes_one(found.interaction):
        return f"{start}, not significant after correction for all interactions."
    return f"{start}, not significant; these trials can detect {format_ratio(found.detectable)} or more."


def answer(found: Sequence[InteractionFinding], lacking: Sequence[str] = ()) -> str:
    """Say which factors interact, the strongest first.

    Args:
        lacking: names of factors that could not be set here.
    """
    untested = f" {listed(lacking)} could not be set here." if lacking else ""
    return _answer(found) + untested


def _answer(found: Sequence[InteractionFinding]) -> str:
    significant = sorted(
        (one for one in found if one.is_significant),
        key=lambda one: -max(one.interaction.center, inverse(one.interaction.center)),
    )
    if significant:
        more = len(significant) - _MOST_NAMED
        verb = "is" if more == 1 else "are"
        rest = f" {counted(more, 'more interaction')} {verb} significant." if more > 0 else ""
        return " ".join(one.sentence for one in significant[:_MOST_NAMED]) + rest
    if not found:
        return "No interaction can be estimated: combinations have no measured throughput."
    if len(found) == 1:
        return found[0].sentence
    return f"None of {len(found)} interactions is significant."


def _times(slowdown: float) -> str:
    way = "slower" if slowdown >= 1 else "faster"
    return f"{format_ratio(max(slowdown, inverse(slowdown)))} {way}"


def _excludes_one(found: Interval) -> bool:
    return found.low > 1 or found.high < 1
