"""In which order do contestants run, and what do their rounds say of a ratio? Pure."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.stats.distributions import t_multiplier

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A ratio over several rounds.

    Attributes:
        center: geometric mean of the rounds' ratios.
        low, high: Student's t interval on their logarithms; None with fewer than two rounds.
        noise: standard deviation of the logarithms (0.02: rounds differ by about 2 %), or None.
        rounds: how many.
    """

    center: float
    low: float | None
    high: float | None
    noise: float | None
    rounds: int


def orders(names: Sequence[str], rounds: int, seed: int) -> list[list[str]]:
    """Return the order of each round: a random one, then its reverse, then another random one …

    Over such a pair of rounds every contestant has the same mean position, so that a drift of
    the machine that is a straight line cancels.
    """
    rng = random.Random(seed)
    drawn: list[list[str]] = []
    while len(drawn) < rounds:
        order = list(names)
        rng.shuffle(order)
        drawn += [order, order[::-1]]
    return drawn[:rounds]


def paired_ratio(
    subject: Sequence[float], peer: Sequence[float], *, confidence: float = CONFIDENCE
) -> Ratio:
    """Estimate subject / peer from values that were measured in the same rounds.

    Args:
        subject: one positive value a round.
        peer: the peer's value of the same round.
        confidence: coverage of the interval over further rounds.
    """
    assert len(subject) == len(peer) >= 1, "one value of both in every round"
    logs = [math.log(a / b) for a, b in zip(subject, peer, strict=True)]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None, None, 1)
    noise = statistics.stdev(logs)
    half = t_multiplier(confidence, len(logs) - 1) * noise / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), noise, len(logs))
