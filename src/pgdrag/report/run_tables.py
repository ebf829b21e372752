"""What are the trials of a run as tables? One row a trial, an interval of its window, a value of a series, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdrag.findings.combine import rate_of
from pgdrag.model import Result, RunRecord
from pgdrag.model.measurement import Latency, Sample
from pgdrag.model.recordings import Event, Series
from pgdrag.tables import Columns, Row, utc

_TRIAL: Columns = {"run": "text", "trial": "integer", "treatment": "text"}
# Every table with its columns; times without a date are seconds from the start of the measured window.
TABLES: Mapping[str, Columns] = {
    "trials": {
        **_TRIAL, "block": "integer", "replicate": "integer", "began": "time", "host": "text", "server_version": "text",
        "outcome": "text", "reason": "text", "elapsed_s": "real", "committed": "integer", "committed_per_s": "real",
        "failed": "integer", "retried": "integer",
    },
    "levels": {**_TRIAL, "kind": "text", "name": "text", "value": "text", "read_back": "text"},
    "transactions": {
        **_TRIAL, "type": "text", "committed": "integer", "failed": "integer", "latency_us_mean": "real",
        "latency_us_p50": "real", "latency_us_p95": "real", "latency_us_p99": "real",
    },
    "samples": {
        **_TRIAL, "t_s": "real", "duration_s": "real", "committed": "integer", "failed": "integer",
        "sessions": "integer", "latency_us_p50": "real", "latency_us_p95": "real", "latency_us_p99": "real",
    },
    "series": {**_TRIAL, "series": "text", "unit": "text", "t_s": "real", "value": "real"},
    "events": {**_TRIAL, "start_s": "real", "end_s": "real", "kind": "text", "text": "text"},
    "observations": {**_TRIAL, "observation": "text", "unit": "text", "value": "real"},
}  # fmt: skip


def run_rows(run: RunRecord) -> Iterator[tuple[str, Row]]:
    """Yield each row with the name of its table, for `tables.write_tables`."""
    for result in sorted(run.results, key=lambda one: one.trial.number):
        trial = result.trial
        key: Row = {"run": run.run_id, "trial": trial.number, "treatment": trial.treatment.name}
        for table, row in _of_trial(result):
            yield table, {**key, **row}


def _of_trial(result: Result) -> Iterator[tuple[str, Row]]:
    trial, measured = result.trial, result.measurement
    total = None if measured is None else measured.total
    yield "trials", {
        "block": trial.block,
        "replicate": trial.replicate,
        "began": utc(result.started_unix_s) if result.started_unix_s else None,
        "host": result.host,
        "server_version": result.server_version,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "elapsed_s": None if measured is None else measured.elapsed_s,
        "committed": None if total is None else total.committed,
        "committed_per_s": rate_of(result, measured).per_s if measured and measured.elapsed_s else None,
        "failed": None if total is None else total.failed,
        "retried": None if total is None else total.retried,
    }  # fmt: skip
    read_back = {x.level.factor: x.effective for x in result.applied}
    for level in trial.treatment.levels:
        yield "levels", {**_of(level, "kind name value"), "read_back": read_back.get(level.factor)}
    if measured is not None:
        for kind, counts in measured.transactions.items():
            latency = measured.latency.get(kind)
            row = {"type": kind, **_of(counts, "committed failed")}
            yield "transactions", {**row, **_latencies(latency, "mean p50 p95 p99")}
        for sample in measured.samples:
            row = _of(sample, "t_s duration_s committed failed sessions")
            yield "samples", {**row, **_latencies(sample, "p50 p95 p99")}
    for series in result.recordings.of(Series):
        for t_s, value in zip(series.times_s, series.values, strict=True):
            yield "series", {"series": series.name, "unit": series.unit, "t_s": t_s, "value": value}
    for event in result.recordings.of(Event):
        yield "events", _of(event, "start_s end_s kind text")
    for one in result.evidence:
        yield "observations", {"observation": one.name, "unit": one.unit, "value": one.value}


def _of(value: object, names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names.split()}


def _latencies(of: Latency | Sample | None, names: str) -> dict[str, Any]:
    """Return times in columns `latency_us_p50`; without any, no value."""
    return {f"latency_us_{x}": getattr(of, f"{x}_us") if of else None for x in names.split()}
