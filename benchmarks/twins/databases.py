"""Which databases are captured, and which configurations are tried on each and on its twin?

pgbench and TPC-C, and five that have what those lack: documents, a time series, a star of many tables, a help desk with triggers and queues, and hotels
with stays that may not overlap. Each of these is a file of SQL that makes it, and one of pgbench's scripts, which are its load.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pgdrag.workloads import Loading, Workload, all_workloads
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import run_setup

HERE = Path(__file__).parent
_HEAD = re.compile(r"^--- (\w+) (\d+)\n", re.MULTILINE)
DATABASE_BYTES = 400_000_000  # about the most

# Of all servers, of originals and of twins: settings as in use, with memory for all tables.
BASE: Mapping[str, str] = {
    "shared_buffers": "512MB",
    "effective_cache_size": "2GB",
    "work_mem": "16MB",
    "max_wal_size": "4GB",
    "random_page_cost": "1.1",
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
}


@dataclass(frozen=True)
class Configuration:
    """Settings that are tried against the base.

    Attributes:
        is_harmless: expected to change nothing that can be measured.
    """

    name: str
    settings: Mapping[str, str]
    is_harmless: bool = False


@dataclass(frozen=True)
class Database:
    """An original.

    Attributes:
        sessions: clients of its load.
    """

    name: str
    workload: Workload
    configurations: tuple[Configuration, ...]
    sessions: int = 4


class Made(Workload):
    """A database that a file of SQL makes, and scripts on it."""

    name = "made"
    summary = "a database of this benchmark's"

    file: str
    statements: Literal["simple", "extended", "prepared"] = "simple"

    @property
    def transactions(self) -> tuple[str, ...]:
        """The names of the scripts."""
        return tuple(x.name for x in self._scripts())

    def dataset(self) -> Mapping[str, object]:
        """Return the file's digest."""
        return {"kind": self.name, "digest": hashlib.sha256(self._sql().encode()).hexdigest()}

    def dataset_bytes(self) -> int:
        """Return the same for all."""
        return DATABASE_BYTES

    def job(self) -> dict[str, object]:
        """Return the driver's `workload` object."""
        return pgbench_job(self._scripts(), scale=1, statements=self.statements)

    def populate(self, loading: Loading) -> None:
        """Run the file."""
        run_setup(self._sql(), loading.target)

    def violations(self, *given: Any, **named: Any) -> tuple[str, ...]:
        """Return nothing: it has no conditions."""
        return ()

    def _sql(self) -> str:
        return (HERE / f"{self.file}.sql").read_text(encoding="utf-8")

    def _scripts(self) -> tuple[Script, ...]:
        _, *pieces = _HEAD.split((HERE / f"{self.file}.pgbench").read_text(encoding="utf-8"))
        parts = zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True)
        return tuple(Script(name=x, weight=int(weight), text=text) for x, weight, text in parts)


def _guilty(**tried: Mapping[str, str]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration(name.replace("_", " "), settings) for name, settings in tried.items()
    )


def _harmless(**tried: Mapping[str, str]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration(name.replace("_", " "), x, is_harmless=True) for name, x in tried.items()
    )


_TINY_BUFFERS = {"shared_buffers": "1MB"}
_NO_INDEXES = {"enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_bitmapscan": "off"}
_CHECKPOINTS = {
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
    "checkpoint_completion_target": "0",
    "checkpoint_timeout": "30s",
}
_COMMIT_DELAY = {"commit_delay": "20000", "commit_siblings": "0"}
_LOGGING = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_duration": "on",
    "log_parser_stats": "on",
    "log_planner_stats": "on",
    "log_executor_stats": "on",
}
_ALWAYS_VACUUM = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_cost_delay": "0",
    "autovacuum_vacuum_threshold": "1",
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_analyze_threshold": "1",
    "autovacuum_analyze_scale_factor": "0",
    "autovacuum_vacuum_insert_threshold": "1",
    "autovacuum_vacuum_insert_scale_factor": "0",
}
_SLOW_WAL = {
    "wal_sync_method": "open_sync",
    "wal_buffers": "32kB",
    "wal_writer_delay": "10000ms",
    "full_page_writes": "on",
}
_TINY_WORK_MEM = {"work_mem": "64kB", "hash_mem_multiplier": "1"}
_PARALLEL = {
    "max_parallel_workers_per_gather": "8",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "min_parallel_index_scan_size": "0",
    "debug_parallel_query": "on",
}
_JIT = {
    "jit": "on",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
}
_DEAR_PAGES = {"random_page_cost": "100000", "cpu_index_tuple_cost": "1000"}


def databases() -> tuple[Database, ...]:
    """Return all of them."""
    kinds = all_workloads()
    pgbench = kinds["pgbench"].model_validate(
        {"scale": 10, "scripts": ["tpcb-like", "select-only@2"], "statements": "prepared"}
    )
    return (
        Database(
            "pgbench",
            pgbench,
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_indexes=_NO_INDEXES, commit_delay=_COMMIT_DELAY, logging=_LOGGING),
                *_guilty(dear_pages=_DEAR_PAGES, parallel=_PARALLEL, asynchronous={"synchronous_commit": "off"}),
                *_harmless(lock_waits={"log_lock_waits": "on", "deadlock_timeout": "2s"}, writer={"bgwriter_delay": "100ms"}),
            ),
        ),
        Database(
            "tpcc",
            kinds["tpcc"].model_validate({"warehouses": 2}),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, dear_pages=_DEAR_PAGES, checkpoints=_CHECKPOINTS, slow_wal=_SLOW_WAL),
                *_guilty(logging=_LOGGING, no_nested_loops={"enable_nestloop": "off"}, parallel=_PARALLEL),
                *_harmless(connections={"max_connections": "150"}, activity={"track_activity_query_size": "4096"}),
            ),
        ),
        Database(
            "documents",
            Made(file="documents", statements="simple"),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_bitmaps={"enable_bitmapscan": "off"}, no_indexes=_NO_INDEXES, jit=_JIT),
                *_guilty(commit_delay=_COMMIT_DELAY, logging=_LOGGING, always_vacuum=_ALWAYS_VACUUM),
                *_harmless(warning={"checkpoint_warning": "60s"}, estimates={"default_statistics_target": "200"}),
            ),
        ),
        Database(
            "series",
            Made(file="series", statements="prepared"),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_indexes=_NO_INDEXES, tiny_work_mem=_TINY_WORK_MEM),
                *_guilty(no_pruning={"enable_partition_pruning": "off"}, commit_delay=_COMMIT_DELAY, checkpoints=_CHECKPOINTS, jit=_JIT),
                *_harmless(wal_writer={"wal_writer_delay": "100ms"}, functions={"track_functions": "all"}),
            ),
        ),
        Database(
            "star",
            Made(file="star", statements="extended"),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_indexes=_NO_INDEXES, tiny_work_mem=_TINY_WORK_MEM, no_hash_joins={"enable_hashjoin": "off", "enable_mergejoin": "off"}),
                *_guilty(as_written={"join_collapse_limit": "1", "from_collapse_limit": "1"}, no_nested_loops={"enable_nestloop": "off"}, parallel=_PARALLEL),
                *_harmless(lock_waits={"log_lock_waits": "on"}, naptime={"autovacuum_naptime": "5min"}),
            ),
        ),
        Database(
            "desk",
            Made(file="desk", statements="simple"),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_indexes=_NO_INDEXES, commit_delay=_COMMIT_DELAY, logging=_LOGGING, dear_pages=_DEAR_PAGES),
                *_harmless(warning={"checkpoint_warning": "60s"}, writer={"bgwriter_delay": "100ms"}),
            ),
        ),
        Database(
            "hotels",
            Made(file="hotels", statements="simple"),
            (
                *_guilty(tiny_buffers=_TINY_BUFFERS, no_indexes=_NO_INDEXES, no_bitmaps={"enable_bitmapscan": "off"}, slow_wal=_SLOW_WAL),
                *_harmless(lock_waits={"log_lock_waits": "on"}, wal_writer={"wal_writer_delay": "100ms"}),
            ),
        ),
    )  # fmt: skip
