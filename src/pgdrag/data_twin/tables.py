"""Which tables of a data twin are filled with rows, how many rows, and in which order can that be done?

A table that is filled is a plain one, or a partition; where partitions are by hash it is the partitioned table, since only
the server knows which row goes where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgdrag.data_twin.columns import ColumnHere
from pgdrag.data_twin.sizes import rows_of, scaled_rows
from pgdrag.twins.model import Constraint, Relation, Table, Twin

TableName = tuple[str, str]


@dataclass(frozen=True)
class ForeignKey:
    """Columns whose values are those of another table's columns."""

    columns: tuple[str, ...]
    table: TableName
    others: tuple[str, ...]


@dataclass(frozen=True)
class FilledTable:
    """A table that rows are written to.

    Attributes:
        statistics: which table's statistics describe it, with whether those with its children.
        rows: as many as it is to have.
        original_rows: as many as the statistics are about.
        keys: sets of columns that no two rows have the same values of.
        options: its storage parameters.
    """

    name: TableName
    columns: tuple[ColumnHere, ...]
    is_inherited: bool
    rows: int
    original_rows: int
    keys: tuple[tuple[str, ...], ...]
    foreign_keys: tuple[ForeignKey, ...]
    options: tuple[str, ...] = ()


class FilledTables:
    """The tables of a twin that rows are written to.

    Attributes:
        tables: in the order in which they can be made: a foreign key's table before it.
    """

    def __init__(
        self, twin: Twin, columns: Mapping[TableName, tuple[ColumnHere, ...]], *, scale: float
    ) -> None:
        """Look through the schema.

        Args:
            columns: those of the new database.
        """
        self._schema = {(x.schema, x.name): x for x in twin.schema.tables}
        self._relations = {(x.schema, x.name): x for x in twin.relations}
        self._parts: dict[TableName, list[TableName]] = {}
        for table in twin.schema.tables:
            if table.partition_of is not None:
                self._parts.setdefault(table.partition_of, []).append((table.schema, table.name))
        self._constraints: dict[TableName, list[Constraint]] = {}
        for one in twin.schema.constraints:
            self._constraints.setdefault((one.schema, one.table), []).append(one)
        self._unique: dict[TableName, list[tuple[str, ...]]] = {}
        for index in twin.schema.indexes:
            if index.is_key and not index.constraint:
                self._unique.setdefault((index.schema, index.table), []).append(index.keys)
        filled = {
            one.name: one for name in columns for one in self._filled(name, columns[name], scale)
        }
        self.tables = tuple(self._parents_first(filled))

    def _filled(
        self, name: TableName, columns: tuple[ColumnHere, ...], scale: float
    ) -> Iterator[FilledTable]:
        """Yield a table if rows are written to it."""
        table = self._schema.get(name)
        if table is None or self._is_under_hash(table):
            return
        is_by_hash = table.partition_key.upper().startswith("HASH")
        if table.partition_key and not is_by_hash:
            return
        original = sum(rows_of(x) for x in self._leaves(name))
        ancestors = [name, *self._ancestors(table)]
        keys = [x.columns for one in ancestors for x in self._constraints.get(one, ()) if x.kind in "pu"]  # fmt: skip
        keys += [keys for one in ancestors for keys in self._unique.get(one, ())]
        known = {x.name for x in columns}
        foreign = {
            ForeignKey(x.columns, (x.references[0], x.references[1]), x.references[2])
            for one in ancestors
            for x in self._constraints.get(one, ())
            if x.references is not None
        }
        yield FilledTable(
            name,
            tuple(x for x in columns if not x.is_generated),
            is_inherited=is_by_hash,
            rows=scaled_rows(original, scale),
            original_rows=original,
            keys=tuple(dict.fromkeys(x for x in keys if x and known.issuperset(x))),
            foreign_keys=tuple(sorted(foreign, key=lambda x: (-len(x.columns), x.columns))),
            options=table.options,
        )

    def _leaves(self, name: TableName) -> Iterator[Relation]:
        if name in self._parts:
            for part in self._parts[name]:
                yield from self._leaves(part)
        elif name in self._relations:
            yield self._relations[name]

    def _ancestors(self, table: Table) -> Iterator[TableName]:
        while table.partition_of is not None:
            yield table.partition_of
            table = self._schema[table.partition_of]

    def _is_under_hash(self, table: Table) -> bool:
        return any(
            self._schema[x].partition_key.upper().startswith("HASH") for x in self._ancestors(table)
        )

    def _root(self, name: TableName) -> TableName:
        """Return the table that a partition, of whatever depth, is one of; any other is itself."""
        table = self._schema.get(name)
        return name if table is None else ([name, *self._ancestors(table)])[-1]

    def _parents_first(self, tables: Mapping[TableName, FilledTable]) -> Iterator[FilledTable]:
        done: set[TableName] = set()

        def visit(name: TableName) -> Iterator[FilledTable]:
            if name in done:
                return
            done.add(name)
            if name in tables:
                for one in tables[name].foreign_keys:
                    yield from visit(one.table)
                yield tables[name]
            for part in self._parts.get(name, ()):
                yield from visit(part)

        for name in tables:
            yield from visit(name)
