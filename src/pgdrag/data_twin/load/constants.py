"""Which parameters keep one value throughout a session, and where does each session get its own from?

A log tells that a parameter was equal to one of the session's transaction before. Where that is so of all that it could be
equal to, the session has a value of its own: a terminal its warehouse, a pool of connections its customer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.data_twin.load.kinds import TransactionType
from pgdrag.twins.transactions import TransactionShape

Place = tuple[int, int, int]  # a shape's number, a step's place, and its parameter's number


def session_constants(shapes: Sequence[TransactionShape]) -> dict[Place, int]:
    """Return parameters that a session never changes, those that have the same value by the same number."""
    within, before = _links(shapes, "transaction"), _links(shapes, "session")

    def first(place: Place) -> Place:
        """Return where a value is first in its transaction."""
        for _ in within:
            place = within.get(place, place)
        return place

    # What a session made in the transaction before is none: it is new there, and equal to nothing.
    found = {place: first(source) for place, source in before.items()}
    while gone := [place for place, source in found.items() if source not in found]:
        for place in gone:
            del found[place]
    groups: dict[Place, int] = {}
    for place in found:
        path = [place]
        while path[-1] not in groups and found[path[-1]] not in path:
            path.append(found[path[-1]])
        group = groups.get(path[-1], groups.get(found[path[-1]], len({*groups.values()})))
        groups |= dict.fromkeys(path, group)
    return groups


def _links(shapes: Sequence[TransactionShape], source: str) -> dict[Place, Place]:
    """Return which parameters are always equal to another one."""
    return {
        (shape.number, x.step, x.parameter): (x.from_shape or shape.number, x.from_step, x.from_parameter)
        for shape in shapes
        for x in shape.links
        if x.source == source and x.is_always_equal
    }  # fmt: skip


@dataclass(frozen=True)
class Home:
    """Where sessions get a value from that they keep.

    Attributes:
        statement: whose pool has values of these parameters that belong together.
        parameter: of it.
        is_own: a session has several, and nobody else has those.
    """

    statement: int
    parameter: int
    is_own: bool = False

    @property
    def pool(self) -> str:
        """The name of a pool of the values that sessions keep."""
        return f"{'own' if self.is_own else 'home'}{self.statement}"

    @property
    def variable(self) -> str:
        """The driver's variable that has a session's value."""
        return f"{self.pool}_p{self.parameter}"


def homes(
    kinds: Sequence[TransactionType],
    sent: Iterable[int],
    columns: Mapping[tuple[int, int], Hashable] | None = None,
) -> dict[int, Home]:
    """Return where the values of each group of constants come from: those that one statement has from its rows.

    Groups of which parameters are of the same column have the same value, unless a statement has both: of each parameter a
    twin tells one that it is equal to.

    Args:
        sent: the statements that have pools.
        columns: of which a statement's parameter is, or what stands for all that are connected with it.
    """
    known = {*sent}
    places: dict[int, dict[int, int]] = {}  # by statement: which parameter is which constant
    for kind in kinds:
        for x in kind.constants:
            statement = kind.steps[x.step].statement
            if statement in known:
                places.setdefault(statement, {}).setdefault(x.group, x.parameter)
    same = _merged(places, columns or {})
    for statement, of in places.items():
        places[statement] = {same[group]: parameter for group, parameter in of.items()}
    found: dict[int, Home] = {}
    while left := {n: of.keys() - found.keys() for n, of in places.items() if of.keys() - found.keys()}:  # fmt: skip
        best = min(left, key=lambda n: (-len(left[n]), n))
        found |= {group: Home(best, places[best][group]) for group in left[best]}
    return {group: found[one] for group, one in same.items()}


def _merged(
    places: Mapping[int, Mapping[int, int]], columns: Mapping[tuple[int, int], Hashable]
) -> dict[int, int]:
    """Return for each group the first one that has the same values."""
    of_group: dict[int, set[Hashable]] = {}
    for statement, of in places.items():
        for group, parameter in of.items():
            known = of_group.setdefault(group, set())
            if (statement, parameter) in columns:
                known.add(columns[statement, parameter])
    found: dict[int, int] = {}
    for group in sorted(of_group):
        apart = {x for of in places.values() if group in of for x in of if x != group}
        apart = {found[x] for x in apart if x in found}
        first = (x for x in found.values() if of_group[x] & of_group[group] and x not in apart)
        found[group] = next(first, group)
        of_group[found[group]] |= of_group[group]
    return found


def drawn_variables(found: Mapping[int, Home], pool: str) -> list[str]:
    """Return the variables of a pool that sessions keep values of, as the pool names them."""
    return [f"p{n}" for n in sorted({x.parameter for x in found.values() if x.pool == pool})]


CLIENTS = ":clients"  # in the query of a pool: how many sessions the load has
OWNER = "owner"


def home_query(pool: str, names: Sequence[str], *, is_own: bool) -> str:
    """Return the query for values that sessions keep, one row after the other; of rows of their own with the session's number."""
    columns, there = ", ".join(names), " AND ".join(f"{name} IS NOT NULL" for name in names)
    found = f"SELECT {columns}, min(n) AS n FROM {pool} WHERE {there} GROUP BY {columns}"
    if not is_own:
        # Those that many rows have come sooner, and each once.
        return f"SELECT {columns} FROM ({found}) AS t ORDER BY n"
    order = ", ".join(f"length({name}), {name}" for name in names)
    number = f"{CLIENTS}::int8 * (row_number() OVER (ORDER BY {order}) - 1) / count(*) OVER ()"
    return f"SELECT {columns}, {number} AS {OWNER} FROM ({found}) AS t"
