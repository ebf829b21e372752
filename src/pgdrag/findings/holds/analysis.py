"""Are the holds of a treatment that replays a captured distribution as long as the captured ones?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdrag.english import counted
from pgdrag.errors import HoldsError
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.holds.distribution import HoldDistribution, from_level
from pgdrag.findings.holds.levels import REPLAY, hold_levels
from pgdrag.model import Result, Treatment
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import HOLD_EVENT
from pgdrag.stats.hold_lengths import LengthCurve, LengthDistance, SeenHold, distance, product_limit
from pgdrag.units import format_duration

FEWEST_HOLDS = 5  # fewer are compared, but not judged
_SEED = 1


@dataclass(frozen=True)
class ReplayedKind:
    """How often one kind of holder held.

    Attributes:
        wanted: its share of the captured holds.
        holds: how many were replayed.
    """

    holder: str
    wanted: float
    holds: int


@dataclass(frozen=True)
class ReplayFinding:
    """How replayed holds compare with the captured distribution.

    Attributes:
        file: its name.
        captured: what it is, in a few words.
        window_s: of the longest of the trials: no hold could be seen to last longer.
        wanted, held: the curves of lengths, captured and replayed, both up to the window's length.
        distance: between the two.
        kinds: by holder.
        cut_off: of the holds replayed, those that lasted into the window's end.
        warnings: why the replay may differ from what was captured.
    """

    file: str
    captured: str
    window_s: float
    wanted: LengthCurve
    held: LengthCurve
    distance: LengthDistance
    kinds: tuple[ReplayedKind, ...]
    cut_off: int
    warnings: tuple[str, ...]


def replay_finding(
    treatment: Treatment, trials: Sequence[tuple[Result, Measurement]]
) -> ReplayFinding | None:
    """Compare the holds of a treatment's trials with what it replays; None without either."""
    value = hold_levels(treatment).get(REPLAY)
    if value is None:
        return None
    try:
        captured = from_level(value)
    except HoldsError:
        return None  # reported when the levels were checked
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
        warnings=tuple(_warnings(captured, found, window_s, len(trials))),
    )


def _held(result: Result, window_s: float) -> Iterator[tuple[str, SeenHold]]:
    for event in result.recordings.events:
        if event.kind != HOLD_EVENT or event.count != 1 or event.start_s >= window_s:
            continue
        end_s = window_s if event.end_s is None else min(event.end_s, window_s)
        has_ended = end_s < window_s and ", lost: " not in event.text
        if end_s > event.start_s:
            yield event.text.partition(",")[0], SeenHold(end_s - event.start_s, has_ended)


def _kinds(captured: HoldDistribution, made: Counter[str]) -> tuple[ReplayedKind, ...]:
    rates = {
        str(holder): kind.per_hour
        for holder, kind in captured.kinds.items()
        if kind.curve is not None and kind.per_hour > 0
    }
    total = sum(rates.values())
    return tuple(
        ReplayedKind(holder, rates.get(holder, 0.0) / total, made[holder])
        for holder in sorted(rates.keys() | made.keys())
    )


def _warnings(
    captured: HoldDistribution, found: LengthDistance, window_s: float, trials: int
) -> Iterator[str]:
    longer = captured.lengths.longer_than(window_s)
    if longer > 0.01:
        yield (
            f"{longer:.0%} of the captured holds last longer than the window of {format_duration(window_s)}: "
            "use a longer measure_s."
        )
    if found.holds < FEWEST_HOLDS:
        yield (
            f"Only {counted(found.holds, 'hold')} in {counted(trials, 'trial')}: use a longer window or more "
            "replicates."
        )
    open_share = max((kind.open_share for kind in captured.kinds.values()), default=0.0)
    if open_share > 0.01:
        yield (
            f"The capture did not see the end of up to {open_share:.0%} of a kind's holds: they are replayed with "
            "the longest length that was seen."
        )


REPLAY_OF_HOLDS = TreatmentAnalysis(
    "replay",
    ReplayFinding,
    lambda one, _: replay_finding(one.trials.rung.treatment, one.trials.numbered),
)
