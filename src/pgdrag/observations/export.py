"""How does a stretch leave its file as tables? CSV or Parquet, one table a file, with the same columns in both.

Each is long: a row for each sample and each thing that it says, times in UTC. What `read_tables` reads is what was written.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pgdrag.errors import StorageError, UsageError
from pgdrag.model.observed import Sample, StatementTotals
from pgdrag.model.recordings import Event
from pgdrag.observations.store import ObservationReader

EXTRA = "parquet"
Row: TypeAlias = Mapping[str, "str | float | int | datetime | None"]
Kind: TypeAlias = Literal["time", "text", "real", "integer"]
Columns: TypeAlias = Mapping[str, Kind]
Form: TypeAlias = Literal["csv", "parquet"]
_ROW_GROUP = 50_000

_INTERVAL: Mapping[str, Kind] = {"began": "time", "ended": "time", "observed_s": "real"}
# Every table with its columns.
TABLES: Mapping[str, Mapping[str, Kind]] = {
    "samples": {**_INTERVAL, "machine_clock": "time", "level": "integer"},
    "values": {
        **_INTERVAL, "quantity": "text", "unit": "text", "mean": "real", "low": "real", "high": "real", "known_s": "real",
    },
    "waits": {**_INTERVAL, "backend_type": "text", "wait": "text", "processes": "real"},
    "statements": {
        **_INTERVAL, "database": "text", "statement": "text",
        **{x.name: "real" if x.name.endswith("_s") else "integer" for x in fields(StatementTotals)},
    },
    "events": {"began": "time", "ended": "time", "kind": "text", "text": "text"},
    "settings": {"name": "text", "value": "text", "built_in": "text"},
}  # fmt: skip


def export_tables(
    path: Path, begin_unix_s: float, end_unix_s: float, directory: Path, form: Form
) -> list[Path]:
    """Write the tables of a stretch into a directory, which is made; return their paths.

    Raises:
        UsageError: the directory has such files already, or Parquet's extra is not installed.
        StorageError: they cannot be written.
        ObservationsError: the file of observations cannot be read.
    """
    make = _tables_of(form)
    paths = {name: directory / f"{name}.{form}" for name in TABLES}
    if found := next((each for each in paths.values() if each.exists()), None):
        raise UsageError(f'"{found}" exists already', hint="Name an empty directory with --output.")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as stack, ObservationReader(path) as reader:
            tables: dict[str, _Table] = {}
            for name, each in paths.items():
                each.touch(mode=0o600)
                tables[name] = stack.enter_context(closing(make(TABLES[name], each)))
            for name, row in _rows(reader, begin_unix_s, end_unix_s):
                tables[name].write(row)
    except OSError as error:
        raise StorageError(
            f'could not write to "{directory}": {(error.strerror or str(error)).lower()}',
            path=directory,
        ) from error
    return list(paths.values())


def _rows(
    reader: ObservationReader, begin_unix_s: float, end_unix_s: float
) -> Iterator[tuple[str, Row]]:
    """Yield each row with its table's name, never all of them at once."""
    units = {one.name: one.unit for one in reader.quantities()}
    for sample in reader.samples(begin_unix_s, end_unix_s):
        for name, rows in _rows_of(sample, units).items():
            for row in rows:
                yield name, row
    for event in reader.events(begin_unix_s, end_unix_s):
        yield "events", _row_of(event)
    for one in reader.settings(end_unix_s):
        yield "settings", {"name": one.name, "value": one.value, "built_in": one.default}


def _rows_of(sample: Sample, units: Mapping[str, str]) -> dict[str, list[Row]]:
    interval: Row = {
        "began": _time(sample.began_unix_s),
        "ended": _time(sample.ended_unix_s),
        "observed_s": sample.observed_s,
    }
    return {
        "samples": [
            {**interval, "machine_clock": _time(sample.wall_unix_s), "level": sample.level}
        ],
        "values": [
            {**interval, "quantity": name, "unit": units[name],
             "mean": x.mean, "low": x.low, "high": x.high, "known_s": x.known_s}
            for name, x in sample.values.items()
        ],
        "waits": [
            {**interval, "backend_type": x.backend_type, "wait": x.wait, "processes": processes}
            for x, processes in sample.waits.items()
        ],
        "statements": [
            {**interval, "database": x.database, "statement": x.text,
             **{each.name: getattr(totals, each.name) for each in fields(totals)}}
            for x, totals in sample.statements.items()
        ],
    }  # fmt: skip


def _row_of(event: Event) -> Row:
    ended = None if event.end_s is None else _time(event.end_s)
    return {"began": _time(event.start_s), "ended": ended, "kind": event.kind, "text": event.text}


def _time(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


def read_tables(directory: Path, form: Form) -> dict[str, list[Row]]:
    """Return tables as they were written."""
    read = {"csv": _read_csv, "parquet": _read_parquet}[form]
    return {
        name: list(read(columns, directory / f"{name}.{form}")) for name, columns in TABLES.items()
    }


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


def _read_csv(columns: Columns, path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: _from_text(row[name], kind) for name, kind in columns.items()}


def _from_text(text: str, kind: Kind) -> str | float | int | datetime | None:
    match kind:
        case "text":
            return text
        case "time":
            return datetime.fromisoformat(text) if text else None
        case "real":
            return float(text) if text else None
        case "integer":
            return int(text)


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


def _read_parquet(columns: Columns, path: Path) -> Iterator[Row]:
    for row in _pyarrow().parquet.read_table(path).to_pylist():
        yield {
            name: row[name].astimezone(UTC) if isinstance(row[name], datetime) else row[name]
            for name in columns
        }
