"""What became of what was published: the values that the analysis hands to the report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pgdrag.findings.decay.findings import Direction
from pgdrag.stats.interval import Interval


class Answer(StrEnum):
    """What became of a published number."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    UNTESTABLE = "untestable here"
    INCONCLUSIVE = "inconclusive"
    WRONG = "wrong results here"  # its trials lose updates: its speed is of no matter


@dataclass(frozen=True)
class ClaimFinding:
    """A published ratio beside the one found here; ratios say how many times slower.

    Attributes:
        in_kind: the ratio found of the quantity that was published, where that is not throughput.
    """

    answer: Answer
    published: float | None
    found: Interval | None
    why: str
    in_kind: Interval | None = None


@dataclass(frozen=True)
class SeriesClaimFinding:
    """Published rates over time beside those found here.

    Attributes:
        trend: answer to the published trend; None where none was published.
        found_trend: None where no window was long enough.
        ratio: answer to the published ratio of a later rate to the first; None without one.
        published_ratio, found_ratio: the rate at `to_s` divided by that at `from_s`; the fitted
            one counts from the beginning of the hold.
        from_s, to_s: the middles of the first and the last published interval within 30 s, or within what
            was fitted here, whichever is shorter; None without a ratio.
        why: the reasons, in words.
    """

    trend: Answer | None
    published_trend: Literal["steady", "falling"] | None
    found_trend: Direction | None
    ratio: Answer | None
    published_ratio: float | None
    found_ratio: Interval | None
    from_s: float | None
    to_s: float | None
    why: str


@dataclass(frozen=True)
class OrderedRung:
    """One rung in the order of published rates: what was published, and the fitted rate, at one moment."""

    name: str
    published_per_s: float
    found_per_s: Interval


@dataclass(frozen=True)
class OrderingFinding:
    """Whether the rungs stand in the published order of their rates.

    Attributes:
        at_s: from the beginning, or since the horizon has been held.
        rungs: by their published rates, the fastest first.
        same, opposite, undecided: pairs of names, the one published faster first: found in that order,
            found in the opposite order, and not significantly different; 95 % for all pairs together.
        tau: Kendall's, of published and found rates: 1 is the same order, -1 the opposite one.
        left_out: rungs with published rates that are not among them, and why.
    """

    answer: Answer
    at_s: float
    rungs: tuple[OrderedRung, ...]
    same: tuple[tuple[str, str], ...]
    opposite: tuple[tuple[str, str], ...]
    undecided: tuple[tuple[str, str], ...]
    tau: Interval
    left_out: tuple[str, ...]
