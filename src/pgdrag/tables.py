"""How do rows become tables in files? CSV or Parquet, one table a file, with the same columns in both. Times are in UTC."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pgdrag.errors import StorageError, UsageError

EXTRA = "parquet"
Row: TypeAlias = Mapping[str, "str | float | int | datetime | None"]
Kind: TypeAlias = Literal["time", "text", "real", "integer"]
Columns: TypeAlias = Mapping[str, Kind]
Form: TypeAlias = Literal["csv", "parquet"]
_ROW_GROUP = 50_000


def write_tables(
    tables: Mapping[str, Columns], rows: Iterable[tuple[str, Row]], directory: Path, form: Form
) -> list[Path]:
    """Write tables into a directory, which is made; return their paths.

    Args:
        tables: the columns of each.
        rows: each with its table's name, never all of them in memory.

    Raises:
        UsageError: it is not a directory, has such files already, or Parquet's extra is not installed.
        StorageError: they cannot be written.
    """
    make = _tables_of(form)
    paths = {name: directory / f"{name}.{form}" for name in tables}
    if directory.exists() and not directory.is_dir():
        raise UsageError(
            f'"{directory}" is not a directory', hint="Name one for the tables with --output."
        )
    if found := next((each for each in paths.values() if each.exists()), None):
        raise UsageError(f'"{found}" exists already', hint="Name an empty directory with --output.")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as stack:
            made: dict[str, _Table] = {}
            for name, each in paths.items():
                each.touch(mode=0o600)
                made[name] = stack.enter_context(closing(make(tables[name], each)))
            for name, row in rows:
                made[name].write(row)
    except OSError as error:
        raise StorageError(
            f'could not write to "{directory}": {(error.strerror or str(error)).lower()}',
            path=directory,
        ) from error
    return list(paths.values())


def utc(unix_s: float) -> datetime:
    """Return a moment as tables have it."""
    return datetime.fromtimestamp(unix_s, UTC)


class _Table(Protocol):
    """A table that is written row by row."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


def _tables_of(form: Form) -> Callable[[Columns, Path], _Table]:
    if form == "csv":
        return _CsvTable
    _pyarrow()
    return _ParquetTable


class _CsvTable:
    def __init__(self, columns: Columns, path: Path) -> None:
        self._columns = columns
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(columns)

    def write(self, row: Row) -> None:
        self._writer.writerow([_as_text(row[name]) for name in self._columns])

    def close(self) -> None:
        self._file.close()


class _ParquetTable:
    def __init__(self, columns: Columns, path: Path) -> None:
        pyarrow = self._pyarrow = _pyarrow()
        types = {
            "time": pyarrow.timestamp("us", tz="UTC"),
            "text": pyarrow.string(),
            "real": pyarrow.float64(),
            "integer": pyarrow.int64(),
        }
        self._schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def write(self, row: Row) -> None:
        self._rows.append(dict(row))
        if len(self._rows) >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        table = self._pyarrow.Table.from_pylist(self._rows, schema=self._schema)
        self._writer.write_table(table)
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _as_text(value: str | float | datetime | None) -> str | float | None:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "Parquet needs the package pyarrow, which is not installed",
            hint=f"Run pip install 'pgdrag[{EXTRA}]', or take --format csv.",
        ) from None
    return pyarrow
