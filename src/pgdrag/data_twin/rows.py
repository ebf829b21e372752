"""Which rows has each table? What the statistics of its columns, its keys and its foreign keys ask for, together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from pgdrag.data_twin import documents
from pgdrag.data_twin.columns import ColumnHere
from pgdrag.data_twin.combinations import distinct_combinations, ordered
from pgdrag.data_twin.domains import NULL, Codes, Domain, Form, ListedDomain
from pgdrag.data_twin.ranges import Ranges, bound_type, keep_apart, kept_apart
from pgdrag.data_twin.spreads import arranged
from pgdrag.data_twin.tables import FilledTable, ForeignKey, TableName
from pgdrag.data_twin.wanted import ALL_COMBINATIONS, WantedColumns
from pgdrag.twins.model import ColumnStatistics, ExtendedStatistics, Twin

_PLAIN_KINDS = frozenset({"number", "time", "text", "uuid", "bytea", "address", "mac", "enum", "boolean"})  # fmt: skip


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

    def after(self, name: str, code: int) -> Rows:
        """Return the rows that have a larger value of a column."""
        there = self.columns[name].codes > code
        columns = {x: replace(one, codes=one.codes[there]) for x, one in self.columns.items()}
        return Rows(int(there.sum()), columns)


class TwinRows(WantedColumns):
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
        super().__init__(twin, columns, scale=scale, seed=seed)
        self.notes: list[str] = []
        self._kept: dict[TableName, dict[str, Codes]] = {}
        self._wanted_by_others = {
            (*one.table, other)
            for table in self.tables
            for one in table.foreign_keys
            for other in one.others
            if len(one.columns) > 1
        }

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
        self._keep_apart(table, found)
        kept = {x.name for x in table.columns if (*table.name, x.name) in self._wanted_by_others or (*self._root(table.name), x.name) in self._wanted_by_others}  # fmt: skip
        for name in kept:
            self._keep(table, name, found.columns[name].codes)
        return found

    def _keep(self, table: FilledTable, name: str, codes: Codes) -> None:
        for of in {table.name, *self._ancestors(self._schema[table.name])}:
            own = self._kept.setdefault(of, {})
            own[name] = np.concatenate((own[name], codes)) if name in own else codes
            # Who refers to it has values that are there: more are made up than statistics name.
            self._values[*of, name] = np.unique(own[name][own[name] != NULL])

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
        if total < table.rows or total <= ALL_COMBINATIONS * table.rows:
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
        if one is not None and one.range_bounds and bound_type(column.type) and not column.is_array:
            ranges = Ranges(one, column.type)
            codes = np.concatenate((ranges.draw(filled, rng), np.full(nulls, NULL, np.int64)))
            return FilledColumn(column, rng.permutation(codes), ranges, Form())
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

    def _keep_apart(self, table: FilledTable, found: Rows) -> None:
        """Let ranges not overlap where a constraint says so."""
        for constraint in self._constraints.get(table.name, ()):
            names, name = kept_apart(
                constraint.kind, constraint.definition, constraint.columns
            ) or ((), "")
            of_ranges = found.columns.get(name)
            if of_ranges is None or not isinstance(of_ranges.domain, Ranges) or not found.columns.keys() >= set(names):  # fmt: skip
                continue
            values = np.stack([np.zeros(found.count, np.int64), *(found.columns[x].codes for x in names)], axis=1)  # fmt: skip
            _, groups = np.unique(values, axis=0, return_inverse=True)
            groups = np.where((values == NULL).any(axis=1), -1, groups.reshape(-1))
            rng = self._rng(*table.name, name, "apart")
            of_ranges.codes = keep_apart(of_ranges.domain, of_ranges.codes, groups, rng)
            return

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
