"""What does a statement write: which values may its INSERT and UPDATE have?"""

from __future__ import annotations

import json

from pgdrag.data_twin.load.conditions import Comparison, columns_of
from pgdrag.data_twin.load.free import NUMERIC, free_value
from pgdrag.data_twin.load.statements import Analysed, Table, cast_type, literal
from pgdrag.data_twin.load.sums import in_range, is_range
from pgdrag.data_twin.load.texts import Assignment
from pgdrag.twins.ddl import quoted
from pgdrag.twins.transactions import ALWAYS, MANY_VALUES, POSITIONS, Parameter

BASE_ROWS = 250_000  # of a larger table a sample is looked at
ROW = "pgdrag_row"
TARGET = '"pgdrag_target"'  # a row of the changed table, where candidates are rows of another one
_LONG = frozenset(["text", "character varying", "bytea", "json", "jsonb"])
LONGEST_LIST = 1000
MOST_LEVELS = 9
_LEAST_LATEST = 100
_FILLING = 1000  # values that are written in place of NULL
_LOGGED = 1000  # values that are written as often as a log has them
_SAMPLED = 200  # values of a parameter at least whose positions a log tells, where it has as many
_BY_CHANCE = 44  # the sum of squares of 20 equal parts is above that once in a thousand times


def is_once(one: Analysed) -> bool:
    """Whether a statement can be executed but once with the same values: what is deleted is gone, a pair is there."""
    return one.change.kind == "delete" or bool(apart(one))


def apart(one: Analysed) -> dict[str, tuple[str, ...]]:
    """Return columns of what is inserted whose values have to be of another row than the rest, so that the key is new.

    Of a unique key that only refers to other tables (a user and what they like) it is the last column; with it come
    those that its foreign keys share with the rest, and that have to be of one row.
    """
    table, found = one.table, dict[str, tuple[str, ...]]()
    if table is None or one.change.kind != "insert" or one.change.has_conflict:
        return found
    for key in table.unique:
        if not set(key) <= table.referring or any(set(key) <= set(x) for x in table.foreign):
            continue
        own = {x for columns in table.foreign if key[-1] in columns for x in columns}
        found[key[-1]] = tuple(sorted(own - {key[-1]}))
    return found


def tells_positions(one: Parameter) -> bool:
    """Whether a log's values are not as frequent in all parts of the column's rows, and that is no chance."""
    sampled = min(one.seen, _SAMPLED)
    chi_squared = sampled * POSITIONS * sum((x - 1 / POSITIONS) ** 2 for x in one.positions)
    return chi_squared > _BY_CHANCE


class WrittenValues:
    """What each parameter that is written may be: expressions over the rows that its candidates come from."""

    one: Analysed
    logged: dict[int, Parameter]
    now: str
    compared: dict[int, Comparison]
    assigned: dict[int, Assignment]

    def _assigned(self, number: int, main: str) -> list[str]:
        """Return what is written: to a new row what an old one has, to an old one what another has."""
        x, column = self.assigned[number], self._column(number)
        assert column is not None, "the caller has looked"
        table = self.one.table
        if x.is_more:
            return ["'0'"]
        own = self._filled(x, f"{main if self._is_changed(main) else TARGET}.{quoted(column)}", column, main)  # fmt: skip
        if x.is_list:
            order = f"ORDER BY {main}.{ROW}"
            return self._arrays(own, order) if x.is_inserted else self._other_arrays(own, order)
        if table is not None and table.types[column].endswith("range"):
            return [self._new_range(number, x, column, own, main)]
        if x.is_divisor and table is not None and self._is_alike(number, column):
            # What remains is then any of the column's values.
            return [f"(SELECT greatest(max({quoted(column)}), 0) + 1 FROM {quoted(table.schema, table.name)})"]  # fmt: skip
        is_leading = x.is_leading and x.is_inserted and self._is_alike(number, column)
        if not (x.is_plain or x.is_first or is_leading):
            return [self._added(number, column, own, main)]
        if x.is_inserted and table is not None and column in table.advancing:
            return [self._latest(table, column, own, main)]
        others = apart(self.one).get(column) if x.is_inserted else None
        if others is not None and self._is_changed(main):
            partition = ", ".join(f"{main}.{quoted(other)}" for other in others) or "true"
            return [f"coalesce(lead({own}, {x.row + 1}) OVER (PARTITION BY {partition} ORDER BY {main}.{ROW}), {own})"]  # fmt: skip
        ahead = x.row + (0 if x.is_inserted else 1)
        if not ahead or not self._is_changed(main):
            return [own]
        return [f"coalesce({self._others(x, column, own, main, ahead)}, {own})"]

    def _others(self, x: Assignment, column: str, own: str, main: str, ahead: int) -> str:
        """Return other values of a column than a row's own, the best first: those that a log tells, or that change it, and that of a row ahead."""
        table, other = self.one.table, f"lead({own}, {ahead}) OVER (ORDER BY {main}.{ROW})"
        if logged := self._logged(x, column, main):
            return f"{logged}, {other}"
        if not x.is_inserted and table is not None and self._is_asked_for(table, column):
            return f"{self._another(table, column, own)}, {other}"
        return other

    def _logged(self, x: Assignment, column: str, main: str) -> str:
        """Return one of the values that an UPDATE writes, each as often as the log has it, whichever row it is; "" where no log tells."""
        known, table = self.logged.get(x.parameter), self.one.table
        if (
            table is None
            or known is None
            or x.is_inserted
            or not x.is_plain
            or table.types[column].endswith(("[]", "range"))
            or any(column in key and len(key) > 1 for key in table.foreign)
            or not (known.common or tells_positions(known))
        ):
            return ""
        parts = known.positions if tells_positions(known) else (1.0,)
        name, common = quoted(column), literal(json.dumps(dict(known.common)))
        shares = ", ".join(f"{share:g}" for share in parts)
        middle = "(rank() OVER (ORDER BY v) - 1 + count(*) OVER (PARTITION BY v) / 2.0) / count(*) OVER ()"
        return f"""(ARRAY(
            WITH logged AS MATERIALIZED (SELECT key AS token, value::float8 AS share FROM pg_catalog.jsonb_each_text({common})),
                 there AS MATERIALIZED (SELECT v::text AS v, least(1 + floor({len(parts)} * {middle}), {len(parts)})::int AS part, lot
                             FROM (SELECT {name} AS v, pg_catalog.hashtextextended(ctid::text, 0) AS lot FROM {quoted(table.schema, table.name)}
                                    WHERE {name} IS NOT NULL LIMIT {BASE_ROWS}) AS r),
                 known AS (SELECT part, sum(share) AS share FROM (SELECT DISTINCT part, token, share FROM there JOIN logged ON token = v) AS k GROUP BY part),
                 others AS (SELECT v, part, row_number() OVER (PARTITION BY part ORDER BY lot) AS k, count(*) OVER (PARTITION BY part) AS beside
                              FROM there WHERE v NOT IN (SELECT token FROM logged)),
                 wanted AS (SELECT part, greatest(p.share - coalesce(known.share, 0), 0) AS share
                              FROM pg_catalog.unnest(ARRAY[{shares}]::float8[]) WITH ORDINALITY AS p (share, part) LEFT JOIN known USING (part))
            SELECT v FROM (SELECT token AS v, i FROM logged CROSS JOIN LATERAL pg_catalog.generate_series(1, round({_LOGGED} * share)::int) AS i
                            UNION ALL
                           SELECT v, i FROM wanted CROSS JOIN LATERAL pg_catalog.generate_series(1, round({_LOGGED} * share)::int) AS i
                             JOIN others ON others.part = wanted.part AND k = 1 + (i - 1) % beside) AS written
             ORDER BY pg_catalog.hashtextextended(v, i), i))[1 + {main}.{ROW} % {_LOGGED}]::{cast_type(table.types[column])}"""

    def _arrays(self, columns: str, order: str) -> list[str]:
        """Return arrays of a row's value and those of the next ones, at each level of another length."""
        return [
            f"array_agg({columns}) OVER ({order} ROWS BETWEEN CURRENT ROW AND {length - 1} FOLLOWING)"
            for length in self._lengths()
        ]

    def _other_arrays(self, columns: str, order: str) -> list[str]:
        """Return such arrays in the opposite order, so that a row gets others' values, and another one in each array."""
        return [
            f"array_agg({columns}) OVER ({order} DESC ROWS BETWEEN {length - 1} PRECEDING AND CURRENT ROW)"
            for length in self._lengths()
        ]

    def _lengths(self) -> list[int]:
        wanted = self.one.wanted.rows / max(self.one.wanted.calls, 1)
        # Of arrays whose entries are rows it is told how many there were.
        likely = (wanted, wanted / 2, 2 * wanted)
        tried = likely if self._has_lists() else sorted((1, 3, 10, 30, 100, *likely))
        return [*dict.fromkeys(min(max(round(x), 1), LONGEST_LIST) for x in tried)][:MOST_LEVELS]

    def _has_lists(self) -> bool:
        return any(x.is_list for x in self.assigned.values())

    def _added(self, number: int, column: str, own: str, main: str) -> str:
        """Return what goes into something computed: of an array that is added to one of the column as many entries as a log tells."""
        table, type_ = self.one.table, self.one.types[number - 1]
        lengths = self.logged[number].lengths if number in self.logged else None
        if table is not None and lengths is not None and type_.endswith("[]") and type_ == table.types[column]:  # fmt: skip
            most = max(round(2 * lengths.mean) - 1, 1)
            return f"({own})[1:1 + {main}.{ROW} % {most}]"
        value = free_value(self.one, number, self.now)
        return f"'{value}'" if value is not None else "NULL"

    def constant(self, number: int) -> str | None:
        """Return the value that a parameter always had, as a log tells; None where it had several."""
        known = self.logged.get(number)
        # Of a list that the server shortened the log tells the first entry.
        if known is None or known.seen < MANY_VALUES or self.one.types[number - 1].endswith("[]"):
            return None
        if known.null_share >= ALWAYS:
            return "NULL"
        is_one = known.distinct == 1 and known.null_share <= 1 - ALWAYS
        return literal(known.common[0][0]) if is_one and known.common else None

    def _filled(self, x: Assignment, own: str, column: str, main: str) -> str:
        """Return a row's own value, or another row's where it has none, if a log tells that none was written."""
        known, table, name = self.logged.get(x.parameter), self.one.table, quoted(column)
        is_never_null = known is not None and known.seen >= MANY_VALUES and not known.null_share
        if table is None or not is_never_null or not x.is_plain or x.is_list or table.types[column].endswith("[]"):  # fmt: skip
            return own
        some = f"(ARRAY(SELECT {name} FROM {quoted(table.schema, table.name)} WHERE {name} IS NOT NULL LIMIT {_FILLING}))"
        return f"coalesce({own}, {some}[1 + {main}.{ROW} % {_FILLING}], {some}[1])"

    def _new_range(self, number: int, x: Assignment, column: str, own: str, main: str) -> str:
        """Return a range, or its nth bound, as long as a row's own; where no two may overlap, behind all of its room."""
        table = self.one.table
        assert table is not None, "the caller has looked"
        low, high = f"lower({own})", f"upper({own})"
        groups = table.without_overlaps.get(column)
        if groups is not None and x.is_inserted and self._is_changed(main):
            room = ", ".join(f"{main}.{quoted(each)}" for each in groups) or "true"
            of_room = f"OVER (PARTITION BY {room})"
            place = f"(row_number() OVER (PARTITION BY {room} ORDER BY {main}.{ROW}))::int - 1"
            low = f"max(upper({own})) {of_room} + max({length_of(own)}) {of_room} * ({place})"
            high = f"{low} + ({length_of(own)})"
        if self.one.types[number - 1] == table.types[column]:
            return own if groups is None or not x.is_inserted else f"{table.types[column]}({low}, {high})"  # fmt: skip
        if is_range(x.value):
            return in_range(number, x.value, low, high)
        if self.one.types[number - 1] == "text":
            return "'[)'"
        return low if x.is_leading else high

    def _is_alike(self, number: int, column: str) -> bool:
        """Whether a parameter is a number, and the column that something computed from it is written to has numbers, too."""
        table = self.one.table
        return table is not None and {self.one.types[number - 1], table.types[column].partition("(")[0]} <= NUMERIC  # fmt: skip

    def _is_asked_for(self, table: Table, column: str) -> bool:
        """Whether a condition says what a column of the changed table has before."""
        return any(
            self.one.roots[alias].name == table.name and name == column
            for x in self.compared.values()
            if x.operator == "="
            for alias, name in columns_of(x.columns)
        )

    @staticmethod
    def _another(table: Table, column: str, own: str) -> str:
        """Return the most frequent value that is not the row's own: what asks for a value and writes that column changes it."""
        if table.types[column].endswith("[]"):
            return "NULL"
        names = (("schemaname", table.schema), ("tablename", table.name), ("attname", column))
        where = " AND ".join(f"{x} = {literal(y)}" for x, y in names)
        values = f"unnest(most_common_vals::text::{cast_type(table.types[column])}[]) WITH ORDINALITY AS c (v, at)"
        common = (
            f"ARRAY(SELECT v FROM pg_catalog.pg_stats, {values} WHERE {where} ORDER BY at LIMIT 2)"
        )
        return f"CASE WHEN ({common})[1] = {own} THEN ({common})[2] ELSE ({common})[1] END"

    def _latest(self, table: Table, column: str, own: str, main: str) -> str:
        """Return one of the latest times in a column, of as many as the original's calls inserted; else the row's own."""
        name, most = quoted(column), min(max(self.one.wanted.rows, _LEAST_LATEST), BASE_ROWS)
        latest = f"SELECT {name} FROM {quoted(table.schema, table.name)} ORDER BY {name} DESC NULLS LAST LIMIT {most}"
        return f"coalesce((ARRAY({latest}))[1 + {main}.{ROW} % {most}], {own})"

    def _column(self, number: int) -> str | None:
        """Return the column of the changed table that a parameter is written to."""
        table = self.one.table
        return (table.column_of(self.assigned[number]) or None) if table is not None else None

    def _is_size(self, number: int) -> bool:
        """Whether a parameter is a number from which something longer is computed for a column that is no number."""
        table, column = self.one.table, self._column(number)
        if table is None or column is None or self.assigned[number].is_plain:
            return False
        name = table.types[column].partition("(")[0]
        is_long = name in _LONG or name.endswith("[]")
        return is_long and self.one.types[number - 1] in NUMERIC

    def _is_changed(self, main: str) -> bool:
        """Whether candidates are rows of the table that the statement changes."""
        table = self.one.table
        root = next((r for a, r in self.one.roots.items() if quoted(a) == main), None)
        return table is None or root is None or root.name == table.name


def length_of(ranges: str) -> str:
    """Return the expression of how long a range is."""
    return f"upper({ranges}) - lower({ranges})"
