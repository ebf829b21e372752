"""Which small set of changes keeps enough of the slowdown? A search led by how much each piece carries.

Tests near the target are slow and know little: few commits. The search therefore measures pieces upon
the reference, where trials are short and sharp, and adds them up; only sets that should be enough are
tried as a whole. Where effects do not add up (one setting only hurts upon another), it measures upon
what it has found already. Nothing is believed because it adds up: what is found was tested itself.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

from pgdrag.designs.bisect.looks import Book, Look, Wanted
from pgdrag.designs.bisect.oracle import Threshold, Verdict
from pgdrag.designs.bisect.piece_sums import Piece, Pieces
from pgdrag.designs.bisect.pieces import Node, Subset

TRIALS_A_TEST = 3
FEW_COMMITS = 30.0  # of the target's first short trial; with fewer, whole sets get full trials

_MOST_SHIFTS = 4  # of the base
# Parts of the whole: a piece that carries less is not worth moving the base for, one that carries less
# is measured itself before it is built upon, and a set that misses its sum by more does not add up.
_WORTH_A_SHIFT, _VERIFY_BELOW, _MISSED = 0.05, 0.1, 0.12
_DOMINANT = 0.7  # part of the whole from which a piece may hide what the others do
_FADED = 2.5  # standard errors by which the others must do otherwise in its company than alone
_SPARE = 0.1  # of what may be lost, not given away: one trial of all that is left out is noisy, too

Test = Generator[tuple[Look, ...], None, Verdict]


class Search:
    """The search, as a generator of looks; `candidate` is the set it has come to.

    Args:
        book: with a threshold in it already.
        units: the groups of the changes.
        aim: part of the whole that pieces must add up to before a set is tried.
    """

    def __init__(self, book: Book, units: Sequence[Node], aim: float) -> None:
        self._book = book
        self._pieces = Pieces(book, units, aim)
        self.candidate: Subset = book.none

    @property
    def _threshold(self) -> Threshold:
        return self._pieces.threshold

    def run(self) -> Wanted:
        """Ask for looks until a candidate keeps enough, or the trials are used up."""
        verdict = yield from self._build_up()
        if verdict is not Verdict.KEEPS and self._is_far_short():
            yield from self._drop_from_target()

    def backs(self, found: Subset) -> bool:
        """Tell whether effects add up, and what is left out of a set was seen to carry little enough."""
        pieces = self._pieces
        if pieces.base:
            return False  # something counts only in company, and what is left out might, too
        rest = pieces.rest(found)
        was_seen = not rest or bool(self._book.of(pieces.base | rest))
        return pieces.adds_up() and was_seen and pieces.gain(rest) <= pieces.may_lose()

    def gain_of(self, member: int) -> float:
        """Return what a single change carries by itself; infinite where it was never told apart."""
        return next((x.gain for x in self._pieces.items if x.members == {member}), math.inf)

    # --- upwards, from the reference -----------------------------------------------------------

    def _build_up(self) -> Test:
        verdict, pieces = Verdict.UNRESOLVED, self._pieces
        yield from pieces.measure_units()
        for _ in range(_MOST_SHIFTS):
            if self._book.left > _MOST_SHIFTS and pieces.falls_short():
                if (yield from self._shift_to_largest()):
                    continue
                # Nothing that counts shows by itself: what counts can only be found from the other end.
                self.candidate = pieces.base
                return Verdict.LOSES
            if (yield from self._shift_to_dominant()):
                continue
            yield from self._refine()
            verdict = yield from self._test_and_add()
            if verdict is not Verdict.LOSES or self._book.left <= len(pieces.units):
                break
            yield from pieces.shift(self.candidate)
        return verdict

    def _shift_to_largest(self) -> Generator[tuple[Look, ...], None, bool]:
        """Take the largest piece into the base, as small as it can be, and measure the others upon it."""
        pieces = self._pieces
        least = max(2 * pieces.tolerance, _WORTH_A_SHIFT * self._threshold.whole)
        largest = yield from self._largest(least)
        if largest is None:
            return False
        yield from pieces.shift(pieces.base | largest.members)
        return True

    def _shift_to_dominant(self) -> Generator[tuple[Look, ...], None, bool]:
        """Take a piece that carries most into the base, if others carry upon it what they do not upon the reference.

        Where nearly all time goes to one mistake, what the others add to the reference is hardly there
        any more, and others count instead; the sum of all may be the same. So the others are parted
        into two halves that carry about as much upon the reference, and each half is tried in its
        company: there, too, they should differ by no more and no less than they do alone.
        """
        pieces, whole = self._pieces, self._threshold.whole
        if pieces.base or self._book.left <= 2 * len(pieces.units):
            return False
        largest = yield from self._largest(_DOMINANT * whole)
        if largest is None:
            return False
        others = sorted((x for x in pieces.items if x is not largest), key=lambda x: -x.gain)
        more, less = self._parted([x for x in others if not x.members <= pieces.redundant])
        if not more or not less:
            return False
        company = [
            largest.members.union(*(piece.members for piece in side)) for side in (more, less)
        ]
        yield from pieces.look(company)
        there, here = (self._book.effect(members) for members in company)
        if there is None or here is None:
            return False
        expected = sum(piece.gain for piece in more) - sum(piece.gain for piece in less)
        missed = expected - (there.log - here.log)
        if abs(missed) <= _FADED * math.hypot(there.se, here.se):
            return False
        yield from pieces.shift(pieces.base | largest.members)
        return True

    @staticmethod
    def _parted(others: Sequence[Piece]) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Return the pieces that carry half of what all do, the largest first, and the others."""
        half, carried = sum(max(piece.gain, 0.0) for piece in others) / 2, 0.0
        for at, piece in enumerate(others):
            carried += max(piece.gain, 0.0)
            if carried >= half:
                return others[: at + 1], others[at + 1 :]
        return others, ()

    def _largest(self, least: float) -> Generator[tuple[Look, ...], None, Piece | None]:
        """Take the largest piece apart until it is as small as it can be; None: it carries too little."""
        pieces = self._pieces
        largest = max(pieces.items, key=lambda x: x.gain, default=None)
        if largest is None or largest.gain <= least:
            return None
        while len(largest.members) > 1 and not largest.is_joint and self._book.left > 0:
            yield from pieces.split(largest)
            largest = max(pieces.items, key=lambda x: x.gain)
        return largest

    def _refine(self) -> Wanted:
        """Take the pieces of the solution apart until they are single changes, the small ones measured."""
        pieces = self._pieces
        while self._book.left > 0:
            chosen, _ = pieces.solution()
            many = [x for x in chosen if len(x.members) > 1 and not x.is_joint and not x.is_final]
            large = _VERIFY_BELOW * self._threshold.whole
            inferred = [x for x in chosen if not x.is_measured and x.gain < large]
            joint = [x for x in chosen if x.is_joint and not x.is_final]
            if many:
                yield from pieces.split(max(many, key=lambda x: x.gain))
            elif inferred:
                yield from pieces.verify(max(inferred, key=lambda x: x.gain))
            elif joint:
                yield from pieces.reduce_joint(joint[0])
            else:
                break
        chosen, _ = pieces.solution()
        self.candidate = pieces.base.union(*(x.members for x in chosen))

    # --- the candidate -------------------------------------------------------------------------

    def _test_and_add(self) -> Test:
        """Test the candidate; add the next piece while it is nearly enough. LOSES: far from what adds up."""
        while True:
            yield from self._fill_up()
            self._book.stage = "set"
            verdict = yield from self._test(self.candidate)
            effect = self._book.effect(self.candidate)
            self._book.stage = "parts"
            if effect is None:
                return Verdict.LOSES
            needed = self._threshold.share * self._threshold.whole
            if verdict is Verdict.KEEPS or (verdict is Verdict.UNRESOLVED and effect.log >= needed):
                return Verdict.KEEPS
            chosen, total = self._pieces.solution()
            noise = math.hypot(effect.se, self._pieces.tolerance * math.sqrt(len(chosen)))
            if total - effect.log > max(_MISSED * self._threshold.whole, 3 * noise):
                return Verdict.LOSES
            before = self.candidate
            if not self._is_far_short():
                yield from self.add_next()
            if self.candidate == before or self._book.left <= 0:
                return Verdict.UNRESOLVED

    def _fill_up(self) -> Wanted:
        """Add pieces until what is left out carries little enough by itself.

        Where effects add up, one short trial of all that is left out tells more than full ones of the
        candidate: it is fast, and its error is one of what may be lost, and not of the whole.
        """
        pieces = self._pieces
        while pieces.adds_up() and self._book.left > 0:
            rest = pieces.rest(self.candidate)
            if not rest:
                return
            yield from pieces.look([pieces.base | rest])
            if pieces.gain(rest) <= (1 - _SPARE) * pieces.may_lose():
                return
            before = self.candidate
            yield from self.add_next()
            if self.candidate == before:
                return

    def add_next(self) -> Wanted:
        """Take the most promising piece that is left out into the candidate, in as few settings as can be."""
        pieces = self._pieces
        while True:
            rest = pieces.left_over(self.candidate)
            best = max(rest, key=lambda x: x.worth, default=None)
            if best is None:
                return
            if len(best.members) == 1 or best.is_final:
                break
            if self._book.left <= 0:
                # No trial is left to take it apart: a single change that is known is the better guess.
                singles = [x for x in rest if len(x.members) == 1 or x.is_final]
                best = max(singles, key=lambda x: x.worth, default=best)
                break
            yield from pieces.reduce_joint(best) if best.is_joint else pieces.split(best)
        best.is_forced = True
        self.candidate |= best.members

    def _test(self, subset: Subset) -> Test:
        """Test one set until the verdict is clear, or it had its trials."""
        is_brief = not self._book.has_slow_target
        while True:
            found = self._book.of(subset, is_brief=is_brief)
            verdict = self._book.verdict(subset) if found else Verdict.UNRESOLVED
            is_over = verdict is not Verdict.UNRESOLVED or len(found) >= TRIALS_A_TEST
            if is_over or self._book.left <= 0:
                return verdict
            yield (Look(subset, is_brief),)

    # --- downwards, from the target ------------------------------------------------------------

    def _is_far_short(self) -> bool:
        """The candidate misses by more than all that is left shows, and there are trials left to go on."""
        effect = self._book.effect(self.candidate)
        if effect is None or self._book.left < len(self._pieces.units):
            return False
        shortfall = self._threshold.share * self._threshold.whole - effect.log
        shown = sum(x.gain for x in self._pieces.left_over(self.candidate))
        return shortfall - shown > 2 * math.hypot(effect.se, self._threshold.noise_sd)

    def _drop_from_target(self) -> Wanted:
        """Leave out of the target what can be left out, where single pieces show nothing upon the base."""
        self._book.stage = "left out"
        kept = self._pieces.every
        todo = [list(self._pieces.units)]
        while todo and self._book.left > 0:
            nodes = todo.pop()
            gone = frozenset[int]().union(*(node.members for node in nodes)) - self.candidate
            if not gone:
                continue
            verdict = yield from self._test(kept - gone)
            if verdict is Verdict.KEEPS:
                kept -= gone
            elif len(nodes) > 1:
                middle = len(nodes) // 2
                todo += [nodes[middle:], nodes[:middle]]
            elif len(nodes[0].members) > 1:
                todo += [[half] for half in reversed(nodes[0].halves())]
        self.candidate = kept
