"""Which statements does a treatment plan in another way, and which of its changes are guilty?

A change is *enough* where it alone makes a plan of another form, and *needed* where the new plan does not come about
without it. One that wants a partner is needed and not enough; one of two that do the same is enough and not needed.
Where none is either, changes are left out one by one as long as the new plan stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pgdrag.findings.plan_diff import plan_diff
from pgdrag.model.recordings import Plan

Subset = frozenset[int]
# Returns the plan of a statement, by its number, with some of the changes; or why there is none.
Planner = Callable[[int, Subset], Plan | str]


@dataclass(frozen=True)
class PlannedChange:
    """One thing that the treatment changes: a line of its file, or the server's version.

    Attributes:
        before, after: its value; "default" where nobody sets it.
        place: where it stands: "my.conf:12", or "".
    """

    name: str
    before: str
    after: str
    place: str = ""


@dataclass(frozen=True)
class GuiltyChange:
    """A change that makes a plan another one.

    Attributes:
        is_enough: with this change alone the plan is not the former one.
        is_needed: without it the plan is not the new one.
    """

    change: PlannedChange
    is_enough: bool
    is_needed: bool

    @property
    def words(self) -> str:
        """How it takes part, in words."""
        if self.is_enough:
            return "alone" if self.is_needed else "alone; another change does the same"
        return "together with others"


@dataclass(frozen=True)
class ExplainedStatement:
    """A statement of the twin, as reports name it.

    Attributes:
        number: the twin's.
        share: of the time that all statements of the twin took.
    """

    number: int
    text: str
    calls: int
    mean_ms: float
    share: float


@dataclass(frozen=True)
class PlanFlip:
    """A statement whose plan has another form under the treatment.

    Attributes:
        words: how it differs.
        guilty: the changes that make the difference; those that are enough first.
    """

    statement: ExplainedStatement
    before: Plan
    after: Plan
    words: str
    guilty: tuple[GuiltyChange, ...]


@dataclass(frozen=True)
class Unplanned:
    """A statement without a plan on one side at least, and why.

    Attributes:
        is_lost: it has a plan without the changes.
    """

    statement: ExplainedStatement
    reason: str
    is_lost: bool = False


@dataclass(frozen=True)
class PlanFlips:
    """What a treatment does to a twin's plans.

    Attributes:
        changes: what it changes and the planner reads.
        unchanged: how many statements keep their plan's form.
    """

    changes: tuple[PlannedChange, ...]
    flips: tuple[PlanFlip, ...]
    unchanged: int
    unplanned: tuple[Unplanned, ...]

    @property
    def lost(self) -> tuple[Unplanned, ...]:
        """The statements that have a plan only without the changes."""
        return tuple(one for one in self.unplanned if one.is_lost)

    @property
    def flipped_share(self) -> float:
        """The share of the load that statements with another plan have."""
        return sum(one.statement.share for one in self.flips)


def find_flips(
    statements: Sequence[ExplainedStatement], changes: Sequence[PlannedChange], planner: Planner
) -> PlanFlips:
    """Return the statements that all changes together plan in another way, the largest share of the load first.

    The planner is asked subset by subset: setting a session's settings takes longer than planning.
    """
    nothing, everything = frozenset[int](), frozenset(range(len(changes)))
    before = {one.number: planner(one.number, nothing) for one in statements}
    after = {one.number: planner(one.number, everything) for one in statements}
    flipped: dict[int, tuple[Plan, Plan]] = {}
    unplanned = []
    for one in statements:
        was, now = before[one.number], after[one.number]
        if isinstance(was, str) or isinstance(now, str):
            unplanned.append(Unplanned(one, _reason(was, now), not isinstance(was, str)))
        elif not is_alike(was, now):
            flipped[one.number] = was, now
    guilty = _guilty(flipped, changes, planner)
    flips = [
        PlanFlip(one, *flipped[one.number], plan_diff(*flipped[one.number]), guilty[one.number])
        for one in statements
        if one.number in flipped
    ]
    flips.sort(key=lambda flip: -flip.statement.share)
    unchanged = len(statements) - len(flips) - len(unplanned)
    return PlanFlips(tuple(changes), tuple(flips), unchanged, tuple(unplanned))


def is_alike(one: Plan | str, other: Plan | str) -> bool:
    """Tell whether two plans have the same form; no plan is like no other."""
    if isinstance(one, str) or isinstance(other, str):
        return False
    return not plan_diff(one, other)


def _reason(was: Plan | str, now: Plan | str) -> str:
    if isinstance(was, str):
        return was
    return f"only with the changes: {now}"


def _guilty(
    flipped: Mapping[int, tuple[Plan, Plan]], changes: Sequence[PlannedChange], planner: Planner
) -> Mapping[int, tuple[GuiltyChange, ...]]:
    everything = frozenset(range(len(changes)))
    enough: dict[int, set[int]] = {number: set() for number in flipped}
    needed: dict[int, set[int]] = {number: set() for number in flipped}
    for at in sorted(everything):
        for subset, found, side in ((frozenset({at}), enough, 0), (everything - {at}, needed, 1)):
            for number, plans in flipped.items():
                if not is_alike(plans[side], planner(number, subset)):
                    found[number].add(at)
    return {
        number: tuple(
            GuiltyChange(changes[at], at in enough[number], at in needed[number])
            for at in sorted(
                enough[number] | needed[number] or _group(number, now, everything, planner),
                key=lambda at: (at not in enough[number], at not in needed[number], at),
            )
        )
        for number, (_, now) in flipped.items()
    }


def _group(number: int, now: Plan, everything: Subset, planner: Planner) -> AbstractSet[int]:
    """Return a minimal set of changes that makes the new plan: the others are left out one by one."""
    kept = everything
    for at in sorted(everything):
        if is_alike(now, planner(number, kept - {at})):
            kept = kept - {at}
    return kept


@dataclass(frozen=True)
class TwinPlans:
    """What a treatment does to the plans of a twin.

    Attributes:
        twin: the file's name.
        captured_on: the day.
        source_version: of the original's server.
        before, after: what the two sides are called.
        same: settings of the treatment that the original has, too.
        not_read: settings of the treatment that the planner does not read.
        utilities: how many statements are of a kind that has no plan.
        not_planned_share: the share of the load that is not in the statements that have a plan.
        notes: what the plan twin has not of the original, as clauses.
    """

    twin: str
    captured_on: str
    source_version: str
    before: str
    after: str
    flips: PlanFlips
    same: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()
    utilities: int = 0
    not_planned_share: float = 0.0
    notes: tuple[str, ...] = ()
