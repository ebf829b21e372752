"""How much memory does the driver take with 1,000 connections? Against the bound, and pgbench's."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

from benchmarks import driver_job, pgbench, tpcc
from benchmarks.clients import Command, measure_peak, run_to_end
from benchmarks.contest import Setting
from benchmarks.rounds import paired_ratio
from benchmarks.rows import Row, measured_row
from benchmarks.stage import Stage, stage

CONNECTIONS = 1000
BOUND_MIB = 64.0
ROUNDS = 3
DURATION_S = 10.0
RUN_S = DURATION_S + 5
LOAD_S = 25.0
MIB = 2**20
SETTINGS = {"max_connections": str(CONNECTIONS + 50), "shared_buffers": "512MB"}


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    return LOAD_S + 3 * _rounds(setting) * RUN_S


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows on memory: resident set at its largest, as the kernel counts it."""
    peaks: dict[str, list[float]] = {}
    with stage(SETTINGS) as server:
        select_only = pgbench.builtin(server.bin_dir, "select-only")
        with setting.progress.step("memory: load", LOAD_S):
            run_to_end(pgbench.initialize_command(server, 1), timeout_s=120)
            tpcc.load(setting, server, server.database)
        commands = {
            "select-only": _own(setting, server, driver_job.scripts(1, "prepared", select_only)),
            "TPC-C": _own(setting, server, driver_job.tpcc(tpcc.WAREHOUSES, "prepared")),
            "pgbench": pgbench.builtin_command(
                setting, server, "select-only", connections=CONNECTIONS, duration_s=DURATION_S
            ),
        }
        try:
            for number in range(_rounds(setting)):
                for name, command in commands.items():
                    label = f"memory: round {number + 1} of {_rounds(setting)}, {name}"
                    with setting.progress.step(label, RUN_S):
                        peak = measure_peak(command, timeout_s=DURATION_S + 120)
                        peaks.setdefault(name, []).append(peak / MIB)
        except KeyboardInterrupt:
            setting.is_interrupted = True
        version = f"pgbench {server.version}"
    what = f"memory at {CONNECTIONS:,} connections"
    bound = f"{BOUND_MIB:.0f} MiB"
    for name in ("select-only", "TPC-C"):
        own = peaks.get(name, [])
        if own:
            title = f"{what}, {name}, prepared: pgdrag / {bound}"
            yield _row(title, setting.subject, bound, own, [BOUND_MIB] * len(own), "<= 1.00")
    pairs = list(zip(peaks.get("select-only", []), peaks.get("pgbench", []), strict=False))
    if pairs:
        own, peer = ([pair[side] for pair in pairs] for side in (0, 1))
        title = f"{what}, select-only, prepared: pgdrag / pgbench"
        yield _row(title, setting.subject, version, own, peer, "")


def _row(
    name: str, subject: str, peer: str, own: list[float], other: list[float], goal: str
) -> Row:
    medians = (statistics.median(own), statistics.median(other))
    return measured_row(
        name, subject, peer, paired_ratio(own, other), goal, values=medians, unit="MiB"
    )


def _rounds(setting: Setting) -> int:
    return 1 if setting.is_quick else min(ROUNDS, setting.rounds)


def _own(setting: Setting, server: Stage, workload: Mapping[str, object]) -> Command:
    return driver_job.run_command(
        setting.driver,
        server,
        workload,
        database=server.database,
        connections=CONNECTIONS,
        threads=setting.threads,
        duration_s=DURATION_S,
        seed=setting.seed,
    )
