"""Servers that are well: idle, under loads of all kinds, and at their ordinary upkeep."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.doctor.servers import Patient, Scenario, nothing

ON = {"autovacuum": "on"}
# As initdb writes it; the server's own default was less before version 18.
ON_14 = {**ON, "shared_buffers": "128MB"}


def _connections(patient: Patient) -> None:
    for _ in range(10):
        patient.connect()


def _reads(patient: Patient) -> None:
    patient.pgbench("-S", clients=4)


def _paced_reads(patient: Patient) -> None:
    patient.pgbench("-S", "-R", "300", clients=4)


def _many_paced(patient: Patient) -> None:
    patient.pgbench("-S", "-R", "500", clients=20)


def _writes(patient: Patient) -> None:
    patient.pgbench(clients=4)


def _paced_writes(patient: Patient) -> None:
    patient.pgbench("-R", "100", clients=4)


def _simple(patient: Patient) -> None:
    patient.pgbench("-N", clients=4)


def _prepared(patient: Patient) -> None:
    patient.pgbench("-N", "-M", "prepared", clients=8)


def _tpcc(*options: str) -> Callable[[Patient], None]:
    def run(patient: Patient) -> None:
        patient.pgdrag("tpcc", "load", patient.dsn, "--warehouses", "2", "--yes", wait=True)
        patient.sql("VACUUM ANALYZE")
        patient.pgdrag("tpcc", "run", patient.dsn, "--yes", "-T", "60", "--warm-up", "0", *options)

    return run


def _bulk(patient: Patient) -> None:
    patient.sql("CREATE TABLE loaded (id int, filler text)")
    patient.background(
        "INSERT INTO loaded SELECT id, repeat('x', 50) FROM generate_series(1, 20000000) AS id"
    )


def _copy(patient: Patient) -> None:
    patient.sql("CREATE TABLE copied (LIKE pgbench_accounts)")
    patient.pgbench(
        script="COPY (SELECT * FROM pgbench_accounts LIMIT 50000) TO PROGRAM 'cat > /dev/null';\n",
        clients=1,
    )


def _index_build(patient: Patient) -> None:
    patient.background(
        *(
            "CREATE INDEX ON pgbench_accounts (abalance)",
            "CREATE INDEX ON pgbench_accounts (bid, abalance)",
        ),
        *("CREATE INDEX ON pgbench_accounts (filler)", "CREATE INDEX ON pgbench_accounts (bid)"),
    )
    _paced_reads(patient)


def _checkpoint(patient: Patient) -> None:
    patient.pgbench("-N", "-R", "200", clients=4)
    patient.background("SELECT pg_sleep(4)", "CHECKPOINT")


def _vacuum(patient: Patient) -> None:
    patient.sql("UPDATE pgbench_accounts SET abalance = 1 WHERE aid < 100000")
    patient.pgbench("-R", "100", clients=2)
    patient.background("SELECT pg_sleep(3)", "VACUUM ANALYZE pgbench_accounts")


def _analyze(patient: Patient) -> None:
    patient.pgbench("-R", "100", clients=2)
    patient.background("SELECT pg_sleep(3)", "ANALYZE")


def _report(patient: Patient) -> None:
    patient.pgbench("-N", "-R", "100", clients=2)
    patient.background(
        "SELECT pg_sleep(2)",
        "SELECT bid, sum(abalance), avg(abalance) FROM pgbench_accounts GROUP BY bid",
    )


def _migration(patient: Patient) -> None:
    patient.pgbench("-S", "-R", "200", clients=4)
    patient.background("SELECT pg_sleep(3)", "ALTER TABLE pgbench_tellers ADD COLUMN note text")


def _few_rollbacks(patient: Patient) -> None:
    patient.pgbench("-N", "-R", "200", clients=2)
    patient.pgbench(
        "-R",
        "3",
        script="BEGIN;\nUPDATE pgbench_accounts SET abalance = 1 WHERE aid = 1;\nROLLBACK;\n",
        clients=1,
    )


HEALTHY = (
    Scenario("idle", nothing, ON),
    Scenario("idle, version 14", nothing, ON_14, version="14"),
    Scenario("ten idle connections", _connections, ON),
    Scenario("select-only, flat out", _reads, ON),
    Scenario("select-only, paced", _paced_reads, ON),
    Scenario("select-only, version 14, as a monitor", _reads, ON_14, version="14", role="monitor"),
    Scenario("select-only, twenty clients, paced", _many_paced, ON),
    Scenario("tpcb, flat out", _writes, ON),
    Scenario("tpcb, paced", _paced_writes, ON),
    Scenario("tpcb, flat out, version 14", _writes, ON_14, version="14"),
    Scenario("simple-update, flat out", _simple, ON),
    Scenario("simple-update, prepared, eight clients", _prepared, ON),
    Scenario("tpcc, paced", _tpcc("-c", "4", "--rate", "20"), ON, lasts_s=8),
    Scenario("tpcc, flat out", _tpcc("-c", "4"), ON, lasts_s=8),
    Scenario("bulk load", _bulk, {**ON, "max_wal_size": "8GB"}),
    Scenario("copy out", _copy, ON),
    Scenario("index build", _index_build, {**ON, "max_wal_size": "4GB"}),
    Scenario("a checkpoint", _checkpoint, ON),
    Scenario("a vacuum", _vacuum, ON),
    Scenario("an analyze", _analyze, ON),
    Scenario("a report", _report, ON),
    Scenario("a migration", _migration, ON),
    Scenario("few rollbacks, as a monitor", _few_rollbacks, ON, role="monitor"),
)  # fmt: skip
