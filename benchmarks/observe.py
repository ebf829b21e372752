"""What does it cost a server to be observed, or captured? Throughput while pgdrag works against while it stands still.

`python -m benchmarks.observe` runs pgbench once, without a break, and `pgdrag observe` beside it (with `--what twin`
`pgdrag capture twin`): in turns of some seconds the observer works, or is stopped (SIGSTOP), in rounds of both sides in random
order, each round followed by its reverse. Both sides are thus of the same minute, the same tables and the same sessions.

What it costs is less than what throughput varies by. So the observer looks `--times` as often as it does for a user, and what is lost is
divided by how many times as many queries it sent a second. That assumes that a query costs the same however often it comes. The same
load before the turns, with an observer as users have it, shows whether that holds: it tells the processor time of the observer and
of the server's process for it, a query. Where it is more than in the turns, the loss is taken as that much larger.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.clients import Command, run_to_end
from benchmarks.observe_often import COUNT_BYTES
from benchmarks.rounds import Ratio, orders, paired_ratio
from benchmarks.stage import server_settings
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from pgdrag.units import parse_seconds

WITH, WITHOUT = "with", "without"
SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "synchronous_commit": "off"}
GOAL = 0.99
SCALE, CLIENTS = 10, 8
STARTING_S = 30  # of two observers, at most
# What each says once it works.
_BEGUN = {"observe": "1 sample", "twin": " left"}
_PROGRESS = re.compile(r"progress: ([\d.]+) s, ([\d.]+) tps")


@dataclass
class Spent:
    """What an observer and the server's process for it took while it worked."""

    queries: int = 0
    cpu_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def cpu_us(self) -> float:
        """Processor time a query, in microseconds."""
        return self.cpu_s / self.queries * 1e6

    @property
    def of_machine(self) -> float:
        """Share of all processors."""
        return self.cpu_s / self.elapsed_s / (os.cpu_count() or 1)


@dataclass
class Turns:
    """What the turns of one side came to: transactions per second, and what the observer took."""

    tps: list[float] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)


def main() -> int:
    """Run the turns and print what they came to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.observe", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=36, help="of both sides (default: 36)")
    parser.add_argument(
        "--turn",
        type=int,
        default=3,
        metavar="SECONDS",
        help="of each side in a round (default: 3)",
    )
    parser.add_argument(
        "--every", default="10s", metavar="TIME", help="of the observer (default: 10s)"
    )
    parser.add_argument(
        "--times",
        type=int,
        default=20,
        help="how many times as often it looks in the turns (default: 20)",
    )
    parser.add_argument(
        "--usual",
        type=int,
        default=60,
        metavar="SECONDS",
        help="for which it looks as often as usual, before the turns (default: 60)",
    )
    parser.add_argument(
        "--what", choices=list(_BEGUN), default="observe", help="runs beside it (default: observe)"
    )
    parser.add_argument(
        "--builtin", default="tpcb-like", help="pgbench's script (default: tpcb-like)"
    )
    asked = parser.parse_args()
    # A shell's background job ignores it, and so would the observers, which it ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sides = [side for order in orders([WITH, WITHOUT], asked.rounds, seed=1) for side in order]
    found = {WITH: Turns(), WITHOUT: Turns()}
    every_s = parse_seconds(asked.every)
    length_s = asked.turn * len(sides) + asked.usual + STARTING_S
    with _server() as cluster, _load(cluster, asked.builtin, length_s) as load:
        with _observer(cluster, asked.what, every_s, times=1) as observer:
            usual = Turns()
            _take_turn(observer, usual, WITH, load, asked.usual)
        with _observer(cluster, asked.what, every_s, times=asked.times) as observer:
            for number, side in enumerate(sides, start=1):
                _take_turn(observer, found[side], side, load, asked.turn)
                if number % 10 == 0:
                    print(f"turn {number} of {len(sides)}", file=sys.stderr)
    how = f"observed every {asked.every}" if asked.what == "observe" else "captured"
    return _tell(found, usual.spent, how)


class _Observer:
    """A process of pgdrag's, and the server's for it."""

    def __init__(self, process: subprocess.Popen[str], backend_pid: int, count: Path) -> None:
        self.process = process
        self._both = [psutil.Process(process.pid), psutil.Process(backend_pid)]
        self._count = count

    def spent(self) -> tuple[int, float]:
        """Return how many queries it sent so far, and the processor time of both, in seconds."""
        times = [process.cpu_times() for process in self._both]
        queries = int.from_bytes(self._count.read_bytes(), sys.byteorder)
        return queries, sum(x.user + x.system for x in times)


class _Load:
    """What pgbench says of each second, as it says it."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._seconds: queue.Queue[float] = queue.Queue()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[str]) -> None:
        for line in lines:
            if found := _PROGRESS.match(line):
                self._seconds.put(float(found[2]))

    def align(self) -> None:
        """Wait for the next second's beginning."""
        while not self._seconds.empty():
            self._seconds.get()
        self.next()

    def next(self) -> float:
        """Wait for a second's end, and return its transactions."""
        return self._seconds.get(timeout=30)


def _take_turn(observer: _Observer, turns: Turns, side: str, load: _Load, length: int) -> None:
    if not turns.tps:
        load.align()
    observer.process.send_signal(signal.SIGCONT if side == WITH else signal.SIGSTOP)
    begin_s, (queries, cpu_s) = time.monotonic(), observer.spent()
    turns.tps.append(statistics.fmean(load.next() for _ in range(length)))
    sent, took_s = observer.spent()
    turns.spent.queries += sent - queries
    turns.spent.cpu_s += took_s - cpu_s
    turns.spent.elapsed_s += time.monotonic() - begin_s


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
def _load(cluster: Cluster, builtin: str, length_s: int) -> Iterator[_Load]:
    what = ("--no-vacuum", "--protocol", "prepared", "--builtin", builtin, "--progress", "1")
    command = _pgbench(cluster, *what, "--client", str(CLIENTS), "--time", str(length_s))
    with subprocess.Popen(
        list(command.argv), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        try:
            yield _Load(process.stderr)
        finally:
            process.terminate()


@contextmanager
def _observer(cluster: Cluster, what: str, every_s: float, *, times: int) -> Iterator[_Observer]:
    """Start the observer, and yield it once it has taken a sample."""
    place = f"host={cluster.socket_directory} port={cluster.port} user={cluster.superuser} dbname={cluster.database}"
    with tempfile.TemporaryDirectory(prefix="pgdrag-observe.") as directory:
        file, count = Path(directory) / "bench.obs", Path(directory) / "queries"
        count.write_bytes(bytes(COUNT_BYTES))
        asked = {
            "observe": ("observe", place, "--every", f"{every_s / times:g}s", "--out", str(file)),
            "twin": ("capture", "twin", place, "--for", "6h", "--output", str(file)),
        }[what]
        program = [sys.executable, "-m", "benchmarks.observe_often", str(times), str(count)]
        process = subprocess.Popen([*program, *asked], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            if not any(_BEGUN[what] in line for line in process.stderr):
                raise SystemExit("error: the observer ended before its first sample")
            with cluster.connect() as connection:
                ((pid,),) = connection.execute(
                    "SELECT pid FROM pg_stat_activity"
                    " WHERE application_name LIKE 'pgdrag%' AND pid <> pg_backend_pid()"
                ).fetchall()
            yield _Observer(process, pid, count)
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


def usual_ratio(often: Ratio, often_spent: Spent, usual: Spent) -> Ratio:
    """Return the ratio of throughput that an observer as users have it costs.

    Args:
        often: the ratio beside one that looks more often.
        often_spent, usual: what both took.
    """
    rate = often_spent.queries / often_spent.elapsed_s / (usual.queries / usual.elapsed_s)
    share = max(usual.cpu_us / often_spent.cpu_us, 1.0) / rate

    def part(ratio: float) -> float:
        return math.exp(math.log(ratio) * share)

    low, high = (None if x is None else part(x) for x in (often.low, often.high))
    return Ratio(part(often.center), low, high, often.noise, often.rounds)


def _tell(found: dict[str, Turns], usual: Spent, how: str) -> int:
    often = paired_ratio(found[WITH].tps, found[WITHOUT].tps)
    spent = found[WITH].spent
    ratio = usual_ratio(often, spent, usual)
    means = {side: statistics.fmean(turns.tps) for side, turns in found.items()}
    times = spent.queries / spent.elapsed_s / (usual.queries / usual.elapsed_s)
    print(f"throughput {how} / left alone: {_words(ratio, 5)}")
    print(
        f"  from {_words(often, 4)} with {times:.1f} times as many queries a second, {often.rounds} rounds of turns"
    )
    print(f"  ({means[WITH]:,.0f} and {means[WITHOUT]:,.0f} transactions/s, {CLIENTS} clients)")
    print(
        f"processor time of the observer and of the server's process for it: {usual.of_machine:.3%} of the machine"
    )
    print(
        f"  a query: {usual.cpu_us:,.0f} us as often as usual, {spent.cpu_us:,.0f} us in the turns ({usual.queries:,} and {spent.queries:,} queries)"
    )
    is_met = usual.of_machine < 1 - GOAL and (ratio.high is None or ratio.high >= GOAL)
    print(
        f"under 1 %: {'yes' if is_met and (ratio.low or 0) >= GOAL else 'not shown' if is_met else 'no'}"
    )
    return EXIT_DONE if is_met else EXIT_FAILED_CHECK


def _words(ratio: Ratio, digits: int) -> str:
    interval = (
        "" if ratio.low is None else f" (95 %: {ratio.low:.{digits}f} to {ratio.high:.{digits}f})"
    )
    return f"{ratio.center:.{digits}f}{interval}"


if __name__ == "__main__":
    sys.exit(main())
