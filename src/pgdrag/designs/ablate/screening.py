"""Which of many changes are worth long trials? Screening, repeats, and a check that none is masked.

Every change is tried alone and with the others, once each, among repeats of reference and target that
show the noise. Doubtful comparisons are repeated.

Both comparisons miss a change that others mask. Of (a and b) or c, only c has an effect alone, and removing
any one of them has none. So the survivors alone must be as slow as the target, and all other changes together
as fast as the reference. Where they are not, halving finds a small group among the others that makes the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from pgdrag.designs._subsets import Changes, Request
from pgdrag.designs.ablate.history import REFERENCE, History
from pgdrag.designs.ablate.labels import (
    SUSPECT_P,
    Call,
    Effect,
    Label,
    call_all,
    effect,
    label_of,
    resolved,
)
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.model import Outcome
from pgdrag.stats.distributions import t_multiplier

_END_TRIALS = 2  # of reference and target before anything else
_CONTROLS_MIN = 5  # of each of them by the end of the screening
_CHANGES_PER_BLOCK = 8
# A comparison with a p value between these is repeated: called or not, it depends on one trial.
_SURE_P, _DOUBTFUL_P = 0.001, 0.15
_REPEATS = 2  # more trials of a doubtful set, each round
_ROUNDS = 2
_FAILURES = {Outcome.DID_NOT_START: Label.PREVENTS_START, Outcome.CRASHED: Label.CRASHES}

_CHECK_TRIALS = 3  # of each check; twice as many before a group search, which is expensive
_CHECK_P = 0.01
_SEARCHES = 3
_GROUP_MAX = 4  # a larger group is no group, but many small effects
_TRIALS_OF_SET_MAX = 4  # in a group search: a difference that takes more is not worth one


@dataclass(frozen=True)
class Screened:
    """What the screening found of one change.

    Attributes:
        alone: reference with it against reference; None: unknown.
        with_others: target against target without it; None: unknown.
        is_hidden: neither comparison shows it; only a group search found it.
    """

    label: Label
    alone: Effect | None
    with_others: Effect | None
    calls: tuple[Call, Call]
    is_hidden: bool = False

    @property
    def goes_on(self) -> bool:
        """It gets long trials."""
        if self.label.prevents_measurement or self.label in (Label.UNTESTABLE, Label.INERT):
            return False
        if self.label is Label.UNDECIDED:
            return Call.SUSPECT in self.calls or set(self.calls) == {Call.UNKNOWN}
        return True

    @property
    def p_value(self) -> float:
        """The smaller one of both comparisons; 0 without any."""
        known = [one.p_value for one in (self.alone, self.with_others) if one is not None]
        return min(known, default=0.0)


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


class Screening:
    """Finds the survivors among the changes, and a label for each.

    Attributes:
        trials: the trials that the screening judges by.
        whole: the changes of the target, without those that prevent its start.
        left_out: changes left out of the target, because nothing could be measured with them.
        survivors: the changes that go on; none until the labels are final.
        checks: the last two that nothing is masked; none before the labels are final.
        groups: what the group searches found: changes that together, applied to a base, make most of the
            difference, each time the base and then they.
        is_diffuse: a check failed, and no small group of changes explains it.
        problem: what has no number: "reference" or "target"; "nothing" without changes; or "".
    """

    def __init__(self, changes: int, history: History, parameters: AblateParameters) -> None:
        self.changes = tuple(range(changes))
        self.trials = history.brief if parameters.has_brief_screening else history.full
        self.whole: Changes = frozenset(self.changes)
        self.left_out: dict[int, Label] = {}
        self.survivors: Changes = frozenset()
        self.checks: tuple[Check, ...] = ()
        self.groups: list[tuple[Changes, tuple[int, ...]]] = []
        self.is_diffuse = False
        self.problem = ""
        self._history = history
        self._parameters = parameters
        self._labels: dict[int, Screened] = {}
        self._blocks = max(math.ceil(changes / _CHANGES_PER_BLOCK), 1)
        self._controls = max(
            _CONTROLS_MIN - _END_TRIALS, self._blocks
        )  # of each end, in all blocks

    @property
    def is_labelled(self) -> bool:
        """The labels are final, except for what group searches find."""
        return bool(self._labels)

    def planned_trials(self) -> int:
        """Return how many trials ends and comparisons take if none fails or is repeated."""
        sets = {one for change in self.changes for one in self._sets(change)}
        sets -= {REFERENCE, self.whole}
        return 2 * (_END_TRIALS + self._controls) + len(sets)

    def run(self) -> Iterator[Request]:
        """Ask for blocks until the survivors are known."""
        if not self.changes:
            self.problem = "nothing"
            return
        yield from self._measure_ends()
        if self.problem == "reference":
            return
        yield from self._compare_each()
        yield from self._repeat_doubtful()
        # The labels are final: trials of group searches must not change them.
        self._labels = self._judged()
        if not self.problem:
            self.survivors = frozenset(at for at, one in self._labels.items() if one.goes_on)
            yield from self._look_for_masked()

    def screened(self) -> dict[int, Screened]:
        """Return what is known of every change so far."""
        found = dict(self._labels or self._judged())
        for base, members in self.groups:
            label = Label.SYNERGIST if not base and len(members) > 1 else Label.HIDDEN
            for change in members:
                found[change] = replace(found[change], label=label, is_hidden=True)
        return found

    def known_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs that a group search found on the reference."""
        on_reference = [members for base, members in self.groups if not base]
        return [(members[0], members[1]) for members in on_reference if len(members) == 2]

    def detectable(self) -> tuple[float, float]:
        """Return the smallest effects that a comparison alone, and one with the others, detects.

        Nine times in ten, where an effect counts as detected as soon as it is suspect, since suspects go on;
        infinite while unknown, and where a side is only bounded.
        """

        def smallest(end: Changes, sets: Sequence[Changes]) -> float:
            known = [self.trials.value(one) for one in sets]
            variances = sorted(x.variance for x in known if x is not None and not x.is_bound)
            base = self.trials.value(end)
            if not variances or base is None or base.is_bound:
                return math.inf
            se = math.sqrt(variances[len(variances) // 2] + base.variance)
            dof = self.trials.noise.dof
            distance = t_multiplier(1 - SUSPECT_P, dof) + t_multiplier(0.8, dof)
            return max(distance * se, self._parameters.log_threshold)

        alone = [frozenset({change}) for change in self.changes]
        with_others = [self.whole - {change} for change in sorted(self.whole)]
        return smallest(REFERENCE, alone), smallest(self.whole, with_others)

    # --- the ends ------------------------------------------------------------------------------

    def _measure_ends(self) -> Iterator[Request]:
        trials = self.trials
        yield from self._ask([REFERENCE, self.whole] * _END_TRIALS)
        yield from self._ask([one for one in (REFERENCE, self.whole) if trials.is_open(one)])
        if not trials.count(REFERENCE):
            self.problem = "reference"
            return
        if trials.failure(self.whole) in _FAILURES:
            singles = {change: frozenset({change}) for change in self.changes}
            yield from self._ask([one for one in singles.values() if self._is_wanted(one)])
            failed = [c for c, one in singles.items() if trials.failure(one) in _FAILURES]
            yield from self._leave_out(failed)
        if trials.failure(self.whole) in _FAILURES:
            without = {change: self.whole - {change} for change in sorted(self.whole)}
            yield from self._ask([one for one in without.values() if trials.is_open(one)])
            # The target starts without this one: it prevents the start together with a partner.
            yield from self._leave_out([c for c, one in without.items() if trials.count(one)])
        if not trials.count(self.whole):
            self.problem = "target"

    def _leave_out(self, changes: Sequence[int]) -> Iterator[Request]:
        """Leave changes out of the target, and measure what is left of it."""
        why = _FAILURES[self.trials.failure(self.whole) or Outcome.DID_NOT_START]
        for change in changes:
            alone = self.trials.failure(frozenset({change}))
            self.left_out[change] = _FAILURES.get(alone, why) if alone else why
        self.whole -= frozenset(changes)
        if changes and self.whole and not self.trials.count(self.whole):
            yield from self._ask([self.whole] * _END_TRIALS)

    # --- comparisons ---------------------------------------------------------------------------

    def _sets(self, change: int) -> tuple[Changes, ...]:
        """Return the sets that a change's comparisons need, beside the ends."""
        alone = frozenset({change})
        has_others = change in self.whole and not self.problem
        return (alone, self.whole - alone) if has_others else (alone,)

    @property
    def _ends(self) -> list[Changes]:
        return [REFERENCE] if self.problem else [REFERENCE, self.whole]

    def _compare_each(self) -> Iterator[Request]:
        for block in range(self._blocks):
            # Every nth change, so that neighbours in the file are run at different times.
            some = self.changes[block :: self._blocks]
            controls = self._controls // self._blocks + (block < self._controls % self._blocks)
            yield from self._ask([*self._ends * controls, *self._wanted_sets(some)])
        yield from self._ask(self._wanted_sets(self.changes))

    def _wanted_sets(self, changes: Sequence[int]) -> list[Changes]:
        sets = dict.fromkeys(one for change in changes for one in self._sets(change))
        return [one for one in sets if self._is_wanted(one)]

    def _is_wanted(self, changes: Changes) -> bool:
        return changes not in (REFERENCE, self.whole) and self.trials.is_open(changes)

    def _judged(self) -> dict[int, Screened]:
        effects: list[Effect | None] = []
        for change in self.changes:
            effects.append(self._effect(REFERENCE, frozenset({change})))
            is_part = change in self.whole
            effects.append(self._effect(self.whole - {change}, self.whole) if is_part else None)
        calls = call_all(effects, matters=self._parameters.log_threshold)
        judged = list(zip(effects, calls, strict=True))
        found = {}
        for change in self.changes:
            alone, with_others = judged[2 * change : 2 * change + 2]
            both = resolved(alone, with_others)
            label, failure = label_of(*both), self.trials.failure(frozenset({change}))
            if change in self.left_out:
                label = self.left_out[change]
            elif failure is Outcome.UNTESTABLE:
                label = Label.UNTESTABLE
            elif failure is Outcome.INERT and both[1] in (Call.NONE, Call.UNKNOWN):
                label = Label.INERT
            elif failure in _FAILURES and label is Label.UNDECIDED:
                label = _FAILURES[failure]
            found[change] = Screened(label, alone[0], with_others[0], both)
        return found

    def _effect(self, before: Changes, after: Changes) -> Effect | None:
        return effect(self.trials.value(before), self.trials.value(after), self.trials.noise)

    def _comparisons(self) -> Iterator[tuple[Changes, Effect, Call]]:
        """Yield the effect by which each set differs from an end, in order of the changes."""
        for change, one in self._judged().items():
            alone = frozenset({change})
            sets, effects = (alone, self.whole - alone), (one.alone, one.with_others)
            for some, found, call in zip(sets, effects, one.calls, strict=True):
                if found is not None and some not in (REFERENCE, self.whole):
                    yield some, found, call

    def _repeat_doubtful(self) -> Iterator[Request]:
        # One trial slowed down by something else on the machine must not give a change an effect.
        called = [x for x, _, call in self._comparisons() if call in (Call.SLOWER, Call.FASTER)]
        single = [x for x in dict.fromkeys(called) if self.trials.count(x) == 1]
        yield from self._ask([*self._ends, *single] if single else [])
        for _ in range(_ROUNDS):
            doubtful = [
                x
                for x, found, call in self._comparisons()
                if call is not Call.UNKNOWN
                and _SURE_P < found.p_value < _DOUBTFUL_P
                and abs(found.center) >= self._parameters.log_threshold
            ]
            if not doubtful:
                return
            sets = list(dict.fromkeys(doubtful))
            yield from self._ask([*self._ends * _REPEATS, *sets * _REPEATS])

    # --- what others mask ----------------------------------------------------------------------

    def _look_for_masked(self) -> Iterator[Request]:
        """Ask for blocks until both checks pass, or searching finds no more."""
        for search in range(_SEARCHES + 1):
            yield from self._check(_CHECK_TRIALS)
            if any(one.is_passed is False for one in self.checks):
                yield from self._check(2 * _CHECK_TRIALS)
            failed = [one for one in self.checks if one.is_passed is False]
            if not failed or self.is_diffuse or search == _SEARCHES:
                return
            # A group shows best on the reference: nothing else is there to mask it.
            on_reference = any(one.of_others for one in failed)
            yield from self._search_group(REFERENCE if on_reference else self.survivors)

    def _check(self, trials: int) -> Iterator[Request]:
        ends, others = (REFERENCE, self.whole), self.whole - self.survivors
        sets = [one for one in (self.survivors, others) if one not in ends]
        missing = [one for one in sets for _ in range(trials - self.trials.count(one))]
        yield from self._ask([*ends, *missing] if missing else [])
        whole = self._effect(REFERENCE, self.whole)
        # A small part of the whole is left to the share of the others, and a slow target is noisy.
        size = 0.0 if whole is None or math.isinf(whole.center) else abs(whole.center)
        matters = self._parameters.log_threshold
        at_least = max(matters, self._parameters.share_precision * size)
        unexplained = self._effect(self.survivors, self.whole)
        of_others = self._effect(REFERENCE, others)
        self.checks = (
            Check(False, unexplained, _is_passed(unexplained, at_least)),
            Check(True, of_others, _is_passed(of_others, matters)),
        )

    def _search_group(self, base: Changes) -> Iterator[Request]:
        """Find a small group among the others that makes the difference on `base`.

        The shortest prefix of the list that makes it ends with a member. With that one included,
        search what stood before it, until the members make the difference by themselves.
        """
        trials, others = self.trials, self.whole - self.survivors
        first, last = trials.value(base), trials.value(base | others)
        assert first is not None, sorted(base)
        assert last is not None, sorted(base | others)
        center, half = (first.center + last.center) / 2, abs(first.center - last.center) / 2
        # So many that the mean is on its own side in all but a few of a hundred.
        wanted = (2 * trials.noise.log_sd / max(half, 1e-6)) ** 2

        def closes(some: Sequence[int]) -> Generator[Request, None, bool]:
            """Tell whether these changes come nearer to the end than to the beginning."""
            tried = base | {*some}
            if trials.failure(tried) is None or trials.is_open(tried):
                missing = max(math.ceil(wanted), 1) - trials.count(tried)
                yield from self._ask([tried] * missing)
            value = trials.value(tried)
            return value is not None and (value.center < center) == (last.center < first.center)

        labels = self._labels
        pool = sorted(others, key=lambda change: (labels[change].p_value, change))
        members: list[int] = []
        while wanted <= _TRIALS_OF_SET_MAX and pool and len(members) < _GROUP_MAX:
            low, high = 0, len(pool)  # the first `low` do not make it, the first `high` do
            while high - low > 1:
                middle = (low + high) // 2
                is_closed = yield from closes([*members, *pool[:middle]])
                low, high = (low, middle) if is_closed else (middle, high)
            members.append(pool[high - 1])
            pool = pool[: high - 1]
            if (yield from closes(members)):
                self.groups.append((base, tuple(sorted(members))))
                self.survivors |= {*members}
                return
        self.is_diffuse = True

    def _ask(self, sets: Sequence[Changes]) -> Iterator[Request]:
        return self._history.ask(sets, is_brief=self._parameters.has_brief_screening)


def _is_passed(found: Effect | None, matters: float) -> bool | None:
    if found is None:
        return None
    if math.isinf(found.se):
        return False if found.is_significant else None
    return not (found.p_value < _CHECK_P and abs(found.center) >= matters)
