"""Which values may each parameter of a statement have, so that it meets rows as the original's did?

Values come from the rows themselves, as expressions over one of them. How much a statement does depends on a level: how many
rows a range spans, how long a list or a prefix is.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from pgdrag.data_twin.load.conditions import Comparison, columns_of, parameters_of
from pgdrag.data_twin.load.statements import Analysed, cast_type, literal
from pgdrag.data_twin.load.sums import in_range, is_range, is_sum, solved
from pgdrag.data_twin.load.written import (
    BASE_ROWS,
    LONGEST_LIST,
    MOST_LEVELS,
    ROW,
    WrittenValues,
    length_of,
)
from pgdrag.twins.ddl import quoted
from pgdrag.twins.masking import CUT_LIST
from pgdrag.twins.transactions import QUANTILES, Parameter, Spread

RANGES = frozenset({"<", "<=", ">", ">="})
_LENGTHS = 20  # of lists that a log tells
_RANGE_SPANS = (1, 2, 4, 10, 30)  # times as long as a row's range
_AT_END = 0.9  # share of a log's values in the last twentieth of a column's rows from which on that is too coarse
STEP = 1.03  # from one bound to the next there are so many times as many rows beyond it
_NOW = re.compile(
    r"\(*(?:now\(\)|CURRENT_TIMESTAMP|LOCALTIMESTAMP|CURRENT_DATE|(?:transaction|statement|clock)_timestamp\(\))(?:::[\w ]+)?\)* - \$\d+(?:::[\w ]+)?\)*",
    re.IGNORECASE,
)
_POINT = r"point\(\$(\d+), \$(\d+)\)"
_SHAPES = tuple(
    map(re.compile, (_POINT, rf"circle\({_POINT}, \$(\d+)\)", rf"box\({_POINT}, {_POINT}\)"))
)
_KEYS = ("->", "->>", "#>", "#>>", "?", "?|", "?&")
_PLAIN_QUERY = re.compile(r"\b(?:plainto|phraseto|websearch_to)_tsquery\b")
_PREFIXES = (64, 12, 8, 6, 5, 4, 3, 2, 1)
_AGGREGATES = re.compile(r"\b(?:sum|count|avg|min|max|array_agg|string_agg|bool_or|bool_and)\(")


def by_lot(values: Sequence[tuple[str, float]], row: str, number: int) -> str:
    """Return one of the values for each row, each as often as its share says.

    Args:
        row: the column of the rows' numbers.
        number: the parameter's, so that several of a row are independent.
    """
    ends = [*itertools.accumulate(share for _, share in values)]
    lot = f"pg_catalog.hashint8extended({row}, {number}) / 2.0 ^ 64 + 0.5"
    texts = ", ".join(literal(value) for value, _ in values)
    bounds = ", ".join(f"{end / ends[-1]:.6g}" for end in ends[:-1])
    return f"(ARRAY[{texts}])[1 + pg_catalog.width_bucket({lot}, ARRAY[{bounds}]::float8[])]"


class ParameterValues(WrittenValues):
    """What each parameter of a statement may be: expressions over the rows that its candidates come from.

    Attributes:
        compared: the comparison that tells most of each parameter.
        assigned: of the others, the column that each is written to.
        has_told_bound: a log tells where in its column a bound was, so that nothing but that is tried.
        lots: numbers that belong to no column, with the log's shares: which value meets which row, nothing tells.
        is_led: keys are those that statements before it have found.
    """

    def __init__(
        self, one: Analysed, seed: int, now: str, logged: Sequence[Parameter] = (), *, is_led: bool = False
    ) -> None:  # fmt: skip
        self.one, self.is_led = one, is_led
        self.logged = {x.number: x for x in logged}
        self.has_told_bound = False
        self.seed = seed
        self.has_shapes = False
        self.now = now
        self.compared = {
            number: x for number, x in one.conditions.first().items()
            if number not in one.limits and self._are_of_tables(x)
        }  # fmt: skip
        self.lots = self._lots()
        self.compared = {n: x for n, x in self.compared.items() if n not in self.lots}
        known = self.compared.keys() | self.lots.keys()
        self.assigned = {x.parameter: x for x in one.change.assignments if x.parameter not in known}

    def _lots(self) -> dict[int, Sequence[tuple[str, float]]]:
        plain = {n for n, x in self.compared.items() if x.is_plain}
        plain |= {x.parameter for x in self.one.change.assignments if x.is_plain}
        found = {
            n: x.common
            for n, x in self.logged.items()
            if n not in plain and n not in self.one.limits and x.has_all_numbers
        }
        # Of a sum all parts come by lot, or it is solved for a row.
        parts = {n: parameters_of(self.compared[n].value) if n in self.compared else [] for n in found}  # fmt: skip
        return {n: x for n, x in found.items() if all(part in found for part in parts[n])}

    # --- values ---

    def _compared(self, number: int, main: str) -> list[str]:
        x = self.compared[number]
        columns = self._resolved(x.columns)
        type_ = self.one.types[number - 1]
        if shape := _shape(x.value):
            return self._of_shape(shape.index(number), shape, columns, main)
        if x.operator == "=":
            return [self._through(number, columns)]
        if x.operator in ("= ANY", "<> ALL"):
            return self._list(number, columns, main)
        if x.operator in RANGES:
            return [self._through(number, bound) for bound in self._range(number, columns, main)]
        if x.operator in ("~~", "~~*", "^@", "~", "~*"):
            head, tail = ("'^' || ", "") if x.operator.startswith("~") and not x.operator.startswith("~~") else ("", "" if x.operator == "^@" else " || '%'")  # fmt: skip
            return [f"{head}left(({columns})::text, {length}){tail}" for length in _PREFIXES]
        if x.operator in _KEYS:
            return [self._key(type_, columns, main)]
        if x.operator == "@@":
            return self._words(number, x, columns, main)
        if x.operator in ("@>", "&&"):
            if type_ == "jsonb":
                return self._documents(columns, main)
            return self._parts(x, type_, columns, main)
        return [columns]

    def _resolved(self, expression: str) -> str:
        """Return an expression without parameters: `(p.attrs ->> $1)` with a key of that row."""
        for number in parameters_of(expression):
            other = self.compared.get(number)
            if other is not None and number not in parameters_of(other.columns):
                main = quoted(other.alias)
                value = (
                    f"({self._compared(number, main)[0]})::{cast_type(self.one.types[number - 1])}"
                )
            else:
                value = f"NULL::{cast_type(self.one.types[number - 1])}"
            pieces = re.split(rf"\${number}\b", expression)
            expression = f"({value})".join(pieces)
        return expression

    def _through(self, number: int, wanted: str) -> str:
        """Return what makes the side of a parameter come to a value: `now() - $1`."""
        x = self.compared[number]
        others = [n for n in parameters_of(x.value) if n != number]
        if is_sum(x.value):
            every = parameters_of(x.value)
            first = next((n for n in every if self.one.types[n - 1] != "interval"), every[0])
            return solved(number, x.value, wanted) if number == first else "'0'"
        intervals = [n for n in others if self.one.types[n - 1] == "interval"]
        if self.one.types[number - 1] == "interval" and others:
            return "interval '1 day'"
        if intervals and not x.is_plain:
            sign = "+" if f"- ${intervals[0]}" in x.value else "-"
            return f"({wanted}) {sign} interval '1 day'"
        return wanted if x.is_plain or others else solved(number, x.value, wanted)

    def _range(self, number: int, columns: str, main: str) -> list[str]:
        """Return a bound at each level: so many rows from the other bound, or from the end."""
        is_low = self.compared[number].operator in (">", ">=")
        others = [n for n, x in self.compared.items() if n != number and x.columns == self.compared[number].columns and x.operator in RANGES]  # fmt: skip
        has_both = any((self.compared[n].operator in (">", ">=")) != is_low for n in others)
        keys = self._keys(main)
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        if has_both:
            if is_low:
                return [columns]
            end = f"max({columns}) OVER ({partition.strip()})"
            return [f"coalesce(lead({columns}, {k}) OVER ({partition}ORDER BY {columns}), {end})" for k in self._spans(main)[0]]  # fmt: skip
        positions = self.logged[number].positions if number in self.logged else ()
        if (
            positions
            and self.compared[number].is_plain
            and positions[-1 if is_low else 0] < _AT_END
        ):
            self.has_told_bound = True
            return [columns]
        order, end = ("DESC", "min") if is_low else ("ASC", "max")
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        return [
            f"coalesce(nth_value({columns}, {max(k, 1)}) OVER ({partition}ORDER BY {columns} {order} {frame}), {end}({columns}) OVER ({partition.strip()}))"
            for k in self._spans(main)[0]
        ]

    def _common_bound(self, main: str) -> tuple[int, str] | None:
        """Return a parameter that is one bound for all rows of the first table, and a query for its values; None: there is none.

        It is how long ago something was, which a program has as a constant (`at >= now() - $1`, or `at >= $1`, where a log tells that
        programs take $1 from their clock), or of a table that is joined.
        """
        for number, x in self.compared.items():
            others = any(n != number and y.columns == x.columns and y.operator in RANGES for n, y in self.compared.items())  # fmt: skip
            is_age = (
                self.one.types[number - 1] == "interval" and _NOW.fullmatch(x.value) is not None
            )
            is_of_clock = x.is_plain and number in self.logged and bool(self.logged[number].ages)
            is_time = is_age or is_of_clock
            if x.operator not in RANGES or others or not (is_time or quoted(x.alias) != main):
                continue
            columns = self._resolved(x.columns)
            if aliases_of(columns) == {quoted(x.alias)}:
                return number, self._bounds(number, columns, is_time=is_time)
        return None

    def _bounds(self, number: int, columns: str, *, is_time: bool) -> str:
        """Return a query for bounds, in an order in which each next one has more rows beyond it.

        Of times also the middle between any two: there may be hours without rows.
        """
        x = self.compared[number]
        root = self.one.roots[x.alias]
        rows = max(min(root.rows, BASE_ROWS), 2.0)
        sample = self._tablesample(rows, root.rows)
        steps = math.ceil(math.log(rows, STEP))
        shares = ", ".join(f"{rows ** (at / steps - 1):.6g}" for at in range(steps + 1))
        order = "DESC" if x.operator in (">", ">=") else "ASC"
        listed = (
            f"SELECT * FROM pg_catalog.unnest((SELECT pg_catalog.percentile_disc(ARRAY[{shares}]::float8[]) WITHIN GROUP "
            f"(ORDER BY {columns} {order}) FROM {quoted(root.schema, root.name)} AS {quoted(x.alias)}{sample})) WITH ORDINALITY AS t (bound, at)"
        )
        middle = "SELECT bound + (lead(bound) OVER (ORDER BY at) - bound) / 2, at + 0.5 FROM listed UNION ALL "
        return (
            f"WITH listed AS ({listed}) SELECT (({self._through(number, 'bound')})::{cast_type(self.one.types[number - 1])})::text "
            f"FROM ({middle * is_time}SELECT * FROM listed) AS b (bound, at) WHERE bound IS NOT NULL ORDER BY at"
        )

    def _tablesample(self, wanted: float, there: float) -> str:
        """Return what reads about so many rows of a table; all, where there are no more."""
        if there <= wanted:
            return ""
        return f" TABLESAMPLE BERNOULLI ({100 * wanted / there:.6f}) REPEATABLE ({self.seed % 1_000_000})"

    def _spans(self, main: str) -> tuple[list[int], float]:
        """Return how many rows ranges span, in the sample that is looked at, and how many should be right."""
        root = next(r for a, r in self.one.roots.items() if quoted(a) == main)
        rows = max(root.rows, 1.0)
        wanted = self.one.wanted.rows / max(self.one.wanted.calls, 1)
        blocks = (self.one.wanted.shared_hit + self.one.wanted.shared_read) / max(self.one.wanted.calls, 1)  # fmt: skip
        near = {wanted / 3, wanted, 3 * wanted} if wanted > 1.5 else {1.0, blocks, 30 * blocks}
        steps = {10.0**x for x in range(7)}
        kept = sorted(x for x in steps | near | {rows / 2, rows} if 1 <= x <= rows) or [1.0]
        scale = min(BASE_ROWS / rows, 1.0)
        spans = sorted({max(round(x * scale), 1) for x in kept})
        # The nearest to what is wanted are kept where there are too many.
        target = max(wanted, blocks, 1.0) * scale
        return sorted(sorted(spans, key=lambda x: abs(math.log(x / target)))[:MOST_LEVELS]), target

    def _list(self, number: int, columns: str, main: str) -> list[str]:
        keys = [x for x in self._keys(main) if x != columns]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        order = f"{partition}ORDER BY {main}.{ROW}"
        siblings = parameters_of(self.compared[number].value)
        if not self.one.types[number - 1].endswith("[]"):
            place = siblings.index(number)
            return [f"lead({columns}, {place}) OVER ({order})"] if place else [columns]
        known = self.logged.get(number)
        if known is not None and known.lengths is not None:
            return [self._array_of_lengths(columns, order, known.lengths, main)]
        return self._arrays(columns, order)

    @staticmethod
    def _array_of_lengths(columns: str, order: str, lengths: Spread, main: str) -> str:
        """Return an array of a row's value and those of the next ones, as long as a log tells, by lot."""
        shares = [(at + 0.5) / _LENGTHS for at in range(_LENGTHS)]
        known = np.rint(np.interp(shares, QUANTILES, lengths.quantiles)).clip(1, LONGEST_LIST)
        numbers = ", ".join(str(int(x)) for x in known)
        window = f"{order} ROWS BETWEEN CURRENT ROW AND {int(known.max()) - 1} FOLLOWING"
        return f"(array_agg({columns}) OVER ({window}))[1:(ARRAY[{numbers}])[1 + {main}.{ROW} % {_LENGTHS}]]"

    def _key(self, type_: str, columns: str, main: str) -> str:
        if type_ == "integer":
            return "0"
        key = (
            f"(SELECT k FROM pg_catalog.jsonb_object_keys(CASE WHEN pg_catalog.jsonb_typeof(({columns})::jsonb) = 'object' "
            f"THEN ({columns})::jsonb ELSE '{{}}' END) AS k ORDER BY pg_catalog.md5(k || {main}.{ROW}) LIMIT 1)"
        )
        return f"ARRAY[{key}]" if type_.endswith("[]") else key

    def _words(self, number: int, x: Comparison, columns: str, main: str) -> list[str]:
        """Return queries for texts: one word, several of one row, which it surely has, and several of different rows."""
        several = parameters_of(x.value)
        if len(several) > 1 and number == several[0]:
            return ["'simple'"]
        words = f"pg_catalog.tsvector_to_array({columns})"
        sign = " " if _PLAIN_QUERY.search(x.value) else " & "

        def word(place: int) -> str:
            return f"({words})[1 + ({main}.{ROW} + {place} * cardinality({words}) / 3) % greatest(cardinality({words}), 1)]"

        def other(ahead: int) -> str:
            return f"lead({word(0)}, {ahead}) OVER (ORDER BY {main}.{ROW})"

        choices = (
            [word(0)],
            [word(0), word(1)],
            [word(0), other(1)],
            [word(0), word(1), word(2)],
            [word(0), other(1), other(2)],
        )
        return [f"pg_catalog.concat_ws('{sign}', {', '.join(one)})" for one in choices]

    def _documents(self, columns: str, main: str) -> list[str]:
        """Return documents of fields of one row, which it surely has, and of fields of two."""
        one = self._fields(columns, main, 1)
        found = [one, *(self._fields(columns, main, count) for count in (2, 3, 100))]
        keys = f"ARRAY(SELECT pg_catalog.jsonb_object_keys({one}))"
        for count in (1, 2):
            other = f"lead({self._fields(columns, main, count)}) OVER (ORDER BY {main}.{ROW})"
            found.append(f"coalesce({one} || ({other} - {keys}), {one})")
        return found

    def _fields(self, columns: str, main: str, count: int) -> str:
        """Return a document with so many of another's fields."""
        fields = f"pg_catalog.jsonb_each(CASE WHEN pg_catalog.jsonb_typeof({columns}) = 'object' THEN {columns} ELSE '{{}}' END)"
        return (
            f"(SELECT pg_catalog.jsonb_object_agg(key, value) FROM (SELECT * FROM {fields} "
            f"ORDER BY pg_catalog.md5(key || {main}.{ROW}) LIMIT {count}) AS f)"
        )

    def _parts(self, x: Comparison, type_: str, columns: str, main: str) -> list[str]:
        """Return ones that an array contains, or moments of a range."""
        if type_.endswith("[]") or "ARRAY[" in x.value:
            place = parameters_of(x.value).index(x.parameter)
            element = (
                f"({columns})[1 + ({main}.{ROW} + {place}) % greatest(cardinality({columns}), 1)]"
            )
            if not type_.endswith("[]"):
                return [element]
            more = f"({columns})[1 + ({main}.{ROW} + 1) % greatest(cardinality({columns}), 1)]"
            two = f"ARRAY[{element}, {more}]"
            if self.has_several(x):
                return [two, columns]
            return [f"ARRAY[{element}]", two, columns]
        if type_.endswith("range") or type_ in ("point", "box", "inet"):
            return [columns]
        if is_range(x.value):
            low = f"lower({columns})"
            ends = [f"{low} + ({length_of(columns)}) * {times}" for times in _RANGE_SPANS]
            return list(dict.fromkeys(in_range(x.parameter, x.value, low, end) for end in ends))
        # More ranges have a moment within one of them than its beginning.
        middle = f"lower({columns}) + ({length_of(columns)}) / 2"
        return [f"lower({columns})", f"coalesce({middle}, lower({columns}))"]

    def has_several(self, x: Comparison) -> bool:
        """Whether an array that is asked for has two entries at least: what the server shortens is several constants."""
        shortened = rf"ARRAY\s*\[\s*\${x.parameter}\s*{re.escape(CUT_LIST)}"
        return x.operator in ("@>", "&&") and re.search(shortened, self.one.wanted.text, re.IGNORECASE) is not None  # fmt: skip

    def _of_shape(self, place: int, shape: Sequence[int], columns: str, main: str) -> list[str]:
        """Return a number of a point, a circle or a box around a row's place, which at each level has so many rows in it."""
        axis = f"(point(box({columns})))[{place % 2}]"
        if len(shape) < 4 and place < 2:
            return [axis]
        self.has_shapes = True
        sides = " * ".join(f"(max((point(box({columns})))[{at}]) OVER () - min((point(box({columns})))[{at}]) OVER ())" for at in (0, 1))  # fmt: skip
        length = f"sqrt({sides} / count(*) OVER ())"  # of a square with one row in it
        rows = self._spans(main)[0]
        if len(shape) < 4:
            return [f"{length} * {math.sqrt(x / math.pi):.6g}" for x in rows]
        sign = "-" if place < 2 else "+"
        return [f"{axis} {sign} {length} * {math.sqrt(x) / 2:.6g}" for x in rows]

    # --- keys ---

    def _equalities(self, main: str) -> list[int]:
        return [n for n, x in self.compared.items() if x.operator == "=" and quoted(x.alias) == main]  # fmt: skip

    def _keys(self, main: str) -> list[str]:
        """Return the expressions of the first table that parameters are equal to, or that are parts of what it has."""
        equal = [self._resolved(self.compared[n].columns) for n in self._equalities(main)]
        parts = [self._compared(n, main)[0] for n, x in self.compared.items() if x.operator in ("@@", "@>", "&&") and quoted(x.alias) == main]  # fmt: skip
        return list(dict.fromkeys(x for x in (*equal, *parts) if x != "'simple'"))

    def _is_unique(self, main: str) -> bool:
        columns = {c for n in self._equalities(main) for _, c in columns_of(self.compared[n].columns)}  # fmt: skip
        root = next((r for a, r in self.one.roots.items() if quoted(a) == main), None)
        return root is not None and any(set(key) <= columns for key in root.unique)

    def _absent(self, number: int, main: str) -> str | None:
        """Return a value near one that is there, and that no row has; None of a key that was found before, and of a part of a sum."""
        columns, type_ = self._resolved(self.compared[number].columns), self.one.types[number - 1]
        if self.is_led or self._through(number, columns) != columns:
            return None
        if type_ in ("smallint", "integer", "bigint", "numeric"):
            return f"-1 - abs({columns})"
        if type_ in ("text", "character varying"):
            return f"({columns})::text || '~'"
        if type_ == "uuid":
            return f"pg_catalog.md5(({columns})::text)::uuid"
        return None

    def _has_others(self, number: int, main: str) -> bool:
        """Whether a row must have further values besides that of a parameter."""
        return any(quoted(x.alias) == main for n, x in self.compared.items() if n != number)

    def _apart(self, number: int, main: str) -> str:
        """Return another row's value: a room, and the nights of somebody's stay elsewhere."""
        columns = self._resolved(self.compared[number].columns)
        other = f"coalesce(lead({columns}) OVER (ORDER BY {main}.{ROW}), {columns})"
        return self._through(number, other)

    def _not_null(self, number: int, main: str) -> Iterable[str]:
        x = self.compared[number]
        if quoted(x.alias) == main:
            columns = self._resolved(x.columns)
            yield length_of(columns) if is_range(x.value) else columns

    def _are_of_tables(self, x: Comparison) -> bool:
        return not _AGGREGATES.search(x.columns) and all(
            alias in self.one.roots for alias, _ in columns_of(x.columns)
        )


def _shape(value: str) -> list[int]:
    """Return the parameters of a point, a circle (its radius last) or a box; none, if a value is none of these."""
    plain = re.sub(r"\((\$\d+)\)", r"\1", re.sub(r"::[a-z][a-z ]*|pg_catalog\.", "", value))
    found = next((x for shape in _SHAPES if (x := shape.fullmatch(plain))), None)
    return [int(x) for x in found.groups()] if found else []


def aliases_of(expression: str) -> set[str]:
    """Return the aliases of the tables whose columns are in an expression of a plan."""
    return {quoted(alias) for alias, _ in columns_of(expression)}
