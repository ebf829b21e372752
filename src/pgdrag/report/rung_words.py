"""What do the findings of one rung say, in a sentence each?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdrag.english import capital, listed, percent_words
from pgdrag.findings.decay.findings import DecayFinding, drift_sentence
from pgdrag.findings.mechanisms.analysis import NAMED_SHARE, MechanismFinding, MechanismsFinding
from pgdrag.findings.mechanisms.signs import UNMOVED_BELOW
from pgdrag.findings.movement import Movement, Movements, is_notable
from pgdrag.findings.plan_diff import PlanChanges
from pgdrag.findings.spent_time import SessionTime, SpentTime
from pgdrag.findings.values import TreatmentFinding, Verdict
from pgdrag.findings.wording import detectable_words, slowdown_words
from pgdrag.model import Outcome
from pgdrag.units import format_duration, format_ratio

_NAMED = 3  # parts of a transaction's time, or mechanisms, in one sentence
_NAMED_PLANS = 2
_NAMED_MOVES = 2
_LEAST_SHARE = 0.05  # of the added time, to be named
_NEARLY_ALL = 0.9
_CLOCK_MATTERS = 2.0  # from this slowdown on, work done by the clock weighs on each transaction


def change_sentence(rung: TreatmentFinding, *, has_size: bool = True) -> str:
    """Say whether the rung changed throughput, and what moved with it; "" for the baseline.

    Args:
        has_size: say by how much; a design's own section may have said that.
    """
    if not rung.trials:
        return f"{capital(rung.state)}."
    if rung.tps is None:
        return f"No number: {rung.outcome.value}{f': {rung.reason}' if rung.reason else ''}."
    found = rung.get(Movements)
    if found is None:
        return ""
    step = rung.to_previous
    if step is None:
        return "No comparison: nothing before it has a number, or nothing was committed."
    size = step.slowdown
    parts = [words] if has_size and (words := size_sentence(rung)) else []
    if rung.outcome is Outcome.INERT:
        parts.append(f"Inert: nothing effective changed from {rung.previous}.")
    slowdown = max(size.center if math.isfinite(size.center) else size.low, 1.0)
    missing = {one.name: one.missing for one in rung.evidence if one.value is None}
    expects = rung.rung.expects
    parts.append(moves_sentence(found.moves, expects, missing=missing, slowdown=slowdown))
    # A mean over the whole window hides that throughput fell in a part of it.
    decay = rung.get(DecayFinding)
    if decay is not None and decay.direction == "falling" and step.verdict is not Verdict.SLOWER:
        parts.append(f"But {drift_sentence(decay)}.")
    return " ".join(parts)


def size_sentence(rung: TreatmentFinding) -> str:
    """Say by how much the rung changed throughput unless it is slower: "" then, and without a comparison."""
    step = rung.to_previous
    if step is None or step.verdict is Verdict.SLOWER:
        return ""
    words = slowdown_words(step.slowdown)
    if step.verdict is Verdict.FASTER:
        return f"A speedup: {words}."
    change = "No change" if step.verdict is Verdict.EQUIVALENT else "No significant change"
    return f"{change}: {words}. {capital(detectable_words(step.detectable))}."


def cause_sentence(rung: TreatmentFinding) -> str:
    """Say which mechanisms account for the time, or where it was spent if no mechanism is named."""
    found = rung.get(MechanismsFinding)
    is_named = found is not None and bool(found.named)
    return (mechanisms_sentence(found) if is_named else "") or time_sentence(rung)


def time_sentence(rung: TreatmentFinding) -> str:
    """Say where the time that a transaction gained or lost was spent, the largest part first."""
    return spent_sentence((rung.get(SessionTime) or SessionTime()).finest, rung.previous)


def spent_sentence(parts: Sequence[SpentTime], previous: str) -> str:
    """Say of the parts of a transaction's time which of them grew or shrank most; see `time_sentence`."""
    shares = [(part.share, part) for part in parts if part.share is not None]
    if not shares:
        return ""
    whole_s = sum(part.now_s - (part.before_s or 0.0) for _, part in shares)
    ranked = sorted(shares, key=lambda each: -each[0])[:_NAMED]
    (largest, first), *_ = ranked
    named = listed([f"{percent_words(x)} {part.place}" for x, part in ranked if x >= _LEAST_SHARE])
    where = f"nearly all of it {first.place}" if largest >= _NEARLY_ALL else named
    change = "longer" if whole_s > 0 else "less"
    return (
        f"Each transaction takes {format_duration(abs(whole_s))} {change} than on {previous}: "
        f"{where}."
    )


def plan_sentence(rung: TreatmentFinding) -> str:
    """Say which statements have another plan; "" where none has."""
    changes = (rung.get(PlanChanges) or PlanChanges()).changes
    if not changes:
        return ""
    # Statements of one kind change in one way: each way is named once.
    ways = list(dict.fromkeys(change.words.partition("; ")[0] for change in changes))
    more = f", and {len(ways) - _NAMED_PLANS} more changes" if len(ways) > _NAMED_PLANS else ""
    count = "1 statement has" if len(changes) == 1 else f"{len(changes)} statements have"
    return f"{count} another plan than on {rung.previous}: {', '.join(ways[:_NAMED_PLANS])}{more}."


def mechanisms_sentence(found: MechanismsFinding | None) -> str:
    """Say which mechanisms account for how much of the time, or why none is named; "" without a step."""
    if found is None or (found.why_none and not found.found):
        return ""
    if found.why_none:
        return f"No mechanism is named: {found.why_none}."
    if found.added_s is None or found.unexplained is None:
        return ""
    change, source = ("less", "saved on") if found.is_gain else ("longer", "from")
    named = listed([f"{share_words(one)} {source} {one.name}" for one in found.named[:_NAMED]])
    is_rest = found.unexplained >= NAMED_SHARE
    rest = f"; {percent_words(found.unexplained)} is unexplained" if is_rest else ""
    return (
        f"Each transaction takes {format_duration(found.added_s)} {change} than on {found.reference}: "
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


def moves_sentence(
    moves: Sequence[Movement],
    expects: Mapping[str, str],
    *,
    missing: Mapping[str, str] | None = None,
    slowdown: float = 1.0,
) -> str:
    """Say what moved: first what was claimed, then what else moved most.

    A number per transaction that was not claimed and rose by no more than throughput fell is not named: work
    done by the clock alone does that. Nor is what the whole machine did, unless it was claimed.

    Args:
        expects: observation name → "up" or "down".
        missing: why an observation has no value; said of those that are claimed.
    """
    missing = {**(missing or {}), **{x.name: x.implausible for x in moves if x.implausible}}
    by_name = {move.name: move for move in moves if not move.implausible}
    claimed = [by_name[name] for name in expects if name in by_name]
    kept = [
        f"{move.sentence} (could be chance)" if move.could_be_chance else move.sentence
        for move in claimed
        if move.direction == move.expected
    ]
    parts = [f"as claimed, {listed(kept)}"] if kept else []
    parts += [
        f"claimed to {'rise' if move.expected == 'up' else 'fall'}, but {move.sentence}"
        for move in claimed
        if move.direction != move.expected
    ]
    telling = [move for move in moves if move.expected is None and _is_telling(move, slowdown)]
    beside = _distinct(telling, claimed)[:_NAMED_MOVES]
    if beside:
        named = listed([move.sentence for move in beside])
        parts.append(f"also, {named}" if parts else named)
    parts += [
        f"{name.replace('_', ' ')} could not be measured"
        + (f" ({missing[name]})" if missing.get(name) else "")
        for name in expects
        if name not in by_name
    ]
    if not moves and not parts:
        return "Nothing was observed."
    if not parts:
        is_still = all(move.direction == "unmoved" for move in moves)
        return f"Nothing observed changed by more than {'10 %' if is_still else 'throughput did'}."
    text = f"{capital('; '.join(parts))}."
    rose = any(x.after.unit.endswith("/transaction") and x.direction == "up" for x in beside)
    if slowdown < _CLOCK_MATTERS or not rose:
        return text
    return (
        f"{text} With {format_ratio(slowdown)} fewer transactions, each one carries that much more of the "
        "work that runs by the clock."
    )


def _distinct(moves: Sequence[Movement], named: Sequence[Movement]) -> list[Movement]:
    """Leave out what went from the same value to the same one as another: it is the same seen twice."""
    seen = {(move.after.unit, move.before.value, move.after.value) for move in named}
    kept = []
    for move in moves:
        values = (move.after.unit, move.before.value, move.after.value)
        if values not in seen:
            seen.add(values)
            kept.append(move)
    return kept


def _is_telling(move: Movement, slowdown: float) -> bool:
    """Tell a movement worth a word from what fewer transactions cause by themselves."""
    is_by_clock = (move.after.unit.endswith("/transaction") and move.direction == "up") or (
        move.after.unit == "1/s" and move.direction == "down"
    )
    return is_notable(move) and not (is_by_clock and move.size < math.log(slowdown) + UNMOVED_BELOW)
