"""Which values has no row yet? INSERT needs them for unique keys, and each client its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg

from pgdrag.data_twin.load.statements import Analysed, Table
from pgdrag.twins.ddl import quoted

_NUMBERS = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1, "numeric": 2**63 - 1}
_LENGTH = re.compile(r"character(?: varying)?\((\d+)\)")
_ROOM = 1_000_000  # numbers that have to be left
_LEAST_ROOM = 1_000  # where they are only one part of a key
_MOST_DIGITS = 18  # of a number as a text


@dataclass(frozen=True)
class Fresh:
    """A parameter that gets a value that no row has: the next number of a client, or what is made of it.

    Attributes:
        base: the first number.
        rows: how many rows an execution inserts.
        row: which of them it is of, from 0.
        refers: it is of a foreign key, and has to be what some row has: a key is new by it only if that row is.
        room: how many numbers there are, where another column of the key tells their rows apart; 0: enough for all.
    """

    parameter: int
    kind: Literal["number", "uuid"]
    base: int
    rows: int = 1
    row: int = 0
    room: int = 0
    refers: bool = False

    def value(self, serial: int) -> str:
        """Return the value of the execution of this number, for a trial that is rolled back."""
        place = serial * self.rows + self.row
        number = self.base + (place % self.room if self.room else place)
        return str(number) if self.kind == "number" else f"{number:032x}"

    def setting(self, variable: str) -> str:
        """Return the script's line that makes a client's next number, each client having its own."""
        place = f"(:fresh * :clients + :client_id) * {self.rows} + {self.row}"
        place = f"({place}) % {self.room}" if self.room else place
        return f"\\set {variable} {self.base} + {place}\n"

    def expression(self, variable: str) -> str:
        """Return what stands for the parameter in the statement."""
        return f":{variable}" if self.kind == "number" else f"pg_catalog.md5(:{variable})::uuid"


def fresh_options(connection: psycopg.Connection[Any], one: Analysed) -> list[list[Fresh]]:
    """Return for each unique key of an INSERT's rows which of its parameters can be fresh, the best first.

    A key is not there if one of its columns gets no parameter: a default makes it unique.
    """
    if one.change.kind != "insert" or one.table is None or one.change.has_conflict:
        return []
    found = []
    rows = 1 + max((x.row for x in one.change.assignments if x.is_inserted), default=0)
    for row in range(rows):
        for key in one.table.unique:
            parameters = [_parameter(one, one.table, column, row) for column in key]
            if None in parameters:
                continue
            options = [*_options(connection, one.table, key, [x for x in parameters if x], rows, row)]  # fmt: skip
            found.append(options)
    return found


def _parameter(one: Analysed, table: Table, column: str, row: int) -> int | None:
    for x in one.change.assignments:
        if x.is_inserted and x.is_plain and x.row == row and table.column_of(x) == column:
            return x.parameter
    return None


def _options(
    connection: psycopg.Connection[Any], table: Table, key: Sequence[str], parameters: Sequence[int], rows: int, row: int
) -> Iterator[Fresh]:  # fmt: skip
    usable = []
    for column, parameter in zip(key, parameters, strict=True):
        type_ = table.types[column]
        name = type_.partition("(")[0]
        if column in table.referring:
            usable.append((column, Fresh(parameter, "number", 0, rows, row, refers=True)))
        elif name in _NUMBERS:
            base = _largest(connection, table, column) + 1
            room = _NUMBERS[name] - base
            if room > _ROOM:
                usable.append((column, Fresh(parameter, "number", base, rows, row)))
            elif len(key) > 1 and room > _LEAST_ROOM:
                usable.append((column, Fresh(parameter, "number", base, rows, row, room)))
        elif name == "uuid":
            usable.append((column, Fresh(parameter, "uuid", 0, rows, row)))
        elif name in ("text", "character varying", "character"):
            length = _LENGTH.match(type_)
            digits = min(int(length[1]), _MOST_DIGITS) if length else _MOST_DIGITS
            if 10 ** (digits - 1) >= _ROOM:
                usable.append((column, Fresh(parameter, "number", 10 ** (digits - 1), rows, row)))
    # A foreign key's value has to be there; of numbers, that one whose values are the largest is a serial number.
    usable.sort(
        key=lambda x: (
            x[0] in table.referring,
            x[1].kind != "number",
            table.types[x[0]] not in _NUMBERS,
            -x[1].base,
        )
    )
    for _, one in usable:
        yield one


def _largest(connection: psycopg.Connection[Any], table: Table, column: str) -> int:
    query = f"SELECT coalesce(max({quoted(column)}), 0)::numeric::bigint FROM {quoted(table.schema, table.name)}"  # fmt: skip
    row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0
