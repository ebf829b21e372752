"""Which small set of changes keeps enough of the slowdown? A search led by how much each piece carries.

Tests near the target are slow and know little: few commits. The search therefore measures pieces upon
the reference, where trials are short and sharp, and adds them up; only sets that should be enough are
tried as a whole. Where effects do not add up (one setting only hurts upon another), it measures upon
what it has found already. Nothing is believed because it adds up: what is found was tested itself.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

from pgdrag.analysis.looks import Book, Look, Wanted
from pgdrag.analysis.oracle import Threshold, Verdict
from pgdrag.analysis.pieces import Node, Subset

TRIALS_A_TEST = 3
MOST_SHIFTS = 4
FEW_COMMITS = 30.0  # of the target's first short trial; with fewer, whole sets get full trials

_DENSITY = 0.75  # how much less a piece twice as large is worth: it must still be taken apart
_JOINT_WORTH = 0.25  # the same where parts of it do nothing alone

_NEARLY_ALL, _NEARLY_NONE = 0.85, 0.15
_ENOUGH_JOINT = 0.5
_LARGE = 0.1
_SPARE = 0.1
_WORTH_ADDING = 0.33
_VERIFY_BELOW = 0.1
_TOLERANCE = 1.5


@dataclass(eq=False)
class Piece:
    """Some of the changes, and what they carry upon the base.

    Attributes:
        gain: log ratio that they add to the base.
        is_measured: as a whole; else what is left of a larger piece.
        is_joint: neither half alone carries what both do.
        is_final: not to be taken apart any further.
    """

    node: Node
    gain: float
    is_measured: bool
    is_joint: bool = False
    is_final: bool = False
    is_forced: bool = False
    members: Subset = field(init=False)

    def __post_init__(self) -> None:
        self.members = self.node.members

    @property
    def worth(self) -> float:
        """Gain, less where it stands for many settings of which some may be needed for nothing."""
        scale = math.pow(_DENSITY, math.log2(len(self.members)))
        return self.gain * scale * (_JOINT_WORTH if self.is_joint and not self.is_final else 1.0)


class Search:
    """The search, as a generator of looks; `candidate` is the set it has come to."""

    def __init__(self, book: Book, units: Sequence[Node], aim: float) -> None:
        assert book.threshold is not None, "the ends come first"
        self._book = book
        self._units = units
        self._aim = aim
        self._base: Subset = book.none
        self._pieces: list[Piece] = []
        self._unit_gains: list[float] = []
        self._redundant: Subset = book.none  # what the other half of a large piece does already
        self._shots = self._shots_a_look()
        self.candidate: Subset = book.none

    @property
    def _threshold(self) -> Threshold:
        assert self._book.threshold is not None, "the ends come first"
        return self._book.threshold

    @property
    def _need(self) -> float:
        """What the pieces should add up to."""
        return self._aim * self._threshold.whole

    @property
    def _tolerance(self) -> float:
        """What a piece must carry to be told from noise."""
        return _TOLERANCE * self._threshold.noise_sd

    def _shots_a_look(self) -> int:
        """How many trials a piece takes: more where the whole is small beside the noise."""
        relative = self._threshold.noise_sd / self._threshold.whole
        return 1 if relative < 0.08 else 2 if relative < 0.15 else 3

    # --- the course ----------------------------------------------------------------------------

    def run(self) -> Wanted:
        """Ask for looks until a candidate keeps enough, or the trials are used up."""
        verdict = yield from self._build_up()
        if verdict is not Verdict.KEEPS and self._is_far_short():
            yield from self._drop_from_target()

    def _build_up(self) -> Generator[tuple[Look, ...], None, Verdict]:
        verdict = Verdict.UNRESOLVED
        yield from self._measure_units()
        for _ in range(MOST_SHIFTS):
            has_room = self._book.left > MOST_SHIFTS
            if has_room and self._falls_short():
                if (yield from self._shift_to_largest()):
                    continue
                # Nothing that counts shows by itself: what counts can only be found from the other end.
                self.candidate = self._base
                return Verdict.LOSES
            yield from self._refine()
            verdict = yield from self._test_and_add()
            if verdict is not Verdict.LOSES or self._book.left <= len(self._units):
                break
            self._base = self.candidate
            yield from self._measure_units()
        return verdict

    def add_next(self) -> Wanted:
        """Take the most promising piece that is left out into the candidate, in as few settings as can be."""
        while True:
            rest = self._left_over()
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
            yield from self._reduce_joint(best) if best.is_joint else self._split(best)
        best.is_forced = True
        self.candidate |= best.members

    def _left_over(self) -> list[Piece]:
        """Return the pieces that the candidate leaves out and that show something."""
        least = self._tolerance * _WORTH_ADDING
        return [x for x in self._pieces if not x.members <= self.candidate and x.gain > least]

    def gain_of(self, member: int) -> float:
        """Return what a single change carries by itself; infinite where it was never told apart."""
        return next((x.gain for x in self._pieces if x.members == {member}), math.inf)

    # --- looks ---------------------------------------------------------------------------------

    def _look(self, subsets: Iterable[Subset]) -> Wanted:
        """Have each of the sets looked at, unless it was."""
        new = [x for x in dict.fromkeys(subsets) if x and not self._book.of(x)]
        new = new[: max(self._book.left, 0)]
        if new:
            yield tuple(Look(x) for x in new for _ in range(self._shots))

    def _gain(self, members: Subset) -> float:
        """Return what a piece adds to the base; 0 where it has no number."""
        here, base = (
            self._book.effect(self._base | members),
            self._book.effect(self._base),
        )
        return here.log - base.log if here is not None and base is not None else 0.0

    def _measure_units(self) -> Wanted:
        self._book.stage = "groups"
        rest = [(node, node.members - self._base) for node in self._units]
        rest = [(node, members) for node, members in rest if members]
        yield from self._look([self._base, *(self._base | members for _, members in rest)])
        self._pieces = [
            Piece(node if members == node.members else Node(members), self._gain(members), True)
            for node, members in rest
        ]
        self._unit_gains = [piece.gain for piece in self._pieces]
        self._book.stage = "parts"

    def test(self, subset: Subset) -> Generator[tuple[Look, ...], None, Verdict]:
        """Test one set until the verdict is clear, or it had its trials."""
        is_brief = not self._book.has_slow_target
        while True:
            found = self._book.of(subset, is_brief=is_brief)
            verdict = self._book.verdict(subset) if found else Verdict.UNRESOLVED
            if verdict is not Verdict.UNRESOLVED or len(found) >= TRIALS_A_TEST:
                return verdict
            if self._book.left <= 0:
                return verdict
            yield (Look(subset, is_brief),)

    # --- the sum of the pieces -----------------------------------------------------------------

    def _base_effect(self) -> float:
        found = self._book.effect(self._base)
        return found.log if found is not None else 0.0

    def _solution(self) -> tuple[list[Piece], float]:
        """Return the pieces worth most that together should be enough, and what they add up to."""
        chosen = [x for x in self._pieces if x.is_forced]
        total = self._base_effect() + sum(x.gain for x in chosen)
        for piece in sorted(self._pieces, key=lambda x: -x.worth):
            if total >= self._need or piece.gain <= self._tolerance:
                break
            if not piece.is_forced:
                chosen.append(piece)
                total += piece.gain
        return chosen, total

    def _falls_short(self) -> bool:
        """All that the pieces carry is not enough: some of them only count together."""
        total = self._base_effect() + sum(max(x.gain, 0.0) for x in self._pieces)
        return total < self._need - max(2 * self._tolerance, 0.03 * self._threshold.whole)

    def _shift_to_largest(self) -> Generator[tuple[Look, ...], None, bool]:
        """Take the largest piece into the base, as small as it can be, and measure the others upon it."""
        largest = max(self._pieces, key=lambda x: x.gain, default=None)
        if largest is None or largest.gain <= max(
            2 * self._tolerance, 0.05 * self._threshold.whole
        ):
            return False
        while len(largest.members) > 1 and not largest.is_joint and self._book.left > 0:
            yield from self._split(largest)
            largest = max(self._pieces, key=lambda x: x.gain)
        self._base |= largest.members
        yield from self._measure_units()
        return True

    # --- taking apart --------------------------------------------------------------------------

    def _refine(self) -> Wanted:
        """Take the pieces of the solution apart until they are single changes, each measured itself."""
        while self._book.left > 0:
            chosen, _ = self._solution()
            many = [x for x in chosen if len(x.members) > 1 and not x.is_joint and not x.is_final]
            large = _VERIFY_BELOW * self._threshold.whole
            inferred = [x for x in chosen if not x.is_measured and x.gain < large]
            joint = [x for x in chosen if x.is_joint and not x.is_final]
            if many:
                yield from self._split(max(many, key=lambda x: x.gain))
            elif inferred:
                yield from self._verify(max(inferred, key=lambda x: x.gain))
            elif joint:
                yield from self._reduce_joint(joint[0])
            else:
                break
        chosen, _ = self._solution()
        self.candidate = self._base.union(*(x.members for x in chosen))

    def _split(self, piece: Piece) -> Wanted:
        first, second = piece.node.halves()
        yield from self._look([self._base | first.members])
        one = self._gain(first.members)
        other, is_measured = piece.gain - one, False
        if one >= _NEARLY_ALL * piece.gain or other < self._tolerance / 2:
            other = 0.0  # what the second half might do, the first does already
            if piece.gain > _LARGE * self._threshold.whole:
                self._redundant |= second.members
        elif one <= _NEARLY_NONE * piece.gain and len(second.members) > 1:
            yield from self._look([self._base | second.members])
            other, is_measured = self._gain(second.members), True
            if other < piece.gain / 2:
                piece.is_joint = True
                return
        self._pieces.remove(piece)
        self._pieces += [
            Piece(first, max(one, 0.0), True),
            Piece(second, max(other, 0.0), is_measured),
        ]

    def _verify(self, piece: Piece) -> Wanted:
        """Measure what was only inferred; more than inferred is what another piece does as well."""
        yield from self._look([self._base | piece.members])
        piece.gain = max(min(self._gain(piece.members), piece.gain + self._tolerance), 0.0)
        piece.is_measured = True

    def _reduce_joint(self, piece: Piece) -> Wanted:
        """Find the few members that only together do what a piece does.

        One half after the other is narrowed by halving, with what is left of the other half in place.
        """
        kept, enough = piece.members, piece.gain * _ENOUGH_JOINT
        for half in piece.node.halves():
            inside = sorted(half.members)
            while len(inside) > 1 and self._book.left > 0:
                middle = (len(inside) + 1) // 2
                for rest in (inside[:middle], inside[middle:]):
                    smaller = (kept - frozenset(inside)) | frozenset(rest)
                    yield from self._look([self._base | smaller])
                    if self._gain(smaller) >= enough:
                        kept, inside = smaller, rest
                        break
                else:
                    break  # both parts of this half are needed
        self._pieces.remove(piece)
        gain = piece.gain if kept == piece.members else self._gain(kept)
        self._pieces.append(Piece(Node(kept), gain, True, is_joint=True, is_final=True))

    # --- from the target's side ----------------------------------------------------------------

    def _is_far_short(self) -> bool:
        """The candidate misses by more than all that is left shows, and there are trials left to go on."""
        effect = self._book.effect(self.candidate)
        if effect is None or self._book.left < len(self._units):
            return False
        shortfall = self._threshold.share * self._threshold.whole - effect.log
        shown = sum(x.gain for x in self._left_over())
        return shortfall - shown > 2 * math.hypot(effect.se, self._threshold.noise_sd)

    def _drop_from_target(self) -> Wanted:
        """Leave out of the target what can be left out, where single pieces show nothing upon the base."""
        self._book.stage = "left out"
        kept = frozenset[int]().union(*(node.members for node in self._units))
        todo = [list(self._units)]
        while todo and self._book.left > 0:
            nodes = todo.pop()
            gone = frozenset[int]().union(*(node.members for node in nodes)) - self.candidate
            if not gone:
                continue
            verdict = yield from self.test(kept - gone)
            if verdict is Verdict.KEEPS:
                kept -= gone
            elif len(nodes) > 1:
                middle = len(nodes) // 2
                todo += [nodes[middle:], nodes[:middle]]
            elif len(nodes[0].members) > 1:
                todo += [[half] for half in reversed(nodes[0].halves())]
        self.candidate = kept

    # --- the candidate -------------------------------------------------------------------------

    def _fill_up(self) -> Wanted:
        """Add pieces until what is left out carries little enough by itself.

        Where effects add up, one short trial of all that is left out tells more than full ones of the
        candidate: it is fast, and its error is one of what may be lost, and not of the whole.
        """
        while self._adds_up() and self._book.left > 0:
            rest = self._rest(self.candidate)
            if not rest:
                return
            yield from self._look([self._base | rest])
            if self._gain(rest) <= (1 - _SPARE) * self._may_lose():
                return
            before = self.candidate
            yield from self.add_next()
            if self.candidate == before:
                return

    def backs(self, found: Subset) -> bool:
        """Tell whether effects add up, and what is left out of a set was seen to carry little enough."""
        rest = self._rest(found)
        was_seen = not rest or bool(self._book.of(self._base | rest))
        return self._adds_up() and was_seen and self._gain(rest) <= self._may_lose()

    def _may_lose(self) -> float:
        return (1 - self._threshold.share) * self._threshold.whole

    def _rest(self, found: Subset) -> Subset:
        """Return what a set leaves out, but for what one of its members does as well."""
        every = frozenset[int]().union(*(node.members for node in self._units))
        return every - found - self._redundant

    def _adds_up(self) -> bool:
        """The units' gains sum up to the whole, as far as can be told: none does what another does."""
        total = self._base_effect() + sum(self._unit_gains)
        noise = math.hypot(
            self._threshold.whole_se,
            self._threshold.noise_sd * math.sqrt(len(self._unit_gains) + 1),
        )
        return abs(total - self._threshold.whole) < 3 * noise

    def _test_and_add(self) -> Generator[tuple[Look, ...], None, Verdict]:
        """Test the candidate; add the next piece while it is nearly enough. LOSES: far from what adds up."""
        while True:
            yield from self._fill_up()
            self._book.stage = "set"
            verdict = yield from self.test(self.candidate)
            effect = self._book.effect(self.candidate)
            self._book.stage = "parts"
            if effect is None:
                return Verdict.LOSES
            needed = self._threshold.share * self._threshold.whole
            if verdict is Verdict.KEEPS or (verdict is Verdict.UNRESOLVED and effect.log >= needed):
                return Verdict.KEEPS
            chosen, total = self._solution()
            noise = math.hypot(effect.se, self._tolerance * math.sqrt(len(chosen)))
            if total - effect.log > max(0.12 * self._threshold.whole, 3 * noise):
                return Verdict.LOSES
            before = self.candidate
            if not self._is_far_short():
                yield from self.add_next()
            if self.candidate == before or self._book.left <= 0:
                return Verdict.UNRESOLVED
