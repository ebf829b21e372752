"""What does it cost a server to be observed, or captured? Throughput while pgdrag works against while it stands still.

`python -m benchmarks.observe` runs pgbench once, without a break, and `pgdrag observe` beside it (with `--what twin`
`pgdrag capture twin`): in turns of some seconds
the observer works, or is stopped (SIGSTOP), in rounds of both sides in random order, each round followed by its reverse. Both sides
are thus of the same minute, the same tables and the same sessions. It prints the ratio of throughput with its
interval, and the processor time that the observer and the server's process for it took while it worked, of the whole machine: what
is lost at most where processors are what is short.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.clients import Command, run_to_end
from benchmarks.rounds import orders, paired_ratio
from benchmarks.stage import server_settings
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep

WITH, WITHOUT = "with", "without"
SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "synchronous_commit": "off"}
GOAL = 0.99
SCALE, CLIENTS = 10, 8
# What each says once it works.
_BEGUN = {"observe": "1 sample", "twin": " left"}
_PROGRESS = re.compile(r"progress: ([\d.]+) s, ([\d.]+) tps")


@dataclass
class Turns:
    """What the turns of one side came to: transactions per second, and processor time."""

    tps: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    elapsed_s: float = 0.0


def main() -> int:
    """Run the turns and print what they came to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.observe", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=40, help="of both sides (default: 40)")
    parser.add_argument(
        "--turn",
        type=int,
        default=5,
        metavar="SECONDS",
        help="of each side in a round (default: 5)",
    )
    parser.add_argument(
        "--every", default="10s", metavar="TIME", help="of the observer (default: 10s)"
    )
    parser.add_argument(
        "--what", choices=list(_BEGUN), default="observe", help="runs beside it (default: observe)"
    )
    parser.add_argument(
        "--builtin", default="tpcb-like", help="pgbench's script (default: tpcb-like)"
    )
    asked = parser.parse_args()
    sides = [side for order in orders([WITH, WITHOUT], asked.rounds, seed=1) for side in order]
    found = {WITH: Turns(), WITHOUT: Turns()}
    with _server() as cluster, _observer(cluster, asked.what, asked.every) as observer:
        length_s = asked.turn * (len(sides) + 1) + 5
        load = _pgbench(
            cluster,
            *(
                "--no-vacuum",
                "--protocol",
                "prepared",
                "--builtin",
                asked.builtin,
                "--progress",
                "1",
            ),
            *("--client", str(CLIENTS), "--time", str(length_s)),
        )
        with subprocess.Popen(
            list(load.argv), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stderr is not None
            seconds = _seconds(process.stderr)
            for _ in range(asked.turn):
                next(seconds)
            for number, side in enumerate(sides, start=1):
                _take_turn(observer, found[side], side, seconds, asked.turn)
                if number % 10 == 0:
                    print(f"turn {number} of {len(sides)}", file=sys.stderr)
            process.terminate()
    how = f"observed every {asked.every}" if asked.what == "observe" else "captured"
    return _tell(found, how)


def _take_turn(
    observer: list[psutil.Process], turns: Turns, side: str, seconds: Iterator[float], length: int
) -> None:
    own = observer[0]
    own.send_signal(signal.SIGCONT if side == WITH else signal.SIGSTOP)
    begin_s, cpu_s = time.monotonic(), _cpu_s(observer)
    turns.tps.append(statistics.fmean(next(seconds) for _ in range(length)))
    turns.cpu_s += _cpu_s(observer) - cpu_s
    turns.elapsed_s += time.monotonic() - begin_s


def _seconds(lines: Iterator[str]) -> Iterator[float]:
    """Yield pgbench's transactions of each second as it says them."""
    for line in lines:
        if found := _PROGRESS.match(line):
            yield float(found[2])


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(x.user + x.system for x in (process.cpu_times() for process in processes))


@contextmanager
def _server() -> Iterator[Cluster]:
    scratch = Scratch.open()
    sweep(scratch)
    with Cluster.create(scratch, find_binaries(None)) as cluster:
        cluster.initdb()
        cluster.configure({**server_settings(), **SETTINGS})
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
        run_to_end(
            _pgbench(cluster, "--initialize", "--quiet", "--scale", str(SCALE)), timeout_s=120
        )
        yield cluster


@contextmanager
def _observer(cluster: Cluster, what: str, every: str) -> Iterator[list[psutil.Process]]:
    """Start the observer, and yield its process and the server's for it, once it has taken a sample."""
    place = f"host={cluster.socket_directory} port={cluster.port} user={cluster.superuser} dbname={cluster.database}"
    with tempfile.TemporaryDirectory(prefix="pgdrag-observe.") as directory:
        file = str(Path(directory) / "bench.obs")
        asked = {
            "observe": ("observe", place, "--every", every, "--out", file),
            "twin": ("capture", "twin", place, "--for", "6h", "--output", file),
        }[what]
        process = subprocess.Popen(
            [sys.executable, "-m", "pgdrag", *asked], stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stderr is not None
            if not any(_BEGUN[what] in line for line in process.stderr):
                raise SystemExit("error: the observer ended before its first sample")
            with cluster.connect() as connection:
                # Nobody else is there.
                ((pid,),) = connection.execute(
                    "SELECT pid FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                ).fetchall()
            yield [psutil.Process(process.pid), psutil.Process(pid)]
        finally:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
            print(said.strip(), file=sys.stderr)


def _pgbench(cluster: Cluster, *arguments: str) -> Command:
    place = ("--host", str(cluster.socket_directory), "--port", str(cluster.port))
    program: Path = cluster.binaries.bin_dir / "pgbench"
    return Command(
        [program, *place, "--username", cluster.load_superuser, *arguments, cluster.database]
    )


def _tell(found: dict[str, Turns], how: str) -> int:
    ratio = paired_ratio(found[WITH].tps, found[WITHOUT].tps)
    interval = "" if ratio.low is None else f" (95 %: {ratio.low:.4f} to {ratio.high:.4f})"
    means = {side: statistics.fmean(turns.tps) for side, turns in found.items()}
    of_machine = found[WITH].cpu_s / found[WITH].elapsed_s / (os.cpu_count() or 1)
    print(f"throughput {how} / left alone: {ratio.center:.4f}{interval}, {ratio.rounds} rounds")
    print(f"  {means[WITH]:,.0f} and {means[WITHOUT]:,.0f} transactions/s, {CLIENTS} clients")
    print(
        f"processor time of the observer and of the server's process for it: {of_machine:.3%} of the machine"
    )
    is_met = of_machine < 1 - GOAL and (ratio.high is None or ratio.high >= GOAL)
    print(
        f"under 1 %: {'yes' if is_met and (ratio.low or 0) >= GOAL else 'not shown' if is_met else 'no'}"
    )
    return EXIT_DONE if is_met else EXIT_FAILED_CHECK


if __name__ == "__main__":
    sys.exit(main())
