"""Which parameters of one transaction have the same value, where no log tells?

Statements that look at the same table by the same columns mean the same row; what is inserted beside its parent belongs to it.
What INSERT returned no log tells, so that this is guessed in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pgdrag.data_twin.load.conditions import columns_of
from pgdrag.data_twin.load.mix import Link, TransactionType
from pgdrag.data_twin.load.statements import Analysed
from pgdrag.twins.model import Twin

Column = tuple[str, str]  # a table and its column
_VARIABLE = re.compile(r"\w+")  # what the driver's language takes for a name


def linked(
    kind: TransactionType, statements: Mapping[int, Analysed], twin: Twin
) -> TransactionType:
    """Return a transaction with its links: those that a log told, else guessed ones."""
    own = kind.links if kind.knows_order else tuple(_guessed(kind, statements, twin))
    known = {(x.step, x.parameter) for x in kind.links}
    returned = [x for x in _returned(kind, statements, twin) if (x.step, x.parameter) not in known]
    instead = {(x.step, x.parameter) for x in returned}
    links = (*(x for x in own if (x.step, x.parameter) not in instead), *returned)
    return replace(kind, links=links)


def _returned(
    kind: TransactionType, statements: Mapping[int, Analysed], twin: Twin
) -> Iterator[Link]:
    """Yield parameters that are what an earlier INSERT returned, such as the number that the server gave the row."""
    known: dict[Column, int] = {}
    parents = _parents(twin)
    for at, step in enumerate(kind.steps):
        one = statements.get(step.statement)
        if one is None:
            continue
        for column, parameter in {**_equalities(one), **_inserted(one)}.items():
            source = next((x for x in (column, *parents.get(column, ())) if x in known), None)
            if source is not None:
                yield Link(at, parameter, known[source], 0, returned=source[1])
        if step.share == 1:
            known.update(dict.fromkeys(_given(one), at))


def _given(one: Analysed) -> Iterator[Column]:
    """Yield the columns that an INSERT returns and has no parameter for: the server makes their values."""
    if one.table is None:
        return
    own = _inserted(one)
    for name in one.table.columns if "*" in one.change.returned else one.change.returned:
        column = (one.table.name, name)
        if name in one.table.columns and _VARIABLE.fullmatch(name) and column not in own:
            yield column


def _guessed(
    kind: TransactionType, statements: Mapping[int, Analysed], twin: Twin
) -> Iterator[Link]:
    seen: dict[Column, tuple[int, int]] = {}
    groups: dict[frozenset[Column], int] = {}
    inserted: dict[Column, tuple[int, int]] = {}
    parents = _parents(twin)
    for at, step in enumerate(kind.steps):
        one = statements.get(step.statement)
        if one is None:
            continue
        equal = _equalities(one)
        columns = frozenset(equal)
        if columns and columns in groups:
            for column, parameter in equal.items():
                yield Link(at, parameter, *seen[column])
        elif columns:
            groups[columns] = at
            seen.update({column: (at, parameter) for column, parameter in equal.items()})
        for column, parameter in _inserted(one).items():
            known = {**seen, **inserted}
            source = next((known[x] for x in parents.get(column, ()) if x in known), None)
            # As the statement before it means the same row: its key has the same name here.
            source = source or next((seen[x] for x in seen if _has_that_name(x, column, parents)), None)  # fmt: skip
            if source is not None:
                yield Link(at, parameter, *source)
                if column in equal and equal[column] != parameter and seen.get(column, (at,))[0] == at:  # fmt: skip
                    yield Link(at, equal[column], *source)
            inserted[column] = (at, parameter)


def _has_that_name(one: Column, column: Column, parents: Mapping[Column, list[Column]]) -> bool:
    """Whether an earlier column may be the same by its name; what has to be in another table must be there, too."""
    wanted = set(parents.get(column, ()))
    is_there = not wanted or bool(wanted & set(parents.get(one, ())))
    return one[1] == column[1] != "id" and is_there


def _equalities(one: Analysed) -> dict[Column, int]:
    found: dict[Column, int] = {}
    for number, x in one.conditions.first().items():
        columns = columns_of(x.columns)
        if x.operator == "=" and x.is_plain and len(columns) == 1 and x.alias in one.roots:
            found.setdefault((one.roots[x.alias].name, columns[0][1]), number)
    return found


def _inserted(one: Analysed) -> dict[Column, int]:
    if one.table is None:
        return {}
    return {
        (one.table.name, x.column or one.table.columns[x.place]): x.parameter
        for x in one.change.assignments
        if x.is_inserted and x.is_plain and not x.row and (x.column or x.place < len(one.table.columns))
    }  # fmt: skip


def _parents(twin: Twin) -> Mapping[Column, list[Column]]:
    found: dict[Column, list[Column]] = {}
    for one in twin.schema.constraints:
        if one.kind == "f" and one.references is not None:
            _, table, columns = one.references
            for own, other in zip(one.columns, columns, strict=False):
                found.setdefault((one.table, own), []).append((table, other))
    return found
