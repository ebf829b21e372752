"""Which rows has each table? What the statistics of its columns, its keys and its foreign keys ask for, together.

A table that is filled is a plain one, or a partition; where partitions are by hash it is the partitioned table, since only
the server knows which row goes where.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from pgdrag.data_twin import documents
from pgdrag.data_twin.columns import ColumnHere, Key
from pgdrag.data_twin.combinations import distinct_combinations, ordered
from pgdrag.data_twin.domains import (
    NULL,
    Codes,
    Domain,
    Form,
    ListedDomain,
    address_domain,
    bytea_domain,
    mac_domain,
    number_domain,
    text_domain,
    time_domain,
    time_granule,
    uuid_domain,
)
from pgdrag.data_twin.estimates import ROWS_PER_TARGET, distinct_behind
from pgdrag.data_twin.sizes import rows_of, scaled_rows
from pgdrag.data_twin.spreads import Spread, Wanted, arranged, spread
from pgdrag.twins.model import (
    ColumnStatistics,
    Constraint,
    ExtendedStatistics,
    Relation,
    Table,
    Twin,
)

TableName = tuple[str, str]

_PLAIN_KINDS = frozenset({"number", "time", "text", "uuid", "bytea", "address", "mac", "enum", "boolean"})  # fmt: skip
# Values of these are no key of another table, even where they are compared with it.
_NOT_SHARED = frozenset({"time", "boolean", "enum", "json"})
_ALL_COMBINATIONS = 1.1  # as many rows, at most, as there are combinations of a key's values
_SHARED = 0.9  # of all values of all partitions: with fewer, they have some in common
_LONG_TEXT = 127  # bytes: from here on the header takes 4 instead of 1
_TOAST_POINTER = 18
_UNKNOWN_WIDTH, _UNKNOWN_DISTINCT = 16.0, 200


_DOMAINS: Mapping[str, Callable[[ColumnHere, Sequence[str]], Domain]] = {
    "time": lambda _, tokens: time_domain(tokens),
    "enum": lambda column, _: ListedDomain(list(column.labels)),
    "boolean": lambda *_: ListedDomain(["f", "t"]),
    "uuid": lambda _, tokens: uuid_domain(tokens),
    "address": lambda _, tokens: address_domain(tokens),
    "mac": lambda _, tokens: mac_domain(tokens),
}


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


@dataclass
class FilledColumn:
    """The values of a column, one a row; `texts` writes those that differ."""

    column: ColumnHere
    codes: Codes
    domain: Domain
    form: Form


@dataclass
class Rows:
    """The rows of a table, column by column."""

    count: int
    columns: dict[str, FilledColumn] = field(default_factory=dict)


class TwinRows:
    """All rows of a data twin, made table by table; the same seed gives the same.

    Attributes:
        tables: in the order in which they can be made: a foreign key's table before it.
        notes: clauses on what cannot be as it was.
    """

    def __init__(
        self,
        twin: Twin,
        columns: Mapping[TableName, tuple[ColumnHere, ...]],
        *,
        scale: float,
        seed: int,
    ) -> None:
        """Look through schema and statistics; nothing is made yet.

        Args:
            columns: those of the new database.
        """
        self.notes: list[str] = []
        self._seed = seed
        self._schema = {(x.schema, x.name): x for x in twin.schema.tables}
        self._columns = {x.key: x for of_table in columns.values() for x in of_table}
        self._statistics = {
            (x.schema, x.relation, x.column, x.is_inherited): x for x in twin.statistics
        }
        self._extended = twin.schema.statistics
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
            if index.is_unique and not index.constraint and " WHERE " not in index.definition:
                self._unique.setdefault((index.schema, index.table), []).append(index.keys)
        filled = {
            one.name: one for name in columns for one in self._filled(name, columns[name], scale)
        }
        self.tables = tuple(self._parents_first(filled))
        self._by_name = {x.name: x for x in self.tables}
        self._classes = _Classes(self.tables, self._columns, self._statistics, self._root)
        self._values: dict[Key, Codes] = {}
        self._shared_values: dict[Key, Codes] = {}
        self._under_way: set[Key] = set()
        self._kept: dict[TableName, dict[str, Codes]] = {}
        self._wanted_by_others = {
            (*one.table, other)
            for table in self.tables
            for one in table.foreign_keys
            for other in one.others
            if len(one.columns) > 1
        }
        self._domains: dict[Key, Domain] = {}
        self._decimals: dict[Key, int] = {}

    # --- the tables -------------------------------------------------------------------------

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

    # --- what a column's statistics ask for ---------------------------------------------------

    def _rng(self, *names: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, zlib.crc32("\0".join(names).encode())])

    def _of(self, table: FilledTable, name: str) -> ColumnStatistics | None:
        return self._statistics.get((*table.name, name, table.is_inherited))

    def _distinct(self, table: FilledTable, name: str) -> int:
        """Return how many values a column is to have."""
        one = self._of(table, name)
        nulls = self._null_rows(table, name)
        filled = table.rows - nulls
        if (name,) in table.keys:
            return filled
        source = self._source(table, name)
        if one is None or not one.n_distinct:
            most = len(source[0]) if source is not None else _UNKNOWN_DISTINCT
            return max(min(filled, most), 1)
        found = self._classes.true_distinct(one, table.original_rows)
        if one.n_distinct < 0:
            found *= table.rows / max(table.original_rows, 1)
        else:
            found *= self._shrunk(table, name)
        return max(min(round(found), filled), len(one.most_common), 1)

    def _shrunk(self, table: FilledTable, name: str) -> float:
        """Return how much fewer values there are than in the original: as many as of what they refer to."""
        leader = self._leader(table, name)
        if leader is not None and leader[0] != (*self._root(table.name), name):
            codes = self._values_of(leader[0])
            if codes is not None and len(codes):
                return min(len(codes) / self._classes.original_distinct(leader[0]), 1.0)
        key = next((x for x in table.keys if len(x) > 1 and name in x), None)
        if key is None or table.rows == table.original_rows:
            return 1.0
        sizes = {x: self._original_distinct(table, x) for x in key}
        is_largest = max(sizes, key=sizes.__getitem__) == name
        is_all = prod(sizes.values()) <= _ALL_COMBINATIONS * table.original_rows
        return table.rows / table.original_rows if is_largest and is_all else 1.0

    def _original_distinct(self, table: FilledTable, name: str) -> int:
        one = self._of(table, name)
        if (name,) in table.keys or one is None:
            return max(table.original_rows, 1)
        return max(round(self._classes.true_distinct(one, table.original_rows)), 1)

    def _null_rows(self, table: FilledTable, name: str) -> int:
        one, column = self._of(table, name), self._columns[*table.name, name]
        return 0 if one is None or column.is_not_null else round(one.null_share * table.rows)

    def _leader(self, table: FilledTable, name: str) -> tuple[Key, bool] | None:
        """Return the column whose values a column's are among, and whether it must be so."""
        for one in table.foreign_keys:
            if name in one.columns:
                return (*one.table, one.others[one.columns.index(name)]), True
        column = self._columns[*table.name, name]
        if column.kind in _NOT_SHARED or column.is_array:
            return None
        root = self._root(table.name)
        if root != table.name and self._is_shared(root, name):
            return (*root, name), False
        pool = self._classes.pool((*table.name, name))
        if pool is None or self._root(pool[:2]) == self._root(table.name):
            return None
        return pool, False

    def _source(self, table: FilledTable, name: str) -> tuple[Codes, bool] | None:
        leader = self._leader(table, name)
        if leader is None:
            return None
        if leader[0] == (*self._root(table.name), name):
            return self._shared(table, leader[0]), False
        codes = self._values_of(leader[0])
        return None if codes is None else (codes, leader[1])

    def _values_of(self, key: Key) -> Codes | None:
        """Return the values of a column that others refer to; None where there are none yet."""
        if key not in self._values:
            if key in self._under_way:
                return None
            self._under_way.add(key)
            tables = [x for x in self.tables if x.name == key[:2] or self._is_part(x.name, key[:2])]
            parts = [self._spread(x, key[2]).codes for x in tables if (*x.name, key[2]) in self._columns]  # fmt: skip
            self._under_way.discard(key)
            self._values[key] = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        return self._values[key]

    def _is_shared(self, root: TableName, name: str) -> bool:
        """Whether partitions have many values of a column in common."""
        whole = self._statistics.get((*root, name, True))
        parts = [(x, one) for x in self.tables if self._root(x.name) == root and (one := self._of(x, name)) is not None]  # fmt: skip
        if whole is None or len(parts) < 2:
            return False
        total = sum(self._classes.true_distinct(one, x.original_rows) for x, one in parts)
        return self._classes.original_distinct((*root, name)) < _SHARED * total

    def _shared(self, table: FilledTable, key: Key) -> Codes:
        """Return the values of a column of a partitioned table, as its statistics of all partitions tell them."""
        if key not in self._shared_values:
            parts = [x for x in self.tables if self._root(x.name) == key[:2]]
            whole = replace(
                table,
                name=key[:2],
                is_inherited=True,
                rows=sum(x.rows for x in parts),
                original_rows=sum(x.original_rows for x in parts),
            )
            self._shared_values[key] = self._spread(whole, key[2]).codes
        return self._shared_values[key]

    def _is_part(self, name: TableName, of: TableName) -> bool:
        table = self._schema.get(name)
        return table is not None and of in self._ancestors(table)

    def _spread(self, table: FilledTable, name: str, *, rows: int | None = None, distinct: int | None = None, is_even: bool = False) -> Spread:  # fmt: skip
        one = self._of(table, name)
        domain, form = self.domain(table, name)
        column = self._columns[*table.name, name]
        common, shares, bounds = self._known(one, domain)
        nulls = self._null_rows(table, name)
        if rows is not None and table.rows:
            nulls = round(nulls * rows / table.rows)
        wanted = Wanted(
            rows=table.rows if rows is None else rows,
            nulls=nulls,
            distinct=self._distinct(table, name) if distinct is None else distinct,
            common=common,
            common_shares=shares,
            bounds=bounds,
            is_unique=(name,) in table.keys,
            is_even=is_even,
        )
        source = self._source(table, name)
        codes, is_strict = source if source is not None else (None, True)
        rng = self._rng(*table.name, name, "values")
        if column.type_kind == "b" and column.kind == "boolean" and one is None:
            codes = np.array([0, 1], np.int64)
        return spread(wanted, domain, form, rng, codes, is_strict=is_strict)

    @staticmethod
    def _known(
        one: ColumnStatistics | None, domain: Domain
    ) -> tuple[list[int], list[float], list[int]]:
        if one is None:
            return [], [], []
        common = [
            (code, share)
            for x, share in zip(one.most_common, one.most_common_shares, strict=False)
            if (code := domain.code(x)) is not None
        ]
        bounds = sorted(code for x in one.histogram if (code := domain.code(x)) is not None)
        return [code for code, _ in common], [share for _, share in common], bounds

    # --- domains ------------------------------------------------------------------------------

    def domain(self, table: FilledTable, name: str) -> tuple[Domain, Form]:
        """Return the domain of a column's values, and how it writes them."""
        key = (*table.name, name)
        root = self._classes.root(key)
        if root not in self._domains:
            self._domains[root] = self._new_domain(root, table, name)
        return self._domains[root], self._form(table, name, self._domains[root])

    def _new_domain(self, root: Key, table: FilledTable, name: str) -> Domain:
        column = self._columns[*table.name, name]
        if column.is_array or column.kind in ("json", "tsvector", ""):
            return ListedDomain([])
        statistics = self._classes.statistics(root)
        tokens = [x for one in statistics for x in (*one.most_common, *one.histogram)]
        for extended in self._extended:
            tokens += self._of_extended(extended, root)
        if column.kind == "number":
            domain, self._decimals[root] = number_domain(tokens)
            return domain
        if column.kind in ("bytea", "text"):
            return self._text_domain(root, column, tokens, self._width(statistics))
        return _DOMAINS[column.kind](column, tokens)

    def _text_domain(
        self, root: Key, column: ColumnHere, tokens: Sequence[str], width: float
    ) -> Domain:
        if column.kind == "bytea":
            return bytea_domain(tokens, width=width)
        columns = [self._columns[x] for x in self._classes.members(root)]
        longest = min((x.longest for x in columns if x.longest), default=0)
        if column.type == "bpchar":
            return _Padded(
                text_domain([x.rstrip(" ") for x in tokens], longest=longest, width=width)
            )
        return text_domain(tokens, longest=longest, width=width)

    def _of_extended(self, one: ExtendedStatistics, root: Key) -> Iterator[str]:
        for at, name in enumerate(one.columns):
            key = (one.table_schema, one.table, name)
            if key in self._columns and self._classes.root(key) == root:
                yield from (x for values, _, _ in one.most_common if (x := values[at]) is not None)

    def _width(self, statistics: Sequence[ColumnStatistics]) -> float:
        """Return how many bytes those values have of which nothing is told, on average: by the column with the most."""
        one = max(statistics, key=lambda x: (x.n_distinct < 0, abs(x.n_distinct)), default=None)
        if one is None:
            return _UNKNOWN_WIDTH
        width = float(one.width)
        if width <= _TOAST_POINTER and not one.histogram and not one.most_common:
            width = self._toasted_width(one) or width
        # ANALYZE cuts off what is behind the point.
        content = width + 0.5 - (1 if width <= _LONG_TEXT else 4)
        share = sum(one.most_common_shares)
        known = sum(s * len(x) for x, s in zip(one.most_common, one.most_common_shares, strict=False))  # fmt: skip
        rest = 1 - share - one.null_share
        return max((content * (1 - one.null_share) - known) / rest if rest > 0.01 else content, 1.0)

    def _toasted_width(self, one: ColumnStatistics) -> float:
        relation = self._relations.get((one.schema, one.relation))
        if relation is None or not relation.toast_bytes:
            return 0.0
        alike = [x for x in self._statistics.values() if (x.schema, x.relation) == (one.schema, one.relation) and x.width == _TOAST_POINTER]  # fmt: skip
        rows = rows_of(relation) * max(len(alike), 1)
        return 0.9 * relation.toast_bytes / max(rows, 1)

    def _form(self, table: FilledTable, name: str, domain: Domain) -> Form:
        column, one = self._columns[*table.name, name], self._of(table, name)
        tokens = (*one.most_common, *one.histogram) if one is not None else ()
        if column.kind == "time":
            granule = time_granule(x for t in tokens if (x := domain.code(t)) is not None)
            return Form(granule if column.type != "date" else max(granule, 86_400_000_000), is_date=column.type == "date")  # fmt: skip
        if column.kind == "number":
            decimals = self._decimals.get(self._classes.root(column.key), 0)
            own = max((len(x.partition(".")[2]) for x in tokens if "e" not in x.lower()), default=0)
            most = column.most_decimals
            own = min(own if most is None else min(own, most), decimals)
            return Form(10 ** (decimals - own), decimals=own)
        return Form(longest=column.longest)

    # --- rows -----------------------------------------------------------------------------------

    def rows(self, table: FilledTable) -> Rows:
        """Make the rows of a table."""
        found = Rows(table.rows)
        if table.rows:
            self._fill_keys(table, found)
            self._fill_foreign_keys(table, found)
            self._fill_together(table, found)
        for column in table.columns:
            if column.name not in found.columns:
                found.columns[column.name] = self._alone(table, column, found.count)
        kept = {x.name for x in table.columns if (*table.name, x.name) in self._wanted_by_others or (*self._root(table.name), x.name) in self._wanted_by_others}  # fmt: skip
        for name in kept:
            self._keep(table, name, found.columns[name].codes)
        return found

    def _keep(self, table: FilledTable, name: str, codes: Codes) -> None:
        for of in {table.name, *self._ancestors(self._schema[table.name])}:
            own = self._kept.setdefault(of, {})
            own[name] = np.concatenate((own[name], codes)) if name in own else codes

    def _correlation(self, table: FilledTable, name: str) -> float | None:
        if table.is_inherited:  # the order of rows within partitions is theirs
            parts = [self._statistics.get((x.schema, x.name, name, False)) for x in self._leaves(table.name)]  # fmt: skip
            known = [x.correlation for x in parts if x is not None and x.correlation is not None]
            return sum(known) / len(known) if known else None
        one = self._of(table, name)
        return None if one is None else one.correlation

    def _set(self, table: FilledTable, found: Rows, name: str, codes: Codes) -> None:
        domain, form = self.domain(table, name)
        found.columns[name] = FilledColumn(self._columns[*table.name, name], codes, domain, form)

    def _fill_keys(self, table: FilledTable, found: Rows) -> None:
        for key in table.keys:
            if any(name in found.columns for name in key) or not self._are_plain(table, key):
                continue
            if len(key) > 1:
                self._fill_key(table, key, found)

    def _are_plain(self, table: FilledTable, names: Sequence[str]) -> bool:
        columns = [self._columns[*table.name, x] for x in names]
        return all(x.kind in _PLAIN_KINDS and not x.is_array and not x.is_generated for x in columns)  # fmt: skip

    def _fill_key(self, table: FilledTable, key: tuple[str, ...], found: Rows) -> None:
        """Make the columns of a key of several columns, so that no two rows are equal."""
        parts = [*self._parts_of_key(table, key)]
        places, is_in_order = distinct_combinations(
            [x.counts for x in parts],
            table.rows,
            self._rng(*table.name, *key),
            [self._correlation(table, x.names[0]) for x in parts],
        )
        names = [name for part in parts for name in part.names]
        columns = [
            part.codes[places[:, at], column]
            for at, part in enumerate(parts)
            for column in range(len(part.names))
        ]
        if not is_in_order:
            order = ordered(columns, [self._correlation(table, x) for x in names], self._rng(*table.name, "order"))  # fmt: skip
            columns = [x[order] for x in columns]
        for name, codes in zip(names, columns, strict=True):
            # NULLs are equal to nothing, so that they may be anywhere.
            nulls = min(self._null_rows(table, name), len(codes))
            codes[self._rng(*table.name, name, "NULLs").choice(len(codes), nulls, replace=False)] = NULL  # fmt: skip
            self._set(table, found, name, codes)
        found.count = len(places)
        if found.count < 0.9 * table.rows:
            self.notes.append(
                f"table {'.'.join(table.name)} has {found.count:,} rows instead of {table.rows:,}: there are no more combinations of its key ({', '.join(key)})"
            )

    def _parts_of_key(self, table: FilledTable, key: tuple[str, ...]) -> Iterator[_Part]:
        left = list(key)
        parts = []
        for one in table.foreign_keys:
            parents = self._tuples(one)
            if len(one.columns) > 1 and set(one.columns) <= set(left) and parents is not None:
                used = table.rows if set(one.columns) == set(key) else self._used_parents(table, one, len(parents))  # fmt: skip
                rng = self._rng(*table.name, *one.columns)
                which = np.sort(_chosen_parents(self._weights(table, one, parents), used, rng))
                counts = np.full(len(which), max(table.rows // max(len(which), 1), 1), np.int64)
                parts.append(_Part(one.columns, parents[which], counts))
                left = [x for x in left if x not in one.columns]
        sizes = {name: self._distinct(table, name) for name in left}
        others = prod(len(x.codes) for x in parts)
        if left:
            self._fit(table, sizes, others)
        for name in left:
            own = self._spread(table, name, distinct=sizes[name], is_even=True)
            parts.append(_Part((name,), own.codes[:, None], own.counts))
        # As the key has them.
        yield from sorted(parts, key=lambda x: key.index(x.names[0]))

    def _fit(self, table: FilledTable, sizes: dict[str, int], others: int) -> None:
        """Have as many values in the part of which least is known as rows need.

        Numbers of distinct values are estimates; where their product is about the number of rows, they are all
        combinations.
        """

        def is_known(name: str) -> bool:
            one = self._of(table, name)
            return one is not None and len(one.most_common) >= one.n_distinct > 0

        largest = max(sizes, key=lambda x: (not is_known(x), sizes[x]))
        rest = others * prod(x for name, x in sizes.items() if name != largest)
        total = rest * sizes[largest]
        if total < table.rows or total <= _ALL_COMBINATIONS * table.rows:
            sizes[largest] = max(-(-table.rows // rest) if total < table.rows else round(table.rows / rest), 1)  # fmt: skip

    def _tuples(self, one: ForeignKey) -> NDArray[np.int64] | None:
        """Return the keys of the table that a foreign key leads to, one a row; None where it has none yet."""
        kept = self._kept.get(one.table, {})
        if any(x not in kept for x in one.others):
            return None
        return np.stack([kept[x] for x in one.others], axis=1)

    def _used_parents(self, table: FilledTable, one: ForeignKey, parents: int) -> int:
        """Return how many rows of the other table have any of this one: as few as the column with the most values says."""
        shares = []
        for name, other in zip(one.columns, one.others, strict=True):
            there = self._values_of((*one.table, other))
            if there is not None and len(there):
                shares.append((len(there), self._distinct(table, name) / len(there)))
        share = min(max(shares)[1], 1.0) if shares else 1.0
        return max(min(round(parents * share), parents), 1)

    def _fill_foreign_keys(self, table: FilledTable, found: Rows) -> None:
        for one in table.foreign_keys:
            missing = [x for x in one.columns if x not in found.columns]
            parents = self._tuples(one) if len(one.columns) > 1 else None
            if not missing or parents is None or not len(parents):
                continue
            if any(self._null_rows(table, x) for x in one.columns):
                continue
            rng = self._rng(*table.name, *one.columns, "parents")
            weights = self._weights(table, one, parents)
            if len(missing) < len(one.columns):
                which = _within(one, parents, weights, found, rng)
            else:
                which = self._any_parents(table, one, parents, weights, found.count, rng)
            for name in missing:
                self._set(table, found, name, parents[which, one.columns.index(name)])

    def _weights(
        self, table: FilledTable, one: ForeignKey, parents: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how often each key is referred to, by how frequent its columns' values are."""
        weights = np.ones(len(parents))
        for at, name in enumerate(one.columns):
            own = self._spread(table, name)
            there, inverse, counts = np.unique(parents[:, at], return_inverse=True, return_counts=True)  # fmt: skip
            of_value = np.zeros(len(there))
            place = np.clip(np.searchsorted(there, own.codes), 0, len(there) - 1)
            is_same = there[place] == own.codes
            of_value[place[is_same]] = own.counts[is_same]
            weights *= (of_value / counts)[inverse]
        return weights if weights.sum() > 0 else np.ones(len(parents))

    def _any_parents(
        self, table: FilledTable, one: ForeignKey, parents: NDArray[np.int64],
        weights: NDArray[np.float64], rows: int, rng: np.random.Generator,
    ) -> NDArray[np.int64]:  # fmt: skip
        used = self._used_parents(table, one, len(parents))
        chosen = _chosen_parents(weights, used, rng)
        first = chosen[:rows]
        more = rng.choice(chosen, max(rows - len(first), 0), p=weights[chosen] / weights[chosen].sum()) if weights[chosen].sum() else chosen[:0]  # fmt: skip
        which = np.concatenate((first, more))[:rows]
        columns = [parents[which, at] for at in range(len(one.columns))]
        order = ordered(columns, [self._correlation(table, x) for x in one.columns], rng)
        return which[order]

    def _fill_together(self, table: FilledTable, found: Rows) -> None:
        """Make the columns that extended statistics are about."""
        for one in self._extended:
            if (one.table_schema, one.table) not in (table.name, self._root(table.name)):
                continue
            names = [x for x in one.columns if (*table.name, x) in self._columns and x not in found.columns]  # fmt: skip
            if len(names) < 2 or not self._are_plain(table, names):
                continue
            if any((x,) in table.keys for x in names):
                continue
            columns = self._together(table, one, names, found.count)
            order = ordered(columns, [self._correlation(table, x) for x in names], self._rng(*table.name, one.name))  # fmt: skip
            for name, codes in zip(names, columns, strict=True):
                self._set(table, found, name, codes[order])

    def _together(
        self, table: FilledTable, one: ExtendedStatistics, names: Sequence[str], rows: int
    ) -> list[Codes]:
        rng = self._rng(*table.name, one.name, "together")
        lefts = []
        for name in names:
            own = self._spread(table, name, rows=rows)
            codes = np.concatenate((own.codes, [NULL])) if own.nulls else own.codes
            counts = np.concatenate((own.counts, [own.nulls])) if own.nulls else own.counts
            lefts.append((codes, counts.copy()))
        told = self._combinations(table, one, names, lefts, rows)
        left = rows - sum(number for _, number in told)
        slack = self._slack(one, names, [len(x) for x, _ in lefts], rows)
        columns = []
        for at, (codes, counts) in enumerate(lefts):
            # The most frequent ones of each column belong together; among equals the lot decides.
            shuffled = rng.permutation(len(codes))
            shuffled = shuffled[np.argsort(-counts[shuffled], kind="stable")]
            of_rows = np.repeat(codes[shuffled], counts[shuffled])
            of_rows = _resized(of_rows, left, rng)
            # Values of one column lie beside those of another that they belong to, but for some rows.
            places = np.arange(left, dtype=float)
            if at:
                is_free = rng.random(left) < slack
                places[is_free] = rng.random(int(is_free.sum())) * left
            free = of_rows[np.argsort(places, kind="stable").argsort()]
            fixed = [np.full(number, values[at], np.int64) for values, number in told]
            columns.append(np.concatenate([*fixed, free]))
        return columns

    def _combinations(
        self, table: FilledTable, one: ExtendedStatistics, names: Sequence[str],
        lefts: Sequence[tuple[Codes, NDArray[np.int64]]], rows: int,
    ) -> list[tuple[tuple[int, ...], int]]:  # fmt: skip
        """Return the combinations that are told, with their rows, which are taken from what is left of each value."""
        found = []
        at = [one.columns.index(x) for x in names]
        for values, share, _ in one.most_common:
            codes = []
            for place, name in zip(at, names, strict=True):
                value = values[place]
                codes.append(NULL if value is None else self.domain(table, name)[0].code(value))
            spots = [np.flatnonzero(x == code) for (x, _), code in zip(lefts, codes, strict=True)]
            if any(not len(x) for x in spots):
                continue
            number = min([round(share * rows), *(int(counts[x[0]]) for (_, counts), x in zip(lefts, spots, strict=True))])  # fmt: skip
            if number > 0:
                for (_, counts), spot in zip(lefts, spots, strict=True):
                    counts[spot[0]] -= number
                found.append((tuple(int(x) for x in codes if x is not None), number))
        return found

    def _slack(
        self, one: ExtendedStatistics, names: Sequence[str], sizes: Sequence[int], rows: int
    ) -> float:
        """Return which share of rows has any combination; in the others one value decides the other."""
        table = self._schema.get((one.table_schema, one.table))
        numbers = {x.name: x.number for x in table.columns} if table is not None else {}
        degrees = [
            degree
            for key, degree in _numbers_in(one.dependencies)
            if len(key) == 2 and {numbers.get(x) for x in names} >= set(key)
        ]
        found = 1 - max(degrees, default=0.0)
        for key, count in _numbers_in(one.n_distinct):
            if set(key) == {numbers.get(x) for x in names}:
                total, most = prod(sizes), max(sizes)
                if count < 0.8 * total and rows:
                    # So many draws of all combinations find that many different ones.
                    draws = -total * np.log(1 - max(count - most, 0) / total)
                    found = min(found, float(draws) / rows)
        return min(found, 1.0)

    def _alone(self, table: FilledTable, column: ColumnHere, rows: int) -> FilledColumn:
        """Make a column that has to do with no other one."""
        name = column.name
        rng = self._rng(*table.name, name, "order")
        if column.is_array or column.kind not in _PLAIN_KINDS:
            return self._listed(table, column, rows, rng)
        domain, form = self.domain(table, name)
        own = self._spread(table, name, rows=rows)
        codes = arranged(own, self._correlation(table, name), rng)
        return FilledColumn(column, codes, domain, form)

    def _listed(
        self, table: FilledTable, column: ColumnHere, rows: int, rng: np.random.Generator
    ) -> FilledColumn:
        """Make a column of documents, arrays or values of which only the width is known."""
        one = self._of(table, column.name)
        nulls = round((one.null_share if one is not None else 0.0) * rows)
        if column.is_not_null:
            nulls = 0
        filled = rows - nulls
        common = list(one.most_common) if one is not None else []
        distinct = min(self._distinct(table, column.name), filled)
        made = self._made(table, column, one, max(distinct - len(common), 0 if common else 1), rng) if filled else []  # fmt: skip
        if made is None:
            if column.is_not_null:
                self.notes.append(f"column {'.'.join(column.key)}: nobody knows how to make a value of type {column.type}")  # fmt: skip
            return FilledColumn(column, np.full(rows, NULL, np.int64), ListedDomain([""]), Form())
        shares = list(one.most_common_shares) if one is not None else []
        counts = [min(round(x * rows), filled) for x in shares[: len(common)]]
        parts = [np.full(number, at, np.int64) for at, number in enumerate(counts)]
        left = max(filled - sum(counts), 0)
        if made:
            first = np.arange(min(len(made), left))
            more = rng.integers(0, len(made), left - len(first))
            parts.append(np.concatenate((first, more)) + len(common))
        elif common:
            parts.append(rng.integers(0, len(common), left))
        codes = np.concatenate([*parts, np.full(rows, NULL, np.int64)])[:filled]
        codes = np.concatenate((codes, np.full(nulls, NULL, np.int64)))
        return FilledColumn(column, rng.permutation(codes), ListedDomain([*common, *made]), Form())

    def _made(
        self, table: FilledTable, column: ColumnHere, one: ColumnStatistics | None, count: int,
        rng: np.random.Generator,
    ) -> list[str] | None:  # fmt: skip
        if column.is_array:
            if one is None or not (one.elements or one.histogram or one.most_common):
                return ["{}"] * min(count, 1)
            return documents.arrays(one, count, rng)
        if column.kind == "json":
            known = (*one.most_common, *one.histogram) if one is not None else ()
            rest = (1 - sum(one.most_common_shares)) / max(len(one.histogram), 1) if one is not None else 1.0  # fmt: skip
            weights = [*(one.most_common_shares if one is not None else ()), *([rest] * (len(known) - len(one.most_common) if one is not None else 0))]  # fmt: skip
            width = round(self._width([one])) if one is not None else 32
            return documents.Documents(known, weights, width).make(count, rng)
        if column.kind == "tsvector":
            return documents.search_vectors(one, table.rows, count, rng) if one is not None else ["'z':1"]  # fmt: skip
        make = documents.others(column.type, column.modifier)
        return None if make is None else [make(at) for at in range(count)]


@dataclass(frozen=True)
class _Part:
    """Columns of a key that are drawn together: their values, one combination a row, and rows of each."""

    names: tuple[str, ...]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


class _Padded(Domain):
    """Texts of a type that pads them with spaces: the server does that."""

    def __init__(self, inner: Domain) -> None:
        self._inner = inner

    def code(self, token: str) -> int | None:
        return self._inner.code(token.rstrip(" "))

    def between(self, low: int, high: int, count: int, form: Form) -> Codes:
        return self._inner.between(low, high, count, form)

    def beyond(self, last: int, count: int, form: Form) -> Codes:
        return self._inner.beyond(last, count, form)

    def texts(self, codes: Codes, form: Form) -> list[str]:
        return self._inner.texts(codes, form)


class _Classes:
    """Which columns have the same domain?"""

    def __init__(
        self,
        tables: Sequence[FilledTable],
        columns: Mapping[Key, ColumnHere],
        statistics: Mapping[tuple[str, str, str, bool], ColumnStatistics],
        root_of: Callable[[TableName], TableName],
    ) -> None:
        self._columns = columns
        self._statistics = statistics
        self._targets = _statistics_targets(statistics.values())
        self._parent: dict[Key, Key] = {}
        self._root_of = root_of
        self._rows: dict[TableName, int] = {}
        for table in tables:
            root = root_of(table.name)
            self._rows[root] = self._rows.get(root, 0) + table.original_rows
        numbered: dict[int, Key] = {}
        for key in columns:
            top = (*root_of(key[:2]), key[2])
            if top != key and top in columns:
                self._join(top, key)
        for (schema, relation, name, _), one in statistics.items():
            key = (schema, relation, name)
            if one.value_class is not None and key in columns and not columns[key].is_array:
                self._join(numbered.setdefault(one.value_class, key), key)
        for table in tables:
            for foreign in table.foreign_keys:
                for own, other in zip(foreign.columns, foreign.others, strict=True):
                    self._join((*foreign.table, other), (*table.name, own))
        self._members: dict[Key, list[Key]] = {}
        for key in columns:
            self._members.setdefault(self.root(key), []).append(key)
        self._pools: dict[Key, Key | None] = {}
        self._tables = {x.name: x for x in tables}
        self._led = {
            (*one.table, other) for x in tables for one in x.foreign_keys for other in one.others
        }

    def _join(self, one: Key, other: Key) -> None:
        if one not in self._columns or other not in self._columns:
            return
        left, right = self.root(one), self.root(other)
        a, b = self._columns[left], self._columns[right]
        if left != right and (a.kind, a.is_array, a.labels) == (b.kind, b.is_array, b.labels):
            self._parent[right] = left

    def root(self, key: Key) -> Key:
        """Return the column that stands for a class."""
        while key in self._parent:
            key = self._parent[key]
        return key

    def members(self, root: Key) -> Sequence[Key]:
        """Return all columns of a class."""
        return self._members[root]

    def statistics(self, root: Key) -> list[ColumnStatistics]:
        """Return the statistics of all columns of a class."""
        return [
            one
            for key in self._members[root]
            for is_inherited in (False, True)
            if (one := self._statistics.get((*key, is_inherited))) is not None
        ]

    def original_distinct(self, key: Key) -> float:
        """Return how many values a column has in the original; of a partitioned table's in all of its partitions."""
        rows = self._rows.get(key[:2], 0)
        one = self._statistics.get((*key, True)) or self._statistics.get((*key, False))
        table = self._tables.get(key[:2])
        if one is None or (table is not None and (key[2],) in table.keys):
            return max(rows, 1)
        return max(self.true_distinct(one, rows), 1)

    def true_distinct(self, one: ColumnStatistics, rows: int) -> float:
        """Return how many values a column of so many rows has, rather than how many ANALYZE says."""
        estimate = one.n_distinct if one.n_distinct > 0 else -one.n_distinct * rows
        filled = 1 - one.null_share
        if filled <= 0:
            return estimate
        sample = ROWS_PER_TARGET * self._targets.get((one.schema, one.relation), 100)
        return distinct_behind(
            estimate,
            rows=round(rows * filled),
            sample=round(min(sample, rows) * filled),
            common=len(one.most_common),
            common_share=min(sum(one.most_common_shares) / filled, 1.0),
        )

    def pool(self, key: Key) -> Key | None:
        """Return the column of a class whose values the others' are taken from; None where there is but one column."""
        root = self.root(key)
        if root not in self._pools:
            self._pools[root] = self._best(root)
        return self._pools[root]

    def _best(self, root: Key) -> Key | None:
        found = [x for x in self._members[root] if self._root_of(x[:2]) == x[:2]]
        if len(found) < 2:
            return None

        def rank(key: Key) -> tuple[bool, bool, float]:
            rows, distinct = self._rows.get(key[:2], 0), self.original_distinct(key)
            return key in self._led, distinct > 0.99 * rows > 0, distinct

        return max(found, key=rank)


def _statistics_targets(statistics: Iterable[ColumnStatistics]) -> dict[TableName, int]:
    """Return for how many values ANALYZE looked at each table: a list of those says that they were at least as many."""
    found: dict[TableName, int] = {}
    for one in statistics:
        name = (one.schema, one.relation)
        longest = max(len(one.histogram) - 1, len(one.most_common), 100)
        found[name] = max(longest, found.get(name, 0))
    return found


def _chosen_parents(
    weights: NDArray[np.float64], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return which ones are chosen, by weight; none without weight, so that there may be fewer."""
    there = np.flatnonzero(weights > 0)
    keys = np.log(weights[there]) + rng.gumbel(size=len(there))
    return there[np.argsort(-keys, kind="stable")[:count]]


def _within(
    one: ForeignKey, parents: NDArray[np.int64], weights: NDArray[np.float64], found: Rows,
    rng: np.random.Generator,
) -> NDArray[np.int64]:  # fmt: skip
    """Return for each row a key of the other table that agrees with the columns that the row has already."""
    given = [at for at, name in enumerate(one.columns) if name in found.columns]
    own = np.stack([found.columns[one.columns[at]].codes for at in given], axis=1)
    both = np.concatenate((parents[:, given], own))
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    of_parents, of_rows = numbers[: len(parents)], numbers[len(parents) :]
    order = np.argsort(of_parents, kind="stable")
    totals = np.concatenate(([0.0], np.cumsum(weights[order])))
    begins = np.searchsorted(of_parents[order], of_rows, side="left")
    ends = np.searchsorted(of_parents[order], of_rows, side="right")
    low, high = totals[begins], totals[ends]
    drawn = np.searchsorted(totals, low + (high - low) * rng.random(len(of_rows)), side="right") - 1
    drawn = np.clip(drawn, begins, np.maximum(ends - 1, begins))
    return order[np.clip(drawn, 0, len(order) - 1)]


def _resized(values: Codes, count: int, rng: np.random.Generator) -> Codes:
    """Return so many of the values, in their order."""
    if len(values) >= count:
        return values[np.sort(rng.choice(len(values), count, replace=False))]
    if not len(values):
        return np.full(count, NULL, np.int64)
    return np.sort(np.concatenate((values, rng.choice(values, count - len(values)))))


def _numbers_in(text: str) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield what the server writes of combinations of columns: {"1, 2": 11}, {"1 => 2": 1.000000}."""
    try:
        items = json.loads(text or "{}")
        for key, value in items.items():
            yield tuple(map(int, re.split(r"\s*(?:,|=>)\s*", key.strip()))), float(value)
    except (ValueError, AttributeError, TypeError):
        return
