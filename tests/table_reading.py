"""Read tables as `pgdrag.tables` wrote them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pgdrag.tables import Columns, Form, Kind, Row


def read_tables(tables: Mapping[str, Columns], directory: Path, form: Form) -> dict[str, list[Row]]:
    read = {"csv": _read_csv, "parquet": _read_parquet}[form]
    return {
        name: list(read(columns, directory / f"{name}.{form}")) for name, columns in tables.items()
    }


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
            return int(text) if text else None


def _read_parquet(columns: Columns, path: Path) -> Iterator[Row]:
    import pyarrow.parquet

    for row in pyarrow.parquet.read_table(path).to_pylist():
        yield {
            name: row[name].astimezone(UTC) if isinstance(row[name], datetime) else row[name]
            for name in columns
        }
