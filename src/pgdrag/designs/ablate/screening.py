"""Which of many changes are worth long trials? Groups, comparisons of each change, and a check that none is masked.

Neighbours in the file are tried together first: each small group alone, added to the reference, and with the
others, taken from the target, among repeats of both ends that show the noise. Only of a group that makes a
difference on one side is each change tried by itself on that side. Further trials go where they decide something:
to comparisons that are doubtful, first of all to those that move what the whole moves, too.

Both comparisons miss a change that others mask. Of (a and b) or c, only c has an effect alone, and removing
any one of them has none. So the survivors alone must be as slow as the target, and all other changes together
as fast as the reference. Where they are not, halving finds a small group among the others that makes the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdrag.designs._moves import Move
from pgdrag.designs._subsets import Changes, Request, Steps, few_that_keep
from pgdrag.designs.ablate.history import REFERENCE, History
from pgdrag.designs.ablate.labels import Call, Label, call_all, effect, judged
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.model import Outcome
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.effects import Effect

_END_TRIALS = 2  # of reference and target before anything else
_CONTROLS = 8  # of each of them: more add little to what they are compared with
_ENDS_MOST = 14  # where nothing but the whole is left to measure
_GROUP_SIZE, _FEW_CHANGES = 5, 8  # few changes are compared one by one at once
_GROUP_P = 0.05  # a group more that is divided costs a trial for each of its changes
_SETS_PER_BLOCK = 12
_MOVER_P = 0.3  # of throughput, where what the whole moves is moved, too
# A comparison with a p value between these is repeated: called or not, it depends on one trial.
_SURE_P, _DOUBTFUL_P = 0.001, 0.15
_ROUNDS = 3
_FAILURES = {Outcome.DID_NOT_START: Label.PREVENTS_START, Outcome.CRASHED: Label.CRASHES}

_CHECK_TRIALS = 3  # of each check; twice as many before a group search, which is expensive
_CHECK_P = 0.01
_SEARCHES = 3
_GROUP_MAX = 4  # a larger group is no group, but many small effects
_TRIALS_OF_SET_MAX = 4  # in a group search: a difference that takes more is not worth one


class Side(StrEnum):
    """What a group of changes is compared on."""

    ALONE = "alone"  # the reference with it against the reference
    WITH_OTHERS = "with the others"  # the target against the target without it


@dataclass(frozen=True)
class Compared:
    """One comparison: of a change, or of the group that it was tried in.

    Attributes:
        group: the changes compared.
        effect: None: unknown.
    """

    group: Changes
    effect: Effect | None
    call: Call


@dataclass(frozen=True)
class Screened:
    """What the screening found of one change.

    Attributes:
        calls: of both comparisons, each in the light of the other.
        is_hidden: neither comparison shows it; only a group search found it.
    """

    label: Label
    alone: Compared
    with_others: Compared
    calls: tuple[Call, Call]
    is_hidden: bool = False

    @property
    def goes_on(self) -> bool:
        """It gets long trials."""
        if self.label.prevents_measurement or self.label in (Label.UNTESTABLE, Label.INERT):
            return False
        if self.label is Label.UNDECIDED:
            own = [
                call
                for one, call in zip((self.alone, self.with_others), self.calls, strict=True)
                if len(one.group) == 1
            ]
            return Call.SUSPECT in own or (bool(own) and set(self.calls) == {Call.UNKNOWN})
        return True

    @property
    def p_value(self) -> float:
        """The smaller one of both comparisons; 0 without any."""
        known = [x.effect.p_value for x in (self.alone, self.with_others) if x.effect is not None]
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
        self._group_size = 1 if changes <= _FEW_CHANGES else _GROUP_SIZE
        self._groups: dict[Side, list[Changes]] = {}

    @property
    def is_labelled(self) -> bool:
        """The labels are final, except for what group searches find."""
        return bool(self._labels)

    @property
    def is_without_effect(self) -> bool:
        """Nothing survives, and the whole makes no significant difference: long trials have nothing to measure."""
        whole = self._effect(REFERENCE, self.whole)
        return not self.survivors and whole is not None and not whole.is_significant

    def planned_trials(self) -> int:
        """Return how many trials ends and groups take if none makes a difference or fails."""
        groups = math.ceil(len(self.changes) / self._group_size)
        sets = 2 * groups if groups > 2 else groups
        blocks = math.ceil(sets / _SETS_PER_BLOCK)
        return 2 * (_END_TRIALS + blocks) + sets

    def run(self) -> Iterator[Request]:
        """Ask for blocks until the survivors are known."""
        if not self.changes:
            self.problem = "nothing"
            return
        yield from self._measure_ends()
        if self.problem == "reference":
            return
        yield from self._compare_groups()
        yield from self._find_movers()
        yield from self._repeat_doubtful()
        # The labels are final: trials of group searches must not change them.
        self._labels = self._judged()
        yield from self._find_movers()
        if not self.problem:
            self.survivors = frozenset(at for at, one in self._labels.items() if one.goes_on)
            yield from self._look_for_masked()
        yield from self._sharpen_whole()
        # Both ends are known better by now.
        yield from self._find_movers()

    def screened(self) -> dict[int, Screened]:
        """Return what is known of every change so far."""
        found = dict(self._labels or self._judged())
        for base, members in self.groups:
            label = Label.NEEDS_PARTNER if not base and len(members) > 1 else Label.HIDDEN
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
            dof = base.dof
            distance = t_multiplier(1 - _GROUP_P, dof) + t_multiplier(0.8, dof)
            return max(distance * se, self._parameters.log_threshold)

        alone, with_others = (
            [
                one
                for group in self._groups.get(side, ())
                for one in self._ends_of(side, group)
                if one not in self._ends
            ]
            for side in Side
        )
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
            yield from self._ask([one for one in singles.values() if self.trials.is_open(one)])
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

    @property
    def _ends(self) -> list[Changes]:
        return [REFERENCE] if self.problem else [REFERENCE, self.whole]

    def _ends_of(self, side: Side, group: Changes) -> tuple[Changes, Changes]:
        """Return the sets without and with a group that are compared on a side."""
        if side is Side.ALONE:
            return REFERENCE, group
        return self.whole - group, self.whole

    def _compare_groups(self) -> Iterator[Request]:
        """Compare groups alone, then with the others, each time the changes of those that make a difference."""
        every = sorted(self.whole)
        are_known = all(self.trials.has_trial(frozenset({change})) for change in every)
        size = 1 if are_known else self._group_size
        groups = [frozenset(every[at : at + size]) for at in range(0, len(every), size)]
        alone = [*groups, *(frozenset({change}) for change in self.left_out)]
        yield from self._compare_side(Side.ALONE, alone)
        if self.problem:
            return
        # What makes a difference alone is compared with the others by itself, too.
        active = [one for one in self._active(Side.ALONE) if len(one) == 1]
        rest = [one.difference(*active) for one in groups]
        singles = [one for one in active if one <= self.whole]
        yield from self._compare_side(Side.WITH_OTHERS, [*singles, *filter(None, rest)])

    def _compare_side(self, side: Side, groups: Sequence[Changes]) -> Iterator[Request]:
        self._groups[side] = list(groups)
        wanted = groups
        while wanted:
            yield from self._compare(side, wanted)
            yield from self._confirm(side)
            wanted = self._divide(side, [one for one in self._active(side) if len(one) > 1])

    def _confirm(self, side: Side) -> Iterator[Request]:
        """Try groups once more whose difference may be chance: to divide one costs a trial for each change."""
        doubtful = [
            group
            for group, moved in self._active(side).items()
            if len(group) > 1
            and not moved
            and self._count(side, group) == 1
            and (found := self._effect(*self._ends_of(side, group))) is not None
            and found.p_value > _SURE_P
        ]
        ends = {one for group in doubtful for one in self._ends_of(side, group)}
        yield from self._ask_beside_ends(sorted(ends.difference(self._ends), key=sorted))

    def _divide(self, side: Side, groups: Sequence[Changes]) -> list[Changes]:
        """Put the changes of some groups into their places, and return them."""
        singles = [frozenset({change}) for one in groups for change in sorted(one)]
        kept = [one for one in self._groups[side] if one not in groups]
        self._groups[side] = kept + singles
        return singles

    def _compare(self, side: Side, groups: Sequence[Changes]) -> Iterator[Request]:
        """Run what a side's comparisons of these groups need, once, and again what had no number."""
        for _ in range(2):
            sets = {one for group in groups for one in self._ends_of(side, group)}
            wanted = sorted(filter(self.trials.is_open, sets.difference(self._ends)), key=sorted)
            blocks = math.ceil(len(wanted) / _SETS_PER_BLOCK)
            for block in range(blocks):
                # Every nth set, so that neighbours in the file are run at different times.
                yield from self._ask_beside_ends(wanted[block::blocks])

    def _ask_beside_ends(self, sets: Sequence[Changes]) -> Iterator[Request]:
        """Ask for a block with a trial of each end, unless it is short and there are enough of them."""
        is_enough = self.trials.count(REFERENCE) >= _CONTROLS and len(sets) < _SETS_PER_BLOCK / 2
        yield from self._ask([*([] if is_enough else self._ends), *sets] if sets else [])

    def _active(self, side: Side) -> dict[Changes, tuple[Move, ...]]:
        """Return the groups that seem to make a difference on this side, or have no number, and what each moves."""
        moves = self._moves()

        def is_active(group: Changes) -> bool:
            found = self._effect(*self._ends_of(side, group))
            if found is None:
                return True
            if math.isinf(found.se):
                return found.is_significant
            if found.p_value < _GROUP_P:
                return abs(found.center) >= self._parameters.log_threshold
            return found.p_value < _MOVER_P and bool(moves[side, group])

        return {group: moves[side, group] for group in self._groups[side] if is_active(group)}

    def _moves(self) -> dict[tuple[Side, Changes], tuple[Move, ...]]:
        """Return the quantities of the whole's fingerprint that each group moves on each side."""
        comparisons = {
            (side, group): self._ends_of(side, group)
            for side, groups in self._groups.items()
            for group in groups
        }
        return self.trials.quantities.moves((REFERENCE, self.whole), comparisons)

    def fingerprint(self) -> tuple[Move, ...]:
        """Return the quantities that the whole moves."""
        return self.trials.quantities.fingerprint((REFERENCE, self.whole))

    def moves(self) -> dict[int, tuple[Move, ...]]:
        """Return what each change moves alone or, where that is nothing, with the others.

        Of those changes that were tried by themselves; where throughput shows no effect, more than once.
        """
        labels, found = self.screened(), dict[int, tuple[Move, ...]]()
        for (side, group), moves in sorted(self._moves().items(), key=lambda one: one[0][0]):
            is_labelled = labels[min(group)].label is not Label.UNDECIDED
            if len(group) == 1 and (is_labelled or self._count(side, group) > 1):
                found[min(group)] = found.get(min(group)) or moves
        return found

    def _find_movers(self) -> Iterator[Request]:
        """Try each change of the groups that move anything, and those that seem to move it once more.

        The most significant first, because a budget may end the run.
        """
        yield from self._repeat_movers()
        movers = {at: moved[0] for at, moved in self._moves().items() if moved and len(at[1]) > 1}
        for side, group in sorted(movers, key=lambda at: movers[at].t_ratio, reverse=True):
            yield from self._compare(side, self._divide(side, [group]))
            yield from self._repeat_movers()

    def _repeat_movers(self) -> Iterator[Request]:
        """Try changes without a label that seem to move anything once more."""
        labels = self.screened()
        once = [
            some
            for (side, group), moved in self._moves().items()
            if moved and len(group) == 1 and labels[min(group)].label is Label.UNDECIDED
            for some in self._ends_of(side, group)
            if self.trials.count(some) == 1
        ]
        yield from self._ask_beside_ends(once)

    def _count(self, side: Side, group: Changes) -> int:
        """Return how often the set was tried that is compared with an end on this side."""
        return min(self.trials.count(one) for one in self._ends_of(side, group))

    def _sharpen_whole(self) -> Iterator[Request]:
        """Repeat both ends where nothing survives, until the whole differs or certainly does not matter."""
        while not self.survivors and not self.problem and self.trials.count(REFERENCE) < _ENDS_MOST:
            whole = self._effect(REFERENCE, self.whole)
            if whole is None or whole.is_significant:
                return
            if whole.is_within(self._parameters.log_threshold):
                return
            if not self._history.left:
                return
            yield from self._ask(self._ends * 2)

    def _judged(self) -> dict[int, Screened]:
        """Judge all comparisons together, and return what that says of every change."""
        keys = [(side, group) for side, groups in self._groups.items() for group in groups]
        effects = [self._effect(*self._ends_of(*key)) for key in keys]
        calls = call_all(effects, matters=self._parameters.log_threshold)
        of_change: dict[int, dict[Side, Compared]] = {change: {} for change in self.changes}
        for (side, group), found, call in zip(keys, effects, calls, strict=True):
            one = Compared(group, found, call)
            # In a group it is unknown which change it is, and one trial may have been slowed down by something else.
            is_certain = len(group) == 1 and self._count(side, group) > 1
            if call in (Call.SLOWER, Call.FASTER) and not is_certain:
                one = replace(one, call=Call.SUSPECT)
            for change in group:
                if change in self.whole or side is Side.ALONE:
                    of_change[change][side] = one
        return {change: self._screened(change, found) for change, found in of_change.items()}

    def _screened(self, change: int, found: Mapping[Side, Compared]) -> Screened:
        nothing = Compared(frozenset({change}), None, Call.UNKNOWN)
        alone, with_others = (found.get(side, nothing) for side in Side)
        label, both = judged(
            (alone.effect, alone.call),
            (with_others.effect, with_others.call),
            matters=self._parameters.log_threshold,
        )
        failure = self.trials.failure(frozenset({change}))
        if change in self.left_out:
            label = self.left_out[change]
        elif failure is Outcome.UNTESTABLE:
            label = Label.UNTESTABLE
        elif failure is Outcome.INERT and both[1] in (Call.NONE, Call.UNKNOWN):
            label = Label.INERT
        elif failure in _FAILURES and label in (Label.UNDECIDED, Label.INERT):
            label = _FAILURES[failure]
        return Screened(label, alone, with_others, both)

    def _effect(self, before: Changes, after: Changes) -> Effect | None:
        return effect(self.trials.value(before), self.trials.value(after))

    def _singles(self) -> Iterator[tuple[Changes, Side, Compared]]:
        """Yield each comparison of a single change with the set that differs from an end."""
        for one in self._judged().values():
            for side, compared in zip(Side, (one.alone, one.with_others), strict=True):
                if compared.effect is None or len(compared.group) > 1:
                    continue
                for some in self._ends_of(side, compared.group):
                    if some not in self._ends:
                        yield some, side, compared

    def _repeat_doubtful(self) -> Iterator[Request]:
        for _ in range(_ROUNDS):
            moves = self._moves()
            doubtful = [
                x
                for x, side, one in self._singles()
                if one.call is not Call.UNKNOWN
                and one.effect is not None
                and one.effect.p_value < (_MOVER_P if moves[side, one.group] else _DOUBTFUL_P)
                and (one.effect.p_value > _SURE_P or self._count(side, one.group) == 1)
                and abs(one.effect.center) >= self._parameters.log_threshold
            ]
            if not doubtful:
                return
            sets = list(dict.fromkeys(doubtful))
            yield from self._ask_beside_ends(sets)

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

    def _search_group(self, base: Changes) -> Steps[None]:
        """Find a small group among the others that makes the difference on `base`."""
        trials, others = self.trials, self.whole - self.survivors
        first, last = trials.value(base), trials.value(base | others)
        assert first is not None, sorted(base)
        assert last is not None, sorted(base | others)
        center, half = (first.center + last.center) / 2, abs(first.center - last.center) / 2
        # So many that the mean is on its own side in all but a few of a hundred.
        wanted = (2 * trials.noise(base | others).log_sd / max(half, 1e-6)) ** 2

        def closes(some: Changes) -> Steps[bool]:
            """Tell whether these changes come nearer to the end than to the beginning."""
            tried = base | some
            if trials.failure(tried) is None or trials.is_open(tried):
                missing = max(math.ceil(wanted), 1) - trials.count(tried)
                yield from self._ask([tried] * missing)
            value = trials.value(tried)
            return value is not None and (value.center < center) == (last.center < first.center)

        labels = self._labels
        if wanted > _TRIALS_OF_SET_MAX:
            self.is_diffuse = True
            return
        pool = sorted(others, key=lambda change: (labels[change].p_value, change))
        members, is_enough = yield from few_that_keep(pool, closes, most=_GROUP_MAX)
        if is_enough:
            self.groups.append((base, tuple(sorted(members))))
            self.survivors |= members
        else:
            self.is_diffuse = True

    def _ask(self, sets: Sequence[Changes]) -> Iterator[Request]:
        return self._history.ask(sets, is_brief=self._parameters.has_brief_screening)


def _is_passed(found: Effect | None, matters: float) -> bool | None:
    if found is None:
        return None
    if math.isinf(found.se):
        return False if found.is_significant else None
    return not (found.p_value < _CHECK_P and abs(found.center) >= matters)
