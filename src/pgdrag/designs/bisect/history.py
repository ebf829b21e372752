"""Which sets of changes were tried so far, what were the results, and what do they show?"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pgdrag.designs._subsets import Changes, Observed, Request
from pgdrag.designs.bisect.sequential_test import LogValue, SetVerdict, Threshold, commits
from pgdrag.findings.readings import Reading

T = TypeVar("T")


# A part of the procedure: it yields the trials to run next, and reads their results from the history.
Steps = Generator[Request, None, T]


@dataclass
class SetTest:
    """A set that was tried.

    Attributes:
        stage: of the procedure when it was first tried: "ends", "groups", "parts", "set", "left out",
            "without one" or "confirm".
        verdict: at the time; a set tried only to measure it has the verdict of those trials.
    """

    stage: str
    verdict: SetVerdict = SetVerdict.UNRESOLVED


class History:
    """All results so far, and the budget.

    Args:
        count: how many changes there are.
        limit: trials at most, all together.

    Attributes:
        replicates: how many trials the laboratory runs for each one wanted.
        tests: every set tried, in the order of the first trial.
        reserved: trials kept back for the confirmation.
    """

    def __init__(self, count: int, limit: int) -> None:
        self.none: Changes = frozenset()
        self.all: Changes = frozenset(range(count))
        self.limit = limit
        self.replicates = 1
        self.results: list[Observed] = []
        self.stage = "ends"
        self.tests: dict[Changes, SetTest] = {}
        self.reserved = 0
        self.known_threshold: Threshold | None = None
        self.has_slow_target = False

    @property
    def threshold(self) -> Threshold:
        """The threshold as the trials so far have it."""
        assert self.known_threshold is not None, "the ends come first"
        return self.known_threshold

    @property
    def left(self) -> int:
        """Trials that may still be asked for, those reserved left out."""
        return (self.limit - len(self.results)) // self.replicates - self.reserved

    def add(self, results: Sequence[Observed]) -> None:
        """Take the results of the trials wanted last."""
        self.results += results
        for result in results:
            test = self.tests.setdefault(result.changes, SetTest(self.stage))
            if self.known_threshold is not None:
                test.verdict = self.verdict(result.changes)

    def of(self, subset: Changes, *, is_brief: bool | None = None) -> list[Observed]:
        """Return the results of one set; `is_brief`: only of short trials, or only of full ones."""
        return [x for x in self.results if x.changes == subset and is_brief in (None, x.is_brief)]

    def readings(self, subset: Changes, *, is_brief: bool | None = None) -> list[Reading]:
        """Return those that have a number."""
        return [x.reading for x in self.of(subset, is_brief=is_brief) if x.reading is not None]

    def judged(self, subset: Changes) -> list[Reading]:
        """Return the readings that a set is judged by: of one length, since the two need not agree.

        Short ones; with a slow target full ones where there are any, except of the reference.
        """
        brief, full = (self.readings(subset, is_brief=x) for x in (True, False))
        return (full or brief) if self.has_slow_target and subset else (brief or full)

    def commits(self, subset: Changes) -> float:
        """Return how many commits the short trials of a set are worth."""
        return commits(self.readings(subset, is_brief=True))

    def effect(self, subset: Changes) -> LogValue | None:
        """Return how far a set comes on the way to the target; None without a number."""
        if subset == self.none:
            return LogValue(0.0, 0.0)
        readings = self.judged(subset)
        return self.threshold.effect(readings) if readings else None

    def verdict(self, subset: Changes) -> SetVerdict:
        """Return what the sequential test says of a set so far."""
        return self.threshold.verdict(self.judged(subset))
