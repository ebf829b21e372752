"""Which small set of changes keeps enough of the slowdown? A search led by how much each piece carries.

A trial near the target commits little and so says little. The search therefore adds pieces to the
reference, where short trials are precise, and adds up what they do; only sets that should be enough are
tried as a whole. Where effects do not add up (one setting only hurts together with another), it adds
pieces to what it has found already. A sum is never the evidence: the set found was tested itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from pgdrag.designs._subsets import Changes, Request, Steps
from pgdrag.designs.bisect.history import History, SetVerdict
from pgdrag.designs.bisect.pieces import Node, Piece, Pieces

TRIALS_A_TEST = 3
FEW_COMMITS = 30.0  # of the target's first short trial; with fewer, whole sets get full trials

_MOST_SHIFTS = 4  # of the base
# Parts of the whole: a piece that carries less is not worth moving the base for, one that carries less
# is measured itself before it is relied on, and a set that misses its sum by more does not add up.
_WORTH_A_SHIFT, _VERIFY_BELOW, _MISSED = 0.05, 0.1, 0.12
_DOMINANT = 0.7  # part of the whole from which a piece may hide what the others do
_FADED = 2.5  # standard errors by which the others must differ with it from what they do alone
_SPARE = 0.1  # of what may be lost, kept in hand: a trial of all that is left out is noisy, too


class Search:
    """The search, in steps; `candidate` is the current set.

    Args:
        history: with a threshold in it already.
        units: the groups of the changes.
        aim: part of the whole that pieces must add up to before a set is tried.
    """

    def __init__(self, history: History, units: Sequence[Node], aim: float) -> None:
        self._history = history
        self.pieces = Pieces(history, units, aim)
        self.candidate: Changes = history.none

    def run(self) -> Steps[None]:
        """Ask for trials until a candidate keeps enough, or the trials are used up."""
        verdict = yield from self._build_up()
        if verdict is not SetVerdict.KEEPS and self._is_far_short():
            yield from self._drop_from_target()

    def backs(self, found: Changes) -> bool:
        """Tell whether effects add up, and what a set leaves out was seen to carry little enough."""
        pieces = self.pieces
        if pieces.base:
            return False  # something only counts with another, and what is left out might, too
        rest = pieces.rest(found)
        was_seen = not rest or bool(self._history.of(rest))
        return pieces.adds_up() and was_seen and pieces.gain(rest) <= pieces.may_lose

    # --- upwards, from the reference -----------------------------------------------------------

    def _build_up(self) -> Steps[SetVerdict]:
        verdict, pieces = SetVerdict.UNRESOLVED, self.pieces
        yield from pieces.measure_units(pieces.base)
        for _ in range(_MOST_SHIFTS):
            if self._history.left > _MOST_SHIFTS and pieces.falls_short():
                least = max(2 * pieces.tolerance, _WORTH_A_SHIFT * pieces.whole)
                largest = yield from self._largest(least)
                if largest is None:
                    # No piece carries anything alone: what counts can only be found from the target.
                    self.candidate = pieces.base
                    return SetVerdict.LOSES
                yield from pieces.measure_units(pieces.base | largest.members)
                continue
            dominant = yield from self._hiding_piece()
            if dominant is not None:
                yield from pieces.measure_units(pieces.base | dominant.members)
                continue
            yield from self._refine()
            verdict = yield from self._test_and_add()
            if verdict is not SetVerdict.LOSES or self._history.left <= len(pieces.units):
                break
            yield from pieces.measure_units(self.candidate)
        return verdict

    def _hiding_piece(self) -> Steps[Piece | None]:
        """Find a piece that carries most, and with which the others carry what they do not carry alone.

        Where nearly all time goes to one mistake, what the others add to the reference hardly shows beside
        it, and others count instead; the sum of all may be the same. So the others are divided into two
        halves that carry about as much alone, and each is tried with the largest piece: the two should
        differ by as much as they do alone.
        """
        pieces, history = self.pieces, self._history
        if pieces.base or history.left <= 2 * len(pieces.units):
            return None
        largest = yield from self._largest(_DOMINANT * pieces.whole)
        if largest is None:
            return None
        others = sorted((x for x in pieces.items if x is not largest), key=lambda x: -x.gain)
        others = [x for x in others if not x.members <= pieces.redundant]
        carried = list(accumulate(max(piece.gain, 0.0) for piece in others))
        half = next((at for at, x in enumerate(carried, 1) if x >= carried[-1] / 2), 0)
        more, less = others[:half], others[half:]
        if not more or not less:
            return None
        both = [largest.members.union(*(x.members for x in side)) for side in (more, less)]
        yield from pieces.measure(both)
        there, here = (history.effect(members) for members in both)
        if there is None or here is None:
            return None
        expected = sum(piece.gain for piece in more) - sum(piece.gain for piece in less)
        missed = abs(expected - (there.log - here.log))
        return largest if missed > _FADED * math.hypot(there.se, here.se) else None

    def _largest(self, least: float) -> Steps[Piece | None]:
        """Split the largest piece until it is as small as it can be; None: it carries too little."""
        pieces = self.pieces
        largest = max(pieces.items, key=lambda x: x.gain, default=None)
        if largest is None or largest.gain <= least:
            return None
        while len(largest.members) > 1 and not largest.is_joint and self._history.left > 0:
            yield from pieces.split(largest)
            largest = max(pieces.items, key=lambda x: x.gain)
        return largest

    def _refine(self) -> Steps[None]:
        """Split the pieces of the solution until they are single changes, and measure the small ones."""
        pieces = self.pieces
        while self._history.left > 0:
            chosen, _ = pieces.solution()
            many = [x for x in chosen if len(x.members) > 1 and not x.is_joint and not x.is_final]
            large = _VERIFY_BELOW * pieces.whole
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

    def _test_and_add(self) -> Steps[SetVerdict]:
        """Test the candidate; add pieces while it is nearly enough. LOSES: far from what adds up."""
        pieces, history = self.pieces, self._history
        while True:
            yield from self._fill_up()
            history.stage = "set"
            verdict = yield from self._test(self.candidate)
            effect = history.effect(self.candidate)
            history.stage = "parts"
            if effect is None:
                return SetVerdict.LOSES
            is_enough = effect.log >= history.threshold.share * pieces.whole
            if verdict is SetVerdict.KEEPS or (verdict is SetVerdict.UNRESOLVED and is_enough):
                return SetVerdict.KEEPS
            chosen, total = pieces.solution()
            noise = math.hypot(effect.se, pieces.tolerance * math.sqrt(len(chosen)))
            if total - effect.log > max(_MISSED * pieces.whole, 3 * noise):
                return SetVerdict.LOSES
            before = self.candidate
            if not self._is_far_short():
                yield from self.add_next()
            if self.candidate == before or history.left <= 0:
                return SetVerdict.UNRESOLVED

    def _fill_up(self) -> Steps[None]:
        """Add pieces until the rest has little effect of its own.

        Where effects add up, one short trial of all that is left out says more than full ones of the
        candidate: it is fast, and its error is relative to what may be lost, not to the whole.
        """
        pieces = self.pieces
        while pieces.adds_up() and self._history.left > 0:
            rest = pieces.rest(self.candidate)
            if not rest:
                return
            yield from pieces.measure([pieces.base | rest])
            if pieces.gain(rest) <= (1 - _SPARE) * pieces.may_lose:
                return
            before = self.candidate
            yield from self.add_next()
            if self.candidate == before:
                return

    def add_next(self) -> Steps[None]:
        """Add the most promising piece left out to the candidate, in as few settings as can be."""
        pieces = self.pieces
        while True:
            rest = pieces.left_out(self.candidate)
            best = max(rest, key=lambda x: x.worth, default=None)
            if best is None:
                return
            if len(best.members) == 1 or best.is_final:
                break
            if self._history.left <= 0:
                # No trial is left to split it: a single change that is known is the better guess.
                singles = [x for x in rest if len(x.members) == 1 or x.is_final]
                best = max(singles, key=lambda x: x.worth, default=best)
                break
            yield from pieces.reduce_joint(best) if best.is_joint else pieces.split(best)
        best.is_forced = True
        self.candidate |= best.members

    def _test(self, subset: Changes) -> Steps[SetVerdict]:
        """Test one set until the verdict is clear, or it had its trials."""
        history = self._history
        is_brief = not history.has_slow_target
        while True:
            count = len(history.of(subset, is_brief=is_brief))
            verdict = history.verdict(subset) if count else SetVerdict.UNRESOLVED
            is_over = verdict is not SetVerdict.UNRESOLVED or count >= TRIALS_A_TEST
            if is_over or history.left <= 0:
                return verdict
            yield Request((subset,), is_brief)

    # --- downwards, from the target ------------------------------------------------------------

    def _is_far_short(self) -> bool:
        """The candidate misses by more than all pieces left out carry, and there are trials left."""
        history, pieces = self._history, self.pieces
        effect = history.effect(self.candidate)
        if effect is None or history.left < len(pieces.units):
            return False
        shortfall = history.threshold.share * pieces.whole - effect.log
        known = sum(x.gain for x in pieces.left_out(self.candidate))
        return shortfall - known > 2 * math.hypot(effect.se, history.threshold.noise_sd)

    def _drop_from_target(self) -> Steps[None]:
        """Leave out of the target what can be left out, where single pieces add nothing to the base."""
        self._history.stage = "left out"
        kept = self.pieces.every
        todo = [list(self.pieces.units)]
        while todo and self._history.left > 0:
            nodes = todo.pop()
            gone = frozenset[int]().union(*(node.members for node in nodes)) - self.candidate
            if not gone:
                continue
            verdict = yield from self._test(kept - gone)
            if verdict is SetVerdict.KEEPS:
                kept -= gone
            elif len(nodes) > 1:
                middle = len(nodes) // 2
                todo += [nodes[middle:], nodes[:middle]]
            elif len(nodes[0].members) > 1:
                todo += [[half] for half in reversed(nodes[0].halves())]
        self.candidate = kept
