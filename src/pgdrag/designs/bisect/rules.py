"""How does a bisection go, from the two ends to a confirmed set? The same for the design and the analysis.

The course is a generator of looks that reads what it was told from a `Book`: the same results lead to
the same course, so that a design can be resumed and its analysis says what the design saw.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pgdrag.designs.bisect.ddmin import smallest_set
from pgdrag.designs.bisect.guided import FEW_COMMITS, Search
from pgdrag.designs.bisect.looks import Book, Look, Shot, Wanted
from pgdrag.designs.bisect.oracle import Estimate, Threshold, Verdict, estimate, noise_between
from pgdrag.designs.bisect.pieces import Node, Subset, units
from pgdrag.model import Outcome

REFERENCE_TRIALS, TARGET_TRIALS = 2, 3
SLOW_TARGET_TRIALS = 3  # full ones, where short ones hold next to nothing
OUTCOME_TRIALS = 2  # of a set before an outcome such as "did not start" is believed
DIFFERS = 3.0  # standard errors by which reference and target must differ
AIM = -0.3  # of what may be lost, how much the search does not give away: sums of pieces are noisy
LOOKS_BETWEEN_ENDS = 10
SEVERAL = 4  # sets in a block, from which on the reference runs among them
DRIFT_MATTERS = (
    0.02  # noise between trials, as a part of the whole, from which on it can decide a test
)
SURE = 1.0  # standard errors from the share within which further full trials are made, if there are any
BACKED = 1.645  # standard errors that the share may miss what is wanted by, where all that is left out is small
SMALL = 0.1  # of what may be lost: a member that carries less may be left out of a slow set
BROKEN = (Outcome.DID_NOT_START, Outcome.CRASHED)


class Ending(StrEnum):
    """What the bisection is at, or came to."""

    UNDER_WAY = "under way"
    FOUND = "found"
    OUT_OF_TRIALS = "out of trials"
    NO_REFERENCE = "the reference has no number"
    NO_TARGET = "the target has no number"
    NO_DIFFERENCE = "no difference"


@dataclass(frozen=True)
class Goal:
    """What is asked for.

    Attributes:
        share: of the log slowdown that the set must keep, in (0, 1).
        limit: trials at most.
        confirm_trials: full trials of the set at the end.
    """

    share: float
    limit: int
    confirm_trials: int


@dataclass
class Bisection:
    """The state of a bisection.

    Attributes:
        names: of the changes; a subset holds places in it.
        groups: by name of a change, its group.
        inert: changes that read the same at both ends; told with the first results, and left out.
        found: the set that the search has come to.
        outcome: what is bisected where the target has no throughput; None: its throughput is.
        needed, needless: members of `found` without which it was tested and loses, or keeps.
    """

    names: Sequence[str]
    groups: Mapping[str, str]
    goal: Goal
    replicates: int = 1
    inert: Subset = frozenset()
    found: Subset = frozenset()
    ending: Ending = Ending.UNDER_WAY
    outcome: Outcome | None = None
    book: Book = field(init=False)
    _course: Generator[tuple[Look, ...], None, None] = field(init=False, repr=False)
    _wanted: tuple[Look, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.book = Book(len(self.names), self.goal.limit, self.replicates)
        self.found = self.book.all
        self._course = self._go()
        self._wanted = next(self._course, ())

    def wanted(self) -> tuple[Look, ...]:
        """Return the looks that are to come next, all of one length; none: it is over."""
        return self._wanted

    def tell(self, shots: Sequence[Shot], inert: Subset = frozenset()) -> None:
        """Go on with what came of the looks wanted."""
        self.inert |= inert
        self.book.add(shots)
        self._wanted = next(self._course, ())

    @property
    def reserve(self) -> int:
        """Trials that are kept back for the confirmation at the end: of the set, and of the reference."""
        return self.goal.confirm_trials + 1

    # --- the course ----------------------------------------------------------------------------

    def _go(self) -> Wanted:
        book = self.book
        if not self.names:
            self.ending = Ending.NO_DIFFERENCE
            return
        yield (*[Look(book.none)] * REFERENCE_TRIALS, Look(book.all))
        if not book.readings(book.none):
            self.ending = Ending.NO_REFERENCE
            return
        if not book.readings(book.all):
            yield tuple([Look(book.all)] * (OUTCOME_TRIALS - 1))
        if book.readings(book.all):
            yield from self._bisect_throughput()
        else:
            yield from self._bisect_outcome()

    def _units(self) -> tuple[Node, ...]:
        """Return the groups of the changes that are not inert."""
        places = [at for at in range(len(self.names)) if at not in self.inert]
        found = units([self.names[at] for at in places], self.groups)
        return tuple(_moved(node, places) for node in found)

    # --- an outcome such as "did not start" ----------------------------------------------------

    def _bisect_outcome(self) -> Wanted:
        book = self.book
        outcomes = {shot.outcome for shot in book.of(book.all)}
        if len(outcomes) > 1 or not outcomes <= {*BROKEN}:
            self.ending = Ending.NO_TARGET
            return
        (self.outcome,) = outcomes
        families = self._units()
        groups = [part for node in families for part in node.parts or (node,)]
        search = smallest_set([node.members for node in groups])
        subset = next(search, None)
        while subset is not None:
            verdict = yield from self._outcome_test(subset)
            if verdict is Verdict.KEEPS:
                self.found = subset
            if book.left <= 0:
                self.ending = Ending.OUT_OF_TRIALS
                return
            try:
                subset = search.send(verdict)
            except StopIteration as done:
                self.found, subset = done.value, None
        yield from self._repeat_outcome()

    def _outcome_test(self, subset: Subset) -> Generator[tuple[Look, ...], None, Verdict]:
        book = self.book
        if book.all - self.inert <= subset:
            return Verdict.KEEPS  # it is the target
        book.stage = "parts"
        if not book.of(subset):
            yield (Look(subset),)
        book.tests[subset].verdict = self._outcome_verdict(subset)
        return book.tests[subset].verdict

    def _repeat_outcome(self) -> Wanted:
        """Have the set that was found end so once more: once may have been chance."""
        book = self.book
        book.stage = "confirm"
        missing = OUTCOME_TRIALS - len(book.of(self.found))
        if missing > 0:
            yield tuple([Look(self.found)] * min(missing, max(book.left, 1)))
        is_same = self._outcome_verdict(self.found) is Verdict.KEEPS
        book.tests[self.found].verdict = self._outcome_verdict(self.found)
        self.ending = Ending.FOUND if is_same else Ending.OUT_OF_TRIALS

    def _outcome_verdict(self, subset: Subset) -> Verdict:
        """A trial with a number has lost the outcome; another outcome than the target's says nothing."""
        shots = self.book.of(subset)
        if any(shot.reading is not None for shot in shots):
            return Verdict.LOSES
        is_same = all(shot.outcome is self.outcome for shot in shots)
        return Verdict.KEEPS if shots and is_same else Verdict.UNRESOLVED

    # --- throughput ----------------------------------------------------------------------------

    def _bisect_throughput(self) -> Wanted:
        book = self.book
        book.has_slow_target = book.commits(book.all) < FEW_COMMITS
        if book.has_slow_target:
            yield tuple([Look(book.all, is_brief=False)] * SLOW_TARGET_TRIALS)
        else:
            yield tuple([Look(book.all)] * (TARGET_TRIALS - 1))
        book.threshold = self._threshold()
        if book.threshold.whole <= DIFFERS * book.threshold.whole_se:
            self.ending = Ending.NO_DIFFERENCE
            return
        book.reserved = self.reserve
        aim = self.goal.share + AIM * (1 - self.goal.share)
        search = Search(book, self._units(), aim)
        yield from self._following_drift(search.run())
        self.found = search.candidate or book.all
        yield from self._leave_out_one_by_one(search)
        book.reserved = 0
        yield from self._confirm(search)

    def _following_drift(self, course: Wanted) -> Wanted:
        """Run the reference again among every block of several sets, and now and then; the target where it may matter.

        All effects are differences from the reference: a machine that became slower meanwhile would
        make every one of them look larger.
        """
        book, looks = self.book, 0
        for wanted in course:
            threshold = book.threshold
            assert threshold is not None, "the ends come first"
            is_small = threshold.noise_sd > DRIFT_MATTERS * threshold.whole
            ends: tuple[Look, ...] = ()
            is_due = looks >= LOOKS_BETWEEN_ENDS
            if wanted[0].is_brief and (is_due or len(wanted) >= SEVERAL):
                ends = (Look(book.none), *([Look(book.all)] if is_due and is_small else []))
            if book.left < len(wanted) + len(ends):
                ends = ()
            yield wanted + ends
            looks = 0 if ends else looks + len(wanted)
            if ends:
                book.threshold = self._threshold()

    def _threshold(self) -> Threshold:
        """Return the threshold from all trials of both ends so far."""
        book = self.book
        ends = [book.judged(book.none), book.judged(book.all)]
        noise_sd = noise_between(ends)
        reference, target = (estimate(readings, noise_sd) for readings in ends)
        return Threshold(reference, target, noise_sd, self.goal.share)

    def _leave_out_one_by_one(self, search: Search) -> Wanted:
        """Show of each member that it is needed, the smallest first; leave out one that is not."""
        book = self.book
        book.stage = "without one"
        assert book.threshold is not None, "the ends come first"
        small = SMALL * (1 - self.goal.share) * book.threshold.whole
        for member in sorted(self.found, key=lambda one: (search.gain_of(one), one)):
            smaller = self.found - {member}
            if not smaller:
                continue
            if not book.of(smaller) and book.left > 0:
                yield (Look(smaller),)
            # One short trial of a slow set is a weak reason to leave out what was seen to carry something.
            is_likely = not book.has_slow_target or search.gain_of(member) < small
            if is_likely and book.of(smaller) and book.verdict(smaller) is Verdict.KEEPS:
                self.found = smaller

    def _confirm(self, search: Search) -> Wanted:
        book = self.book
        while True:
            book.stage = "confirm"
            wanted = self._missing()
            if wanted:
                yield wanted
            book.threshold = self._threshold()
            share = self.share_held()
            if share is None:
                self.ending = Ending.OUT_OF_TRIALS
                return
            is_backed = search.backs(self.found)
            is_near = abs(share.log - self.goal.share) < share.se * SURE
            if is_near and book.left >= 2 and not (is_backed and share.log >= self.goal.share):
                yield tuple(Look(x, is_brief=False) for x in (self.found, book.all))
                continue
            reach = BACKED * share.se if is_backed else 0.0
            if share.log + reach >= self.goal.share:
                self.ending = Ending.FOUND
                return
            before = self.found
            if book.left >= self.goal.confirm_trials:
                search.candidate = self.found
                book.reserved = self.goal.confirm_trials
                yield from search.add_next()
                book.reserved = 0
                self.found = search.candidate
            if self.found == before:
                self.ending = Ending.OUT_OF_TRIALS
                return

    def _missing(self) -> tuple[Look, ...]:
        """Return the full trials that the confirmation lacks, as far as there are trials left."""
        book, wanted = self.book, []
        for subset, count in (
            (self.found, self.goal.confirm_trials),
            (book.none, 1),
            (book.all, self.goal.confirm_trials),
        ):
            have = len(book.of(subset, is_brief=False)) // self.replicates
            wanted += [Look(subset, is_brief=False)] * max(count - have, 0)
        return tuple(wanted[: max(book.left, 0)])

    def share_held(self) -> Estimate | None:
        """Return the share of the log slowdown that the full trials show the set to hold."""
        book = self.book
        ends = [book.readings(x, is_brief=False) for x in (book.none, self.found, book.all)]
        if not all(ends) or book.threshold is None:
            return None
        reference, held, target = (estimate(x, book.threshold.noise_sd) for x in ends)
        whole = reference.log - target.log
        if not whole:
            return None
        share = (reference.log - held.log) / whole
        # The delta method; the reference is on both sides of the fraction.
        se = math.hypot((1 - share) * reference.se, held.se, share * target.se) / abs(whole)
        return Estimate(share, se)


def _moved(node: Node, places: Sequence[int]) -> Node:
    return Node(
        frozenset(places[at] for at in node.members),
        tuple(_moved(part, places) for part in node.parts),
        node.label,
    )
