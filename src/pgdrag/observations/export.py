"""How does a stretch leave its file as tables? CSV or Parquet, one table a file, with the same columns in both.

Each is long: a row for each sample and each thing that it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from pgdrag.model.observed import Sample, StatementTotals
from pgdrag.model.recordings import Event
from pgdrag.observations.store import ObservationReader
from pgdrag.tables import Form, Kind, Row, utc, write_tables

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
    with ObservationReader(path) as reader:
        return write_tables(TABLES, _rows(reader, begin_unix_s, end_unix_s), directory, form)


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
        "began": utc(sample.began_unix_s),
        "ended": utc(sample.ended_unix_s),
        "observed_s": sample.observed_s,
    }
    return {
        "samples": [
            {**interval, "machine_clock": utc(sample.wall_unix_s), "level": sample.level}
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
    ended = None if event.end_s is None else utc(event.end_s)
    return {"began": utc(event.start_s), "ended": ended, "kind": event.kind, "text": event.text}
