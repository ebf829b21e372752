"""When is the horizon held in a trial, by whom and for how long? Planned before it, from a seed alone."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal, Protocol

from pgdrag.horizon.lengths import SHORTEST_S, HoldLength

Pattern = Literal["once", "repeated", "shifting"]
PATTERNS: tuple[Pattern, ...] = ("once", "repeated", "shifting")


@dataclass(frozen=True)
class Hold:
    """One planned hold.

    Attributes:
        begin_s: from the window's begin; below 0: before it.
        length_s: inf: until the trial's end.
        holder: which kind holds.
    """

    begin_s: float
    length_s: float
    holder: str

    @property
    def end_s(self) -> float:
        """When it is released, in seconds from the window's begin."""
        return self.begin_s + self.length_s


class HoldSource(Protocol):
    """What holds are drawn from."""

    def draw(self, rng: random.Random) -> tuple[str, float]:
        """Return which kind holds, and for how many seconds."""


class CapturedHolds(HoldSource, Protocol):
    """What was captured elsewhere, and is to happen again."""

    def draw_gap(self, rng: random.Random) -> float:
        """Return the time from the begin of a hold to that of the next, in seconds."""


@dataclass(frozen=True)
class OneKind:
    """Holds by one kind of holder, their lengths from one distribution."""

    holder: str
    length: HoldLength

    def draw(self, rng: random.Random) -> tuple[str, float]:
        """Return the next one."""
        return self.holder, self.length.draw(rng)


def schedule(
    source: HoldSource,
    pattern: Pattern,
    *,
    begin_s: float,
    end_s: float,
    holders: int,
    seed: int,
) -> tuple[Hold, ...]:
    """Return the holds that begin before `end_s`, in the order of their begins.

    Args:
        source: lengths and kinds are drawn from it.
        pattern: "once": all of `holders` begin at once, and none after them; "repeated": so many
            hold one after the other, each next when the last ends; "shifting": each begins when the
            one before has held for its share, one `holders`-th, of its length, so that the oldest
            that is held moves on, but never all the way.
        begin_s: of the first; 0 is the begin of the measured window.
        end_s: of the load.
        holders: how many hold at once; shifting takes two at least.
        seed: the same gives the same holds.
    """
    assert holders >= (2 if pattern == "shifting" else 1), (pattern, holders)
    rng = random.Random(seed)
    if pattern == "shifting":
        return _chain(source, begin_s, end_s, 1 / holders, rng)
    lanes: list[Hold] = []
    for _ in range(holders):
        chain = (
            _chain(source, begin_s, end_s, 1.0, rng)
            if pattern == "repeated"
            else (_drawn(source, begin_s, rng),)
        )
        lanes += chain
    return tuple(sorted(lanes, key=lambda hold: (hold.begin_s, hold.end_s)))


def replay(source: CapturedHolds, *, begin_s: float, end_s: float, seed: int) -> tuple[Hold, ...]:
    """Return holds as they were captured, lengths, kinds and gaps, those that begin before `end_s`."""
    rng = random.Random(seed)
    holds = []
    while begin_s < end_s:
        holds.append(_drawn(source, begin_s, rng))
        begin_s += max(source.draw_gap(rng), SHORTEST_S)
    return tuple(holds)


def _chain(
    source: HoldSource, begin_s: float, end_s: float, share: float, rng: random.Random
) -> tuple[Hold, ...]:
    """Return holds, each of which begins when the one before has held for a share of its length."""
    holds: list[Hold] = []
    while begin_s < end_s:
        holds.append(_drawn(source, begin_s, rng))
        begin_s = begin_s + share * holds[-1].length_s
    return tuple(holds)


def _drawn(source: HoldSource, begin_s: float, rng: random.Random) -> Hold:
    holder, length_s = source.draw(rng)
    assert length_s > 0, "a hold has a length"
    return Hold(begin_s, max(length_s, SHORTEST_S) if math.isfinite(length_s) else math.inf, holder)
