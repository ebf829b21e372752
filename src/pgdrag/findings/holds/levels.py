"""Which levels of the horizon say who holds it, for how long, and what is done after the release?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pgdrag.model import Level, Treatment

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
