"""Is what a search claims true on a real server? Searches from other seeds, each claim against its own proof.

`python -m benchmarks.search_claims` runs `pgdrag search` so many times, one after the other, and prints what each
claimed and proved, the median of the difference, and how many claims' intervals hold what was proved. The goals are 3 %
and 95 %. What each came to is kept in build/search_claims.jsonl, so that ten searches, ten minutes each, can be run in
several goes; those of a seed that is there are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pgdrag.units import format_ratio

LOAD = ("--warm-up", "3", "--measure", "9", "--no-check")
SIZE = ("--trials", "24", "--clusters", "4", "--line-trials", "0")
WORKLOADS = {
    "tpcc": ("--workload", "tpcc", "--warehouses", "4"),
    "pgbench": ("--workload", "pgbench", "--pgbench-scale", "20"),
    # From a file that leaves something to gain: where there is nothing, nothing is claimed.
    "tpcc-slow": (
        "shared_buffers=8MB,max_wal_size=32MB,checkpoint_timeout=30s,work_mem=64kB",
        *("--workload", "tpcc", "--warehouses", "4"),
    ),
}
MOST_OFF, LEAST_COVERED = 0.03, 0.95
KEPT = Path("build/search_claims.jsonl")


@dataclass(frozen=True)
class Claim:
    """Ratios to the baseline: what a search claimed, and what fresh clusters proved."""

    low: float
    center: float
    high: float
    proved: float

    @property
    def off(self) -> float:
        """How much more was claimed than proved: a share of what was proved."""
        return self.center / self.proved - 1

    @property
    def covers(self) -> bool:
        """Whether the claim's interval holds what was proved."""
        return self.low <= self.proved <= self.high


def search(workload: str, goal: str, seed: int) -> Claim | None:
    """Run one search; None: it found nothing better than the baseline.

    Raises:
        SystemExit: the search failed.
    """
    command = [sys.executable, "-m", "pgdrag", "search", f"--{goal}", *WORKLOADS[workload]]
    command += [*LOAD, *SIZE, "--seed", str(seed), "--yes", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=False)
    if done.returncode:
        raise SystemExit(f"error: the search with seed {seed} ended with status {done.returncode}")
    found = json.loads(done.stdout)["found"]
    claimed, proved = found["claimed"], found["proved"]
    if claimed is None or proved is None:
        return None
    return Claim(claimed["low"], claimed["center"], claimed["high"], proved["center"])


def kept_search(workload: str, goal: str, seed: int) -> Claim | None:
    """Return what a search came to; it is run unless an earlier call did."""
    key = [workload, goal, seed]
    if KEPT.exists():
        for line in KEPT.read_text().splitlines():
            one = json.loads(line)
            if one["search"] == key:
                return None if one["claim"] is None else Claim(**one["claim"])
    claim = search(workload, goal, seed)
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a") as file:
        file.write(json.dumps({"search": key, "claim": claim and asdict(claim)}) + "\n")
    return claim


def main(arguments: Sequence[str]) -> int:
    """Run the searches and print what came of them."""
    parser = argparse.ArgumentParser(prog="search_claims", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, default="tpcc-slow")
    parser.add_argument("--goal", choices=("maximize", "minimize"), default="maximize")
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first search")
    options = parser.parse_args(arguments)
    out, table = Console(), Table("Seed", "Claimed", "95 % interval", "Proved", "Claimed too much")
    claims = []
    for seed in range(options.seed, options.seed + options.searches):
        claim = kept_search(options.workload, options.goal, seed)
        if claim is None:
            table.add_row(str(seed), "nothing")
            continue
        claims.append(claim)
        interval = f"{format_ratio(claim.low)} to {format_ratio(claim.high)}"
        table.add_row(
            str(seed),
            format_ratio(claim.center),
            interval,
            format_ratio(claim.proved),
            f"{claim.off:+.1%}",
        )
    out.print(table)
    if not claims:
        return 0
    off = statistics.median(one.off for one in claims)
    covered = sum(one.covers for one in claims) / len(claims)
    out.print(f"claimed too much, median: {off:+.1%} (goal: {MOST_OFF:.0%} at most)")
    out.print(f"intervals that hold what was proved: {covered:.0%} (goal: {LEAST_COVERED:.0%})")
    return 0 if off <= MOST_OFF and covered >= LEAST_COVERED else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
