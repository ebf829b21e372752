"""What do designs share that try sets of the changes from a reference to a target?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pgdrag.designs import Design, DesignParameters
from pgdrag.english import counted
from pgdrag.findings.quantities import Quantity, quantities
from pgdrag.findings.readings import Reading, reading
from pgdrag.model import Block, Outcome, Result, Rung, Treatment
from pgdrag.model.changes import changes_between, subset_treatment

_MOST_NAMED = 2  # changes, in a line of progress
T = TypeVar("T")
Changes = frozenset[int]  # places of some of the changes: none is the reference, all are the target


@dataclass(frozen=True)
class Request:
    """One block of trials: sets of changes applied to the reference; a set may occur repeatedly."""

    sets: tuple[Changes, ...]
    is_brief: bool


@dataclass(frozen=True)
class Observed:
    """One finished trial.

    Attributes:
        reading: None where it has no number.
        quantities: what else was measured of it, see `findings.quantities`.
    """

    changes: Changes
    is_brief: bool
    reading: Reading | None
    outcome: Outcome
    quantities: Mapping[str, Quantity] = field(default_factory=dict)


# A part of a search: it yields the trials to run next, and reads their results from its history.
Steps = Generator[Request, None, T]


def few_that_keep(
    line: Sequence[int], keeps: Callable[[Changes], Steps[bool]], *, most: int | None = None
) -> Steps[tuple[Changes, bool]]:
    """Find few changes of a line that keep what all of them keep, and tell whether these do.

    The shortest prefix that keeps it ends with a change that is needed; the same is done with what stands
    before it, until the changes found keep it by themselves: about log2(changes) tests for each.

    Args:
        keeps: asks for trials of a set, and tells whether it keeps that.
        most: give up when this many changes do not keep it; None: never.
    """
    found, rest, is_enough = frozenset[int](), list(line), False
    while rest and not is_enough and (most is None or len(found) < most):
        low, high = 0, len(rest)  # the first `low` do not keep it, the first `high` do
        while high - low > 1:
            middle = (low + high) // 2
            is_kept = yield from keeps(found | {*rest[:middle]})
            low, high = (low, middle) if is_kept else (middle, high)
        found, rest = found | {rest[high - 1]}, rest[: high - 1]
        is_enough = yield from keeps(found)
    return found, is_enough


class Searching(Protocol):
    """A search among numbered changes; `request` is the next block, and None when the search is over."""

    request: Request | None


class SubsetDesign(Design):
    """A design between the first rung and the last; rungs between them are ignored.

    Attributes:
        reference, target: treatments of those two rungs.
        changes: what differs between them.
        procedure: the search among the changes, by their places.
    """

    procedure: Searching

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.reference, self.target = rungs[0].treatment, rungs[-1].treatment
        self.changes = changes_between(self.reference, self.target)
        self._sets: dict[str, Changes] = {}

    def label(self, treatment: Treatment) -> str:
        """Return `with jit` or `without jit` for one that differs from an end in a single change."""
        ends = (self.reference, self.target)
        start = next((f"{x.name} " for x in ends if treatment.name.startswith(f"{x.name} ")), "")
        return treatment.name.removeprefix(start)

    def ask(self) -> Block:
        request = self.procedure.request
        if request is None:
            return Block()
        return Block(tuple(map(self.treatment, request.sets)), is_brief=request.is_brief)

    def treatment(self, changes: Changes) -> Treatment:
        """Return the reference with some of the changes, named for people."""
        made = subset_treatment(self.reference, self.target, self.changes, changes)
        self._sets[made.identity] = changes
        return made

    def names(self, changes: Iterable[int]) -> tuple[str, ...]:
        """Return the names of some changes, in their order."""
        return tuple(self.changes[at].name for at in sorted(changes))

    def suspects_so_far(self, stage: str, changes: Iterable[int]) -> str:
        """Return `screening, 5 suspects so far: jit, work_mem …`, for a line of progress."""
        names = self.names(changes)
        if not names:
            return f"{stage}, no suspect so far"
        more = " …" if len(names) > _MOST_NAMED else ""
        shown = ", ".join(names[:_MOST_NAMED])
        return f"{stage}, {counted(len(names), 'suspect')} so far: {shown}{more}"

    def observed(self, results: Iterable[Result]) -> list[Observed]:
        """Return results by the sets of changes that their treatments are."""
        return [
            Observed(
                self._changes_of(one.trial.treatment),
                one.trial.is_brief,
                reading(one),
                one.outcome,
                quantities(one),
            )
            for one in results
        ]

    def _changes_of(self, treatment: Treatment) -> Changes:
        known = self._sets.get(treatment.identity)
        if known is not None:
            return known
        # An older pgdrag asked for it.
        levels = {*treatment.levels}
        return frozenset(
            at
            for at, one in enumerate(self.changes)
            if (one.after in levels if one.after else one.before not in levels)
        )
