"""How is said which mechanisms a slowdown is made of?"""

from __future__ import annotations

from pgdrag.english import listed, percent_words
from pgdrag.findings.mechanisms.findings import NAMED_SHARE, MechanismFinding, MechanismsFinding
from pgdrag.units import format_duration

_NAMED = 3


def mechanisms_sentence(found: MechanismsFinding) -> str:
    """Say which mechanisms account for how much of the time, or why none is named; "" without a step."""
    if found.why_none:
        return f"No mechanism is named: {found.why_none}." if found.found else ""
    if found.added_s is None or found.unexplained is None:
        return ""
    more = "less" if found.is_gain else "longer"
    verb = "had gone to" if found.is_gain else "goes to"
    first, *others = found.named[:_NAMED]
    named = listed(
        [
            f"{share_words(first)} {verb} {first.name}",
            *(f"{share_words(one)} to {one.name}" for one in others),
        ]
    )
    rest = (
        f"; {percent_words(found.unexplained)} is unexplained"
        if found.unexplained >= NAMED_SHARE
        else ""
    )
    return (
        f"Of the {format_duration(found.added_s)} that each transaction takes {more} than on {found.reference}, "
        f"{named}{rest}."
    )


def share_words(one: MechanismFinding) -> str:
    """Return `62 % (55 % to 68 %)`: the share, and its range over the pairs of trials."""
    if one.share is None:
        return "an unknown part"
    if one.share_low is None or one.share_high is None:
        return percent_words(one.share)
    low, high = percent_words(one.share_low), percent_words(one.share_high)
    return percent_words(one.share) + (f" ({low} to {high})" if low != high else "")
