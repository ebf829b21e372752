"""Which columns of a twin have their values in common: of partitions, of foreign keys, and those that are compared?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pgdrag.data_twin.columns import ColumnHere, Key
from pgdrag.data_twin.estimates import ROWS_PER_TARGET, distinct_behind
from pgdrag.data_twin.tables import FilledTable, TableName
from pgdrag.twins.model import ColumnStatistics


class Classes:
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
            is_of_scalars = key in columns and bool(columns[key].kind) and not columns[key].is_array
            if one.value_class is not None and is_of_scalars:
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
