"""What moved between two rungs, and did the claimed mechanism move as claimed?

Numbers are stated, never causes: when throughput collapses, whatever the server does by the clock
weighs more on each transaction, and moves without being to blame.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdrag.english import capital, in_sentence, listed
from pgdrag.findings.spent_time import PLACES
from pgdrag.findings.values import Movement
from pgdrag.findings.wording import value_words
from pgdrag.model import Observation
from pgdrag.units import format_ratio

UNMOVED_BELOW = math.log(1.1)  # under 10 % (of the value, or of the odds) is called unmoved
NAMED_BESIDE = 2  # how many movements that nobody claimed a sentence names
COLLAPSE = 2.0  # from this slowdown on, per-transaction numbers need the remark on the clock


def movements(
    before: Sequence[Observation],
    after: Sequence[Observation],
    expects: Mapping[str, str],
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
    references = {observation.name: observation for observation in before}
    found = [
        moved(references[observation.name], observation, expects.get(observation.name))
        for observation in after
        if observation.name in references
        and _is_comparable(references[observation.name], observation)
    ]
    return tuple(sorted(found, key=lambda move: (move.expected is None, -move.size, move.name)))


def sentence(
    moves: Sequence[Movement],
    expects: Mapping[str, str],
    *,
    missing: Mapping[str, str] | None = None,
    slowdown: float = 1.0,
) -> str:
    """Say what moved: first what was claimed, as it was claimed or not, then what else moved most.

    Args:
        moves: as `movements` returns them.
        expects: observation name → "up" or "down".
        missing: why an observation has no value; said of those that the claim names.
        slowdown: of the rung against the one before. A number per transaction that nobody claimed
            and that rose by no more than this is not named: work by the clock alone does that. Nor is
            what the whole machine did, unless it was claimed.
    """
    by_name = {move.name: move for move in moves}
    claimed = [by_name[name] for name in expects if name in by_name]
    as_claimed = [_claim_kept(move) for move in claimed if move.direction == move.expected]
    parts = [f"as claimed, {listed(as_claimed)}"] if as_claimed else []
    parts += [_broken_claim(move) for move in claimed if move.direction != move.expected]
    unseen = [_unseen(name, missing or {}) for name in expects if name not in by_name]
    telling = [move for move in moves if move.expected is None and _is_telling(move, slowdown)]
    beside = _unlike_each_other(telling, claimed)
    if beside:
        named = listed([move.sentence for move in beside[:NAMED_BESIDE]])
        parts.append(f"beside that, {named}" if parts else named)
    if not parts and not unseen:
        return _nothing_words(moves)
    text = "; ".join(parts + unseen)
    return f"{capital(text)}.{_remark(beside[:NAMED_BESIDE], slowdown)}"


def _unlike_each_other(moves: Sequence[Movement], told: Sequence[Movement]) -> list[Movement]:
    """Leave out what went from the same value to the same one as another: it is the same seen twice."""
    seen = {(move.after.unit, move.before.value, move.after.value) for move in told}
    kept = []
    for move in moves:
        way = (move.after.unit, move.before.value, move.after.value)
        if way not in seen:
            kept.append(move)
            seen.add(way)
    return kept


def _nothing_words(moves: Sequence[Movement]) -> str:
    if not moves:
        return "Nothing was observed."
    if all(move.direction == "unmoved" for move in moves):
        return "Nothing observed moved by more than 10 %."
    return "What moved went with the throughput: rates fell, and numbers per transaction rose, as it fell."


def _is_comparable(before: Observation, after: Observation) -> bool:
    values = (before.value, after.value)
    return before.unit == after.unit and all(v is not None and math.isfinite(v) for v in values)


def moved(before: Observation, after: Observation, expected: str | None = None) -> Movement:
    """Return how an observation moved that both sides have a value of; see `movements`."""
    assert before.value is not None, before.name
    assert after.value is not None, after.name
    resolution = max(before.resolution, after.resolution)
    now, then = (scaled(value, after.unit, resolution) for value in (after.value, before.value))
    distance = now - then
    is_moved = abs(after.value - before.value) > resolution and abs(distance) >= UNMOVED_BELOW
    direction = ("up" if distance > 0 else "down") if is_moved else "unmoved"
    return Movement(
        name=after.name,
        before=before,
        after=after,
        size=abs(distance),
        direction=direction,
        expected=expected,
        sentence=_movement_words(
            before, after, direction, math.exp(min(max(distance, -700.0), 700.0))
        ),
    )


def scaled(value: float, unit: str, resolution: float) -> float:
    """Return a value on the scale on which it is compared: its logarithm, of a share that of its odds.

    What is under its resolution counts as that, and a share is at most 1 less it.
    """
    if unit != "ratio":
        return math.log(max(value, resolution))
    clip = min(resolution, 0.5)
    inside = min(max(value, clip), 1 - clip)
    return math.log(inside / (1 - inside)) if 0 < inside < 1 else 0.0


def _movement_words(before: Observation, after: Observation, direction: str, ratio: float) -> str:
    assert before.value is not None, before.name
    assert after.value is not None, after.name
    label = in_sentence(after.label)
    was, now = value_words(before, before.value), value_words(after, after.value)
    if direction == "unmoved":
        return (
            f"{label} stayed at {now}" if was == now else f"{label} stayed near {was} (now {now})"
        )
    verb = "rose" if direction == "up" else "fell"
    # A share has its own scale, and a ratio to nothing has none.
    has_ratio = after.unit != "ratio" and min(before.value, after.value) > 0
    return f"{label} {verb} from {was} to {now}" + (
        f" ({format_ratio(ratio)})" if has_ratio else ""
    )


def _claim_kept(move: Movement) -> str:
    return f"{move.sentence} (could be chance)" if move.could_be_chance else move.sentence


def _broken_claim(move: Movement) -> str:
    claimed = "claimed to rise" if move.expected == "up" else "claimed to fall"
    return f"{claimed}, but {move.sentence}"


def _unseen(name: str, missing: Mapping[str, str]) -> str:
    words = name.replace("_", " ")
    return f"{words} could not be seen" + (f" ({missing[name]})" if missing.get(name) else "")


def is_told_apart(move: Movement) -> bool:
    """Tell what moved beyond chance, is the server's own, and has no sentence of its own as sessions' time has."""
    is_moved = move.direction != "unmoved" and not move.could_be_chance
    return is_moved and not move.after.is_of_machine and move.name not in PLACES


def _is_telling(move: Movement, slowdown: float) -> bool:
    """Tell a movement worth a word from what fewer transactions bring about by themselves."""
    if not is_told_apart(move):
        return False
    if move.after.unit.endswith("/transaction") and move.direction == "up":
        return move.size >= math.log(max(slowdown, 1.0)) + UNMOVED_BELOW
    if move.after.unit == "1/s" and move.direction == "down":
        return move.size >= math.log(max(slowdown, 1.0)) + UNMOVED_BELOW
    return True


def _remark(beside: Sequence[Movement], slowdown: float) -> str:
    is_per_transaction = any(
        move.after.unit.endswith("/transaction") and move.direction == "up" for move in beside
    )
    if slowdown < COLLAPSE or not is_per_transaction:
        return ""
    return (
        f" With {format_ratio(slowdown)} fewer transactions, work that goes by the clock weighs that "
        "much more on each of them."
    )
