"""Which changes alone bring an outcome about? Delta debugging with an oracle of three answers.

For what has no size, such as a server that does not start. Halving isolates one needed change after
the other; what it comes to is then reduced until no single change can be left out.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise

from pgdrag.designs.bisect.oracle import Verdict
from pgdrag.designs.bisect.pieces import Subset

Search = Generator[Subset, Verdict, Subset]


def smallest_set(units: Sequence[Subset]) -> Search:
    """Yield sets to test, be sent their verdicts, and return a 1-minimal set of members.

    The units are lined up, members of a group side by side. The shortest beginning of the line that
    keeps the outcome ends with a change that is needed; then the same with what stands before it, until
    those found keep the outcome by themselves: about as many tests for each guilty change as the line
    can be halved. Delta debugging shows in the end that none of them can be left out, and takes all
    over where what was tested contradicts itself.

    All units together are taken to keep the outcome, and no set is asked for twice. Where a test stays
    unresolved, its set counts as one that loses: nothing is left out that was not shown to be needless.
    """
    known: dict[Subset, Verdict] = {frozenset(): Verdict.LOSES}
    line = [one for unit in units for one in sorted(unit)]
    known[frozenset(line)] = Verdict.KEEPS
    found, rest = frozenset[int](), line
    while known.get(found) is not Verdict.KEEPS and rest:
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            verdict = yield from _test([found | frozenset(rest[:middle])], known)
            low, high = (low, middle) if verdict is Verdict.KEEPS else (middle, high)
        found, rest = found | {rest[high - 1]}, rest[: high - 1]
        yield from _test([found], known)
    if known[found] is not Verdict.KEEPS:
        return (yield from _ddmin(units, known))
    return (yield from _ddmin([found], known))


def ddmin(units: Sequence[Subset]) -> Search:
    """Do the same by delta debugging alone: halves, then smaller parts, groups first.

    Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (2002).
    """
    return (yield from _ddmin(units, {frozenset(): Verdict.LOSES}))


def _ddmin(units: Sequence[Subset], known: dict[Subset, Verdict]) -> Search:
    kept = yield from _reduce(list(units), known)
    members = [frozenset([one]) for unit in kept for one in sorted(unit)]
    if len(members) > len(kept):
        kept = yield from _reduce(members, known)
    return frozenset[int]().union(*kept)


def is_minimal(found: Subset, verdicts: Mapping[Subset, Verdict]) -> bool:
    """Tell whether leaving out any one member was tested and lost the outcome."""
    return all(
        len(found) == 1 or verdicts.get(found - {one}) is Verdict.LOSES for one in sorted(found)
    )


def _reduce(
    units: list[Subset], known: dict[Subset, Verdict]
) -> Generator[Subset, Verdict, list[Subset]]:
    parts = 2
    while len(units) > 1:
        pieces = _divided(units, parts)
        smaller = None
        # A part alone, else all but a part: the first that keeps the outcome is gone on with.
        for candidate in (*pieces, *(_without(units, piece) for piece in pieces if parts > 2)):
            verdict = yield from _test(candidate, known)
            if verdict is Verdict.KEEPS:
                smaller = candidate
                break
        if smaller is not None:
            parts = max(parts - 1, 2) if len(smaller) > len(pieces[0]) else 2
            units = smaller
        elif parts < len(units):
            parts = min(2 * parts, len(units))
        else:
            break
    return units


def _test(
    units: Sequence[Subset], known: dict[Subset, Verdict]
) -> Generator[Subset, Verdict, Verdict]:
    together = frozenset[int]().union(*units)
    if together not in known:
        known[together] = yield together
    return known[together]


def _divided(units: Sequence[Subset], parts: int) -> list[list[Subset]]:
    parts = min(parts, len(units))
    bounds = [round(at * len(units) / parts) for at in range(parts + 1)]
    return [list(units[low:high]) for low, high in pairwise(bounds)]


def _without(units: Sequence[Subset], piece: Sequence[Subset]) -> list[Subset]:
    gone = set(piece)
    return [unit for unit in units if unit not in gone]
