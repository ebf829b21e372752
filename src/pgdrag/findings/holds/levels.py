"""Which levels of the horizon say who holds it, and for how long; and when was it held within a trial's window?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pgdrag.model import Level, Result, Treatment
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import HOLD_EVENT, Event

FACTOR: Final = "horizon"  # the kind of these levels

# Their names.
HOLDER: Final = "holder"
HOLD: Final = "hold"  # how long each lasts
PATTERN: Final = "pattern"
BEGIN: Final = "begin"
HOLDERS: Final = "holders"
AFTER: Final = "after_release"
REPLAY: Final = "replay"

# Their defaults.
NOBODY: Final = "nobody"
WINDOW: Final = "window"  # to its end; as a begin, at its own
ONCE: Final = "once"
NOTHING: Final = "nothing"
DEFAULTS: Final = {
    HOLDER: NOBODY,
    HOLD: WINDOW,
    PATTERN: ONCE,
    BEGIN: WINDOW,
    HOLDERS: "1",
    AFTER: NOTHING,
    REPLAY: NOTHING,
}

_AT_THE_END_S = 2.0  # a hold that ends so shortly before the window does lasts until its end


class HolderKind(StrEnum):
    """What holds the horizon back."""

    TRANSACTION = "transaction"
    SNAPSHOT = "snapshot"
    CURSOR = "cursor"
    PREPARED = "prepared"
    SLOT = "slot"
    STANDBY = "standby"


def hold_levels(treatment: Treatment) -> dict[str, str]:
    """Return the treatment's levels of the horizon, by name."""
    return treatment.of_kind(FACTOR)


def other_levels(levels: Iterable[Level]) -> frozenset[Level]:
    """Return the levels that are not of the horizon."""
    return frozenset(level for level in levels if level.kind != FACTOR)


def is_held(treatment: Treatment) -> bool:
    """Whether the treatment holds the horizon at all."""
    levels = hold_levels(treatment)
    return REPLAY in levels or levels.get(HOLDER, NOBODY) != NOBODY


@dataclass(frozen=True)
class Span:
    """When the horizon was held, in seconds of the window.

    Attributes:
        is_released: it ended within the window.
    """

    begin_s: float
    end_s: float
    is_released: bool

    @property
    def length_s(self) -> float:
        """How long, within the window."""
        return self.end_s - self.begin_s


def held_span(result: Result, measured: Measurement) -> Span | None:
    """Return when the treatment held the horizon in this trial; None where it holds nothing.

    Without an event of a hold, it is taken to last the whole window.
    """
    if not is_held(result.trial.treatment):
        return None
    seen = _holds(result.recordings.events)
    if not seen:
        return Span(0.0, measured.elapsed_s, is_released=False)
    begin_s = max(min(one.start_s for one in seen), 0.0)
    ends = [measured.elapsed_s if one.end_s is None else one.end_s for one in seen]
    end_s = min(max(ends), measured.elapsed_s)
    if end_s <= begin_s:
        return Span(0.0, measured.elapsed_s, is_released=False)
    is_released = end_s < measured.elapsed_s - _AT_THE_END_S
    return Span(begin_s, end_s if is_released else measured.elapsed_s, is_released)


def held_for(result: Result, measured: Measurement, t_s: float) -> float:
    """Return how long the treatment has held the horizon at a moment; 0 where it does not."""
    span = held_span(result, measured)
    if span is None or not span.begin_s <= t_s <= span.end_s:
        return 0.0
    begun_s = min((one.start_s for one in _holds(result.recordings.events)), default=span.begin_s)
    return t_s - begun_s


def _holds(events: Sequence[Event]) -> list[Event]:
    return [one for one in events if one.kind == HOLD_EVENT]
