"""How does another program drive a server for one trial, and what is its measurement?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.errors import DriverError
from pgdrag.model import Counts, DriverCost, Latency, Measurement
from pgdrag.model.load import LoadProfile
from pgdrag.workloads._program import Ended, program_environment, run_program, whole_seconds
from pgdrag.workloads._reading import Figures, Unreadable

if TYPE_CHECKING:
    from pgdrag.driver.process import Target
    from pgdrag.workloads.command import Command

# What a program does not say; no SQLSTATE has five question marks.
UNKNOWN_STATE = "?????"
_LARGEST_RESULT_BYTES = 16 * 2**20


@dataclass(frozen=True)
class ProgramCaller:
    """Runs a workload's programs against one server, in the workload's directory."""

    target: Target
    directory: str

    def run(
        self, purpose: str, command: str, more: Mapping[str, str], *, timeout_s: float
    ) -> Ended:
        """Run a program that must succeed.

        Raises:
            DriverError: it did not.
        """
        ended = self.end_of(purpose, command, more, timeout_s=timeout_s)
        if ended.status != 0:
            how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
            raise DriverError(
                f"the {purpose} command ended with {how}",
                detail=ended.said or "It printed nothing.",
            )
        return ended

    def end_of(
        self, purpose: str, command: str, more: Mapping[str, str], *, timeout_s: float
    ) -> Ended:
        """Run a program to whatever end it comes.

        Raises:
            DriverError: it cannot be started, ran too long or printed too much.
        """
        environment = program_environment(self.target, {"PGDRAG_PHASE": purpose, **more})
        return run_program(
            command,
            directory=self.directory,
            environment=environment,
            timeout_s=timeout_s,
            purpose=f"the {purpose} command",
        )


class ProgramDriving:
    """A program in the driver's place: one run of it warms up, another is the window."""

    def __init__(
        self, caller: ProgramCaller, command: Command, load: LoadProfile, seed: int
    ) -> None:
        self._caller = caller
        self._command = command
        self._load = load
        self._seed = seed

    def warm_up(self) -> None:
        """Run the program for the warm-up, with another seed than in the window.

        Raises:
            DriverError: it failed or ran too long.
        """
        if self._load.warm_up_s > 0:
            with tempfile.TemporaryDirectory(prefix="pgdrag-results-") as results:
                # The same transactions would be cheaper the second time.
                self._run("warm-up", self._load.warm_up_s, self._seed ^ 1, results)

    def measure(self) -> Measurement:
        """Run the program for the window and return what it says that it did.

        Raises:
            DriverError: it failed, ran too long, or its result cannot be read.
        """
        asked_s = self._load.measure_s
        with tempfile.TemporaryDirectory(prefix="pgdrag-results-") as results:
            ended = self._run("measure", asked_s, self._seed, results)
            try:
                text = _result(self._command.reads_file, Path(results), ended)
                figures = self._command.read(text, asked_s)
            except Unreadable as problem:
                raise DriverError(
                    f"the command's result cannot be read: {problem}",
                    detail=ended.said or "It printed nothing.",
                ) from None
        return _measurement(figures, ended, self._command.transactions[0], self._load)

    def _run(self, purpose: str, seconds: float, seed: int, results: str) -> Ended:
        rate_per_s = self._load.rate_per_s
        more = {
            "PGDRAG_RESULTS": results,
            "PGDRAG_SEED": str(seed),
            "PGDRAG_CONNECTIONS": str(self._load.connections),
            "PGDRAG_DURATION_S": whole_seconds(seconds),
            "PGDRAG_RATE_PER_S": "" if rate_per_s is None else f"{rate_per_s:g}",
        }
        timeout_s = seconds + self._command.overtime_s
        return self._caller.run(purpose, self._command.command, more, timeout_s=timeout_s)


def _result(pattern: str | None, results: Path, ended: Ended) -> str:
    if pattern is None:
        return ended.output
    written = sorted(results.glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    if not written:
        raise Unreadable(f'it wrote no file "{pattern}" in PGDRAG_RESULTS')
    if written[-1].stat().st_size > _LARGEST_RESULT_BYTES:
        raise Unreadable(f'its file "{written[-1].name}" is larger than any result')
    try:
        return written[-1].read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Unreadable(f'its file "{written[-1].name}": {error.strerror}') from None


def _measurement(
    figures: Figures, ended: Ended, transaction: str, load: LoadProfile
) -> Measurement:
    counts = Counts(
        scheduled=figures.committed + figures.failed,
        committed=figures.committed,
        failed=figures.failed,
        retried=figures.retried,
        failed_by_sqlstate={UNKNOWN_STATE: figures.failed} if figures.failed else {},
    )
    return Measurement(
        elapsed_s=figures.elapsed_s,
        stopped_by="deadline",
        transactions={transaction: counts},
        latency=_latency(figures, transaction),
        samples=(),
        # How many threads it has is not known: as many as connections would want, and fit.
        driver=DriverCost(
            ended.user_cpu_s,
            ended.system_cpu_s,
            threads=min(load.connections, os.cpu_count() or 1),
        ),
        warm_up_s=load.warm_up_s,
    )


def _latency(figures: Figures, transaction: str) -> dict[str, Latency]:
    """Return the latencies that the program says, where it says all that a report shows."""
    told = figures.latency_us
    if not figures.committed or not {"mean", "p50", "p95", "p99", "max"} <= told.keys():
        return {}
    latency = Latency(
        count=figures.committed,
        mean_us=told["mean"],
        p50_us=told["p50"],
        p95_us=told["p95"],
        p99_us=told["p99"],
        max_us=told["max"],
    )
    return {transaction: latency}
