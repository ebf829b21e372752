"""Which settings of the operating system may a search change, and which values may each have?

Each that a kind of factor offers is a dimension with the values that this machine takes and this run may set, or
excluded for the reason why not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pgdrag.designs.search.parameters import Dimension
from pgdrag.experiment.search_space import Excluded, SearchSpace
from pgdrag.factors import Factor, Here, Phase, all_factors, levels_of
from pgdrag.factors.kernel_files import is_number
from pgdrag.model import Level
from pgdrag.provision import problems_of

_GROUP = "Operating system"


def os_space(base: Iterable[Level], here: Here) -> SearchSpace:
    """Return the settings of this machine's operating system that a search may change, and why not the others.

    Args:
        base: the levels of the baseline.
    """
    of_base = tuple(base)
    here = replace(here, storage=levels_of(Phase.STORAGE, of_base))
    own = {(level.kind, level.name): level.value for level in of_base}
    found = {
        (kind, name): _dimension(factor(), name, values, of_base, own.get((kind, name)), here)
        for kind, factor in sorted(all_factors().items())
        for name, values in sorted(factor.search_values.items())
    }
    return SearchSpace(
        tuple(one for one in found.values() if isinstance(one, Dimension)),
        tuple(Excluded(name, why) for (_, name), why in found.items() if isinstance(why, str)),
    )


def _dimension(
    factor: Factor,
    name: str,
    values: Sequence[str],
    base: Sequence[Level],
    own: str | None,
    here: Here,
) -> Dimension | str:
    """Return a setting's dimension, or why it is not searched."""
    others = [x for x in base if (x.kind, x.name) != (factor.name, name)]
    possible, why = [], ""
    for value in values:
        level = Level(factor.name, name, value)
        problem = next((x for x in problems_of([*others, level], here) if x.level == level), None)
        if problem is None:
            possible.append(value)
        why = why or (problem.message if problem else "")
    if not possible:
        return why
    start = own or factor.value_now(name, here)
    if start is None:
        return "nobody knows what it is now"
    named = list(dict.fromkeys([*possible, start]))
    if len(named) < 2:
        return "no other value is known to work here"
    is_ordered = all(map(is_number, named))
    return Dimension(
        kind=factor.name,
        name=name,
        values=tuple(sorted(named, key=int) if is_ordered else named),
        is_ordered=is_ordered,
        start=start,
        is_expected=True,
        group=_GROUP,
    )
