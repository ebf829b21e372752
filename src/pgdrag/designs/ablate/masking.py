"""Do some changes mask others that matter? Two checks, and a group search where one fails.

(a and b) or c: alone only c has an effect, and removing any one of them has none. So the survivors alone
must be as slow as the target, and all other changes together as fast as the reference. Where they
are not, halving finds a small group among the others that makes the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.designs.ablate.history import REFERENCE, Changes, Request, SetTrials
from pgdrag.designs.ablate.labels import Effect, effect
from pgdrag.designs.ablate.parameters import AblateParameters

_TRIALS = 3  # of each check; twice as many before a group search, which is expensive
_P = 0.01
_SEARCHES = 3
_GROUP_MAX = 4  # a larger group is no group, but many small effects
_TRIALS_OF_SET_MAX = 4  # in a group search: a difference that takes more is not worth one

Ask = Callable[[Sequence[Changes]], Iterator[Request]]


@dataclass(frozen=True)
class Check:
    """One check that no change that matters was lost.

    Attributes:
        of_others: the others alone against the reference; else the target against the survivors.
        found: the effect that the survivors do not explain; None: unknown.
        is_passed: None where undecided.
    """

    of_others: bool
    found: Effect | None
    is_passed: bool | None


@dataclass(frozen=True)
class Group:
    """Changes that together, applied to `base`, make most of the difference."""

    base: Changes
    members: tuple[int, ...]


class MaskingCheck:
    """Checks the survivors, and searches for groups of changes that others mask.

    Args:
        trials: the trials to judge by.
        ask: asks for a block of such trials.
        whole: the changes of the target.
        chosen: the survivors of the screening.
        p_values: of every change, the smaller one of its two comparisons.

    Attributes:
        checks: the last two.
        groups: what the searches found.
        is_diffuse: a check failed, and no small group of changes explains it.
    """

    def __init__(
        self,
        trials: SetTrials,
        ask: Ask,
        parameters: AblateParameters,
        whole: Changes,
        chosen: Changes,
        p_values: Mapping[int, float],
    ) -> None:
        self.checks: tuple[Check, ...] = ()
        self.groups: tuple[Group, ...] = ()
        self.is_diffuse = False
        self._trials = trials
        self._ask = ask
        self._parameters = parameters
        self._whole = whole
        self._chosen = chosen
        self._p_values = p_values

    @property
    def survivors(self) -> Changes:
        """The changes that go on: those of the screening, and those of the groups found."""
        return self._chosen.union(*(group.members for group in self.groups))

    @property
    def _others(self) -> Changes:
        return self._whole - self.survivors

    def run(self) -> Iterator[Request]:
        """Ask for blocks until both checks pass, or searching finds no more."""
        for search in range(_SEARCHES + 1):
            yield from self._check(_TRIALS)
            if any(one.is_passed is False for one in self.checks):
                yield from self._check(2 * _TRIALS)
            failed = [one for one in self.checks if one.is_passed is False]
            if not failed or self.is_diffuse or search == _SEARCHES:
                return
            # A group shows best on the reference: nothing else is there to mask it.
            on_reference = any(one.of_others for one in failed)
            yield from self._search_group(REFERENCE if on_reference else self.survivors)

    def _check(self, trials: int) -> Iterator[Request]:
        ends = (REFERENCE, self._whole)
        sets = [one for one in (self.survivors, self._others) if one not in ends]
        missing = [one for one in sets for _ in range(trials - self._trials.count(one))]
        yield from self._ask([*ends, *missing] if missing else [])
        whole = self._effect(REFERENCE, self._whole)
        # A small part of the whole is left to the share of the others, and a slow target is noisy.
        size = 0.0 if whole is None or math.isinf(whole.center) else abs(whole.center)
        matters = self._parameters.log_threshold
        at_least = max(matters, self._parameters.share_precision * size)
        unexplained = self._effect(self.survivors, self._whole)
        of_others = self._effect(REFERENCE, self._others)
        self.checks = (
            Check(False, unexplained, _is_passed(unexplained, at_least)),
            Check(True, of_others, _is_passed(of_others, matters)),
        )

    def _effect(self, before: Changes, after: Changes) -> Effect | None:
        values = self._trials.value(before), self._trials.value(after)
        return effect(*values, self._trials.noise)

    def _search_group(self, base: Changes) -> Iterator[Request]:
        """Find a small group among the others that makes the difference on `base`.

        The shortest prefix of the list that makes it ends with a member. With that one included,
        search what stood before it, until the members make the difference by themselves.
        """
        pool = sorted(self._others, key=lambda change: (self._p_values[change], change))
        members: list[int] = []
        gap = _Gap(self._trials, base, base | self._others)
        while gap.is_wide and pool and len(members) < _GROUP_MAX:
            low, high = 0, len(pool)  # the first `low` do not make it, the first `high` do
            while high - low > 1:
                middle = (low + high) // 2
                tried = base | {*members, *pool[:middle]}
                yield from self._ask([tried] * gap.missing_trials(tried))
                low, high = (low, middle) if gap.is_closed(tried) else (middle, high)
            members.append(pool[high - 1])
            pool = pool[: high - 1]
            tried = base | {*members}
            yield from self._ask([tried] * gap.missing_trials(tried))
            if gap.is_closed(tried):
                self.groups += (Group(base, tuple(sorted(members))),)
                return
        self.is_diffuse = True


class _Gap:
    """The difference between two sets' values: on which side of its middle is a third set?

    Attributes:
        is_wide: a few trials of a set are enough to tell.
    """

    def __init__(self, trials: SetTrials, begin: Changes, end: Changes) -> None:
        self._trials = trials
        first, last = trials.value(begin), trials.value(end)
        assert first is not None, sorted(begin)
        assert last is not None, sorted(end)
        self._is_down = last.center < first.center
        self._middle = (first.center + last.center) / 2
        half = abs(first.center - last.center) / 2
        # So many that the mean is on its own side in all but a few of a hundred.
        wanted = (2 * trials.noise.log_sd / max(half, 1e-6)) ** 2
        self.is_wide = wanted <= _TRIALS_OF_SET_MAX
        self._wanted = max(math.ceil(wanted), 1)

    def missing_trials(self, changes: Changes) -> int:
        """Return how many more trials of a set it takes to tell."""
        if self._trials.failure(changes) is not None and not self._trials.is_open(changes):
            return 0
        return max(self._wanted - self._trials.count(changes), 0)

    def is_closed(self, changes: Changes) -> bool:
        """The set is nearer to the end than to the beginning; what has no number is not."""
        value = self._trials.value(changes)
        return value is not None and (value.center < self._middle) == self._is_down


def _is_passed(found: Effect | None, matters: float) -> bool | None:
    if found is None:
        return None
    if math.isinf(found.se):
        return False if found.is_significant else None
    return not (found.p_value < _P and abs(found.center) >= matters)
