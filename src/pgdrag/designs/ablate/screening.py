"""Which of many changes are worth long trials? Screening, repeats, and a check that none is masked.

Every change is tried alone and with the others, once each, among repeats of reference and target that
show the noise. Doubtful comparisons are repeated. What both comparisons miss is left to `masking`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pgdrag.designs.ablate.history import REFERENCE, Changes, History, Request
from pgdrag.designs.ablate.labels import (
    Call,
    Effect,
    Label,
    call_all,
    detectable,
    effect,
    label_of,
    resolved,
)
from pgdrag.designs.ablate.masking import MaskingCheck
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.model import Outcome

_END_TRIALS = 2  # of reference and target before anything else
_CONTROLS_MIN = 5  # of each of them by the end of the screening
_CHANGES_PER_BLOCK = 8
# A comparison with a p value between these is repeated: called or not, it depends on one trial.
_SURE_P, _DOUBTFUL_P = 0.001, 0.15
_REPEATS = 2  # more trials of a doubtful set, each round
_ROUNDS = 2
_FAILURES = {Outcome.DID_NOT_START: Label.PREVENTS_START, Outcome.CRASHED: Label.CRASHES}


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


class Screening:
    """Finds the survivors among the changes, and a label for each.

    Attributes:
        trials: the trials that the screening judges by.
        whole: the changes of the target, without those that prevent its start.
        left_out: changes left out of the target, because nothing could be measured with them.
        masking: the check that nothing is masked; None before the labels are final.
        problem: what has no number: "reference" or "target"; "nothing" without changes; or "".
    """

    def __init__(self, changes: int, history: History, parameters: AblateParameters) -> None:
        self.changes = tuple(range(changes))
        self.trials = history.brief if parameters.has_brief_screening else history.full
        self.whole: Changes = frozenset(self.changes)
        self.left_out: dict[int, Label] = {}
        self.masking: MaskingCheck | None = None
        self.problem = ""
        self._history = history
        self._parameters = parameters
        self._labels: dict[int, Screened] | None = None

    @property
    def survivors(self) -> tuple[int, ...]:
        """The changes that go on, in order; none until the labels are final."""
        return tuple(sorted(self.masking.survivors)) if self.masking else ()

    @property
    def is_labelled(self) -> bool:
        """The labels are final, except for what group searches find."""
        return self._labels is not None

    def planned_trials(self) -> int:
        """Return how many trials ends and comparisons take if none fails or is repeated."""
        sets = {one for change in self.changes for one in self._sets(change)}
        sets -= {REFERENCE, self.whole}
        controls = sum(self._controls(block) for block in range(self._blocks))
        return 2 * (_END_TRIALS + controls) + len(sets)

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
        if self.problem:
            return
        self.masking = MaskingCheck(
            self.trials,
            self._ask,
            self._parameters,
            self.whole,
            frozenset(change for change, one in self._labels.items() if one.goes_on),
            {change: one.p_value for change, one in self._labels.items()},
        )
        yield from self.masking.run()

    def screened(self) -> dict[int, Screened]:
        """Return what is known of every change so far."""
        found = dict(self._labels if self._labels is not None else self._judged())
        for group in self.masking.groups if self.masking else ():
            is_pair = not group.base and len(group.members) > 1
            label = Label.SYNERGIST if is_pair else Label.HIDDEN
            for change in group.members:
                found[change] = replace(found[change], label=label, is_hidden=True)
        return found

    def known_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs that a group search found on the reference."""
        groups = [one for one in (self.masking.groups if self.masking else ()) if not one.base]
        return [(one.members[0], one.members[1]) for one in groups if len(one.members) == 2]

    def detectable(self) -> tuple[float, float]:
        """Return the smallest effects that a comparison alone, and one with the others, detects.

        Nine times in ten; infinite while unknown, and where a side is only bounded.
        """
        alone = [frozenset({change}) for change in self.changes]
        with_others = [self.whole - {change} for change in sorted(self.whole)]
        return self._detectable(REFERENCE, alone), self._detectable(self.whole, with_others)

    def _detectable(self, end: Changes, sets: Sequence[Changes]) -> float:
        known = [self.trials.value(one) for one in sets]
        variances = sorted(one.variance for one in known if one is not None and not one.is_bound)
        base = self.trials.value(end)
        if not variances or base is None or base.is_bound:
            return math.inf
        se = math.sqrt(variances[len(variances) // 2] + base.variance)
        return detectable(se, self.trials.noise.dof, matters=self._parameters.log_threshold)

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

    @property
    def _blocks(self) -> int:
        return max(math.ceil(len(self.changes) / _CHANGES_PER_BLOCK), 1)

    def _controls(self, block: int) -> int:
        """Return how many trials of each end a block has: spread evenly, and enough in all."""
        wanted = max(_CONTROLS_MIN - _END_TRIALS, self._blocks)
        return wanted // self._blocks + (block < wanted % self._blocks)

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
            controls = self._ends * self._controls(block)
            yield from self._ask([*controls, *self._wanted_sets(some)])
        yield from self._ask(self._wanted_sets(self.changes))

    def _wanted_sets(self, changes: Sequence[int]) -> list[Changes]:
        sets = dict.fromkeys(one for change in changes for one in self._sets(change))
        return [one for one in sets if self._is_wanted(one)]

    def _is_wanted(self, changes: Changes) -> bool:
        return changes not in (REFERENCE, self.whole) and self.trials.is_open(changes)

    def _judged(self) -> dict[int, Screened]:
        value, noise = self.trials.value, self.trials.noise
        reference, target = value(REFERENCE), value(self.whole)
        effects: list[Effect | None] = []
        for change in self.changes:
            effects.append(effect(reference, value(frozenset({change})), noise))
            without = value(self.whole - {change}) if change in self.whole else None
            effects.append(effect(without, target, noise))
        judged = list(
            zip(effects, call_all(effects, matters=self._parameters.log_threshold), strict=True)
        )
        return {
            change: self._judge(change, judged[2 * at], judged[2 * at + 1])
            for at, change in enumerate(self.changes)
        }

    def _judge(
        self,
        change: int,
        alone: tuple[Effect | None, Call],
        with_others: tuple[Effect | None, Call],
    ) -> Screened:
        failure = self.trials.failure(frozenset({change}))
        calls = resolved(alone, with_others)
        label = label_of(*calls)
        if change in self.left_out:
            label = self.left_out[change]
        elif failure is Outcome.UNTESTABLE:
            label = Label.UNTESTABLE
        elif failure is Outcome.INERT and calls[1] in (Call.NONE, Call.UNKNOWN):
            label = Label.INERT
        elif failure in _FAILURES and label is Label.UNDECIDED:
            label = _FAILURES[failure]
        return Screened(label, alone[0], with_others[0], calls)

    def _repeat_doubtful(self) -> Iterator[Request]:
        # One trial slowed down by something else on the machine must not give a change an effect.
        called = self._sets_where(lambda _, call: call in (Call.SLOWER, Call.FASTER))
        single = [one for one in called if self.trials.count(one) == 1]
        yield from self._ask([*self._ends, *single] if single else [])
        for _ in range(_ROUNDS):
            sets = self._sets_where(self._is_doubtful)
            if not sets:
                return
            yield from self._ask([*self._ends * _REPEATS, *sets * _REPEATS])

    def _sets_where(self, claim: Callable[[Effect, Call], bool]) -> list[Changes]:
        """Return the sets behind the comparisons for which a claim holds, in order of the changes."""
        sets = {}
        for change, one in self._judged().items():
            of_sets = {frozenset({change}): one.alone, self.whole - {change}: one.with_others}
            for (changes, found), call in zip(of_sets.items(), one.calls, strict=True):
                if found is not None and claim(found, call):
                    sets[changes] = True
        return [one for one in sets if one not in (REFERENCE, self.whole)]

    def _is_doubtful(self, found: Effect, call: Call) -> bool:
        is_near = _SURE_P < found.p_value < _DOUBTFUL_P
        is_large = abs(found.center) >= self._parameters.log_threshold
        return call is not Call.UNKNOWN and is_near and is_large

    def _ask(self, sets: Sequence[Changes]) -> Iterator[Request]:
        return self._history.ask(sets, is_brief=self._parameters.has_brief_screening)
