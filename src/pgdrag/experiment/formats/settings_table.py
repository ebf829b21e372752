"""Rows of pg_settings, as CSV or as psql prints them; what SHOW ALL and \\dconfig print, too.

A number of pg_settings counts in the unit beside it; what SHOW ALL and \\dconfig print has its unit already.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pgdrag.errors import ConfError
from pgdrag.experiment.formats import Configuration, Format, Given, Place, Skipped, Source
from pgdrag.experiment.formats._rows import why_not_set
from pgdrag.servers.conf import is_name
from pgdrag.units import with_base_unit

_NAMES = ("name", "parameter")
_VALUES = ("setting", "value", "current_setting")
_LOOKED_AT = 40  # lines above the head of a table: a command, a title
_RECORD = re.compile(r"\+?-+\[ RECORD \d+ \][-+]*")
_FOOTER = re.compile(r"\(\d+ rows?\)|Time: .*|\w*=[#>].*")
# What psql draws with \pset linestyle unicode: rules, and the lines between columns.
_UNICODE_RULE = re.compile(r"^[─═┼╪╫╬├┤┬┴┌┐└┘╔╗╚╝╟╢╤╧╠╣╦╩]+(?:\[ RECORD \d+ \].*)?$", re.MULTILINE)
_UNICODE_LINES = str.maketrans("│║─═┼╪╫╬├┤┬┴┌┐└┘╔╗╚╝╟╢╤╧╠╣╦╩", "||--" + "+" * 24)
_UNICODE_COLUMNS = str.maketrans("│║", "||")
Row = tuple[int, Mapping[str, str]]


@dataclass(frozen=True)
class _Head:
    """The line that names the columns.

    Attributes:
        at: how many lines stand above it.
        delimiter: between columns.
    """

    at: int
    delimiter: str
    columns: tuple[str, ...]


class SettingsTable(Format):
    """A table with a row for each setting, or a record."""

    name = "pg_settings"
    summary = "rows of pg_settings, SHOW ALL or \\dconfig (CSV or psql's output)"
    example = "name,setting,unit\nwork_mem,65536,kB\n"

    def recognises(self, source: Source) -> bool:
        text = _plain(source).text
        return _first_record(text) is not None or _head(text) is not None

    def read(self, source: Source) -> Configuration:
        source = _plain(source)
        head, record = _head(source.text), _first_record(source.text)
        if head is not None and (record is None or head.at < record):
            rows = _rows(source, head)
        else:
            rows = _records(source, record or 0)
        found = [_setting(row, Place(source.path, line)) for line, row in rows]
        if not found:
            hint = "Copy the rows, too."
            raise ConfError("the table has no rows", path=source.path, line=1, hint=hint)
        return Configuration.of(self, found, is_exported=True)


def _plain(source: Source) -> Source:
    """Return the table as psql draws it by default."""
    if not _UNICODE_RULE.search(source.text):
        return source
    lines = [
        line.translate(_UNICODE_LINES if _UNICODE_RULE.fullmatch(line) else _UNICODE_COLUMNS)
        for line in source.text.split("\n")
    ]
    return replace(source, text="\n".join(lines))


def _setting(row: Mapping[str, str], place: Place) -> Given | Skipped:
    name = next(row[x] for x in _NAMES if x in row)
    if not is_name(name):
        hint = 'The column "name" or "Parameter" must have the names of settings.'
        raise ConfError(
            f'"{name}" is not the name of a setting', path=place.file, line=place.line, hint=hint
        )
    if why := why_not_set(row.get("source", "")):
        return Skipped(name, why, place)
    value = next(row[x] for x in _VALUES if x in row)
    return Given(name, with_base_unit(value, row.get("unit")), place)


# --- one line a setting --------------------------------------------------------------------


def _head(text: str) -> _Head | None:
    for at, line in enumerate(text.split("\n", _LOOKED_AT)[:_LOOKED_AT]):
        for delimiter in ("|", "\t", ",", ";"):
            cells = _cells(line, delimiter)
            columns = tuple(x.strip().strip('"').lower() for x in cells)
            if set(columns) & set(_NAMES) and set(columns) & set(_VALUES):
                return _Head(at, delimiter, columns)
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    return (_unframed(line) if delimiter == "|" else line).split(delimiter)


def _unframed(line: str) -> str:
    """Return a line without the lines around the table, if there are any."""
    framed = line.strip()
    is_framed = len(framed) > 1 and framed[0] == framed[-1] == "|"
    return framed[1:-1] if is_framed else line


def _rows(source: Source, head: _Head) -> Iterator[Row]:
    body = source.text.split("\n")[head.at + 1 :]
    if head.delimiter != "|":
        yield from _csv_rows(source, head, body)
        return
    ends = _ends_of_columns(body[0]) if body else []
    for number, line in enumerate(body, start=head.at + 2):
        if line.strip() and not _is_rule(line) and not _FOOTER.fullmatch(line.strip()):
            yield from _row(source, head, number, _split(line, head, ends))


def _is_rule(line: str) -> bool:
    return "-" in line and not set(line) - set("-+|:= \t")


def _row(source: Source, head: _Head, number: int, cells: Sequence[str]) -> Iterator[Row]:
    """Yield the row of these cells, unless they are the head of a second table."""
    if len(cells) != len(head.columns):
        raise ConfError(
            f"the row has {len(cells)} columns, and the head of the table {len(head.columns)}",
            path=source.path,
            line=number,
            hint="Copy the whole row, or remove it.",
        )
    row = dict(zip(head.columns, cells, strict=True))
    if any(x.strip().lower() != column for column, x in row.items()):
        yield number, row


def _ends_of_columns(rule: str) -> list[int]:
    """Return where the lines between columns stand: below the head psql draws them as plus signs."""
    if not _is_rule(rule):
        return []
    return [at for at, x in enumerate(rule) if x == "+" and 0 < at < len(rule.rstrip()) - 1]


def _split(line: str, head: _Head, ends: Sequence[int]) -> list[str]:
    cells = _cells(line, head.delimiter)
    if len(cells) > len(head.columns) and ends and all(line[x : x + 1] == "|" for x in ends):
        # A value has the delimiter in it: only the lines between the columns count.
        bounds = [-1, *ends, len(line)]
        cells = [line[a + 1 : b] for a, b in pairwise(bounds)]
        if _unframed(line) != line:
            cells[0], cells[-1] = cells[0].lstrip()[1:], cells[-1].rstrip()[:-1]
    return [x.strip() for x in cells]


def _csv_rows(source: Source, head: _Head, body: Sequence[str]) -> Iterator[Row]:
    file = io.StringIO("\n".join(body))
    reader = csv.reader(file, delimiter=head.delimiter, skipinitialspace=True, strict=True)
    number = head.at + 2
    try:
        for cells in reader:
            if cells and not _FOOTER.fullmatch(cells[0].strip()):
                yield from _row(source, head, number, cells)
            number = head.at + 2 + reader.line_num
    except csv.Error as error:
        hint = "Export the rows again, as CSV with quotes where a value needs them."
        raise ConfError(str(error), path=source.path, line=number, hint=hint) from None


# --- one record a setting ------------------------------------------------------------------


def _first_record(text: str) -> int | None:
    lines = text.split("\n", _LOOKED_AT)[:_LOOKED_AT]
    return next((at for at, x in enumerate(lines) if _RECORD.match(x.strip())), None)


def _records(source: Source, first: int) -> Iterator[Row]:
    """Yield the records that psql prints with \\x, each with the line where it begins."""
    lines = source.text.split("\n")
    began, row = first + 1, dict[str, str]()
    for number, line in enumerate([*lines[first:], "-[ RECORD 0 ]-"], start=first + 1):
        if _RECORD.match(line.strip()):
            if row:
                yield began, _whole(source, began, row)
            began, row = number, {}
        elif not _is_rule(line):
            column, _, value = _unframed(line).partition("|")
            row[column.strip().lower()] = value.strip()


def _whole(source: Source, line: int, row: Mapping[str, str]) -> Mapping[str, str]:
    for wanted in (_NAMES, _VALUES):
        if not any(x in row for x in wanted):
            raise ConfError(
                f'the record has no column "{wanted[0]}"',
                path=source.path,
                line=line,
                hint="Select name, setting and unit of pg_settings.",
            )
    return row
