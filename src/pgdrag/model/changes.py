"""What lies between two treatments? The factors that differ, and treatments with some of them changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pgdrag.english import cut
from pgdrag.model import Level, Treatment

_NAME_LENGTH = 60  # of a treatment, at most


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


def subset_treatment(
    reference: Treatment, target: Treatment, changes: Sequence[Change], subset: AbstractSet[int]
) -> Treatment:
    """Return the reference with some of the changes, named so that a person knows which.

    Args:
        changes: all from the reference to the target.
        subset: which of them, counted from 0; none gives the reference and all give the target.
    """
    if not subset:
        return reference
    if len(subset) == len(changes):
        return target
    chosen = [change for at, change in enumerate(changes) if at in subset]
    left_out = [change.name for at, change in enumerate(changes) if at not in subset]
    if len(chosen) == 1:
        name = _shortened(reference.name, f" with {chosen[0].name}")
    elif len(left_out) == 1:
        name = _shortened(target.name, f" without {left_out[0]}")
    else:
        name = _subset_name([change.name for change in chosen], len(changes))
    return with_changes(reference, chosen, name)


def _subset_name(names: Sequence[str], count: int) -> str:
    """Return `2 of 9: jit, work_mem`, or as many names as have room and what tells it from others."""
    start = f"{len(names)} of {count}: "
    if len(name := start + ", ".join(names)) <= _NAME_LENGTH:
        return name
    digest = hashlib.sha256(" ".join(names).encode()).hexdigest()[:6]
    beginnings = [names[:shown] for shown in range(len(names) - 1, 0, -1)]
    for some in (*beginnings, [min(names, key=len)]):
        rest = f" and {len(names) - len(some)} more ({digest})"
        if len(name := start + ", ".join(some) + rest) <= _NAME_LENGTH:
            return name
    return f"{start}{digest}"


def _shortened(label: str, rest: str) -> str:
    """Join the two; where that is too long the label loses its end, and then the rest does."""
    room = max(_NAME_LENGTH - len(rest), 12)
    return cut(cut(label, room) + rest, _NAME_LENGTH)
