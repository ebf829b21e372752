"""What moved between two rungs, and did the claimed mechanism move as claimed?

Numbers are stated, never causes: when throughput collapses, whatever the server does by the clock
weighs more on each transaction, and moves without being to blame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.english import in_sentence
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.mechanisms.catalogue import Sign
from pgdrag.findings.mechanisms.signs import UNMOVED_BELOW, adjusted, observed, scaled
from pgdrag.findings.plausibility import implausible
from pgdrag.findings.spent_time import PLACES
from pgdrag.findings.values import FALSE_DISCOVERIES
from pgdrag.findings.wording import value_words
from pgdrag.model import Observation
from pgdrag.stats.interval import bounded_exp
from pgdrag.units import format_ratio


@dataclass(frozen=True)
class Movement:
    """How one observation moved from the reference rung to this one.

    Attributes:
        size: distance on the observation's own scale (|log ratio|, or |log odds ratio| for ratios).
        direction: "up", "down" or "unmoved".
        expected: what the claimed mechanism said, or None where it said nothing.
        sentence: "buffer hit ratio fell from 99.9 % to 70.5 %".
        chance: rate of false discoveries if this is believed to have moved at all, and all others of
            the step that are as sure; None where no treatment was repeated, so that nobody knows.
        implausible: why one of the values cannot be true, or "".
    """

    name: str
    before: Observation
    after: Observation
    size: float
    direction: str
    expected: str | None
    sentence: str
    chance: float | None = None
    implausible: str = ""

    @property
    def could_be_chance(self) -> bool:
        """What trials of one treatment differ by could bring it about."""
        return self.chance is not None and self.chance > FALSE_DISCOVERIES


def movements(
    before: Sequence[Observation], after: Sequence[Observation], expects: Mapping[str, str]
) -> tuple[Movement, ...]:
    """Return how each observation moved that both sides have a value of.

    The size is |log odds ratio| for shares and |log ratio| for all else, each value being at least
    its resolution (and a share at most 1 less that), so that one event against none is a movement of
    one event and not an infinite one. A difference within the resolution, or a size under 10 %, is
    "unmoved". Those that the mechanism names come first, then the rest, each largest first.

    Args:
        before: evidence of the reference rung.
        after: evidence of this rung.
        expects: observation name → "up" or "down".
    """
    references = {one.name: one for one in before if _has_value(one)}
    wrong = implausible(before) | implausible(after)
    found = [
        replace(moved(reference, one, expects.get(one.name)), implausible=wrong.get(one.name, ""))
        for one in after
        if _has_value(one)
        and (reference := references.get(one.name)) is not None
        and reference.unit == one.unit
    ]
    return tuple(sorted(found, key=lambda move: (move.expected is None, -move.size, move.name)))


def _has_value(one: Observation) -> bool:
    return one.value is not None and math.isfinite(one.value)


def moved(before: Observation, after: Observation, expected: str | None = None) -> Movement:
    """Return how an observation moved that both sides have a value of; see `movements`."""
    assert before.value is not None, before.name
    assert after.value is not None, after.name
    resolution = max(before.resolution, after.resolution)
    now, then = (scaled(value, after.unit, resolution) for value in (after.value, before.value))
    distance = now - then
    is_moved = abs(after.value - before.value) > resolution and abs(distance) >= UNMOVED_BELOW
    was, is_now = value_words(before, before.value), value_words(after, after.value)
    # A share has its own scale, and a ratio to nothing has none.
    has_ratio = after.unit != "ratio" and min(before.value, after.value) > 0
    if not is_moved:
        direction = "unmoved"
        words = f"stayed at {is_now}" if was == is_now else f"stayed near {was} (now {is_now})"
    else:
        direction, verb = ("up", "rose") if distance > 0 else ("down", "fell")
        ratio = f" ({format_ratio(bounded_exp(distance))})" if has_ratio else ""
        words = f"{verb} from {was} to {is_now}{ratio}"
    sentence = f"{in_sentence(after.label)} {words}"
    return Movement(after.name, before, after, abs(distance), direction, expected, sentence)


def is_notable(move: Movement) -> bool:
    """Tell whether a significant movement of the server itself deserves a sentence; sessions' time has its own."""
    is_moved = move.direction != "unmoved" and not move.could_be_chance and not move.implausible
    return is_moved and not move.after.is_of_machine and move.name not in PLACES


@dataclass(frozen=True)
class Movements:
    """How the observations moved from the rung that a step begins at: those claimed first, each largest first."""

    moves: tuple[Movement, ...] = ()


def _movements(one: Compared, treatments: Treatments) -> Movements | None:
    """Return the movements, each with the rate of false discoveries among all of them, either way."""
    if one.is_baseline:
        return None
    trials = observed(treatments)
    before = one.reference
    moves = movements(before.evidence, one.trials.evidence, one.trials.rung.expects)
    chances = {}
    for move in moves:
        tests = [
            trials.test(Sign(move.name, way), before.rung.name, one.name) for way in ("up", "down")
        ]
        known = [test.p for test in tests if test.p is not None]
        if known:
            chances[move.name] = min(2 * min(known), 1.0)
    rates = adjusted(chances)
    wrong = trials.implausible
    return Movements(
        tuple(
            replace(
                move,
                chance=rates.get(move.name),
                implausible=move.implausible or wrong.get(move.name, ""),
            )
            for move in moves
        )
    )


MOVEMENTS = TreatmentAnalysis("movements", Movements, _movements)
