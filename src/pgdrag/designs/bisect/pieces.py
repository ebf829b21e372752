"""How much does each piece of the changes add to a base, and what do they add up to?

Pieces are named groups first, halves of them next, members last. They are measured by short trials, on top
of what is in place already; a piece is split into halves, of which often only one needs a trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdrag.designs._subsets import Changes, Request, Steps
from pgdrag.designs.bisect.history import History

MOST_UNITS = 8  # measured one by one; more groups than this are merged by their first words
_SEPARATOR = " / "  # as in PostgreSQL's own categories: "Resource Usage / Memory"

# Parts of a piece's gain at which one half is taken to carry all of it, or none.
_NEARLY_ALL, _NEARLY_NONE = 0.85, 0.15
_ENOUGH_JOINT = 0.5  # part of its gain that a joint piece must keep when it is narrowed
_DENSITY = 0.75  # how much less a piece twice as large is worth: it must still be split
_JOINT_WORTH = 0.25  # the same where its halves do nothing alone
_TOLERANCE = 1.5  # standard deviations of the noise that a gain must reach to count
_CLEAR = 3.0  # standard errors from which a gain is no noise, whatever else its trials measured
_WORTH_ADDING = 0.33  # of that, to be worth a trial in a set that is nearly enough
# Parts of the whole: above the first the other half is taken for redundant where one does it all, and
# the second is a gain that halves only have together.
_LARGE, _SYNERGY = 0.1, 0.05


@dataclass(frozen=True)
class Node:
    """A set of changes that is tried as one, and the groups it consists of."""

    members: Changes
    parts: tuple[Node, ...] = ()

    def halves(self) -> tuple[Node, Node]:
        """Return two parts of about the same size: whole groups where it has any, else members in order."""
        assert len(self.members) > 1, "a single change has no halves"
        if not self.parts:
            ordered, middle = sorted(self.members), len(self.members) // 2
            return Node(frozenset(ordered[:middle])), Node(frozenset(ordered[middle:]))
        # The largest first, each to the side that has less.
        sides: tuple[list[Node], list[Node]] = ([], [])
        for part in sorted(self.parts, key=lambda part: (-len(part.members), min(part.members))):
            sizes = [sum(len(one.members) for one in side) for side in sides]
            sides[sizes[1] < sizes[0]].append(part)
        first, second = (
            _merged(side, has_groups=any(len(one.members) > 1 for one in side)) for side in sides
        )
        return first, second


def units(changes: Mapping[int, str], groups: Mapping[str, str]) -> tuple[Node, ...]:
    """Return the units that a search begins with, in the order of the changes.

    Args:
        changes: their names, by their places.
        groups: by name, the group; changes without one are divided in their order.
    """
    by_group: dict[str, list[int]] = {}
    for at, name in changes.items():
        by_group.setdefault(groups.get(name, ""), []).append(at)
    loose = by_group.pop("", [])
    nodes = [Node(frozenset(members)) for members in by_group.values()]
    if len(nodes) + bool(loose) > MOST_UNITS:
        families: dict[str, list[Node]] = {}
        for label, node in zip(by_group, nodes, strict=True):
            families.setdefault(label.partition(_SEPARATOR)[0], []).append(node)
        nodes = [_merged(family, has_groups=True) for family in families.values()]
    # Changes without a group are divided evenly, neighbours together: people write related lines together.
    count = min(max(1, MOST_UNITS - len(nodes)), len(loose))
    bounds = [round(at * len(loose) / count) for at in range(count + 1)] if count else []
    nodes += [Node(frozenset(loose[low:high])) for low, high in pairwise(bounds)]
    return tuple(sorted(nodes, key=lambda node: min(node.members)))


def _merged(nodes: Sequence[Node], *, has_groups: bool) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    members: Changes = frozenset().union(*(node.members for node in nodes))
    return Node(members, tuple(nodes) if has_groups else ())


@dataclass(eq=False)
class Piece:
    """Some of the changes, and what they add to the base.

    Attributes:
        gain: log ratio that they add to the base.
        is_measured: as a whole; else what is left of a larger piece.
        context: what else was in place where its gain is a difference.
        is_joint: neither half alone carries what both do.
        is_final: not to be split any further.
        is_forced: to be in the solution whatever it is worth.
    """

    node: Node
    gain: float
    is_measured: bool
    context: Changes = frozenset()
    is_joint: bool = False
    is_final: bool = False
    is_forced: bool = False

    @property
    def members(self) -> Changes:
        """The changes in it."""
        return self.node.members

    @property
    def worth(self) -> float:
        """Gain, discounted where it covers many settings, some of which may not be needed."""
        scale = math.pow(_DENSITY, math.log2(len(self.members)))
        return self.gain * scale * (_JOINT_WORTH if self.is_joint and not self.is_final else 1.0)


class Pieces:
    """The pieces that the changes are divided into at present, on top of a base.

    Args:
        aim: part of the whole that the pieces should add up to.

    Attributes:
        base: what is in place already.
        redundant: members that do what another half of a large piece does already.
        items: the pieces; together with the base they are all units.
    """

    def __init__(self, history: History, units: Sequence[Node], aim: float) -> None:
        self.history = history
        self.units = units
        self.base: Changes = history.none
        self.redundant: Changes = history.none
        self.items: list[Piece] = []
        self.every: Changes = frozenset().union(*(node.members for node in units))
        self._aim = aim
        self._unit_gains: list[float] = []

    @property
    def whole(self) -> float:
        """The log ratio from the reference to the target."""
        return self.history.threshold.whole

    @property
    def may_lose(self) -> float:
        """The log ratio that a set may leave out."""
        return (1 - self.history.threshold.share) * self.whole

    @property
    def tolerance(self) -> float:
        """What a piece must carry to stand out from noise."""
        return _TOLERANCE * self.history.threshold.noise_sd

    # --- measuring -----------------------------------------------------------------------------

    def measure(self, subsets: Iterable[Changes]) -> Steps[None]:
        """Run each of the sets, unless it was run; several times where noise is large beside the whole."""
        new = [x for x in dict.fromkeys(subsets) if x and not self.history.of(x)]
        new = new[: max(self.history.left, 0)]
        relative = self.history.threshold.noise_sd / self.whole
        times = 1 if relative < 0.08 else 2 if relative < 0.15 else 3
        if new:
            yield Request(tuple(x for x in new for _ in range(times)), is_brief=True)

    def gain(self, members: Changes, context: Changes = frozenset()) -> float:
        """Return what members add to the base and the context; 0 without a number, and where it is noise."""
        base = self.base | context
        here, there = self.history.effect(base | members), self.history.effect(base)
        if here is None or there is None:
            return 0.0
        found, se = here.log - there.log, math.hypot(here.se, there.se)
        # What may be noise, and moves nothing of what the whole moves, is noise.
        is_doubtful = 0 < found < _CLEAR * se
        is_noise = is_doubtful and self.history.moves_nothing(base, base | members)
        return 0.0 if is_noise else found

    def measure_units(self, base: Changes) -> Steps[None]:
        """Measure every unit on a base; they are the pieces then."""
        self.base = base
        self.history.stage = "groups"
        rest = [(node, node.members - self.base) for node in self.units]
        rest = [(node, members) for node, members in rest if members]
        yield from self.measure([self.base, *(self.base | members for _, members in rest)])
        self.items = [
            Piece(node if members == node.members else Node(members), self.gain(members), True)
            for node, members in rest
        ]
        self._unit_gains = [piece.gain for piece in self.items]
        self.history.stage = "parts"

    # --- adding up -----------------------------------------------------------------------------

    def solution(self) -> tuple[list[Piece], float]:
        """Return the pieces worth most that together should be enough, and what they add up to."""
        chosen = [x for x in self.items if x.is_forced]
        total = self._base_effect() + sum(x.gain for x in chosen)
        for piece in sorted(self.items, key=lambda x: -x.worth):
            if total >= self._aim * self.whole or piece.gain <= self.tolerance:
                break
            if not piece.is_forced:
                chosen.append(piece)
                total += piece.gain
        return chosen, total

    def falls_short(self) -> bool:
        """All that the pieces carry is not enough: some of them only count together."""
        total = self._base_effect() + sum(max(x.gain, 0.0) for x in self.items)
        return total < self._aim * self.whole - max(2 * self.tolerance, 0.03 * self.whole)

    def left_out(self, candidate: Changes) -> list[Piece]:
        """Return the pieces that a candidate leaves out and that carry something."""
        least = self.tolerance * _WORTH_ADDING
        return [x for x in self.items if not x.members <= candidate and x.gain > least]

    def gain_of(self, member: int) -> float:
        """Return what a single change carries by itself; infinite where it was never separated."""
        return next((x.gain for x in self.items if x.members == {member}), math.inf)

    def rest(self, found: Changes) -> Changes:
        """Return what a set leaves out, without what one of its members does as well."""
        return self.every - found - self.redundant

    def adds_up(self) -> bool:
        """The units' gains add up to the whole, within noise: none does what another does."""
        threshold = self.history.threshold
        noise = threshold.noise_sd * math.sqrt(len(self._unit_gains) + 1)
        missed = self._base_effect() + sum(self._unit_gains) - self.whole
        return abs(missed) < 3 * math.hypot(threshold.whole_se, noise)

    def _base_effect(self) -> float:
        found = self.history.effect(self.base)
        return found.log if found is not None else 0.0

    # --- splitting -----------------------------------------------------------------------------

    def split(self, piece: Piece) -> Steps[None]:
        """Split a piece into its halves, or find that they only count together."""
        first, second = piece.node.halves()
        whole, context = self.base | piece.context, piece.context
        yield from self.measure([whole | first.members])
        one = self.gain(first.members, context)
        other, given, is_measured = piece.gain - one, context | first.members, False
        if one >= _NEARLY_ALL * piece.gain or other < self.tolerance / 2:
            # The first half already does what the second might; unless these trials were too noisy to tell.
            effects = map(self.history.effect, (whole | piece.members, whole | first.members))
            noise = math.hypot(*(x.se for x in effects if x is not None))
            other = other if noise > 2 * self.tolerance else 0.0
            if piece.gain > _LARGE * self.whole:
                self.redundant |= second.members
        elif one <= _NEARLY_NONE * piece.gain:
            given = context
            if len(second.members) > 1:
                yield from self.measure([whole | second.members])
                other, is_measured = self.gain(second.members, context), True
                if other < piece.gain / 2:
                    piece.is_joint = True
                    return
                together = piece.gain - one - other
                if together > max(2 * self.tolerance, _SYNERGY * self.whole):
                    # What the first half adds once the second is there.
                    one, context = one + together, context | second.members
        self.items.remove(piece)
        self.items += [
            Piece(first, max(one, 0.0), True, context),
            Piece(second, max(other, 0.0), is_measured, given),
        ]

    def verify(self, piece: Piece) -> Steps[None]:
        """Measure alone what was only inferred; a larger effect means that another piece does part of the same."""
        yield from self.measure([self.base | piece.members])
        alone = self.gain(piece.members)
        # Where it does much less by itself, it needs its other half: so it was inferred.
        if not piece.context or piece.gain - alone < 2 * self.tolerance:
            is_redundant = bool(piece.context) and alone > piece.gain + _LARGE * self.whole
            piece.gain = 0.0 if is_redundant else max(min(alone, piece.gain + self.tolerance), 0.0)
        piece.is_measured = True

    def reduce_joint(self, piece: Piece) -> Steps[None]:
        """Find the few members that only together do what a piece does.

        One half after the other is narrowed by halving, with what is left of the other half in place.
        """
        kept, enough = piece.members, piece.gain * _ENOUGH_JOINT
        for half in piece.node.halves():
            inside = sorted(half.members)
            while len(inside) > 1 and self.history.left > 0:
                middle = (len(inside) + 1) // 2
                for rest in (inside[:middle], inside[middle:]):
                    smaller = (kept - frozenset(inside)) | frozenset(rest)
                    yield from self.measure([self.base | piece.context | smaller])
                    if self.gain(smaller, piece.context) >= enough:
                        kept, inside = smaller, rest
                        break
                else:
                    break  # both parts of this half are needed
        self.items.remove(piece)
        gain = piece.gain if kept == piece.members else self.gain(kept, piece.context)
        self.items.append(Piece(Node(kept), gain, True, piece.context, True, is_final=True))
