"""What did a bisection find? The values that its report is made of."""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.findings.values import ChangeEffect, Comparison, DesignFinding, Interval

NOT_TESTED = "not tested"


@dataclass(frozen=True)
class GuiltyChange:
    """One change of the set that was found.

    Attributes:
        before, after: its values in the reference and in the target; None: not set there.
        group: that it was tried with first, or "".
        alone: share of the log slowdown that the change alone keeps; None: not tested.
        without: share that the set keeps without it; None: not tested.
        verdict: of the set without it: "loses" (it is needed), "keeps" (by one short trial it is not),
            "unresolved", or "not tested".
    """

    name: str
    before: str | None
    after: str | None
    group: str
    alone: Interval | None
    without: Interval | None
    verdict: str


@dataclass(frozen=True)
class SetTested:
    """One set of changes that was tried, in the order of the first trial.

    Attributes:
        stage: of the search: "ends", "groups" (each alone), "parts" (of groups, alone or with
            what was found), "set" (that adds up to enough), "left out" (of the target), "without one",
            "confirm".
        changes: names of those in the set.
        places: which of all changes they are, counted from 0.
        verdict: "keeps" at least the share wanted, "loses" it, or "unresolved".
        trials: run of it, over the whole bisection.
        full_trials: those of them that had the whole length.
        share: of the log slowdown that it keeps, from all its trials; None without a number.
    """

    stage: str
    changes: tuple[str, ...]
    places: tuple[int, ...]
    verdict: str
    trials: int
    full_trials: int
    share: Interval | None


@dataclass(frozen=True)
class Reverted:
    """The target without some of its changes.

    Attributes:
        changes: names of those that were reverted.
        slowdown: how many times slower than the reference the rest still is; None without a number.
        restored: share of the log slowdown that reverting them restores; None: no number.
        is_enough: it restores at least the share that the set had to keep, as far as the trials tell; where an
            outcome was bisected, it is gone.
    """

    changes: tuple[str, ...]
    slowdown: Interval | None
    restored: Interval | None
    is_enough: bool


@dataclass(frozen=True)
class BisectFinding(DesignFinding):
    """What a bisection found.

    Attributes:
        ending: "found", "under way", "out of trials", "no difference", "the reference has no number" or
            "the target has no number".
        reference, target: names of the two ends.
        changes: names of all that differs between them.
        inert: those that read the same at both ends; left out from the start.
        outcome: what was bisected where the target has no throughput ("did not start", "crashed"); "":
            its throughput was.
        guilty: the set found; empty where there is nothing to find, or nothing was found yet.
        share_wanted: of the log slowdown that the set must keep.
        share: that it keeps, by its full trials; by all trials before it was confirmed. None: no number.
        share_left: 1 less that: what all other changes together add.
        slowdown: how many times slower the target is than the reference; under 1 where it is faster.
        held: the same of the set.
        is_censored: nothing committed on the target: its slowdown, and the shares, are bounds.
        is_confirmed: the set had its full trials.
        reverted: what reverting the set restores, and then reverting what does the same, too.
        also: sets of changes that do the same as the one found: reverting that alone is not enough.
        is_minimal: without any one of its members the set loses.
        tests: every set tried, in order.
        trials: run so far.
        full_trials: those of them that had the whole length.
        trials_most: the limit they were given.
    """

    ending: str
    reference: str
    target: str
    changes: tuple[str, ...]
    inert: tuple[str, ...]
    outcome: str
    guilty: tuple[GuiltyChange, ...]
    share_wanted: float
    share: Interval | None
    share_left: Interval | None
    slowdown: Interval | None
    held: Interval | None
    is_censored: bool
    is_confirmed: bool
    reverted: tuple[Reverted, ...]
    also: tuple[tuple[str, ...], ...]
    is_minimal: bool
    tests: tuple[SetTested, ...]
    trials: int
    full_trials: int
    trials_most: int

    def comparison(self, rung: str) -> Comparison | None:
        """Return the slowdown of the target; nothing of other rungs."""
        if rung != self.target or self.slowdown is None:
            return None
        return Comparison.of(self.slowdown)

    def effects(self) -> tuple[ChangeEffect, ...]:
        if not self.is_confirmed or not self.guilty or self.held is None:
            return ()
        changes = tuple((one.name, one.before, one.after) for one in self.guilty)
        return (ChangeEffect(changes, self.held, "alone"),)
