"""Which links lead to rows that are not there? Of two values that are somewhere, there need not be a row that has both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from pgdrag.data_twin.load.kinds import Link, TransactionType
from pgdrag.data_twin.load.links import Place, key_parameters, origin
from pgdrag.data_twin.load.scripts import Sendable
from pgdrag.data_twin.load.statements import Analysed, Root, cast_type
from pgdrag.twins.ddl import quoted

_TRIED = 200  # keys
_FEWER = 0.15  # of the keys have a row, than of the original's calls


def without_dead_ends(
    connection: psycopg.Connection[Any],
    kind: TransactionType,
    known: Mapping[int, Analysed],
    sendable: Mapping[int, Sendable],
) -> TransactionType:
    """Return a transaction without links to values that together are no row's key, where the original's calls found a row.

    A parameter whose link is left out comes from a row that agrees with the others: the one that has the most values.
    """
    steps = [sendable.get(x.statement) for x in kind.steps]
    links = {(x.step, x.parameter): x for x in kind.links}
    for at, step in enumerate(kind.steps):
        one = known.get(step.statement)
        if one is None or one.change.kind == "insert":
            continue
        wanted = min(one.wanted.rows / max(one.wanted.calls, 1), 1.0)
        for root in one.roots.values():
            key = key_parameters(one, root.name)
            places = _places(at, [*key.values()], links, steps)
            if places and _share_there(connection, one, root, key, places, steps) < wanted - _FEWER:
                pool, parameters = sendable[one.number].pool, [*key.values()]
                del links[at, _most_different(connection, pool, parameters)]
    return replace(kind, links=tuple(links.values()))


def _places(
    at: int, parameters: Sequence[int], links: Mapping[Place, Link], steps: Sequence[Sendable | None]
) -> list[Place]:  # fmt: skip
    """Return where each parameter of a step comes from; nothing where one row has them all, or one comes from no pool."""
    found = [origin(links, (at, x)) for x in parameters]
    places = [x for x in found if x is not None and x[0] != at]
    for step in sorted({step for step, _ in places}):
        one = steps[step]
        if one is None or not one.pool:
            return []
        # A row of a later step agrees with what an earlier one is about.
        own = (x for x in range(1, len(one.types) + 1) if (step, x) in links)
        agreeing = {origin(links, (step, x)): x for x in one.belonging(own)}
        places = [(step, agreeing[x]) if x in agreeing else x for x in places]
    return places if len(places) == len(found) and len({step for step, _ in places}) > 1 else []


def _share_there(
    connection: psycopg.Connection[Any], one: Analysed, root: Root, key: Mapping[str, int], places: Sequence[Place],
    steps: Sequence[Sendable | None],
) -> float:  # fmt: skip
    """Return for which share of values of these places there is a row with this key."""
    sources = []
    for at, step in enumerate(sorted({step for step, _ in places})):
        pool = steps[step]
        assert pool is not None, "it has a place"
        rows = f"SELECT * FROM pgdrag_twin.pool_{pool.pool} ORDER BY n LIMIT {_TRIED} OFFSET {at * _TRIED}"
        sources.append(f"(SELECT row_number() OVER () AS k, p.* FROM ({rows}) AS p) AS s{step}")
    equal = " AND ".join(
        f"t.{quoted(column)} = s{step}.p{parameter}::{cast_type(one.types[own - 1])}"
        for (column, own), (step, parameter) in zip(key.items(), places, strict=True)
    )
    first, *rest = sources
    joined = first + "".join(f" JOIN {x} USING (k)" for x in rest)
    query = f"SELECT avg(EXISTS (SELECT FROM {quoted(root.schema, root.name)} AS t WHERE {equal})::int)::float8 FROM {joined}"
    row = connection.execute(query.encode()).fetchone()
    return 1.0 if row is None or row[0] is None else float(row[0])


def _most_different(
    connection: psycopg.Connection[Any], pool: str, parameters: Sequence[int]
) -> int:
    counts = ", ".join(f"count(DISTINCT p{x})" for x in parameters)
    row = connection.execute(f"SELECT {counts} FROM pgdrag_twin.pool_{pool}".encode()).fetchone()
    assert row is not None, "an aggregate has a row"
    return max(zip(row, parameters, strict=True))[1]
