"""How often does pgdrag see a difference where there is none? Compares a server with itself, many times.

`make aa` runs `pgdrag compare default default --allow-identical` so often, on real servers, and counts the verdicts:
at most one in twenty may be "faster" or "slower", and at most one in twenty may name a mechanism. With
`--against track_functions=all` the second side changes something, but nothing that matters.
build/aa.json has each run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pgdrag.findings.mechanisms.analysis import NAMED_SHARE
from pgdrag.units import format_duration, format_ratio

SHORT = ("--workload", "pgbench", "--pgbench-scale", "10", "--warm-up", "2", "--measure", "5")
SHORT_PAIRS = 12
LONGEST_S = 3600.0


@dataclass(frozen=True)
class Run:
    """One comparison of a server with itself.

    Attributes:
        slowdown: [low, center, high] of the second side against the first.
        mechanisms: named for it.
        took_s: the whole run, in seconds.
    """

    verdict: str
    slowdown: tuple[float | None, float | None, float | None]
    pairs: int
    detectable: float | None
    took_s: float
    mechanisms: tuple[str, ...]


def main() -> int:
    """Run the comparisons; 1 where more than one in twenty saw a difference."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.a_against_a", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="so many comparisons (default: 20)")
    parser.add_argument(
        "--against",
        default="default",
        help="the second side, which must be as good as the first (default: the same)",
    )
    parser.add_argument(
        "--max-pairs",
        type=int,
        default=SHORT_PAIRS,
        help="pairs of each at most (default: %(default)s)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/aa.json"),
        help="where the runs go (default: %(default)s)",
    )
    parser.add_argument(
        "options",
        nargs="*",
        help="options of pgdrag compare, behind -- (default: pgbench, scale 10, short windows)",
    )
    asked = parser.parse_args()
    options = asked.options or list(SHORT)
    runs: list[Run] = []
    talk = Console(stderr=True)
    for number in range(1, asked.runs + 1):
        runs.append(_compare(asked.against, [*options, "--max-pairs", str(asked.max_pairs)]))
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps([asdict(run) for run in runs], indent=2) + "\n")
        left_s = (asked.runs - number) * sum(run.took_s for run in runs) / number
        talk.print(
            f"{number} of {asked.runs}: {runs[-1].verdict}, {format_duration(round(left_s))} left"
        )
    Console(width=100).print(_table(runs))
    wrong = sum(run.verdict in ("faster", "slower") for run in runs)
    named = sum(bool(run.mechanisms) for run in runs)
    talk.print(f"{wrong} of {len(runs)} saw a difference where there is none")
    talk.print(f"{named} of {len(runs)} named a mechanism of it")
    return 0 if 20 * max(wrong, named) <= len(runs) else 1


def _compare(against: str, options: list[str]) -> Run:
    began_s = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "pgdrag",
        "compare",
        "default",
        against,
        "--allow-identical",
        "--json",
        "--yes",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    if done.returncode != 0:
        raise SystemExit(f"pgdrag compare ended with {done.returncode}:\n{done.stderr}")
    report = json.loads(done.stdout)
    found, rungs = report["found"], report["rungs"]
    slowdown = found["slowdown"] or {"low": None, "center": None, "high": None}
    return Run(
        found["verdict"],
        (slowdown["low"], slowdown["center"], slowdown["high"]),
        len(found["pairs"]),
        found["detectable"],
        round(time.monotonic() - began_s, 1),
        tuple(
            one["name"]
            for rung in rungs
            for one in rung["mechanisms"]["found"]
            if one["is_shown"] and (one["share"] or 0.0) >= NAMED_SHARE
        ),
    )


def _table(runs: list[Run]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in (
        "run",
        "verdict",
        "times slower",
        "95 % interval",
        "pairs",
        "could have seen",
        "took",
        "mechanisms",
    ):
        table.add_column(title, justify="left" if title == "verdict" else "right")
    for number, run in enumerate(runs, start=1):
        low, center, high = (float("nan") if x is None else x for x in run.slowdown)
        table.add_row(
            str(number),
            run.verdict,
            format_ratio(center),
            f"{low:.4f} - {high:.4f}",
            str(run.pairs),
            "" if run.detectable is None else format_ratio(run.detectable),
            format_duration(round(run.took_s)),
            ", ".join(run.mechanisms) or "none",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
