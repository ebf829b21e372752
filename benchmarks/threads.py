"""Is the number of driver threads that pgdrag chooses the right one? It, beside one thread and one a processor.

`python -m benchmarks.threads` lets probes choose for a load, as at the start of a run, and then runs the same clients in
rounds of all numbers in random order, each round followed by its reverse. It prints what was chosen, and throughput and
processor time per transaction of each number by those of one thread, with their intervals.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.generators import pgbench_server, words_of
from benchmarks.rounds import orders, paired_ratio
from pgdrag.driver.choosing_threads import choose_threads
from pgdrag.driver.process import Driver, Target, find_driver
from pgdrag.errors import EXIT_DONE
from pgdrag.findings.driver_limits import cpu_us_per_transaction
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import builtin_script

SCRIPTS = ("select-only", "tpcb-like")


def main() -> int:
    """Run the rounds of each script and print what they came to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.threads", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=6, help="of all numbers (default: 6)")
    parser.add_argument(
        "--window", type=float, default=5.0, metavar="SECONDS", help="of each (default: 5)"
    )
    parser.add_argument("--clients", type=int, default=8, help="in all (default: 8)")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables (default: 10)")
    asked = parser.parse_args()
    driver = Driver(find_driver())
    load = LoadProfile(asked.clients, 1.0, asked.window, asked.window, min_commits=0, threads=None)
    with pgbench_server(driver, asked.clients, scale=asked.scale) as target:
        for script in SCRIPTS:
            job = pgbench_job((builtin_script(script),), scale=asked.scale, statements="prepared")
            _compare(script, driver, target, job, load, asked.rounds)
    return EXIT_DONE


def _compare(
    script: str,
    driver: Driver,
    target: Target,
    job: Mapping[str, object],
    load: LoadProfile,
    rounds: int,
) -> None:
    def run(one: LoadProfile, seed: int = 0) -> Measurement:
        return driver.run(target, job, one, seed=seed)

    chosen = choose_threads(load, run)
    print(f"{script}: {chosen.words}")
    processors = len(os.sched_getaffinity(0))
    numbers = sorted({1, chosen.threads, min(processors, load.connections)})
    found: dict[int, list[Measurement]] = {number: [] for number in numbers}
    for number, order in enumerate(orders([str(x) for x in numbers], rounds, seed=1), 1):
        for threads in map(int, order):
            found[threads].append(run(replace(load, threads=threads), seed=number))
        print(f"{script}: round {number} of {rounds}", file=sys.stderr)
    for threads in numbers[1:]:
        tps, cpu_us, busy = (
            {x: [of(one) or 0.0 for one in found[x]] for x in (1, threads)}
            for of in (
                lambda one: one.committed_per_s,
                cpu_us_per_transaction,
                lambda one: one.busy_share,
            )
        )
        print(
            f"{script}, {threads} threads / 1: throughput {words_of(paired_ratio(tps[threads], tps[1]))}, processor "
            f"time {words_of(paired_ratio(cpu_us[threads], cpu_us[1]))}; busiest thread {max(busy[1]):.0%} and {max(busy[threads]):.0%}"
        )


if __name__ == "__main__":
    sys.exit(main())
