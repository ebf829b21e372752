"""Which parameters of one transaction have the same value, where no log tells?

Statements that look at the same table by the same columns mean the same row; what is inserted beside its parent belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pgdrag.data_twin.load.conditions import columns_of
from pgdrag.data_twin.load.mix import Link, TransactionType
from pgdrag.data_twin.load.statements import Analysed
from pgdrag.twins.model import Twin

Column = tuple[str, str]  # a table and its column


def linked(
    kind: TransactionType, statements: Mapping[int, Analysed], twin: Twin
) -> TransactionType:
    """Return a transaction with its links guessed, unless a log told them."""
    return (
        kind if kind.knows_order else replace(kind, links=tuple(_guessed(kind, statements, twin)))
    )


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
            source = source or next((seen[x] for x in seen if x[1] == column[1] and x[1] != "id"), None)  # fmt: skip
            if source is not None:
                yield Link(at, parameter, *source)
            inserted[column] = (at, parameter)


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
