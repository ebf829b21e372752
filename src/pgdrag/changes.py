"""What lies between two treatments? The factors that differ, and treatments with some of them changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgdrag.plan import Level, Treatment


@dataclass(frozen=True)
class Change:
    """One factor's way from the reference to the target.

    Attributes:
        before: its level in the reference; None: not set there, as the server's default.
        after: its level in the target; None: not set there.
    """

    before: Level | None
    after: Level | None

    def __post_init__(self) -> None:
        assert self.before != self.after, f"nothing changes: {self.before}"
        ends = {level.factor for level in (self.before, self.after) if level is not None}
        assert len(ends) == 1, f"one factor, and not {ends}"

    @property
    def factor(self) -> tuple[str, str]:
        """Which factor is changed: its kind and its name."""
        level = self.after or self.before
        assert level is not None
        return level.factor

    @property
    def name(self) -> str:
        """Name of the factor: "random_page_cost"."""
        return self.factor[1]


def changes_between(reference: Treatment, target: Treatment) -> tuple[Change, ...]:
    """Return every factor whose level differs: the target's in its order, then those only unset there."""
    before = {level.factor: level for level in reference.levels}
    after = {level.factor: level for level in target.levels}
    factors = dict.fromkeys([*after, *before])
    return tuple(
        Change(before.get(factor), after.get(factor))
        for factor in factors
        if before.get(factor) != after.get(factor)
    )


def with_changes(reference: Treatment, changes: Iterable[Change], name: str) -> Treatment:
    """Return the reference with these changes made; all of `changes_between` lead to the target."""
    levels = {level.factor: level for level in reference.levels}
    for change in changes:
        if change.after is None:
            levels.pop(change.factor, None)
        else:
            levels[change.factor] = change.after
    return Treatment(name, tuple(levels.values()))
