"""What does it cost to look at a log that floods? Throughput with the log's collectors against without.

`python -m benchmarks.log_flood` runs pgbench on a server that logs everything (log_min_messages =
debug5, log_statement = all), in rounds of both sides in random order, each round followed by its
reverse. It prints the ratio of throughput with its interval, the processor time of this process within
the window (on a machine that is not quiet, throughput alone tells little), how fast the log grew, and
how fast it was read after the window.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clients import Command, run_to_end
from benchmarks.pgbench import processed
from benchmarks.rounds import orders, paired_ratio
from benchmarks.stage import server_settings
from pgdrag.collectors import Collector, Observer, Window, sampling
from pgdrag.collectors._log import LogCollector, LogReading
from pgdrag.collectors.autovacuum import Autovacuum
from pgdrag.collectors.checkpoints import Checkpoints
from pgdrag.collectors.messages import Messages
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep

FLOOD = {"log_min_messages": "debug5", "log_statement": "all", "synchronous_commit": "off"}
SCALE = 5
CLIENTS = 4
WITH, WITHOUT = "with", "without"


@dataclass(frozen=True)
class Done:
    """What one window came to: transactions, and processor time of this process."""

    transactions: int
    cpu_s: float


@dataclass(frozen=True)
class Read:
    """What reading the log after one window came to."""

    seconds: float
    lines: int
    size: int


def main() -> int:
    """Run the rounds and print what they came to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.log_flood", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=8, help="of both sides (default: 8)")
    parser.add_argument(
        "--window", type=int, default=10, metavar="SECONDS", help="of each run (default: 10)"
    )
    asked = parser.parse_args()
    runs: dict[str, list[Done]] = {WITH: [], WITHOUT: []}
    reads: list[Read] = []
    with _server() as cluster:
        for number, order in enumerate(orders([WITH, WITHOUT], asked.rounds, seed=1), start=1):
            for side in order:
                # The server appends: an emptied file goes on at its beginning.
                for path in cluster.log_files():
                    os.truncate(path, 0)
                if side == WITH:
                    done, read = _watched(cluster, asked.window)
                    reads.append(read)
                else:
                    done = _run(cluster, asked.window)
                runs[side].append(done)
            print(f"round {number} of {asked.rounds}", file=sys.stderr)
    _tell(runs, reads, asked.window)
    return 0


@contextmanager
def _server() -> Iterator[Cluster]:
    scratch = Scratch.open()
    sweep(scratch)
    with Cluster.create(scratch, find_binaries(None)) as cluster:
        cluster.initdb()
        cluster.configure(server_settings())
        cluster.start()
        run_to_end(
            _pgbench(cluster, "--initialize", "--quiet", "--scale", str(SCALE)), timeout_s=120
        )
        cluster.configure({**server_settings(), **FLOOD})
        cluster.reload()
        yield cluster


def _watched(cluster: Cluster, window_s: int) -> tuple[Done, Read]:
    collectors: list[LogCollector] = [Checkpoints(), Autovacuum(), Messages()]
    looking: list[Collector] = [*collectors]
    with cluster.connect() as connection:
        observer = Observer(cluster, connection)
        for collector in looking:
            collector.before(observer)
        started = time.time()
        with sampling(looking, observer):
            done = _run(cluster, window_s)
        finished = time.time()
        reading_s = time.monotonic()
        for collector in looking:
            collector.after(observer)
            collector.afterwards(observer)
        reading_s = time.monotonic() - reading_s
    found = collectors[0].reading
    assert isinstance(found, LogReading), found
    lines = found.messages_within(Window(window_s, done.transactions, started, finished))
    return done, Read(reading_s, lines, cluster.log_bytes())


def _run(cluster: Cluster, window_s: int) -> Done:
    begun_s = time.process_time()
    _, output = run_to_end(
        _pgbench(
            cluster,
            *("--no-vacuum", "--protocol", "prepared", "--builtin", "simple-update"),
            *("--client", str(CLIENTS), "--time", str(window_s)),
        ),
        timeout_s=window_s + 60,
    )
    return Done(processed(output), time.process_time() - begun_s)


def _pgbench(cluster: Cluster, *arguments: str) -> Command:
    place = ("--host", str(cluster.socket_directory), "--port", str(cluster.port))
    program: Path = cluster.binaries.bin_dir / "pgbench"
    return Command(
        [program, *place, "--username", cluster.load_superuser, *arguments, cluster.database]
    )


def _tell(runs: dict[str, list[Done]], reads: list[Read], window_s: int) -> None:
    tps = {side: [done.transactions / window_s for done in runs[side]] for side in runs}
    ratio = paired_ratio(tps[WITH], tps[WITHOUT])
    interval = "" if ratio.low is None else f" (95 %: {ratio.low:.3f} to {ratio.high:.3f})"
    means = {side: statistics.fmean(values) for side, values in tps.items()}
    cpu_s = {side: statistics.fmean(done.cpu_s for done in runs[side]) for side in runs}
    of_machine = (cpu_s[WITH] - cpu_s[WITHOUT]) / window_s / (os.cpu_count() or 1)
    lines, size = sum(read.lines for read in reads), sum(read.size for read in reads)
    seconds = sum(read.seconds for read in reads)
    print(
        f"throughput with the log's collectors / without: {ratio.center:.3f}{interval},"
        f" {ratio.rounds} rounds"
    )
    print(f"  {means[WITH]:,.0f} and {means[WITHOUT]:,.0f} transactions/s, {CLIENTS} clients")
    print(
        f"processor time of looking within the window: {cpu_s[WITH] * 1000:.0f} ms against"
        f" {cpu_s[WITHOUT] * 1000:.0f} ms without, {of_machine:.3%} of the machine"
    )
    print(f"the log grew by {size / len(reads) / window_s * 60 / 1e6:,.0f} MB a minute")
    print(
        f"after a window of it, looking took {seconds / len(reads):.2f} s:"
        f" {lines / seconds:,.0f} lines/s, {size / seconds / 1e6:,.0f} MB/s"
    )


if __name__ == "__main__":
    sys.exit(main())
