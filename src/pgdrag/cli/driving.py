"""What do commands that load a server share: consent, progress and the result?"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pgdrag.cli.options import LARGEST_SEED
from pgdrag.cli.place import stderr, stdout
from pgdrag.cli.running import write_report
from pgdrag.driver.connection_string import Server
from pgdrag.driver.contract import IntervalLine, Line, PhaseLine, ProgressLine, WarmingLine
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError
from pgdrag.findings.values import Findings
from pgdrag.model.load import LoadProfile
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.terminal import render_terminal
from pgdrag.units import format_duration, format_rate

# Without a terminal, a line of progress this often.
_LINE_EVERY_S = 5.0

Listener = Callable[[Line], None]


def require_consent(server: Server, purpose: str, *, is_given: bool) -> None:
    """Ask before writing to a server that others seem to use.

    Args:
        purpose: what pgdrag is about to do: "run the load there".
        is_given: consent was given with --yes.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no.
    """
    if is_given or not server.production_signs:
        return
    why = " and ".join(server.production_signs)
    if not sys.stdin.isatty():
        raise UsageError(
            f"others seem to use {server.name}: {why}",
            hint=f"Give --yes to {purpose} anyway.",
        )
    stderr().print(f"Others seem to use {server.name}: {why}.", style="yellow")
    if not typer.confirm(f"{purpose[0].upper()}{purpose[1:]} anyway?", err=True):
        raise UsageError("cancelled; nothing was done")


def seed_of(text: str | None) -> int:
    """Return the seed of `--random-seed`: a number; random for `time`, `rand` or None.

    Raises:
        UsageError: the text is none of these.
    """
    if text is None or text in ("time", "rand"):
        return random.SystemRandom().randrange(LARGEST_SEED)
    if not text.isascii() or not text.isdigit() or int(text) > LARGEST_SEED:
        raise UsageError(
            f'"{text}" is not a seed',
            hint=f"Give a whole number up to {LARGEST_SEED}, time or rand.",
        )
    return int(text)


def report_window(findings: Findings, *, html: Path | None, json: bool) -> int:
    """Print the result of one measured window, and return the command's exit status."""
    if html is not None:
        write_report(findings, html, render_html)
    if json:
        print(render_json(findings), end="")
    else:
        render_terminal(findings, stdout())
    measured = findings.run.results[0].measurement
    assert measured is not None, "a run that ended without an error"
    total = measured.total
    if total.failed and json:
        stderr().print(f"{total.failed:,} transactions failed.", style="red")
    return EXIT_DONE if total.committed and not total.failed else EXIT_FAILED_CHECK


@contextmanager
def showing_load(console: Console, *, is_quiet: bool) -> Iterator[Listener]:
    """Show the progress of loading tables, with rate and time left."""
    view = _LoadView(None if is_quiet or _is_live(console) else console)
    with _showing(console, view):
        yield view.listen


@contextmanager
def showing_run(
    console: Console, load: LoadProfile, *, every_s: float | None
) -> Iterator[Listener]:
    """Show the progress of a run: live on a terminal, and a line every `every_s` (None: none)."""
    view = _RunView(load, console, every_s)
    with _showing(console, view):
        yield view.listen


def _is_live(console: Console) -> bool:
    return console.is_terminal and os.environ.get("TERM") != "dumb"


def _showing(console: Console, view: _LoadView | _RunView) -> AbstractContextManager[object]:
    if not _is_live(console):
        return nullcontext()
    return Live(view, console=console, refresh_per_second=4, transient=True)


@dataclass
class _LoadView:
    """The state of loading tables; its lines go to a console unless that is None."""

    console: Console | None
    phase: str = "connect"
    done: int = 0
    total: int = 0
    began_s: float = 0.0
    printed_s: float = 0.0

    def listen(self, line: Line) -> None:
        now_s = time.monotonic()
        match line:
            case PhaseLine(name=phase) | ProgressLine(phase=phase):
                is_new = phase != self.phase
            case _:
                return
        if is_new:
            self.phase, self.began_s, self.done, self.total = phase, now_s, 0, 0
        if isinstance(line, ProgressLine):
            self.done, self.total = line.done, line.total
        if is_new or (self.done and now_s - self.printed_s >= _LINE_EVERY_S):
            self._print(now_s)

    def __rich__(self) -> Text:
        return Text(self.words(time.monotonic()))

    def words(self, now_s: float) -> str:
        """Return `populate: 45 %, 310,000 rows/s, 12 s left`."""
        name = self.phase.replace("_", " ")
        elapsed_s = now_s - self.began_s
        if not self.done or not self.total or elapsed_s <= 0:
            return f"{name} …"
        left_s = elapsed_s * (self.total / self.done - 1)
        if self.phase != "populate":
            return f"{name}: {self.done} of {self.total}, {format_duration(round(left_s))} left"
        share, per_s = self.done / self.total, self.done / elapsed_s
        return f"{name}: {share:.0%}, {per_s:,.0f} rows/s, {format_duration(round(left_s))} left"

    def _print(self, now_s: float) -> None:
        if self.console is not None:
            self.printed_s = now_s
            self.console.print(self.words(now_s))


class _RunView:
    """The state of a run."""

    def __init__(self, load: LoadProfile, console: Console, every_s: float | None) -> None:
        self.load = load
        self.console = console
        self.every_s = every_s
        self.phase = "connect"
        self.began_s = time.monotonic()
        self.rate_per_s: float | None = None
        self.failed = 0
        self.window_s = 0.0
        self.held: list[IntervalLine] = []

    def listen(self, line: Line) -> None:
        match line:
            case PhaseLine():
                self.phase, self.began_s, self.rate_per_s = line.name, time.monotonic(), None
            case WarmingLine():
                self.rate_per_s = line.committed / line.duration_s
            case IntervalLine():
                self.rate_per_s = line.committed / line.duration_s
                self.failed += sum(x.failed for x in line.transactions.values())
                self.window_s += line.duration_s
                self._hold(line)

    def __rich__(self) -> Text:
        elapsed_s = time.monotonic() - self.began_s
        window_s = self.load.measure_s if self.load.transactions is None else None
        expected_s = {"warm_up": self.load.warm_up_s, "run": window_s}.get(self.phase)
        name = {"warm_up": "warm-up", "run": "measuring"}.get(self.phase, self.phase)
        text = f"{name} {elapsed_s:.0f} s"
        if expected_s:
            text += f" of {expected_s:g} s"
        if self.rate_per_s is not None:
            text += f" · {format_rate(self.rate_per_s)}"
        if self.failed:
            text += f" · {self.failed:,} failed"
        return Text(text)

    def _hold(self, line: IntervalLine) -> None:
        if self.every_s is None:
            return
        self.held.append(line)
        # Intervals are of a second, give or take what a clock does.
        if sum(x.duration_s for x in self.held) >= self.every_s - 0.5:
            self.console.print(progress_words(self.held, self.window_s))
            self.held = []


def progress_words(lines: list[IntervalLine], window_s: float) -> str:
    """Return one line of progress: `5.0 s: 5,120/s, latency mean 0.69 ms, p99 2.1 ms, 0 failed`."""
    counts = [x for line in lines for x in line.transactions.values()]
    seconds = sum(line.duration_s for line in lines)
    committed, failed = sum(x.committed for x in counts), sum(x.failed for x in counts)
    text = f"{window_s:.1f} s: {format_rate(committed / seconds)}"
    latencies = [x.latency for x in counts if x.latency is not None and x.latency.count]
    if latencies:
        number = sum(x.count for x in latencies)
        mean_us = sum(x.mean_us * x.count for x in latencies) / number
        worst_us = max(x.p99_us for x in latencies)
        text += f", latency mean {format_duration(mean_us / 1e6)}, worst p99 {format_duration(worst_us / 1e6)}"
    return f"{text}, {failed:,} failed, {lines[-1].sessions} sessions"
