"""How many connections and arrivals a second can one driver take? Against a server that does nothing, to find the driver's own limits.

The stub is `crates/pgdrag-driver/examples/stub_server.rs`. What arrives and is not done within the window counts as missed; how late
arrivals began is in the rows' notes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import driver_job
from benchmarks.clients import BenchmarkError, Command, run_to_end, running
from benchmarks.contest import Setting
from benchmarks.driver_job import Script
from benchmarks.rounds import paired_ratio
from benchmarks.rows import Row, measured_row, missing_row

STUB = Path(__file__).parents[1] / "target" / "release" / "examples" / "stub_server"
STUB_THREADS = 2
ROUNDS = 3
DURATION_S = 4.0
RUN_S = DURATION_S + 2
MIB = 2**20
IN_TIME = ">= 0.98"  # of the arrivals; the margin of `make bench`
SELECT = Script("select", "\\set aid random(1, 100000)\nSELECT abalance FROM t WHERE aid = :aid;\n")
NOTHING = Script("nothing", "\\set aid random(1, 100000)\n")


@dataclass(frozen=True)
class Load:
    """What is asked of the driver, and `what` its rows call it."""

    what: str
    script: Script
    connections: int
    threads: int
    rate_per_s: int


LOADS = (
    Load("10,000 connections, 20,000 arrivals/s", SELECT, 10_000, 1, 20_000),
    Load("500,000 arrivals/s, two threads", SELECT, 64, 2, 500_000),
    Load("500,000 arrivals/s without a statement, one thread", NOTHING, 64, 1, 500_000),
)


@dataclass(frozen=True)
class Place:
    """Where the stub listens, as a driver's job has it."""

    host: str
    tcp_host: str = ""
    port: int = 5432
    user: str = "stub"
    password: str | None = None


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    return len(LOADS) * _rounds(setting) * RUN_S


def run(setting: Setting) -> Iterator[Row]:
    """Yield a row for each load: the arrivals that were done, as a share of those that came."""
    with _stub() as place:
        for load in LOADS:
            if setting.is_interrupted:
                return
            yield _row(setting, place, load)


def _row(setting: Setting, place: Place, load: Load) -> Row:
    name, peer = f"{load.what}: done / arrived", "the schedule"
    done: list[dict[str, object]] = []
    try:
        for number in range(_rounds(setting)):
            label = f"scale: round {number + 1} of {_rounds(setting)}, {load.what}"
            with setting.progress.step(label, RUN_S):
                _, output = run_to_end(_command(setting, place, load), timeout_s=120)
                done.append(driver_job.done_line(output))
    except KeyboardInterrupt:
        setting.is_interrupted = True
    if not done:
        return missing_row(name, setting.subject, peer, IN_TIME, "interrupted")
    rates = [driver_job.committed_in(line) / DURATION_S for line in done]
    offered = [float(load.rate_per_s)] * len(done)
    return measured_row(
        name,
        setting.subject,
        peer,
        paired_ratio(rates, offered),
        IN_TIME,
        values=(statistics.median(rates), offered[0]),
        unit="/s",
        note=_note(done),
    )


def _note(done: list[dict[str, object]]) -> str:
    def median(part: str, key: str) -> float:
        return statistics.median(float(line[part][key] or 0) for line in done)  # type: ignore[index]

    cpu_s = median("driver", "user_cpu_s") + median("driver", "system_cpu_s")
    return (
        f"began {median('arrivals', 'queue_us_p50'):,.0f} µs after it was due at the median, "
        f"{median('arrivals', 'queue_us_p99'):,.0f} µs at p99, {median('arrivals', 'queue_us_max'):,.0f} µs at most; "
        f"a free client was {median('driver', 'lateness_us_p99'):,.0f} µs late at p99; "
        f"{cpu_s / DURATION_S:.2f} processors, {median('driver', 'max_rss_bytes') / MIB:.0f} MiB"
    )


def _command(setting: Setting, place: Place, load: Load) -> Command:
    return driver_job.run_command(
        setting.driver,
        place,
        driver_job.scripts(1, "prepared", load.script),
        database="stub",
        connections=load.connections,
        threads=load.threads,
        duration_s=DURATION_S,
        seed=setting.seed,
        pacing={
            "kind": "open",
            "rate_per_s": load.rate_per_s,
            "arrivals": "poisson",
            "backlog_limit": load.rate_per_s,
        },
    )


@contextmanager
def _stub() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="pgdrag-stub-") as directory:
        place = Place(directory)
        socket = Path(directory) / f".s.PGSQL.{place.port}"
        with running(Command([STUB, socket, str(STUB_THREADS)])) as stub:
            deadline = time.monotonic() + 10
            while not socket.exists():
                if time.monotonic() > deadline:
                    raise BenchmarkError("stub server does not listen", detail=stub.output())
                stub.sleep(0.05)
            yield place


def _rounds(setting: Setting) -> int:
    return 1 if setting.is_quick else min(ROUNDS, setting.rounds)
