"""What do statistics ask of each column: how many values, which ones and how often, and how are they written?"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from pgdrag.data_twin.classes import Classes
from pgdrag.data_twin.columns import ColumnHere, Key
from pgdrag.data_twin.domains import (
    SECOND_CODES,
    Codes,
    Domain,
    Form,
    ListedDomain,
    Wide,
    WrittenOtherwise,
    address_domain,
    bytea_domain,
    mac_domain,
    number_domain,
    text_domain,
    time_code,
    time_domain,
    time_granule,
    uuid_domain,
)
from pgdrag.data_twin.searched_texts import SearchedTexts, searched_texts
from pgdrag.data_twin.sizes import rows_of
from pgdrag.data_twin.spreads import Spread, Wanted, spread
from pgdrag.data_twin.tables import FilledTable, FilledTables, TableName
from pgdrag.twins.model import ColumnStatistics, ExtendedStatistics, Twin
from pgdrag.twins.tokens import ANCHOR, moment_of

# As many rows, at most, as there are combinations of a key's values.
ALL_COMBINATIONS = 1.1
# Values of these are no key of another table, even where they are compared with it.
_NOT_SHARED = frozenset({"time", "boolean", "enum", "json"})
_SHARED = 0.9  # of all values of all partitions: with fewer, they have some in common
_LONG_TEXT = 127  # bytes: from here on the header takes 4 instead of 1
_TOAST_POINTER = 18
_OF_TOAST = 0.9  # of a TOAST table are values
_NARROWER, _LEAST_TOASTED = 0.8, 500  # bytes
_LEAST_UNSEARCHED = 0.3  # of a text that is searched tells its values apart, and puts them in order
_UNCOMPARED = frozenset({"point", "box", "lseg", "circle", "line", "path", "polygon"})
_IN_ORDER = 0.95  # correlation of a table to which rows are added in the order of a column
_UNKNOWN_WIDTH, _UNKNOWN_DISTINCT = 16.0, 200


_DOMAINS: Mapping[str, Callable[[ColumnHere, Sequence[str]], Domain]] = {
    "time": lambda _, tokens: time_domain(tokens),
    "enum": lambda column, _: ListedDomain(list(column.labels)),
    "boolean": lambda *_: ListedDomain(["f", "t"]),
    "uuid": lambda _, tokens: uuid_domain(tokens),
    "address": lambda _, tokens: address_domain(tokens),
    "mac": lambda _, tokens: mac_domain(tokens),
}


class WantedColumns(FilledTables):
    """What the columns of a twin's tables are to have; the same seed gives the same."""

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
        super().__init__(twin, columns, scale=scale)
        self._seed = seed
        self._now = moment_of(twin.now) or ANCHOR
        self._window_s = max(twin.workload.window_s, 1.0)
        self._columns = {x.key: x for of_table in columns.values() for x in of_table}
        self._statistics = {
            (x.schema, x.relation, x.column, x.is_inherited): x for x in twin.statistics
        }
        self._extended = twin.schema.statistics
        self._classes = Classes(self.tables, self._columns, self._statistics, self._root)
        self._searched = searched_texts(twin, self._columns, {x.name: x.rows for x in self.tables})
        self._values: dict[Key, Codes] = {}
        self._shared_values: dict[Key, Codes] = {}
        self._under_way: set[Key] = set()
        self._domains: dict[Key, Domain] = {}
        self._decimals: dict[Key, int] = {}

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
            # No two values are equal of what cannot be compared: points.
            unknown = filled if self._columns[*table.name, name].type in _UNCOMPARED else _UNKNOWN_DISTINCT  # fmt: skip
            most = len(source[0]) if source is not None else unknown
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
        is_all = prod(sizes.values()) <= ALL_COMBINATIONS * table.original_rows
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
        bounds += self._later(table, name)
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

    def analysed_until(self, table: FilledTable) -> tuple[str, int] | None:
        """Return a column of times, and the latest that ANALYZE saw; None where no column tells, or other tables may refer to later rows."""
        if any(one.table == table.name for x in self.tables for one in x.foreign_keys):
            return None
        name = next((x.name for x in table.columns if self._later(table, x.name)), None)
        return None if name is None else (name, self._bounds(table, name)[-1])

    def _bounds(self, table: FilledTable, name: str) -> list[int]:
        return self._known(self._of(table, name), self.domain(table, name)[0])[2]

    def _later(self, table: FilledTable, name: str) -> list[int]:
        """Return bounds for rows that came since ANALYZE: later than all of the histogram's, up to the capture.

        Where the table is in the order of these times, its new rows have the latest. They came as fast as others in the window, or
        have all the time since the histogram's end.
        """
        one, leaves = self._of(table, name), [*self._leaves(table.name)]
        known = sum(max(x.tuples, 0.0) for x in leaves)
        rows = table.original_rows - known
        is_time = self._columns[*table.name, name].kind == "time"
        if one is None or not is_time or (one.correlation or 0.0) < _IN_ORDER or rows <= 0 or not known:  # fmt: skip
            return []
        bounds, end = self._bounds(table, name), time_code(self._now)
        if len(bounds) < 2 or end <= bounds[-1]:
            return []
        per_s = sum(x.moved.get("n_tup_ins", 0) for x in leaves) / self._window_s
        since_s = rows / per_s if per_s else math.inf
        begin = max(float(bounds[-1]), end - since_s * SECOND_CODES)
        more, granule = round(rows / known * (len(bounds) - 1)), self.domain(table, name)[1].granule
        steps = np.linspace(begin, end, more + 1)[1:] // granule * granule
        return [int(x) for x in steps]

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
            return self._text_domain(root, column, tokens, statistics)
        return _DOMAINS[column.kind](column, tokens)

    def _text_domain(
        self, root: Key, column: ColumnHere, tokens: Sequence[str], statistics: Sequence[ColumnStatistics]
    ) -> Domain:  # fmt: skip
        width, wide = self._width(statistics), self._wide(statistics)
        if column.kind == "bytea":
            return bytea_domain(tokens, width=width)
        members = self._classes.members(root)
        columns = [self._columns[x] for x in members]
        longest = min((x.longest for x in columns if x.longest), default=0)
        if column.type == "bpchar":
            return _Padded(
                text_domain([x.rstrip(" ") for x in tokens], longest=longest, width=width)
            )
        lexemes = next((self._searched[x] for x in members if x in self._searched), None)
        if lexemes is None:
            return text_domain(tokens, longest=longest, width=width, wide=wide)
        width = max(width - lexemes.letters, _LEAST_UNSEARCHED * width)
        return SearchedTexts(text_domain(tokens, longest=longest, width=width, wide=wide), lexemes)

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

    def _wide(self, statistics: Sequence[ColumnStatistics]) -> Wide:
        """Return which share of a column's values is in a TOAST table, and how many bytes those have.

        ANALYZE counts such a value as the 18 bytes that lead to it, and lists none of more than a kilobyte: where all values
        are narrower on average than those that it lists, the rest are there.
        """
        for one in statistics:
            listed = (*one.histogram, *one.most_common)
            mean = sum(map(len, listed)) / len(listed) if listed else 0.0
            toasted = self._toast_bytes_of_row(one)
            share = (mean - one.width) / max(mean - _TOAST_POINTER, 1.0)
            if one.width < _NARROWER * mean and toasted > _LEAST_TOASTED * share:
                return Wide(share, toasted / share)
        return Wide()

    def _toasted_width(self, one: ColumnStatistics) -> float:
        alike = [x for x in self._statistics.values() if (x.schema, x.relation) == (one.schema, one.relation) and x.width == _TOAST_POINTER]  # fmt: skip
        return self._toast_bytes_of_row(one) / max(len(alike), 1)

    def _toast_bytes_of_row(self, one: ColumnStatistics) -> float:
        relation = self._relations.get((one.schema, one.relation))
        if relation is None or not relation.toast_bytes:
            return 0.0
        return _OF_TOAST * relation.toast_bytes / max(rows_of(relation), 1)

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


class _Padded(WrittenOtherwise):
    """Texts of a type that pads them with spaces: the server does that."""

    def code(self, token: str) -> int | None:
        """Return the number of a token, padded or not."""
        return super().code(token.rstrip(" "))
