"""What does a held horizon do to a simulated server? Its cost grows while it is held, and goes again after.

Each second of the hold adds the same to the cost of a transaction, so that the rate falls as
1 / (1 + t/tau). What is added goes when the horizon is free: soon where a vacuum cleans up, and slowly
where only the transactions themselves do. The dead versions go with it; the file that they have
bloated stays as large as it is, unless indexes are made anew, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdrag.findings.holds.levels import AFTER, HOLD, HOLDER, NOBODY, NOTHING, WINDOW, hold_levels
from pgdrag.model import Treatment
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import HOLD_EVENT, Event, Recordings, Series

_CLEANED_S = {NOTHING: 8.0, "vacuum": 2.0, "vacuum and reindex": 1.0}  # until 1/e is left


@dataclass(frozen=True)
class SimulatedHold:
    """One hold, from the beginning of the window.

    Attributes:
        holder: which kind holds.
        length_s: infinite: until the trial's end.
        cost_per_s: what each second of it adds to the cost of a transaction, as a share of that.
        cleaned_s: after its end, the time in which the added cost falls to 1/e.
        is_made_anew: indexes are, after its end.
    """

    holder: str
    length_s: float
    cost_per_s: float
    cleaned_s: float
    is_made_anew: bool = False

    def times_slower(self, t_s: float) -> float:
        """Return the cost of a transaction at a second of the window, over that without a hold."""
        if t_s <= self.length_s:
            return 1 + self.cost_per_s * t_s
        left = math.exp(-(t_s - self.length_s) / self.cleaned_s)
        return 1 + self.cost_per_s * self.length_s * left

    def recordings(self, samples: Sequence[Sample]) -> Recordings:
        """Return what the factor and collectors would tell of it: the hold, the horizon's age and what it costs."""
        times = tuple(one.t_s for one in samples)
        ages: list[float] = []
        dead: list[float] = []
        bloat: list[float] = []
        committed = grown = 0
        for one in samples:
            is_held = one.t_s <= self.length_s
            committed = committed + one.committed if is_held else 0
            is_made_anew = not is_held and self.is_made_anew
            grown = 0 if is_made_anew else max(grown, committed)
            ages.append(float(committed))
            bloat.append(1 + grown / 10_000)
            kept = dead[-1] if dead else 0.0
            left = math.exp(-one.duration_s / self.cleaned_s)
            dead.append(kept + one.committed / 1000 if is_held else kept * left)
        end_s = min(self.length_s, times[-1] if times else 0.0)
        return Recordings(
            (
                Series("horizon_age_transactions", "age", "count", times, tuple(ages)),
                Series("dead_versions_per_row", "dead versions", "count", times, tuple(dead)),
                Series("bloat_ratio", "bloat", "count", times, tuple(bloat)),
                Event(HOLD_EVENT, 0.0, end_s, f"{self.holder}, session 1"),
            )
        )


def simulated_hold(treatment: Treatment, costs_per_s: Mapping[str, float]) -> SimulatedHold | None:
    """Return what the treatment holds; None without levels of the horizon.

    Args:
        costs_per_s: by the holder's name; a holder that is not named costs nothing.
    """
    levels = hold_levels(treatment)
    if levels.get(HOLDER, NOBODY) == NOBODY:
        return None
    length = levels.get(HOLD, WINDOW)
    return SimulatedHold(
        levels[HOLDER],
        math.inf if length == WINDOW else float(length.removesuffix("s")),
        costs_per_s.get(levels[HOLDER], 0.0),
        _CLEANED_S[levels.get(AFTER, NOTHING)],
        is_made_anew="reindex" in levels.get(AFTER, NOTHING),
    )
