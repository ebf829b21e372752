"""What do pieces of the changes carry upon a base, and what do they add up to?

Pieces are measured upon what is in place already, by short trials; a piece is taken apart into halves,
of which often only one needs a trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pgdrag.designs.bisect.looks import Book, Look, Wanted
from pgdrag.designs.bisect.oracle import Threshold
from pgdrag.designs.bisect.pieces import Node, Subset

# Parts of a piece's gain at which one half is taken to carry all of it, or none.
_NEARLY_ALL, _NEARLY_NONE = 0.85, 0.15
_ENOUGH_JOINT = 0.5  # part of its gain that a joint piece must keep when it is narrowed
_DENSITY = 0.75  # how much less a piece twice as large is worth: it must still be taken apart
_JOINT_WORTH = 0.25  # the same where its halves do nothing alone
_TOLERANCE = 1.5  # standard deviations of the noise that a gain must reach to count
_WORTH_ADDING = 0.33  # of that, to be worth a trial in a set that is nearly enough
# Parts of the whole: above the first the other half is taken for redundant where one does it all, and
# the second is a gain that halves only have together.
_LARGE, _SYNERGY = 0.1, 0.05


@dataclass(eq=False)
class Piece:
    """Some of the changes, and what they carry upon the base.

    Attributes:
        gain: log ratio that they add to the base.
        is_measured: as a whole; else what is left of a larger piece.
        context: what else was in place where its gain is a difference.
        is_joint: neither half alone carries what both do.
        is_final: not to be taken apart any further.
    """

    node: Node
    gain: float
    is_measured: bool
    context: Subset = frozenset()
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


class Pieces:
    """The pieces that the changes are divided into at present, upon a base.

    Attributes:
        base: what is in place already.
        redundant: members that do what another half of a large piece does already.
        items: the pieces; together with the base they are all units.
    """

    def __init__(self, book: Book, units: Sequence[Node], aim: float) -> None:
        self.book = book
        self.units = units
        self.base: Subset = book.none
        self.redundant: Subset = book.none
        self.items: list[Piece] = []
        self.every: Subset = frozenset().union(*(node.members for node in units))
        self._aim = aim
        self._unit_gains: list[float] = []

    @property
    def threshold(self) -> Threshold:
        """The threshold as the trials so far have it."""
        assert self.book.threshold is not None, "the ends come first"
        return self.book.threshold

    @property
    def need(self) -> float:
        """What the pieces should add up to."""
        return self._aim * self.threshold.whole

    @property
    def tolerance(self) -> float:
        """What a piece must carry to be told from noise."""
        return _TOLERANCE * self.threshold.noise_sd

    def _shots_a_look(self) -> int:
        """How many trials a piece takes: more where the whole is small beside the noise."""
        relative = self.threshold.noise_sd / self.threshold.whole
        return 1 if relative < 0.08 else 2 if relative < 0.15 else 3

    # --- measuring -----------------------------------------------------------------------------

    def look(self, subsets: Iterable[Subset]) -> Wanted:
        """Have each of the sets looked at, unless it was."""
        new = [x for x in dict.fromkeys(subsets) if x and not self.book.of(x)]
        new = new[: max(self.book.left, 0)]
        if new:
            yield tuple(Look(x) for x in new for _ in range(self._shots_a_look()))

    def gain(self, members: Subset, context: Subset = frozenset()) -> float:
        """Return what members add to the base, and to what else is in place; 0 without a number."""
        base = self.base | context
        here, there = self.book.effect(base | members), self.book.effect(base)
        return here.log - there.log if here is not None and there is not None else 0.0

    def measure_units(self) -> Wanted:
        """Have every unit measured upon the base; they are the pieces then."""
        self.book.stage = "groups"
        rest = [(node, node.members - self.base) for node in self.units]
        rest = [(node, members) for node, members in rest if members]
        yield from self.look([self.base, *(self.base | members for _, members in rest)])
        self.items = [
            Piece(node if members == node.members else Node(members), self.gain(members), True)
            for node, members in rest
        ]
        self._unit_gains = [piece.gain for piece in self.items]
        self.book.stage = "parts"

    def shift(self, base: Subset) -> Wanted:
        """Have every unit measured upon another base."""
        self.base = base
        yield from self.measure_units()

    # --- adding up -----------------------------------------------------------------------------

    def base_effect(self) -> float:
        """Return how far the base itself comes."""
        found = self.book.effect(self.base)
        return found.log if found is not None else 0.0

    def solution(self) -> tuple[list[Piece], float]:
        """Return the pieces worth most that together should be enough, and what they add up to."""
        chosen = [x for x in self.items if x.is_forced]
        total = self.base_effect() + sum(x.gain for x in chosen)
        for piece in sorted(self.items, key=lambda x: -x.worth):
            if total >= self.need or piece.gain <= self.tolerance:
                break
            if not piece.is_forced:
                chosen.append(piece)
                total += piece.gain
        return chosen, total

    def falls_short(self) -> bool:
        """All that the pieces carry is not enough: some of them only count together."""
        total = self.base_effect() + sum(max(x.gain, 0.0) for x in self.items)
        return total < self.need - max(2 * self.tolerance, 0.03 * self.threshold.whole)

    def left_over(self, candidate: Subset) -> list[Piece]:
        """Return the pieces that a candidate leaves out and that show something."""
        least = self.tolerance * _WORTH_ADDING
        return [x for x in self.items if not x.members <= candidate and x.gain > least]

    def gain_of(self, member: int) -> float:
        """Return what a single change carries by itself; infinite where it was never told apart."""
        return next((x.gain for x in self.items if x.members == {member}), math.inf)

    def may_lose(self) -> float:
        """Return the log ratio that a set may leave out."""
        return (1 - self.threshold.share) * self.threshold.whole

    def rest(self, found: Subset) -> Subset:
        """Return what a set leaves out, but for what one of its members does as well."""
        return self.every - found - self.redundant

    def adds_up(self) -> bool:
        """The units' gains sum up to the whole, as far as can be told: none does what another does."""
        total = self.base_effect() + sum(self._unit_gains)
        noise = math.hypot(
            self.threshold.whole_se,
            self.threshold.noise_sd * math.sqrt(len(self._unit_gains) + 1),
        )
        return abs(total - self.threshold.whole) < 3 * noise

    # --- taking apart --------------------------------------------------------------------------

    def split(self, piece: Piece) -> Wanted:
        """Take a piece apart into its halves, or find that they only count together."""
        first, second = piece.node.halves()
        whole, context = self.base | piece.context, piece.context
        yield from self.look([whole | first.members])
        one = self.gain(first.members, context)
        other, given, is_measured = piece.gain - one, context | first.members, False
        noise = self._noise(whole | piece.members, whole | first.members)
        is_nearly_all = one >= _NEARLY_ALL * piece.gain
        if is_nearly_all or other < self.tolerance / 2:
            # What the second half might do, the first does already; unless these trials were too slow to tell.
            other = other if noise > 2 * self.tolerance else 0.0
            if piece.gain > _LARGE * self.threshold.whole:
                self.redundant |= second.members
        elif one <= _NEARLY_NONE * piece.gain:
            given = context
            if len(second.members) > 1:
                yield from self.look([whole | second.members])
                other, is_measured = self.gain(second.members, context), True
                if other < piece.gain / 2:
                    piece.is_joint = True
                    return
                together = piece.gain - one - other
                if together > max(2 * self.tolerance, _SYNERGY * self.threshold.whole):
                    # What the first half adds once the second is there.
                    one, context = one + together, context | second.members
        self.items.remove(piece)
        self.items += [
            Piece(first, max(one, 0.0), True, context),
            Piece(second, max(other, 0.0), is_measured, given),
        ]

    def verify(self, piece: Piece) -> Wanted:
        """Measure by itself what was only inferred; more than inferred is what another piece does as well."""
        yield from self.look([self.base | piece.members])
        alone = self.gain(piece.members)
        # Where it does much less by itself, it only counts upon its other half: so it was inferred.
        if not piece.context or piece.gain - alone < 2 * self.tolerance:
            does_the_same = (
                bool(piece.context) and alone > piece.gain + _LARGE * self.threshold.whole
            )
            more = 0.0 if does_the_same else max(min(alone, piece.gain + self.tolerance), 0.0)
            piece.gain = more
        piece.is_measured = True

    def _noise(self, *subsets: Subset) -> float:
        """Return the standard error of a difference of these sets' effects."""
        found = [self.book.effect(x) for x in subsets]
        return math.hypot(*(x.se for x in found if x is not None))

    def reduce_joint(self, piece: Piece) -> Wanted:
        """Find the few members that only together do what a piece does.

        One half after the other is narrowed by halving, with what is left of the other half in place.
        """
        kept, enough = piece.members, piece.gain * _ENOUGH_JOINT
        for half in piece.node.halves():
            inside = sorted(half.members)
            while len(inside) > 1 and self.book.left > 0:
                middle = (len(inside) + 1) // 2
                for rest in (inside[:middle], inside[middle:]):
                    smaller = (kept - frozenset(inside)) | frozenset(rest)
                    yield from self.look([self.base | piece.context | smaller])
                    if self.gain(smaller, piece.context) >= enough:
                        kept, inside = smaller, rest
                        break
                else:
                    break  # both parts of this half are needed
        self.items.remove(piece)
        gain = piece.gain if kept == piece.members else self.gain(kept, piece.context)
        self.items.append(Piece(Node(kept), gain, True, piece.context, True, is_final=True))
