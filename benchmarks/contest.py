"""How do several programs that do the same work take turns on one server, and what are their ratios?"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.clients import BenchmarkError, Measured
from benchmarks.peers import Peers
from benchmarks.progress import Progress
from benchmarks.rounds import orders, paired_ratio
from benchmarks.rows import Row, measured_row, missing_row

INTERRUPTED = "interrupted before the first round was done"


@dataclass
class Setting:
    """What all benchmarks share.

    Attributes:
        driver: pgdrag's load driver.
        driver_version: as it says it.
        peers: the other programs, or why they are not there.
        connections, threads: of each contestant.
        rounds: how often each contestant runs.
        window_s: how long each is measured.
        warm_up_s: of clients that compile while they run.
        scale: pgbench's, which is a smaller one for a quick run.
        is_quick: a look is wanted: benchmarks that take long do less.
        seed: of the order of the runs and of what the driver draws.
        progress: told before each run.
        is_interrupted: set by Ctrl-C; the rounds that were done still count.
        has_failed: set when a benchmark could not be carried out; the others are.
    """

    driver: Path
    driver_version: str
    peers: Peers
    connections: int
    threads: int
    rounds: int
    window_s: float
    warm_up_s: float
    scale: int
    is_quick: bool
    seed: int
    progress: Progress
    is_interrupted: bool = False
    has_failed: bool = False

    @property
    def subject(self) -> str:
        """How pgdrag is called in the rows."""
        return f"pgdrag {self.driver_version}"


@dataclass(frozen=True)
class Contestant:
    """One program in one mode.

    Attributes:
        name: unique in its contest.
        title: for the rows, with version and mode.
        run: measures one run, given the number of the round.
        seconds: about how long that takes.
    """

    name: str
    title: str
    run: Callable[[int], Measured]
    seconds: float


@dataclass(frozen=True)
class Pair:
    """Two contestants to be compared, and the goals.

    Attributes:
        what: how the rows' names begin.
        throughput_goal, cpu_goal: such as ">= 1.10"; empty for information.
        note: what a reader should know.
        work: what one unit of the counted work is called.
    """

    what: str
    subject: str
    peer: str
    throughput_goal: str
    cpu_goal: str
    note: str = ""
    work: str = "transaction"


@dataclass
class Contest:
    """Contestants in interleaved rounds."""

    title: str
    contestants: Sequence[Contestant]
    before_run: Callable[[], None]
    results: dict[str, list[Measured]] = field(default_factory=dict)
    failures: list[BenchmarkError] = field(default_factory=list)

    @property
    def round_s(self) -> float:
        """About how many seconds one round takes."""
        return sum(each.seconds for each in self.contestants)

    def run(self, setting: Setting) -> None:
        """Run all rounds, or those until Ctrl-C; a round that was not finished does not count.

        A round that fails is left out and said in the rows; after a second one no more are tried.
        """
        names = [each.name for each in self.contestants]
        self.results = {name: [] for name in names}
        for number, order in enumerate(orders(names, setting.rounds, setting.seed), 1):
            try:
                done = self._round(setting, number, order)
            except KeyboardInterrupt:
                setting.is_interrupted = True
                return
            except BenchmarkError as error:
                self._note_failure(setting, number, error)
                if len(self.failures) > 1:
                    break
                continue
            for name, measured in done.items():
                self.results[name].append(measured)

    def _round(self, setting: Setting, number: int, order: Sequence[str]) -> dict[str, Measured]:
        by_name = {each.name: each for each in self.contestants}
        done: dict[str, Measured] = {}
        for name in order:
            contestant = by_name[name]
            label = f"{self.title}: round {number} of {setting.rounds}, {contestant.title}"
            with setting.progress.step(label, contestant.seconds):
                self.before_run()
                done[name] = contestant.run(number)
        return done

    def _note_failure(self, setting: Setting, number: int, error: BenchmarkError) -> None:
        self.failures.append(error)
        setting.has_failed = True
        detail = f"\n{error.detail}" if error.detail else ""
        print(f"round {number} is left out: {error.message}{detail}", file=sys.stderr)

    def rows(self, pairs: Iterable[Pair]) -> Iterator[Row]:
        """Return two rows a pair: throughput, and the client's CPU time a transaction."""
        titles = {each.name: each.title for each in self.contestants}
        for pair in pairs:
            sides = (titles[pair.subject], titles[pair.peer])
            note = "; ".join(filter(None, [pair.note, *(str(each) for each in self.failures)]))
            subject, peer = self.results[pair.subject], self.results[pair.peer]
            yield _row(
                f"{pair.what}: throughput, {pair.subject} / {pair.peer}",
                sides,
                ([each.tps for each in subject], [each.tps for each in peer]),
                pair.throughput_goal,
                "/s",
                note,
            )
            yield _row(
                f"{pair.what}: client CPU per {pair.work}, {pair.subject} / {pair.peer}",
                sides,
                ([each.cpu_us for each in subject], [each.cpu_us for each in peer]),
                pair.cpu_goal,
                "µs",
                note,
            )


def missing_rows(pairs: Iterable[Pair], setting: Setting, peer: str, note: str) -> Iterator[Row]:
    """Return the rows of pairs that could not be compared, with the reason."""
    for pair in pairs:
        for what, goal in (
            ("throughput", pair.throughput_goal),
            (f"client CPU per {pair.work}", pair.cpu_goal),
        ):
            name = f"{pair.what}: {what}, {pair.subject} / {pair.peer}"
            yield missing_row(name, setting.subject, peer, goal, note)


def _row(
    name: str,
    sides: tuple[str, str],
    values: tuple[list[float], list[float]],
    goal: str,
    unit: str,
    note: str,
) -> Row:
    if not values[0]:
        return missing_row(name, *sides, goal, note or INTERRUPTED)
    medians = (statistics.median(values[0]), statistics.median(values[1]))
    ratio = paired_ratio(*values)
    return measured_row(name, *sides, ratio, goal, values=medians, unit=unit, note=note)
