"""What do the collectors cost? They sample and pause in turns within one window, under a constant load.

Neighbouring turns share sessions, caches and the state of the machine, so they differ far less than
trials do. Four turns make a block: sample, pause, pause, sample, or the reverse, at random; so a steady
drift within a block favours neither.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pgdrag.model.recordings import LOOKING, RESTING, TURN, Event, Recordings

TURN_S = 2.0
_PATTERNS = ((True, False, False, True), (False, True, True, False))
BLOCK_S = TURN_S * len(_PATTERNS[0])


class Turns:
    """Which turn is it, and when was each?  Times are seconds from when collectors began to sample."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"turns/{seed}")
        self._drawn: list[bool] = []
        self._began_unix_s = 0.0
        self._ended_unix_s = 0.0

    def begin(self, unix_s: float) -> None:
        """Note when the first turn began, by the wall clock."""
        self._began_unix_s = unix_s

    def end(self, unix_s: float) -> None:
        """Note when the last turn was broken off."""
        self._ended_unix_s = unix_s

    def looks(self, elapsed_s: float) -> bool:
        """Tell whether the collectors sample at that moment."""
        at = int(elapsed_s / TURN_S)
        while len(self._drawn) <= at:
            self._drawn += self._random.choice(_PATTERNS)
        return self._drawn[at]

    def recordings(self, window_started_unix_s: float) -> Recordings:
        """Return every complete turn as an event."""
        offset_s = self._began_unix_s - window_started_unix_s
        whole = int((self._ended_unix_s - self._began_unix_s) / TURN_S)
        return Recordings(self._events(self._drawn[:whole], offset_s))

    def _events(self, turns: Sequence[bool], offset_s: float) -> list[Event]:
        return [
            Event(
                TURN,
                offset_s + at * TURN_S,
                offset_s + (at + 1) * TURN_S,
                LOOKING if looks else RESTING,
            )
            for at, looks in enumerate(turns)
        ]
