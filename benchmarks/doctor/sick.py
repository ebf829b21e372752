"""Servers that are sick in one way each."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.doctor.servers import Patient, Scenario
from pgdrag.servers.cluster import Cluster

_ITEMS = (
    "CREATE TABLE items AS SELECT id, md5(id::text) AS code, id % 100 AS kind FROM generate_series(1, 200000) AS id",
)


def _missing_index(patient: Patient) -> None:
    patient.sql(*_ITEMS, "VACUUM ANALYZE items")
    patient.pgbench(
        script="\\set i random(1, 200000)\nSELECT id FROM items WHERE code = md5(:i::text);\n"
    )


def _hold(patient: Patient) -> None:
    holder = patient.connect()
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT count(*) FROM pgbench_branches")


def _held_horizon(patient: Patient) -> None:
    _hold(patient)
    patient.pgbench("-N", clients=4)


def _futile_vacuum(patient: Patient) -> None:
    patient.sql(
        "CREATE TABLE counters AS SELECT id, 0 AS hits FROM generate_series(1, 3000) AS id",
        "CREATE UNIQUE INDEX ON counters (id)",
        "ANALYZE counters",
    )
    _hold(patient)
    patient.pgbench(
        script="\\set i random(1, 3000)\nUPDATE counters SET hits = hits + 1 WHERE id = :i;\n"
    )


def _tpcb(patient: Patient) -> None:
    patient.pgbench("-N", clients=4)


def _all_tables(patient: Patient) -> None:
    patient.pgbench(clients=4)


def _full_writes(patient: Patient) -> None:
    patient.pgbench("-N", clients=8)


def _reads(patient: Patient) -> None:
    patient.pgbench("-S", clients=6)


def _idle_locker(patient: Patient) -> None:
    holder = patient.connect()
    holder.execute("BEGIN")
    holder.execute("UPDATE pgbench_branches SET filler = 'x'")
    patient.pgbench(clients=6)


def _ddl_queue(patient: Patient) -> None:
    reader = patient.connect()
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM pgbench_tellers LIMIT 1")
    patient.background("ALTER TABLE pgbench_tellers ADD COLUMN more int")
    patient.pgbench(clients=6)


def _hot_row(patient: Patient) -> None:
    patient.sql("CREATE TABLE totals AS SELECT 1 AS id, 0::bigint AS total", "ANALYZE totals")
    script = "BEGIN;\nUPDATE totals SET total = total + 1 WHERE id = 1;\nSELECT abalance FROM pgbench_accounts WHERE aid = 1;\nEND;\n"
    patient.pgbench(script=script, clients=16)


def _advisory(patient: Patient) -> None:
    script = "BEGIN;\nSELECT pg_advisory_xact_lock(7);\nSELECT pg_sleep(0.02);\nEND;\n"
    patient.pgbench(script=script, clients=8)


def _no_statistics(patient: Patient) -> None:
    patient.sql(
        "CREATE TABLE orders (id int, customer int, state text)",
        "CREATE INDEX ON orders (state)",
        "INSERT INTO orders SELECT id, id % 1000, CASE WHEN id % 100 = 0 THEN 'new' ELSE 'done' END FROM generate_series(1, 100000) AS id",
    )
    patient.pgbench(
        script="SELECT count(*) FROM orders a JOIN orders b ON b.customer = a.customer AND b.state = 'new' WHERE a.id < 100;\n"
    )


def _churn(patient: Patient) -> None:
    patient.pgbench("-C", "-S", clients=4)


def _crowd(patient: Patient) -> None:
    for _ in range(24):
        patient.connect()
    patient.pgbench("-S", "-R", "50", clients=1)


def _spill(patient: Patient) -> None:
    patient.pgbench(
        script="SELECT aid FROM pgbench_accounts WHERE aid < 50000 ORDER BY filler, abalance DESC, aid DESC OFFSET 49990;\n",
        clients=2,
    )


def _idle(patient: Patient) -> None:
    holder = patient.connect()
    holder.execute("BEGIN")
    holder.execute("SELECT 1")
    patient.pgbench("-S", "-R", "50", clients=1)


def _dead(patient: Patient) -> None:
    patient.sql("UPDATE pgbench_accounts SET abalance = 1")
    patient.pgbench("-S", "-R", "100", clients=2)


def _old_numbers(cluster: Cluster) -> None:
    """Let the next transaction be number 1,600,000,000, as if so many had gone by."""
    number = 1_600_000_000
    segment = cluster.data_directory / "pg_xact" / f"{number // (8192 * 4 * 32):04X}"
    segment.write_bytes(bytes(256 * 1024))
    owner = cluster.data_directory.stat()
    os.chown(segment, owner.st_uid, owner.st_gid)
    user = cluster.user
    subprocess.run(
        [cluster.binaries.bin_dir / "pg_resetwal", "-x", str(number), cluster.data_directory],
        check=True,
        capture_output=True,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )


def _slot(patient: Patient) -> None:
    patient.sql("SELECT pg_create_physical_replication_slot('gone', true)")
    patient.sql(
        "CREATE TABLE filled AS SELECT id, repeat('x', 800) AS filler FROM generate_series(1, 150000) AS id",
        "CHECKPOINT",
    )
    patient.pgbench("-S", "-R", "50", clients=1)


def _archive(patient: Patient) -> None:
    patient.sql("CREATE TABLE one ()", "SELECT pg_switch_wal()")
    patient.pgbench("-S", "-R", "50", clients=1)


def _deadlocks(patient: Patient) -> None:
    patient.sql(
        "CREATE TABLE pair AS SELECT id, 0 AS n FROM generate_series(1, 2) AS id", "ANALYZE pair"
    )
    script = "\\set i random(1, 2)\nBEGIN;\nUPDATE pair SET n = n + 1 WHERE id = :i;\nUPDATE pair SET n = n + 1 WHERE id = 3 - :i;\nEND;\n"
    patient.pgbench("--max-tries=100", script=script, clients=4)


def _rollbacks(patient: Patient) -> None:
    script = "\\set i random(1, 1000000)\nBEGIN;\nUPDATE pgbench_accounts SET abalance = 1 WHERE aid = :i;\nROLLBACK;\n"
    patient.pgbench("-R", "200", script=script, clients=2)


def _crowded_cpu(patient: Patient) -> None:
    patient.pgbench(
        script="SELECT sum(sqrt(i)) FROM generate_series(1, 300000) AS i;\n", clients=40
    )


def _one_sequence(patient: Patient) -> None:
    """Let all sessions want the page of one sequence: on few processors its holder is often not running."""
    patient.sql("CREATE SEQUENCE numbers")
    script = "SELECT count(nextval('numbers')) FROM generate_series(1, 50000);\n"
    patient.pgbench(script=script, clients=14)


def _fill(patient: Patient) -> None:
    """Leave three hundredths of the disk free."""
    place = patient.cluster.directory.parent
    found = os.statvfs(place)
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    with (place / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - 3 * whole // 100)
    _reads(patient)


@contextmanager
def small_disk() -> Iterator[Path]:
    """Yield a directory on a file system of its own that is nearly full with one server."""
    directory = Path(tempfile.mkdtemp(prefix="pgdrag-small-", dir="/var/tmp"))
    directory.chmod(0o711)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1g,mode=711", "none", directory], check=True
    )
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        directory.rmdir()


SICK = (
    Scenario("missing-index", _missing_index),
    Scenario("planner-settings", _reads, {"random_page_cost": "1000000", "max_parallel_workers_per_gather": "0"}),
    Scenario("held-horizon", _held_horizon, lasts_s=13),
    Scenario("futile-vacuum", _futile_vacuum, {"autovacuum": "on", "autovacuum_naptime": "1s", "autovacuum_vacuum_scale_factor": "0.01"}, lasts_s=5, for_s=8),
    Scenario("vacuum-storm", _all_tables, {"autovacuum": "on", "autovacuum_naptime": "1s", "autovacuum_vacuum_threshold": "1", "autovacuum_vacuum_scale_factor": "0"}, lasts_s=3, for_s=8),
    Scenario("checkpoint-storm", _full_writes, {"max_wal_size": "32MB", "min_wal_size": "32MB"}, for_s=8),
    Scenario("tiny-cache", _reads, {"shared_buffers": "1MB"}),
    Scenario("lock-queue", _idle_locker),
    Scenario("lock-queue", _ddl_queue, lasts_s=3),
    Scenario("hot-rows", _hot_row),
    Scenario("advisory-locks", _advisory),
    Scenario("log-flood", _reads, {"log_statement": "all"}),
    Scenario("missing-statistics", _no_statistics),
    Scenario("connection-churn", _churn),
    Scenario("connection-limit", _crowd, {"max_connections": "33"}),
    Scenario("standby-wait", _tpcb, {"synchronous_standby_names": "absent"}),
    Scenario("commit-delay", _tpcb, {"commit_delay": "50000", "commit_siblings": "0"}),
    Scenario("temp-spill", _spill, {"work_mem": "64kB", "max_parallel_workers_per_gather": "0"}),
    Scenario("idle-in-transaction", _idle, lasts_s=11),
    Scenario("dead-rows", _dead),
    Scenario("wraparound", _reads, {"autovacuum_freeze_max_age": "2000000000"}, before=_old_numbers),
    Scenario("slot-wal", _slot, {"max_wal_size": "64MB"}),
    Scenario("archive-failing", _archive, {"archive_mode": "on", "archive_command": "false"}, lasts_s=4),
    Scenario("deadlocks", _deadlocks, {"deadlock_timeout": "100ms"}),
    Scenario("rollbacks", _rollbacks),
    Scenario("cpu-saturated", _crowded_cpu),
    Scenario("lwlocks", _one_sequence),
    Scenario("full-disk", _fill, place=small_disk),
)  # fmt: skip
