"""Which levels of the horizon say who holds it, for how long, and what is done after the release?"""

from __future__ import annotations

from typing import Final

from pgdrag.model import HORIZON, Treatment

# The levels' names.
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


def is_held(treatment: Treatment) -> bool:
    """Whether the treatment holds the horizon at all."""
    levels = treatment.of_kind(HORIZON)
    return REPLAY in levels or levels.get(HOLDER, NOBODY) != NOBODY
