"""Were the holds of a rung that replays a captured distribution as long as those that were captured?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdrag.errors import HoldsError
from pgdrag.findings.holds.distribution import HoldDistribution, HolderKind, from_level
from pgdrag.findings.holds.levels import REPLAY
from pgdrag.model import HORIZON, Result, Treatment
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import HOLD_EVENT
from pgdrag.stats.distance import TOLERANCE, LengthDistance, distance
from pgdrag.stats.product_limit import LengthCurve, SeenHold, product_limit
from pgdrag.units import format_duration

FEWEST_HOLDS = 5  # fewer are compared, but not judged
_SEED = 1


@dataclass(frozen=True)
class ReplayedKind:
    """How often one kind of holder held.

    Attributes:
        wanted: its share of the holds that were captured.
        holds: how many were made of it.
    """

    holder: str
    wanted: float
    holds: int


@dataclass(frozen=True)
class ReplayFinding:
    """What became of a captured distribution in the laboratory.

    Attributes:
        file: its name.
        captured: what it is, in a few words.
        window_s: of the longest of the trials: no hold could show that it lasts longer.
        wanted, held: the curves of lengths, captured and made, both up to the window's length.
        distance: between the two.
        kinds: by holder.
        cut_off: of the holds made, those that lasted into the window's end.
        sentence: how well the two agree.
        warnings: what stands against taking the one for the other.
    """

    file: str
    captured: str
    window_s: float
    wanted: LengthCurve
    held: LengthCurve
    distance: LengthDistance
    kinds: tuple[ReplayedKind, ...]
    cut_off: int
    sentence: str
    warnings: tuple[str, ...]


def replay_finding(
    treatment: Treatment, trials: Sequence[tuple[Result, Measurement]]
) -> ReplayFinding | None:
    """Return how the holds of a treatment's trials compare with what it was to replay.

    Returns:
        None where it replays nothing, or nothing was held.
    """
    value = treatment.of_kind(HORIZON).get(REPLAY)
    if value is None:
        return None
    try:
        captured = from_level(value)
    except HoldsError:
        return None  # a mistake, and told as such when the levels were checked
    held = [one for result, measured in trials for one in _held(result, measured.elapsed_s)]
    if not held or not captured.can_be_drawn:
        return None
    window_s = max(measured.elapsed_s for _, measured in trials)
    seen = [one for _, one in held]
    found = distance(captured.lengths, seen, longest_s=window_s, seed=_SEED)
    curve = product_limit(seen)
    assert curve is not None, "there is a hold"
    return ReplayFinding(
        file=value.partition(",")[0],
        captured=captured.words,
        window_s=window_s,
        wanted=captured.lengths.capped(window_s),
        held=curve.capped(window_s),
        distance=found,
        kinds=_kinds(captured, Counter(holder for holder, _ in held)),
        cut_off=sum(not one.has_ended for one in seen),
        sentence=_sentence(found),
        warnings=tuple(_warnings(captured, found, window_s, len(trials))),
    )


def _held(result: Result, window_s: float) -> Iterator[tuple[str, SeenHold]]:
    for event in result.recordings.events:
        if event.kind != HOLD_EVENT or event.count != 1 or event.start_s >= window_s:
            continue
        end_s = window_s if event.end_s is None else min(event.end_s, window_s)
        has_ended = event.end_s is not None and event.end_s < window_s
        has_ended = has_ended and ", lost: " not in event.text
        if end_s > event.start_s:
            yield event.text.partition(",")[0], SeenHold(end_s - event.start_s, has_ended)


def _kinds(captured: HoldDistribution, made: Counter[str]) -> tuple[ReplayedKind, ...]:
    rates: dict[HolderKind, float] = {
        holder: kind.per_hour
        for holder, kind in captured.kinds.items()
        if kind.curve is not None and kind.per_hour > 0
    }
    total = sum(rates.values())
    wanted = {str(holder): rate / total for holder, rate in rates.items()}
    return tuple(
        ReplayedKind(holder, wanted.get(holder, 0.0), made[holder])
        for holder in sorted(wanted.keys() | made.keys())
    )


def _sentence(found: LengthDistance) -> str:
    of_file = "as long as those that were captured"
    interval = f"by a factor of {found.factor:.2f} on average ({found.low:.2f} to {found.high:.2f})"
    number = f"{found.holds:,} {'hold was' if found.holds == 1 else 'holds were'}"
    if found.holds < FEWEST_HOLDS:
        return f"Too few to judge by: {number} made, {interval} off."
    chance = f"chance alone brings up to {found.chance:.2f}"
    if found.factor <= TOLERANCE:
        return f"{number} made, {of_file}: they differ {interval}, and up to {TOLERANCE} is alike."
    if found.is_alike:
        return (
            f"{number} made, {of_file} as far as so few can show: they differ {interval}; {chance}."
        )
    return f"{number} made, and not {of_file}: they differ {interval}; {chance}."


def _warnings(
    captured: HoldDistribution, found: LengthDistance, window_s: float, trials: int
) -> Iterator[str]:
    longer = captured.lengths.longer_than(window_s)
    if longer > 0.01:
        yield (
            f"{longer:.0%} of the captured holds last longer than the window of {format_duration(window_s)}, "
            "which cuts them off: give the scale a longer measure_s."
        )
    if found.holds < FEWEST_HOLDS:
        yield (
            f"{found.holds} in {trials} {'trial' if trials == 1 else 'trials'}: a longer window or more "
            "replicates would show more."
        )
    open_share = max((kind.open_share for kind in captured.kinds.values()), default=0.0)
    if open_share > 0.01:
        yield (
            f"Of up to {open_share:.0%} of a kind's holds the capture saw no end: they were replayed as if they "
            "had ended at the longest length that was seen."
        )
