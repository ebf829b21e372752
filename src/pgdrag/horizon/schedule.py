"""When is the horizon held in a trial, by whom and for how long? Planned before it, from a seed alone.

A hold's length is what a level says: "window", "30s", or a distribution such as "exponential(20s)".
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from pgdrag.errors import UsageError
from pgdrag.findings.holds.distribution import HoldDistribution
from pgdrag.findings.holds.levels import WINDOW
from pgdrag.units import parse_seconds

# Taking and verifying a hold takes some milliseconds.
SHORTEST_S = 0.05
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


# Draws the next hold: which kind of holder, and for how many seconds.
Draw = Callable[[random.Random], tuple[str, float]]


def schedule(
    draw: Draw, pattern: Pattern, *, begin_s: float, end_s: float, holders: int, seed: int
) -> tuple[Hold, ...]:
    """Return the first hold of each lane, and those that begin before `end_s`, in the order of their begins.

    Args:
        draw: gives their kinds and lengths.
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
    # The share of its length for which a hold is held when the next of its lane begins.
    share = {"once": math.inf, "repeated": 1.0, "shifting": 1 / holders}[pattern]
    holds: list[Hold] = []
    for _ in range(1 if pattern == "shifting" else holders):
        holds.append(_drawn(draw, begin_s, rng))
        while (next_s := holds[-1].begin_s + share * holds[-1].length_s) < end_s:
            holds.append(_drawn(draw, next_s, rng))
    return tuple(sorted(holds, key=lambda hold: (hold.begin_s, hold.end_s)))


def replay(
    source: HoldDistribution, *, begin_s: float, end_s: float, seed: int
) -> tuple[Hold, ...]:
    """Return holds as they were captured, lengths, kinds and gaps, those that begin before `end_s`."""
    rng = random.Random(seed)
    holds = []
    while begin_s < end_s:
        holds.append(_drawn(source.draw, begin_s, rng))
        begin_s += max(source.draw_gap(rng), SHORTEST_S)
    return tuple(holds)


def _drawn(draw: Draw, begin_s: float, rng: random.Random) -> Hold:
    holder, length_s = draw(rng)
    assert length_s > 0, "a hold has a length"
    return Hold(begin_s, max(length_s, SHORTEST_S), holder)


FORMS = '"window", "30s", "exponential(20s)", "uniform(5s, 60s)" or "lognormal(20s, 1.5)"'
_CALL = re.compile(r"\s*([a-z]+)\s*\(([^()]*)\)\s*")
Distribution = Literal["exponential", "uniform", "lognormal"]
_DISTRIBUTIONS: dict[str, Distribution] = {name: name for name in get_args(Distribution)}


@dataclass(frozen=True)
class HoldLength:
    """How long one hold lasts.

    Attributes:
        numbers: of "fixed" the seconds; of "exponential" the mean; of "uniform" the shortest and the
            longest; of "lognormal" the median, and the standard deviation of the logarithm.
    """

    kind: Literal["window", "fixed"] | Distribution
    numbers: tuple[float, ...] = ()

    @property
    def is_endless(self) -> bool:
        """Whether it lasts until the trial's end."""
        return self.kind == WINDOW

    def draw(self, rng: random.Random) -> float:
        """Return the seconds of one hold, at least `SHORTEST_S`; inf: until the trial's end."""
        match self.kind:
            case "window":
                return math.inf
            case "fixed":
                seconds = self.numbers[0]
            case "exponential":
                seconds = rng.expovariate(1 / self.numbers[0])
            case "uniform":
                seconds = rng.uniform(*self.numbers)
            case "lognormal":
                median, sigma = self.numbers
                seconds = median * math.exp(rng.gauss(0.0, sigma))
        return max(seconds, SHORTEST_S)


def parse_length(text: str) -> HoldLength:
    """Return what a level's text means.

    Raises:
        UsageError: it is none of the forms, or a number is out of its bounds.
    """
    if text.strip() == WINDOW:
        return HoldLength(WINDOW)
    call = _CALL.fullmatch(text)
    if call is None:
        return HoldLength("fixed", (_seconds(text, text),))
    kind = _DISTRIBUTIONS.get(call[1])
    if kind is None:
        raise _wrong(text, f'unknown distribution "{call[1]}"')
    parts = [part.strip() for part in call[2].split(",")]
    wanted = 1 if kind == "exponential" else 2
    if len(parts) != wanted or not all(parts):
        raise _wrong(text, f"{kind} takes {wanted} number{'s' if wanted > 1 else ''}")
    if kind == "lognormal":
        return HoldLength(kind, (_seconds(parts[0], text), _sigma(parts[1], text)))
    numbers = tuple(_seconds(part, text) for part in parts)
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise _wrong(text, f"{parts[0]} is longer than {parts[1]}")
    return HoldLength(kind, numbers)


def _seconds(part: str, text: str) -> float:
    try:
        seconds = parse_seconds(part)
    except UsageError as error:
        raise _wrong(text, error.message) from None
    if seconds < SHORTEST_S:
        raise _wrong(text, f"{part.strip()} is shorter than {SHORTEST_S:g} s, the shortest hold")
    return seconds


def _sigma(part: str, text: str) -> float:
    try:
        sigma = float(part)
    except ValueError:
        raise _wrong(text, f'"{part}" is not a number') from None
    if not 0 < sigma <= 10:
        raise _wrong(text, "the standard deviation of the logarithm must be above 0 and at most 10")
    return sigma


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f'"{text}" is not a length of a hold: {why}', hint=f"Use {FORMS}.")
