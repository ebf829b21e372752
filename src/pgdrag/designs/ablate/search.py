"""Which of many changes are worth the long trials? Screening, repeats, and a check that none is lost.

Every change is tried alone and in company, once each, among repeats of reference and target that
show the noise. Doubtful ones are repeated. What both looks miss is looked for by `ablation_checks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.designs.ablate.book import AblationOptions, Book, Wanted
from pgdrag.designs.ablate.checks import Inquest
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
from pgdrag.designs.ablate.subset_values import REFERENCE, Changes, SubsetValues
from pgdrag.model import Outcome

_ENDS = 2  # trials of reference and target before anything else
_CONTROLS_MIN = 5  # of each of them by the end of the screening
_CHANGES_A_BLOCK = 8
# A comparison between these two, of being chance, is repeated: called or not, it hangs on one trial.
_DOUBTFUL_P, _SURE_P = 0.15, 0.001
_REPEATS = 2  # more trials of a doubtful set, each time
_ROUNDS = 2
_FATAL = {Outcome.DID_NOT_START: Label.PREVENTS_START, Outcome.CRASHED: Label.CRASHES}


@dataclass(frozen=True)
class Screened:
    """What the screening says of one change.

    Attributes:
        alone: reference with it against reference; None: unknown.
        company: target against target without it; None: unknown.
        is_hidden: neither look shows it; only the checks brought it to light.
    """

    label: Label
    alone: Effect | None
    company: Effect | None
    alone_call: Call
    company_call: Call
    is_hidden: bool = False


class Search:
    """Finds the survivors among so many changes, and says of each what it is.

    Attributes:
        whole: the changes that the target has; without those that prevent its start.
        fatal: changes left out because nothing could be measured with them.
        survivors: those that go on, in order; empty until the search is over.
        inquest: the checks that nothing is lost; None before the labels stand.
        problem: why there is nothing to search, or "".
        is_over: the labels are as good as they get.
    """

    def __init__(self, changes: int, book: Book, options: AblationOptions) -> None:
        self.changes = tuple(range(changes))
        self.whole: Changes = frozenset(self.changes)
        self.fatal: dict[int, Label] = {}
        self.inquest: Inquest | None = None
        self.problem = ""
        self.is_over = False
        self._labels: dict[int, Screened] | None = None
        self._book = book
        self._options = options
        self._is_brief = options.has_brief_screening

    @property
    def values(self) -> SubsetValues:
        """The trials that the search goes by."""
        return self._book.brief if self._is_brief else self._book.full

    @property
    def survivors(self) -> tuple[int, ...]:
        """The changes that go on, in their order."""
        return tuple(sorted(self.inquest.survivors)) if self.inquest else ()

    @property
    def others(self) -> Changes:
        """Those of the target's changes that do not go on."""
        return self.whole - frozenset(self.survivors)

    @property
    def is_labelled(self) -> bool:
        """The labels stand, but for what the checks may bring to light."""
        return self._labels is not None

    def forecast_screening(self) -> int:
        """Return how many trials ends and screening take, if all goes well."""
        sets = {one for change in self.changes for one in self._looks(change)}
        sets -= {REFERENCE, self.whole}
        return 2 * _ENDS + len(sets) + 2 * sum(self._controls(at) for at in range(self._blocks))

    def run(self) -> Iterator[Wanted]:
        """Ask for blocks until the survivors are known."""
        if not self.changes:
            self.problem = "nothing"
        else:
            yield from self._measure_ends()
        if self.problem in ("", "target"):
            yield from self._screen()
            yield from self._repeat_doubtful()
            # From here on the labels stand: what the hunts measure must not shift them.
            self._labels = self._screened()
        if self._labels is not None and not self.problem:
            self.inquest = self._begin_inquest(self._labels)
            yield from self.inquest.run()
        self.is_over = True

    def _begin_inquest(self, labels: Mapping[int, Screened]) -> Inquest:
        chosen = frozenset(change for change, one in labels.items() if _goes_on(one))
        looks = {change: (one.alone, one.company) for change, one in labels.items()}
        p_values = {
            change: min((one.p_value for one in both if one is not None), default=0.0)
            for change, both in looks.items()
        }
        return Inquest(self.values, self._want, self._options, self.whole, chosen, p_values)

    def screened(self) -> dict[int, Screened]:
        """Return what is known of every change by now."""
        found = dict(self._labels if self._labels is not None else self._screened())
        for group in self.inquest.groups if self.inquest else ():
            is_pair = not group.upon and len(group.members) > 1
            label = Label.SYNERGIST if is_pair else Label.HIDDEN
            for change in group.members:
                found[change] = replace(found[change], label=label, is_hidden=True)
        return found

    def known_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs that a hunt found upon the reference."""
        groups = self.inquest.groups if self.inquest else ()
        found = [one.members for one in groups if not one.upon and len(one.members) == 2]
        return tuple((first, second) for first, second in found)

    def detectable(self) -> tuple[float, float]:
        """Return the smallest effects that a look alone, and one in company, misses once in ten times.

        Infinite while unknown, and where a side is only bounded.
        """
        alone = [frozenset({change}) for change in self.changes]
        company = [self.whole - {change} for change in sorted(self.whole)]
        return self._detectable(REFERENCE, alone), self._detectable(self.whole, company)

    def _detectable(self, end: Changes, looks: Sequence[Changes]) -> float:
        known = [self.values.value(one) for one in looks]
        variances = sorted(one.variance for one in known if one is not None and not one.is_bound)
        base = self.values.value(end)
        if not variances or base is None or base.is_bound:
            return math.inf
        se = math.sqrt(variances[len(variances) // 2] + base.variance)
        return detectable(se, self.values.noise.dof, matters=self._options.matters)

    # --- the ends ------------------------------------------------------------------------------

    def _measure_ends(self) -> Iterator[Wanted]:
        yield from self._want([REFERENCE, self.whole] * _ENDS)
        yield from self._want([one for one in (REFERENCE, self.whole) if self.values.is_open(one)])
        if not self.values.trials(REFERENCE):
            self.problem = "reference"
            return
        if self._is_failed(self.whole):
            yield from self._want([one for one in self._singles() if self._is_wanted(one)])
            yield from self._without([c for c in self.changes if self._is_fatal_alone(c)])
        if self._is_failed(self.whole):
            looks = {change: self.whole - {change} for change in sorted(self.whole)}
            yield from self._want([one for one in looks.values() if self.values.is_open(one)])
            # It starts as soon as this one is left out: it prevents the start with a partner.
            yield from self._without([c for c, one in looks.items() if self.values.trials(one)])
        if not self.values.trials(self.whole):
            self.problem = "target"

    def _singles(self) -> list[Changes]:
        return [frozenset({change}) for change in self.changes]

    def _is_failed(self, changes: Changes) -> bool:
        return self.values.failure(changes) in _FATAL

    def _is_fatal_alone(self, change: int) -> bool:
        return self._is_failed(frozenset({change}))

    def _without(self, fatal: Sequence[int]) -> Iterator[Wanted]:
        """Leave changes out of the target, and measure what is left of it."""
        why = _FATAL[self.values.failure(self.whole) or Outcome.DID_NOT_START]
        for change in fatal:
            alone = self.values.failure(frozenset({change}))
            self.fatal[change] = _FATAL.get(alone, why) if alone else why
        self.whole -= frozenset(fatal)
        if fatal and self.whole and not self.values.trials(self.whole):
            yield from self._want([self.whole] * _ENDS)

    # --- screening -----------------------------------------------------------------------------

    @property
    def _blocks(self) -> int:
        return max(math.ceil(len(self.changes) / _CHANGES_A_BLOCK), 1)

    def _controls(self, block: int) -> int:
        """How many trials of each end this block has: spread out, and enough in all."""
        wanted = max(_CONTROLS_MIN - _ENDS, self._blocks)
        return wanted // self._blocks + (block < wanted % self._blocks)

    def _looks(self, change: int) -> tuple[Changes, ...]:
        alone = frozenset({change})
        has_company = change in self.whole and not self.problem
        return (alone, self.whole - alone) if has_company else (alone,)

    @property
    def _ends(self) -> list[Changes]:
        return [REFERENCE] if self.problem else [REFERENCE, self.whole]

    def _screen(self) -> Iterator[Wanted]:
        for block in range(self._blocks):
            # Every so many-th change, so that neighbours in the file meet different hours.
            some = self.changes[block :: self._blocks]
            looks = dict.fromkeys(one for change in some for one in self._looks(change))
            controls = self._ends * self._controls(block)
            yield from self._want([*controls, *(one for one in looks if self._is_wanted(one))])
        missing = dict.fromkeys(one for change in self.changes for one in self._looks(change))
        yield from self._want([one for one in missing if self._is_wanted(one)])

    def _is_wanted(self, changes: Changes) -> bool:
        return changes not in (REFERENCE, self.whole) and self.values.is_open(changes)

    def _screened(self) -> dict[int, Screened]:
        values, noise = self.values, self.values.noise
        reference, target = values.value(REFERENCE), values.value(self.whole)
        pairs = []
        for change in self.changes:
            alone = effect(reference, values.value(frozenset({change})), noise)
            company = None
            if change in self.whole:
                company = effect(values.value(self.whole - {change}), target, noise)
            pairs.append((alone, company))
        flat = [one for pair in pairs for one in pair]
        calls = call_all(flat, matters=self._options.matters)
        return {
            change: self._screened_one(change, pairs[at], calls[2 * at], calls[2 * at + 1])
            for at, change in enumerate(self.changes)
        }

    def _screened_one(
        self, change: int, effects: tuple[Effect | None, Effect | None], alone: Call, company: Call
    ) -> Screened:
        ended = self.values.failure(frozenset({change}))
        alone, company = resolved((effects[0], alone), (effects[1], company))
        label = label_of(alone, company)
        if change in self.fatal:
            label = self.fatal[change]
        elif ended is Outcome.UNTESTABLE:
            label = Label.UNTESTABLE
        elif ended is Outcome.INERT and company in (Call.NONE, Call.UNKNOWN):
            label = Label.INERT
        elif ended in _FATAL and label is Label.UNDECIDED:
            label = _FATAL[ended]
        return Screened(label, *effects, alone, company)

    def _repeat_doubtful(self) -> Iterator[Wanted]:
        # A trial that something else on the machine slowed down must not accuse anybody.
        called = self._sets_that(lambda found, call: call in (Call.SLOWER, Call.FASTER))
        single = [one for one in called if self.values.trials(one) == 1]
        yield from self._want([*self._ends, *single] if single else [])
        for _ in range(_ROUNDS):
            sets = self._sets_that(self._is_doubtful)
            if not sets:
                return
            yield from self._want([*self._ends * _REPEATS, *sets * _REPEATS])

    def _sets_that(self, claim: Callable[[Effect, Call], bool]) -> list[Changes]:
        """Return the sets behind the looks of which something is true, in the order of the changes."""
        looks = [
            look
            for change, found in self._screened().items()
            for look in (
                (frozenset({change}), found.alone, found.alone_call),
                (self.whole - {change}, found.company, found.company_call),
            )
        ]
        sets = [one for one, found, call in looks if found is not None and claim(found, call)]
        return [one for one in dict.fromkeys(sets) if one not in (REFERENCE, self.whole)]

    def _is_doubtful(self, found: Effect, call: Call) -> bool:
        is_near = _SURE_P < found.p_value < _DOUBTFUL_P
        return call is not Call.UNKNOWN and is_near and abs(found.center) >= self._options.matters

    def _want(self, sets: Sequence[Changes]) -> Iterator[Wanted]:
        yield from self._book.want(sets, is_brief=self._is_brief)


def _goes_on(found: Screened) -> bool:
    if found.label.is_fatal or found.label in (Label.UNTESTABLE, Label.INERT):
        return False
    calls = (found.alone_call, found.company_call)
    if found.label is Label.UNDECIDED:
        return Call.SUSPECT in calls or calls == (Call.UNKNOWN, Call.UNKNOWN)
    return True
