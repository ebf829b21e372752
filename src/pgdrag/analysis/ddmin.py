"""Which changes alone bring an outcome about? Delta debugging with an oracle of three answers.

For what has no size, such as a server that does not start: halves, then smaller parts, until no
single change can be left out.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise

from pgdrag.analysis.oracle import Verdict
from pgdrag.analysis.pieces import Subset

Search = Generator[Subset, Verdict, Subset]


def ddmin(units: Sequence[Subset]) -> Search:
    """Yield sets to test, be sent their verdicts, and return a 1-minimal set of members.

    Groups first: the units are reduced as wholes, then what is left of them member by member. All
    units together are taken to keep the outcome, and no set is asked for twice. Where a test stays
    unresolved, its set counts as one that loses: nothing is left out that was not shown to be needless.

    Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (2002).
    """
    known: dict[Subset, Verdict] = {frozenset(): Verdict.LOSES}
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
