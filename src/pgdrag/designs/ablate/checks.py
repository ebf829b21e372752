"""Is a guilty change lost among those that neither look shows? Two checks, and a hunt where one fails.

(a and b) or c: alone only c does anything, and in company nothing does. So the survivors alone must be as
slow as the target, and all other changes together as fast as the reference. Where they are not,
halving finds a small group among the others that makes the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.designs.ablate.book import AblationOptions, Wanted
from pgdrag.designs.ablate.labels import Effect, effect
from pgdrag.designs.ablate.subset_values import REFERENCE, Changes, SubsetValues

_TRIALS = 3  # of each check; as many again where it fails: a hunt is dear
_P = 0.01
_HUNTS = 3
_GROUP_MAX = 4  # a group larger than that is no group, but many small effects
_HUNT_TRIALS_MAX = 4  # of one set; a gap that takes more is not worth a hunt

Want = Callable[[Sequence[Changes]], Iterator[Wanted]]


@dataclass(frozen=True)
class Check:
    """One check that no guilty change was lost.

    Attributes:
        is_alone: the others alone against the reference; else the target against the survivors.
        found: what is missing, as an effect; None: unknown.
        is_passed: None where it could not be told.
    """

    is_alone: bool
    found: Effect | None
    is_passed: bool | None


@dataclass(frozen=True)
class Group:
    """Changes that a hunt found: together, upon a set, they make most of the difference.

    Attributes:
        upon: empty: the reference.
    """

    upon: Changes
    members: tuple[int, ...]


class Inquest:
    """Checks the survivors, and hunts for what is missing.

    Args:
        values: the trials that it goes by.
        want: asks for a block of such trials.
        whole: the changes of the target.
        chosen: the survivors of the screening.
        p_values: of every change: how likely by chance is the more telling of its looks.

    Attributes:
        checks: the last two.
        groups: what the hunts found.
        is_diffuse: a check failed, and no small group of changes is the reason.
    """

    def __init__(
        self,
        values: SubsetValues,
        want: Want,
        options: AblationOptions,
        whole: Changes,
        chosen: Changes,
        p_values: Mapping[int, float],
    ) -> None:
        self.checks: tuple[Check, ...] = ()
        self.groups: tuple[Group, ...] = ()
        self.is_diffuse = False
        self._values = values
        self._want = want
        self._options = options
        self._whole = whole
        self._chosen = chosen
        self._p_values = p_values

    @property
    def found(self) -> Changes:
        """The changes that only the hunts brought to light."""
        return frozenset(member for group in self.groups for member in group.members)

    @property
    def survivors(self) -> Changes:
        """The changes that go on."""
        return self._chosen | self.found

    def run(self) -> Iterator[Wanted]:
        """Ask for blocks until both checks pass, or hunting finds no more."""
        for hunt in range(_HUNTS + 1):
            yield from self._measure(_TRIALS)
            if any(one.is_passed is False for one in self.checks):
                yield from self._measure(2 * _TRIALS)
            failed = [one for one in self.checks if one.is_passed is False]
            if not failed or self.is_diffuse or hunt == _HUNTS:
                return
            # Upon the reference a group shows best: nothing else is there to mask it.
            is_alone = any(one.is_alone for one in failed)
            yield from self._hunt(REFERENCE if is_alone else self.survivors)

    # --- checks --------------------------------------------------------------------------------

    @property
    def _others(self) -> Changes:
        return self._whole - self.survivors

    def _measure(self, trials: int) -> Iterator[Wanted]:
        ends = (REFERENCE, self._whole)
        sets = [one for one in (self.survivors, self._others) if one not in ends]
        wanted = [one for one in sets for _ in range(trials - self._values.trials(one))]
        yield from self._want([*ends, *wanted] if wanted else [])
        self.checks = self._check()

    def _check(self) -> tuple[Check, ...]:
        noise = self._values.noise
        reference, target, survivors, others = (
            self._values.value(one)
            for one in (REFERENCE, self._whole, self.survivors, self._others)
        )
        missing = effect(survivors, target, noise)
        alone = effect(reference, others, noise)
        whole = effect(reference, target, noise)
        # Small beside the whole, and in the noise of a slow target: the share of the others tells.
        size = 0.0 if whole is None or math.isinf(whole.center) else abs(whole.center)
        matters = self._options.matters
        at_least = max(matters, self._options.share_precision * size)
        return (
            Check(False, missing, _is_passed(missing, at_least)),
            Check(True, alone, _is_passed(alone, matters)),
        )

    # --- the hunt ------------------------------------------------------------------------------

    def _hunt(self, base: Changes) -> Iterator[Wanted]:
        """Find a small group among the others that makes the difference upon `base`.

        The shortest beginning of the list that does it ends with a member; with that one taken for
        granted, the same again within what stood before it, until the members do it by themselves.
        """
        pool = self._by_suspicion()
        members: list[int] = []
        gap = _Gap(self._values, base, base | self._others)
        while gap.is_wide and pool and len(members) < _GROUP_MAX:
            low, high = 0, len(pool)  # the first `low` do not do it, the first `high` do
            while high - low > 1:
                middle = (low + high) // 2
                upon = base | {*members, *pool[:middle]}
                yield from self._want([upon] * gap.trials_wanted(upon))
                low, high = (low, middle) if gap.is_closed(upon) else (middle, high)
            members.append(pool[high - 1])
            pool = pool[: high - 1]
            upon = base | {*members}
            yield from self._want([upon] * gap.trials_wanted(upon))
            if gap.is_closed(upon):
                self.groups += (Group(base, tuple(sorted(members))),)
                return
        self.is_diffuse = True

    def _by_suspicion(self) -> list[int]:
        return sorted(self._others, key=lambda change: (self._p_values[change], change))


class _Gap:
    """Tells on which side of the middle between two sets' values a third one stands.

    Attributes:
        is_wide: a few trials of a set are enough to tell.
    """

    def __init__(self, values: SubsetValues, begin: Changes, end: Changes) -> None:
        self._values = values
        first, last = values.value(begin), values.value(end)
        assert first is not None, sorted(begin)
        assert last is not None, sorted(end)
        self._is_down = last.center < first.center
        self._middle = (first.center + last.center) / 2
        half = abs(first.center - last.center) / 2
        # So many that the mean lies on its own side in all but a few of a hundred.
        wanted = (2 * values.noise.log_sd / max(half, 1e-6)) ** 2
        self.is_wide = wanted <= _HUNT_TRIALS_MAX
        self._trials = max(math.ceil(wanted), 1)

    def trials_wanted(self, changes: Changes) -> int:
        """Return how many more trials of a set it takes to tell."""
        if self._values.failure(changes) is not None and not self._values.is_open(changes):
            return 0
        return max(self._trials - self._values.trials(changes), 0)

    def is_closed(self, changes: Changes) -> bool:
        """The set is nearer to the end than to the beginning; what has no number is not."""
        value = self._values.value(changes)
        return value is not None and (value.center < self._middle) == self._is_down


def _is_passed(found: Effect | None, matters: float) -> bool | None:
    if found is None:
        return None
    if math.isinf(found.se):
        return False if found.p_value == 0 else None
    return not (found.p_value < _P and abs(found.center) >= matters)
