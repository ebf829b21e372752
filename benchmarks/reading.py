"""What does it take to read a journal? Reports of 200 trials, and the list of a journal of 10,000, against bounds.

The journals are of the simulated laboratory. Processor time of the whole command, its start included: on an idle machine that is how
long it takes, and on a busy one it says as much.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.clients import Command, running
from benchmarks.contest import Setting
from benchmarks.rounds import paired_ratio
from benchmarks.rows import Row, measured_row
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Study
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

ROUNDS = 3
TRIALS, REPORT_S, REPORT_BYTES = 200, 5.0, 1e9
LISTED_TRIALS, LIST_S = 10_000, 0.3
TRIALS_A_RUN, RUNS = 20, 10  # that are simulated for the list; the others are copies of them
MAKE_S, ROUND_S = 7.0, 2.8
TRUTH = Truth(slowdowns={"f2": 1.5, "f7": 3.0}, noise=0.03, is_observed=True)
BOUND = "<= 1.00"


@dataclass(frozen=True)
class Read:
    """A command that reads a journal, and what it took in each round: seconds of processor time, and bytes at most.

    Attributes:
        goal: of processor time against its bound; "": for information.
    """

    what: str
    arguments: tuple[str, ...]
    home: Path
    bound_s: float
    goal: str = BOUND
    cpu_s: list[float] = field(default_factory=list)
    peak_bytes: list[float] = field(default_factory=list)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    return MAKE_S + len(_rounds(setting)) * ROUND_S


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows: processor time and memory of a report, processor time of the list."""
    with tempfile.TemporaryDirectory(prefix="pgdrag-reading-") as directory:
        with setting.progress.step("reading: make journals", MAKE_S):
            reads = _made(Path(directory))
        try:
            for number in _rounds(setting):
                with setting.progress.step(f"reading: round {number}", ROUND_S):
                    for one in reads:
                        _measure(one, is_counted=number > 0)
        except KeyboardInterrupt:
            setting.is_interrupted = True
    for one in reads:
        if one.cpu_s:
            name = f"{one.what}: processor time / {one.bound_s:g} s"
            yield _row(setting, name, one.cpu_s, one.bound_s, "s", one.goal)
    if reads[0].peak_bytes:
        peaks = [each / 1e6 for each in reads[0].peak_bytes]
        yield _row(
            setting, f"{reads[0].what}: memory / 1 GB", peaks, REPORT_BYTES / 1e6, "MB", BOUND
        )


def _made(directory: Path) -> tuple[Read, ...]:
    """Make journals, and return how they are read."""
    few, many = directory / "few", directory / "many"
    factors = [f"f{at}" for at in range(TRIALS_A_RUN)]
    _simulate(few, simulated_ladder(*factors, replicates=TRIALS // TRIALS_A_RUN), runs=1)
    _simulate(many, simulated_ladder(*factors[1:]), runs=RUNS)
    _copy_runs(many, LISTED_TRIALS // TRIALS_A_RUN // RUNS - 1)
    return (
        Read(
            f"report of {TRIALS} trials", ("report", "last", "--output", os.devnull), few, REPORT_S
        ),
        Read(f"list of {LISTED_TRIALS:,} trials", ("runs",), many, LIST_S),
        Read("list of no trial", ("runs",), directory / "none", LIST_S, goal=""),
    )


def _simulate(home: Path, study: Study, *, runs: int) -> None:
    journal = Journal(home / "journal.sqlite")
    for seed in range(runs):
        run_id = begin_simulated(journal, study, seed=seed)
        run_experiment(run_id, SimulatedTrialRunner(TRUTH, seed=seed), journal)
    journal.close()


def _copy_runs(home: Path, times: int) -> None:
    """Add copies of all runs under other names, with all that is known of them."""
    with closing(sqlite3.connect(home / "journal.sqlite")) as db, db:
        for table in ("run", "trial", "attempt", "sample", "exhibits"):
            rows = db.execute(f"SELECT * FROM {table}").fetchall()
            places = ", ".join("?" * len(rows[0]))
            db.executemany(
                f"INSERT INTO {table} VALUES ({places})",
                [
                    (f"{run_id}-copy{copy}", *rest)
                    for copy in range(times)
                    for run_id, *rest in rows
                ],
            )


def _measure(one: Read, *, is_counted: bool) -> None:
    argv = ["env", f"PGDRAG_HOME={one.home}", sys.executable, "-m", "pgdrag", *one.arguments]
    with running(Command(argv)) as client:
        usage = client.wait(120)
    if is_counted:
        one.cpu_s.append(usage.ru_utime + usage.ru_stime)
        one.peak_bytes.append(client.peak_bytes)


def _row(setting: Setting, name: str, own: list[float], bound: float, unit: str, goal: str) -> Row:
    ratio = paired_ratio(own, [bound] * len(own))
    medians = (statistics.median(own), bound)
    return measured_row(name, setting.subject, "the bound", ratio, goal, values=medians, unit=unit)


def _rounds(setting: Setting) -> range:
    """Return the rounds; the one numbered 0 compiles pgdrag's modules, and does not count."""
    return range(1, 2) if setting.is_quick else range(min(ROUNDS, setting.rounds) + 1)
