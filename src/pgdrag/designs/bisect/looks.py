"""Which sets of changes were looked at so far, what came of them, and what does that say?"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from pgdrag.designs.bisect.oracle import Estimate, Threshold, Verdict, commits
from pgdrag.designs.bisect.pieces import Subset
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome


@dataclass(frozen=True)
class Look:
    """One trial that is wanted: the reference with a subset of the changes."""

    subset: Subset
    is_brief: bool = True


@dataclass(frozen=True)
class Shot:
    """What came of one trial: its reading, or None and the outcome that says why."""

    look: Look
    reading: Reading | None
    outcome: Outcome


@dataclass
class Test:
    """A set that was tried, in the order of the first trial.

    Attributes:
        stage: what the search was at: "ends", "groups", "parts", "set", "left out",
            "without one" or "confirm".
        verdict: at the time; a set that was looked at for its size alone has the verdict of one trial.
    """

    subset: Subset
    stage: str
    verdict: Verdict = Verdict.UNRESOLVED
    trials: int = 0


Wanted = Generator[tuple[Look, ...], None, None]


class Book:
    """Everything that a search was told.

    Args:
        count: how many changes there are.
        limit: trials at most, all together.
        replicates: how many trials come of one that is asked for.
    """

    def __init__(self, count: int, limit: int, replicates: int = 1) -> None:
        self.none: Subset = frozenset()
        self.all: Subset = frozenset(range(count))
        self.limit = limit
        self.replicates = replicates
        self.shots: list[Shot] = []
        self.stage = "ends"
        self.tests: dict[Subset, Test] = {}
        self.reserved = 0
        self.threshold: Threshold | None = None
        self.has_slow_target = False

    @property
    def left(self) -> int:
        """Looks that may still be asked for, those kept back left out."""
        return (self.limit - len(self.shots)) // self.replicates - self.reserved

    def add(self, shots: Sequence[Shot]) -> None:
        """Note what came of the looks asked for last."""
        self.shots += shots
        for shot in shots:
            test = self.tests.setdefault(shot.look.subset, Test(shot.look.subset, self.stage))
            test.trials += 1
        if self.threshold is not None:
            for shot in shots:
                self.tests[shot.look.subset].verdict = self.verdict(shot.look.subset)

    def of(self, subset: Subset, *, is_brief: bool | None = None) -> list[Shot]:
        """Return the shots of one set."""
        return [
            x
            for x in self.shots
            if x.look.subset == subset and (is_brief is None or x.look.is_brief == is_brief)
        ]

    def readings(self, subset: Subset, *, is_brief: bool | None = None) -> list[Reading]:
        """Return those that have a number."""
        return [x.reading for x in self.of(subset, is_brief=is_brief) if x.reading is not None]

    def judged(self, subset: Subset) -> list[Reading]:
        """Return the readings that a set is judged by: of one length, since the two need not agree.

        Short ones; with a slow target full ones where there are any, but of the reference.
        """
        brief, full = (self.readings(subset, is_brief=x) for x in (True, False))
        return (full or brief) if self.has_slow_target and subset else (brief or full)

    def commits(self, subset: Subset) -> float:
        """Return how many commits the short trials of a set are worth."""
        return commits(self.readings(subset, is_brief=True))

    def effect(self, subset: Subset) -> Estimate | None:
        """Return how far a set comes on the way to the target; None without a number."""
        assert self.threshold is not None, "nothing to measure against yet"
        if subset == self.none:
            return Estimate(0.0, 0.0)
        readings = self.judged(subset)
        return self.threshold.effect(readings) if readings else None

    def verdict(self, subset: Subset) -> Verdict:
        """Return what the sequential test says of a set so far."""
        assert self.threshold is not None, "nothing to measure against yet"
        return self.threshold.verdict(self.judged(subset))
