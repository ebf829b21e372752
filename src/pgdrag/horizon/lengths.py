"""The length of a hold as a level gives it: "window", "30s", or a distribution such as "exponential(20s)"."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import Literal, get_args

from pgdrag.errors import UsageError
from pgdrag.findings.holds.levels import WINDOW
from pgdrag.units import parse_seconds

# Taking and verifying a hold takes some milliseconds.
SHORTEST_S = 0.05
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
