"""What does it cost to divide a load between generators? One driver's throughput against that of two together.

`python -m benchmarks.generators` runs the same clients on the same number of driver threads in rounds of both sides in
random order, each round followed by its reverse: one driver with two threads, and two generators with one thread each,
whose lines pgdrag merges. It prints the ratio of throughput, that of the drivers' processor time per
transaction, each with its interval, and the processor time that pgdrag itself took per second of window.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.rounds import Ratio, orders, paired_ratio
from pgdrag.bench import throw_away_server
from pgdrag.driver.process import Driver, Target, find_driver
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK
from pgdrag.findings.driver_limits import cpu_us_per_transaction
from pgdrag.model.load import LoadProfile
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
from pgdrag.workloads.pgbench import Tables, pgbench_job
from pgdrag.workloads.scripts import builtin_script

ONE, TWO = "one driver", "two generators"
GOAL = 0.97


@dataclass
class Side:
    """What the windows of one side came to."""

    tps: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    own_cpu_share: list[float] = field(default_factory=list)


def main() -> int:
    """Run the rounds and print what they came to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generators", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=12, help="of both sides (default: 12)")
    parser.add_argument(
        "--window", type=float, default=10.0, metavar="SECONDS", help="of each (default: 10)"
    )
    parser.add_argument("--clients", type=int, default=16, help="in all (default: 16)")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables (default: 10)")
    asked = parser.parse_args()
    driver = Driver(find_driver())
    sides = {ONE: Side(), TWO: Side()}
    loads = {
        ONE: LoadProfile(asked.clients, 1.0, asked.window, asked.window, min_commits=0, threads=2),
        TWO: LoadProfile(
            asked.clients, 1.0, asked.window, asked.window, min_commits=0, generators=("", "")
        ),
    }
    with pgbench_server(driver, asked.clients, scale=asked.scale) as target:
        for number, order in enumerate(orders(list(loads), asked.rounds, seed=1), 1):
            for name in order:
                _measure(driver, target, asked.scale, loads[name], sides[name], number)
            print(f"round {number} of {asked.rounds}", file=sys.stderr)
    return _tell(sides)


@contextmanager
def pgbench_server(driver: Driver, clients: int, *, scale: int) -> Iterator[Target]:
    """Create a throw-away server with pgbench's tables; it is removed at the end of the block."""
    scratch = Scratch.open()
    sweep(scratch)
    with throw_away_server(find_binaries(None), clients, scratch) as server:
        tables = pgbench_job((), scale=scale, tables=Tables())
        driver.load(server.target, tables, seed=1, parallelism=1, timeout_s=600)
        yield server.target


def _measure(
    driver: Driver, target: Target, scale: int, load: LoadProfile, side: Side, seed: int
) -> None:
    script = builtin_script("select-only")
    job = pgbench_job((script,), scale=scale, statements="prepared")
    with driver.driving(target, job, load, seed=seed) as driving:
        driving.warm_up()
        began_s, cpu_s = time.monotonic(), time.process_time()
        found = driving.measure()
        side.own_cpu_share.append((time.process_time() - cpu_s) / (time.monotonic() - began_s))
    side.tps.append(found.committed_per_s)
    side.cpu_us.append(cpu_us_per_transaction(found) or 0.0)


def _tell(sides: dict[str, Side]) -> int:
    one, two = sides[ONE], sides[TWO]
    throughput, cpu = paired_ratio(two.tps, one.tps), paired_ratio(two.cpu_us, one.cpu_us)
    print(f"throughput, {TWO} / {ONE}: {words_of(throughput)} (goal: at least {GOAL})")
    print(f"drivers' processor time per transaction, {TWO} / {ONE}: {words_of(cpu)}")
    for name, side in sides.items():
        print(
            f"{name}: {statistics.median(side.tps):,.0f}/s, {statistics.median(side.cpu_us):.1f} µs a transaction; "
            f"pgdrag itself took {statistics.median(side.own_cpu_share):.2%} of a processor"
        )
    # The goal is missed where the interval excludes it.
    return EXIT_DONE if (throughput.high or throughput.center) >= GOAL else EXIT_FAILED_CHECK


def words_of(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.center:.3f} (one round)"
    return f"{ratio.center:.3f} (95 % CI {ratio.low:.3f}–{ratio.high:.3f}, {ratio.rounds} rounds)"


if __name__ == "__main__":
    sys.exit(main())
