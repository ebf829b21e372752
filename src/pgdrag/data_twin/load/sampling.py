"""Which rows may a statement's values come from, so that they belong together?

Values of one statement come from one row, or from rows that are joined to it. One query makes a table of candidates with the
values at each level (see `parameters.py`); which of them are used is `calibration.py`'s to find out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgdrag.data_twin.load.conditions import columns_of
from pgdrag.data_twin.load.free import NUMERIC, free_value
from pgdrag.data_twin.load.parameters import RANGES, ParameterValues, aliases_of, by_lot
from pgdrag.data_twin.load.statements import Analysed, Root, cast_type
from pgdrag.data_twin.load.written import BASE_ROWS, ROW, TARGET
from pgdrag.twins.ddl import quoted
from pgdrag.twins.transactions import Parameter

CANDIDATES = 100_000
LISTS = 5_000  # candidates where columns get arrays: each has many values
BANDS = 8  # of keys, by how many rows have them
_WORDS = re.compile(r"\w+")
_MAGNITUDES = ("0", "1", "10", "100", "1000", "10000", "100000", "1000000", "10000000")


@dataclass(frozen=True)
class Sampled:
    """A query for candidates.

    Attributes:
        query: its columns are `n` (their order, by lot), `band` (of the first row of each key: 1 if more than
            half as many rows have it as have the most frequent one, 2 if more than a quarter … up to BANDS), `is_joined` (the tables that the statement joins have rows for it, and it meets conditions without a parameter), and for each
            parameter its values as text: `p3_0`, at the next level `p3_1` …; `absent_3`, of one parameter: one that is not there; `apart_3`, of one: another row's. Of documents
            `band_1` … are of the values at that level, with as many fields.
        levels: how many there are of each parameter: 1 or `level_count`.
        absent, apart: parameters that have such a column.
        is_unique: a key of the table is compared: at most one row has it.
        likely: levels, those first that should give as many rows as the original's calls had.
        free: values of parameters that no row tells, by number; None is NULL.
        sizes: parameters that say how long something is that is written: `repeat($1, $2)`.
        bound: a parameter that is one bound for all candidates, and a query for its values, each with more rows beyond it than
            the one before; None: there is none.
        has_bands: each level has bands of its own.
    """

    query: str
    levels: Mapping[int, int]
    level_count: int = 1
    absent: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()
    is_unique: bool = False
    has_joins: bool = False
    likely: tuple[int, ...] = (0,)
    free: Mapping[int, str | None] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    bound: tuple[int, str] | None = None
    has_bands: bool = False

    def band(self, level: int) -> str:
        """Return the column that has the bands of values at a level."""
        return f"band_{level}" if level and self.has_bands else "band"

    def column(self, parameter: int, level: int, mode: str = "row") -> str:
        """Return the column that has a parameter's values at a level."""
        if parameter in {"absent": self.absent, "apart": self.apart}.get(mode, ()):
            return f"{mode}_{parameter}"
        return f"p{parameter}_{min(level, self.levels[parameter] - 1)}"


def sampled(
    one: Analysed, *, seed: int, now: str, logged: Sequence[Parameter] = (), is_plain: bool = False, is_led: bool = False
) -> Sampled:  # fmt: skip
    """Return the query for a statement's candidates; without one, all its parameters are free.

    Args:
        logged: what a log tells of its parameters.
        is_plain: of one table, without a look at others.
        is_led: keys are those that statements before it have found.
    """
    return _Maker(one, seed, now, logged, is_plain=is_plain, is_led=is_led).made()


class _Maker(ParameterValues):
    def __init__(
        self, one: Analysed, seed: int, now: str, logged: Sequence[Parameter], *, is_plain: bool, is_led: bool
    ) -> None:  # fmt: skip
        super().__init__(one, seed, now, logged, is_led=is_led)
        self.is_plain = is_plain

    def made(self) -> Sampled:
        one = self.one
        main, root = self._main()
        bound = self._common_bound(main)
        self.compared = {n: x for n, x in self.compared.items() if bound is None or n != bound[0]}
        if self.is_plain:
            self.compared = {n: x for n, x in self.compared.items() if quoted(x.alias) == main}
        free = {n: free_value(one, n, self.now) for n in one.parameters if n not in one.limits}
        values = {
            n: found
            for n in one.parameters
            if (bound is None or n != bound[0]) and (found := self._values(n, main, root))
        }
        sizes = tuple(n for n in self.assigned if self._is_size(n))
        if not values:
            return Sampled("", {}, free=free, sizes=sizes, bound=bound)
        # Of ranges the values that they begin at: one that many rows have must not be drawn as often as it is there.
        keys = self._keys(main) or self._range_columns(main)
        # The last part of a key is enough; the others still belong to what the transaction is about.
        lookups = [n for n in self._equalities(main) if self.constant(n) is None]
        absent = dict([(n, a) for n in lookups if (a := self._absent(n, main)) is not None][-1:])
        apart = {n: self._apart(n, main) for n in lookups[-1:] if self._has_others(n, main)}
        columns = [
            f"(({expression})::{cast_type(one.types[n - 1])})::text AS p{n}_{level}"
            for n, levels in values.items()
            for level, expression in enumerate(levels)
        ]
        columns += [f"({x})::text AS absent_{n}" for n, x in absent.items()]
        columns += [f"({x})::text AS apart_{n}" for n, x in apart.items()]
        is_unique = self._is_unique(main)
        partition = f"PARTITION BY {', '.join(keys)}"
        # A key of which there is one row each needs no counting.
        counts = "NULL::int8 AS often, false AS is_first"
        if keys and not is_unique:
            counts = f"count(*) OVER ({partition}) AS often, row_number() OVER ({partition} ORDER BY {main}.{ROW}) = 1 AS is_first"
        joins = self._partners(main)
        needed = sorted({x for n in self.compared for x in self._not_null(n, main)})
        conditions = [*(f"({x}) IS NOT NULL" for x in needed), *self._constants(main)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        source = f"{self._base(main, root)}{self._joined(main)}{where}" if root else f"(SELECT pg_catalog.generate_series(1, {CANDIDATES if self.lots else 1}) AS {ROW}) AS {main}"  # fmt: skip
        documents = [n for n in values if self._is_document(n)] if keys and not is_unique else []
        more = range(1, max((len(values[n]) for n in documents), default=1))
        alike = {x: f"PARTITION BY {', '.join(f'p{n}_{x}' for n in documents)}" for x in more}
        counted = [f", count(*) OVER ({of}) AS often_{x}, row_number() OVER ({of} ORDER BY n) = 1 AS is_first_{x}" for x, of in alike.items()]  # fmt: skip
        bands = [_band("", "band"), *(_band(f"_{x}", f"band_{x}") for x in more)]
        query = f"""
            SELECT c.*, {", ".join(bands)}
              FROM (SELECT c.*{"".join(counted)}
                      FROM (SELECT row_number() OVER (ORDER BY {main}.{ROW}) AS n, {counts}, {joins or "true"} AS is_joined,
                                   {", ".join(columns)}
                              FROM {source}
                             ORDER BY 1 LIMIT {LISTS if self._has_lists() else CANDIDATES}) AS c) AS c"""
        rest = {n: value for n, value in free.items() if n not in values}
        return Sampled(
            query, {n: len(x) for n, x in values.items()}, max(map(len, values.values())), frozenset(absent), frozenset(apart),
            is_unique or not keys or self.has_told_bound, bool(joins), self._likely(main, max(map(len, values.values()))), rest, sizes, bound, bool(more),
        )  # fmt: skip

    def _values(self, number: int, main: str, root: Root | None) -> list[str]:
        """Return what a parameter may be, at each level; nothing where no row and no log tells."""
        if number in self.lots:
            found = [by_lot(self.lots[number], f"{main}.{ROW}", number)]
        elif root is not None and number in self.compared:
            found = self._compared(number, main)
        elif root is not None and number in self.assigned and self._column(number) is not None:
            found = self._assigned(number, main)
        else:
            found = [f"'{x}'" for x in _MAGNITUDES] if self._is_magnitude(number) else []
        constant = self.constant(number) if found else None
        return found if constant is None else [constant]

    def _is_document(self, number: int) -> bool:
        """Whether a parameter is a document that a row has to contain: levels have more or fewer of its fields."""
        x = self.compared.get(number)
        return x is not None and x.operator == "@>" and self.one.types[number - 1] == "jsonb"

    def _constants(self, main: str) -> Iterator[str]:
        """Yield what rows fulfil that have the values which parameters always had, or several entries where these are asked for."""
        for x in () if self.is_plain else self.compared.values():
            if quoted(x.alias) == main and self.has_several(x):
                yield f"cardinality({self._resolved(x.columns)}) > 1"
        for n in () if self.is_plain else self._equalities(main):
            constant = self.constant(n)
            if constant not in (None, "NULL") and self.compared[n].is_plain:
                yield f"({self._resolved(self.compared[n].columns)}) = {constant}"

    def _range_columns(self, main: str) -> list[str]:
        return list(dict.fromkeys(self._resolved(x.columns) for x in self.compared.values() if x.operator in RANGES and quoted(x.alias) == main))  # fmt: skip

    def _likely(self, main: str, count: int) -> tuple[int, ...]:
        """Return levels of ranges and shapes by how near they are to what is wanted; of anything else, in their order."""
        if not self.has_shapes and not (self._has_ranges() and self._range_columns(main)):
            return tuple(range(count))
        spans, target = self._spans(main)
        return tuple(sorted(range(count), key=lambda x: abs(math.log(spans[min(x, len(spans) - 1)] / target))))  # fmt: skip

    def _is_magnitude(self, number: int) -> bool:
        """Whether a parameter is compared with a number that is computed: nothing but trying tells which one it was."""
        return self.one.types[number - 1] in NUMERIC and any(
            x.parameter == number and x.operator in RANGES for x in self.one.conditions.comparisons
        )

    def _partners(self, main: str) -> str:
        """Return whether the tables that are joined to the first one have rows for a row of it, which meets what is asked of it besides."""
        if self.is_plain:
            return ""
        conditions = self.one.conditions
        found = [f"({x})" for alias, x in dict.fromkeys(conditions.fixed) if quoted(alias) == main]
        for alias, root in self.one.roots.items() if self.one.change.kind == "select" else ():
            name = quoted(alias)
            on = [f"{a} = {b}" for a, b in conditions.joins if aliases_of(a) | aliases_of(b) == {name, main}]  # fmt: skip
            if name != main and on:
                found.append(f"EXISTS (SELECT FROM {quoted(root.schema, root.name)} AS {name} WHERE {' AND '.join(on)})")  # fmt: skip
        return " AND ".join(found)

    # --- tables ---

    def _main(self) -> tuple[str, Root | None]:
        """Return the alias that most is compared with."""
        one, scores = self.one, dict[str, int]()
        for x in self.compared.values():
            weight = 3 if x.operator == "=" else 2 if x.operator in RANGES else 1
            scores[x.alias] = scores.get(x.alias, 0) + weight
        if scores:
            alias = max(scores, key=lambda each: scores[each])
            return quoted(alias), one.roots.get(alias)
        if one.table is not None and self.assigned:
            name = one.table.name
            for alias, root in one.roots.items():
                if root.name == name:
                    return quoted(alias), root
            return quoted(name), Root(one.table.schema, name, BASE_ROWS)
        return '"none"', None

    def _base(self, main: str, root: Root) -> str:
        table = quoted(root.schema, root.name)
        predicate, rows = self._predicate(main, root)
        # Without ranges and keys to count, any rows will do.
        most = 1.2 * CANDIDATES if self._is_unique(main) and not self._has_ranges() else BASE_ROWS
        sample = self._tablesample(most, rows)
        lot = f"pg_catalog.hashtextextended(pgdrag_base.tableoid::pg_catalog.regclass || ' ' || pgdrag_base.ctid, {self.seed % 2**31})"
        return f"(SELECT *, pg_catalog.row_number() OVER (ORDER BY {lot}) AS {ROW} FROM {table} AS pgdrag_base{sample}{predicate}) AS {main}"

    def _predicate(self, main: str, root: Root) -> tuple[str, float]:
        """Return the condition of a partial index that the plan reads, or that the original's calls scanned, if a parameter is equal to a column of it, and how many rows fulfil it."""
        if root.implied[0] and not self.is_plain:
            return f" WHERE {root.implied[0]}", root.implied[1]
        columns = {c for n in self._equalities(main) for _, c in columns_of(self.compared[n].columns)}  # fmt: skip
        for text, rows in () if self.is_plain else root.predicates:
            if columns & {*_WORDS.findall(text)}:
                return f" WHERE {text}", rows
        return "", root.rows

    def _has_ranges(self) -> bool:
        return any(x.operator in RANGES for x in self.compared.values())

    def _joined(self, main: str) -> str:
        """Return the other tables that parameters are of, each by a row that belongs to the first one's."""
        one = self.one
        wanted = {quoted(x.alias) for x in self.compared.values()} - {main}
        path, joined = self._path(main, wanted), [main]
        text = ""
        if one.table is not None and self.assigned and not self._is_changed(main):
            text += self._beside(quoted(one.table.schema, one.table.name), TARGET, main)
        for alias in [*path, *sorted(wanted - set(path))]:
            root = next(r for a, r in one.roots.items() if quoted(a) == alias)
            table = quoted(root.schema, root.name)
            on = [f"{a} = {b}" for a, b in one.conditions.joins if aliases_of(a) | aliases_of(b) <= {alias, *joined} and alias in aliases_of(a) | aliases_of(b)]  # fmt: skip
            if on:
                text += f" LEFT JOIN LATERAL (SELECT * FROM {table} AS {alias} WHERE {' AND '.join(on)} LIMIT 1) AS {alias} ON true"
            else:
                text += self._beside(table, alias, main)
            joined.append(alias)
        return text

    @staticmethod
    def _beside(table: str, alias: str, main: str) -> str:
        """Return a join that has any row of another table for each one of the first."""
        some = f"(SELECT * FROM {table} LIMIT 10000)"
        count = f"(SELECT greatest(count(*), 1) FROM {some} AS c)"
        return f" LEFT JOIN (SELECT *, row_number() OVER () AS {ROW} FROM {some} AS s) AS {alias} ON {alias}.{ROW} = 1 + {main}.{ROW} % {count}"

    def _path(self, main: str, wanted: set[str]) -> list[str]:
        """Return the tables that lead from the first one to those wanted, by what is equal."""
        known = {quoted(a) for a in self.one.roots}
        before: dict[str, str] = {main: ""}
        queue = [main]
        while queue:
            at = queue.pop(0)
            for a, b in self.one.conditions.joins:
                for here, there in ((aliases_of(a), aliases_of(b)), (aliases_of(b), aliases_of(a))):
                    for other in there & known if at in here else ():
                        if other not in before:
                            before[other] = at
                            queue.append(other)
        needed: set[str] = set()
        for one in wanted & before.keys():
            while one != main:
                needed.add(one)
                one = before[one]
        return [x for x in before if x in needed]


def _band(counted: str, name: str) -> str:
    """Return the column that has the band of a key, by how many rows have it."""
    most = f"(max(often{counted}) OVER ())::numeric / often{counted}"
    return f"CASE WHEN is_first{counted} THEN least(1 + floor(log(2.0, {most})), {BANDS})::int END AS {name}"
