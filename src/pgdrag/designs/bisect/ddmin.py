"""Which changes alone cause an outcome? Delta debugging with tests that may stay unresolved.

For an outcome without a size, such as a server that does not start. Halving isolates one needed change
after the other; the result is then reduced until no single change can be left out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise

from pgdrag.designs._subsets import Changes
from pgdrag.designs.bisect.sequential_test import SetVerdict

Search = Generator[Changes, SetVerdict, Changes]


def smallest_set(units: Sequence[Changes]) -> Search:
    """Yield sets to test, be sent their verdicts, and return a 1-minimal set of members.

    The members are lined up, those of a group side by side. The shortest prefix that keeps the outcome
    ends with a change that is needed; the same is done with what stands before it, until the changes found
    keep the outcome by themselves: about log2(changes) tests for each. Delta debugging then checks that none
    can be left out, and takes over where the tests contradict each other.

    All units together are taken to keep the outcome, and no set is tested twice. An unresolved set counts
    as one that loses: nothing is left out unless it was shown not to be needed.
    """
    known: dict[Changes, SetVerdict] = {frozenset(): SetVerdict.LOSES}
    line = [one for unit in units for one in sorted(unit)]
    known[frozenset(line)] = SetVerdict.KEEPS
    found, rest = frozenset[int](), line
    while known.get(found) is not SetVerdict.KEEPS and rest:
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            verdict = yield from _test([found | frozenset(rest[:middle])], known)
            low, high = (low, middle) if verdict is SetVerdict.KEEPS else (middle, high)
        found, rest = found | {rest[high - 1]}, rest[: high - 1]
        yield from _test([found], known)
    is_kept = known[found] is SetVerdict.KEEPS
    return (yield from ddmin([found] if is_kept else units, known))


def ddmin(units: Sequence[Changes], known: dict[Changes, SetVerdict] | None = None) -> Search:
    """Do the same by delta debugging alone: halves, then smaller parts, groups first.

    Args:
        known: verdicts that need no test; those tested are added.

    Source: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (2002).
    """
    known = {frozenset(): SetVerdict.LOSES} if known is None else known
    kept = yield from _reduce(list(units), known)
    members = [frozenset([one]) for unit in kept for one in sorted(unit)]
    if len(members) > len(kept):
        kept = yield from _reduce(members, known)
    return frozenset[int]().union(*kept)


def _reduce(
    units: list[Changes], known: dict[Changes, SetVerdict]
) -> Generator[Changes, SetVerdict, list[Changes]]:
    parts = 2
    while len(units) > 1:
        pieces = _divided(units, parts)
        smaller = None
        # A part alone, else all but a part; the first that keeps the outcome is reduced further.
        for candidate in (*pieces, *(_without(units, piece) for piece in pieces if parts > 2)):
            verdict = yield from _test(candidate, known)
            if verdict is SetVerdict.KEEPS:
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
    units: Sequence[Changes], known: dict[Changes, SetVerdict]
) -> Generator[Changes, SetVerdict, SetVerdict]:
    together = frozenset[int]().union(*units)
    if together not in known:
        known[together] = yield together
    return known[together]


def _divided(units: Sequence[Changes], parts: int) -> list[list[Changes]]:
    parts = min(parts, len(units))
    bounds = [round(at * len(units) / parts) for at in range(parts + 1)]
    return [list(units[low:high]) for low, high in pairwise(bounds)]


def _without(units: Sequence[Changes], piece: Sequence[Changes]) -> list[Changes]:
    gone = set(piece)
    return [unit for unit in units if unit not in gone]
