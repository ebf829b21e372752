"""What did a search for a boundary find? The values that its report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pgdrag.designs.boundary.curve import Knee
from pgdrag.findings.values import DesignFinding, Interval

NOTHING_TO_SEARCH = "nothing to search"


@dataclass(frozen=True)
class ValueTried:
    """One value of the setting.

    Attributes:
        value: as it was written.
        size: as a number, in bytes or seconds where it has a unit; None: it is none.
        worked, failed: trials in which something was committed, and in which nothing was.
        outcomes: how its trials ended, by outcome.
        reason: why the last one that failed did; "" where none did.
        tps: committed transactions/s of its full trials; None where there is none.
    """

    value: str
    size: float | None
    worked: int
    failed: int
    outcomes: dict[str, int]
    reason: str
    tps: Interval | None


@dataclass(frozen=True)
class BoundaryFinding(DesignFinding):
    """What a search for a boundary found.

    Attributes:
        setting: its name.
        state: "searching", "found", "all values work", "no value works" or "nothing to search".
        smallest: the smallest value that works; None where it is not known.
        failing: the next smaller one, which does not; None where all work, or it is not known.
        values: every candidate that was tried, ascending.
        candidates: how many there were.
        curve: where it has its knee.
    """

    # What is tried are values of the setting, and no rung.
    has_rungs: ClassVar[bool] = False

    setting: str
    state: str
    smallest: str | None
    failing: str | None
    values: tuple[ValueTried, ...]
    candidates: int
    curve: Knee
