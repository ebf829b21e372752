"""Which transactions does a session always run right after another one, about the same rows? Both are one of the load.

A ride that begins and the same rider's ride that ends; a page of a list, and the next ones. A log tells it: the later one has
parameters of the one before it, in the session, and comes after no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdrag.data_twin.load.kinds import ONCE, Link, Loop, Part, Repeats, TransactionType
from pgdrag.twins.transactions import ALWAYS, TransactionShape

Places = Mapping[
    int, Mapping[int, int]
]  # of shapes: where their steps, from 1, are among those that are sent, from 0
_LEAST_SEEN = 10  # of which it is known what they follow
_MOST_TIMES = 10


@dataclass(frozen=True)
class Follower:
    """A shape that always follows another one, or itself.

    Attributes:
        first_share: of those of `of` that it comes after.
        next_share: of its own that it comes after once more.
    """

    shape: TransactionShape
    of: int
    first_share: float
    next_share: float

    @property
    def repeats(self) -> Repeats:
        """How often it runs: pairs of a number and a share."""
        if self.first_share >= ALWAYS and not self.next_share:
            return ONCE
        first, more = min(self.first_share, 1.0), self.next_share
        shares = [1 - first, *(first * (1 - more) * more**x for x in range(_MOST_TIMES))]
        return tuple((times, share) for times, share in enumerate(shares) if share > 0)


def with_later(
    types: Mapping[int, TransactionType], shapes: Sequence[TransactionShape], places: Places
) -> Iterator[TransactionType]:
    """Yield types of transactions, those that always follow another one as its later parts.

    Args:
        types: by the numbers of their shapes.
    """
    counts = {x.number: x.transactions for x in shapes}
    followers = {x.shape.number: x for shape in shapes if (x := _follower(shape, types, counts))}
    by_first: dict[int, list[Follower]] = {}
    for number, one in followers.items():
        first = one.of
        seen = {number}
        # What follows one that may be left out, or a circle, stays by itself.
        while first in followers and first not in seen and followers[first].repeats == ONCE:
            seen.add(first)
            first = followers[first].of
        if first not in followers:
            by_first.setdefault(first, []).append(one)
    gone = {x.shape.number for some in by_first.values() for x in some}
    for number in types:
        if number not in gone:
            yield _together(number, by_first.get(number, ()), types, places)


def _follower(
    shape: TransactionShape, types: Mapping[int, TransactionType], counts: Mapping[int, int]
) -> Follower | None:
    """Return which transactions a shape always follows, with parameters of theirs; None: there are none."""
    before = {x.from_shape for x in shape.links if x.source == "session" and x.is_always_equal}
    shares = dict(shape.follows)
    own = shares.pop(shape.number, 0.0)
    of = max(before - {shape.number}, key=lambda x: shares.get(x, 0.0), default=0)
    share = shares.get(of, 0.0)
    kinds = types.get(of), types.get(shape.number)
    if (
        share + own < ALWAYS
        or not share
        or shape.transactions < _LEAST_SEEN
        or any(x is None or x.is_rolled_back for x in kinds)
    ):
        return None
    return Follower(shape, of, share * shape.transactions / counts[of], own)


def _together(
    number: int, later: Sequence[Follower], types: Mapping[int, TransactionType], places: Places
) -> TransactionType:
    """Return a type with those that follow it, each one after the one that it follows."""
    kind, begins, left = types[number], {number: 0}, list(later)
    while ready := [x for x in left if x.of in begins]:
        for one in ready:
            own, begin = types[one.shape.number], len(kind.steps)
            begins[one.shape.number] = begin
            followed = [
                Link(
                    begin + places[one.shape.number][x.step], x.parameter,
                    begins[x.from_shape] + places[x.from_shape][x.from_step], x.from_parameter,
                )
                for x in one.shape.links
                if x.source == "session" and x.is_always_equal and x.from_shape in begins.keys() - {one.shape.number}
                and x.step in places[one.shape.number] and x.from_step in places[x.from_shape]
            ]  # fmt: skip
            kind = replace(
                kind,
                steps=(*kind.steps, *own.steps),
                loops=(*kind.loops, *(_moved_loop(x, begin) for x in own.loops)),
                links=(*kind.links, *(replace(x, step=begin + x.step, from_step=begin + x.from_step) for x in own.links), *followed),
                constants=(*kind.constants, *(replace(x, step=begin + x.step) for x in own.constants)),
                later=(*kind.later, Part(begin, begin + len(own.steps) - 1, own.is_block, last_pause_s=own.last_pause_s, repeats=one.repeats)),
            )  # fmt: skip
        left = [x for x in left if x not in ready]
    return kind


def _moved_loop(loop: Loop, by: int) -> Loop:
    like = (loop.like[0] + by, loop.like[1] + by) if loop.like else None
    return replace(loop, first=loop.first + by, last=loop.last + by, like=like)
