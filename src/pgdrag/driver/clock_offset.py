"""What time is it by a load generator's clock when it is this time by pgdrag's? Found as NTP does.

A question and its answer have four times: asked and heard by pgdrag's clock, received and answered by the generator's.
The generator's clock was read between the two of pgdrag's, however long the ways took, so that half of the time on the
way bounds the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Clocks that are slewed towards the right time gain or lose this much, each; two of them twice as much.
_SLEW = 500e-6
# Below, what a clock moved is within what scheduling does to a reading.
_NOTHING_S = 0.001


@dataclass(frozen=True)
class Exchange:
    """A question for the time and its answer, in seconds by two clocks."""

    asked_s: float
    received_s: float
    answered_s: float
    heard_s: float

    @property
    def offset_s(self) -> float:
        """How far the other clock is ahead, if both ways took the same time."""
        return (self.received_s - self.asked_s + self.answered_s - self.heard_s) / 2

    @property
    def uncertainty_s(self) -> float:
        """How far `offset_s` can be wrong at most."""
        way_s = (self.heard_s - self.asked_s) - (self.answered_s - self.received_s)
        return max(way_s, 0.0) / 2


def clearest(exchanges: Sequence[Exchange]) -> Exchange:
    """Return the exchange that spent the least time on the way, of one or more: the others waited for something."""
    return min(exchanges, key=lambda one: one.uncertainty_s)


def moved_s(before: Exchange, now: Exchange) -> float:
    """Return how far a clock moved from one exchange to a later one, beyond all that explains it; 0.0: not at all."""
    explained_s = before.uncertainty_s + now.uncertainty_s + _NOTHING_S
    explained_s += 2 * _SLEW * max(now.heard_s - before.asked_s, 0.0)
    step_s = now.offset_s - before.offset_s
    return step_s if abs(step_s) > explained_s else 0.0
