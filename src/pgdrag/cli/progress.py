"""What does a run show while it runs? Phase, rung, throughput so far and time left, on stderr."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, OverflowMethod
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pgdrag.english import counted, cut
from pgdrag.findings.decay.together import trial_rate_words
from pgdrag.model import Outcome, Result, Rung, Trial
from pgdrag.model.design import Design, make_design
from pgdrag.model.events import (
    BlockPlanned,
    BudgetSpent,
    Doing,
    Event,
    HostChanged,
    Listener,
    OnHost,
    PhaseStarted,
    RunStarted,
    TimeLeft,
    TrialFinished,
    TrialStarted,
)
from pgdrag.model.threads import ChosenThreads
from pgdrag.units import format_duration, format_rate

_MOST_LABEL = 24  # characters of a treatment's name on a line of progress
_MOST_HOSTS = 12  # with a line of their own


@dataclass
class _Line(Doing):
    """What this machine, or a host of a fleet, does now."""

    state: str = ""
    reason: str = ""
    trial: Trial | None = None

    def words(self) -> str:
        if self.phase is None:
            return ""
        text = f"{self.phase.name} {time.monotonic() - self.since_s:.0f} s"
        seen = self.throughput
        return text if seen is None else f"{text} · {format_rate(seen.mean_per_s)} so far"


@contextmanager
def showing_progress(console: Console) -> Iterator[Listener]:
    """Show a run's events: live on a terminal, otherwise a line for each important event."""
    view = _View(console)
    if not console.is_terminal:
        yield view.listen
        return
    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view.listen


class _View:
    """The state of the display; rich calls `__rich__` whenever it redraws."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rungs: dict[str, Rung] = {}
        self.waiting: list[Trial] = []
        self.left = TimeLeft(0.0, 0.0)
        self.left_since_s = time.monotonic()
        self.trials = ""
        self.here = _Line(PhaseStarted("prepare"), self.left_since_s)
        self.design: Design | None = None
        self.width = 0  # of the longest label up to now
        self.hosts: dict[str, _Line] = {}

    def listen(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started(event)
            case BlockPlanned():
                self._planned(event)
            case BudgetSpent(spent_s, trial):
                self.console.print(_budget_words(spent_s, trial))
            case TrialStarted():
                self._trial_started(event)
            case TrialFinished(result, so_far):
                self._finished(result, so_far)
            case OnHost() | HostChanged():
                self._of_host(event)
            case TimeLeft():
                self.left, self.left_since_s = event, time.monotonic()
            case _:
                self.here.take(event, time.monotonic())
                if isinstance(event, PhaseStarted):
                    self._phase_started(event)

    def __rich__(self) -> Group:
        """Return two lines: the trial with its bar, and the whole run; of a fleet a line for each host."""
        if self.hosts:
            return Group(self._fleet(), Text(self._left(), style="dim"))
        here, now_s = self.here, time.monotonic()
        assert here.phase is not None, "it prepares from the start"
        elapsed_s, where = now_s - here.since_s, "dataset"
        if here.trial is not None:
            where = self._numbered(here.trial)
        bar = ProgressBar(total=None, pulse=True, width=20, animation_time=now_s)
        if here.progress is not None:
            total, done = max(1.0, here.progress.total), here.progress.done
            bar = ProgressBar(total=total, completed=done, width=20)
        elif here.phase.expected_s:
            done = min(elapsed_s, here.phase.expected_s)
            bar = ProgressBar(total=here.phase.expected_s, completed=done, width=20)
        line = Table.grid(padding=(0, 1))
        line.add_row(Text(where, style="bold"), bar, _doing(here, here.phase, elapsed_s))
        return Group(line, Text(self._left(), style="dim"))

    def _started(self, event: RunStarted) -> None:
        study = event.study
        self.rungs = {rung.name: rung for rung in study.rungs}
        self.design = make_design(study)
        again = f", {counted(event.finished, 'trial')} already done" if event.finished else ""
        self.console.print(study.title or study.name, style="bold")
        self.console.print(f"Run {event.run_id}, {study.scale_words}{again}")
        if order := self.design.plan():
            self.console.print(order)
        for rung in study.rungs:
            if (label := self.design.label(rung.treatment)) != rung.treatment.name:
                self.console.print(f"{label}: {rung.heading}")

    def _phase_started(self, event: PhaseStarted) -> None:
        if event.explanation:
            self.console.print(event.explanation, style="yellow", soft_wrap=True)
        elif self.here.trial is None and not self.console.is_terminal:
            self.console.print(f"{event.name} …")

    def _planned(self, event: BlockPlanned) -> None:
        before = event.trials[0].number - 1
        fewest = max(before + event.left.fewest, event.trials[-1].number)
        self.trials = count_words(fewest, before + event.left.greatest)
        self.waiting = list(event.trials)[event.finished :]

    def _trial_started(self, event: TrialStarted) -> None:
        self.waiting = [x for x in self.waiting if x.number != event.trial.number]
        if event.host:
            self.hosts[event.host] = _Line(state="ready", trial=event.trial)
        else:
            self.here.trial = event.trial

    def _of_host(self, event: OnHost | HostChanged) -> None:
        line = self.hosts.setdefault(event.host, _Line(state="preparing"))
        if isinstance(event, OnHost):
            line.take(event.event, time.monotonic())
            return
        is_news = event.reason and (event.state, event.reason) != (line.state, line.reason)
        line.state, line.reason = event.state, event.reason
        if event.state in ("lost", "set aside"):
            line.trial = line.phase = line.throughput = None
        if is_news:
            self.console.print(f"Host {event.host}: {event.state}: {event.reason}", style="yellow")

    def _fleet(self) -> Table:
        """Return a line for each host that does something; the others in one."""
        table = Table.grid(padding=(0, 2))
        idle: dict[str, list[str]] = {}
        busy = [name for name, one in self.hosts.items() if one.trial or one.phase]
        for name, one in self.hosts.items():
            if name not in busy:
                idle.setdefault(one.state, []).append(name)
        for name in busy[:_MOST_HOSTS]:
            one = self.hosts[name]
            what = one.state if one.trial is None else self._numbered(one.trial)
            table.add_row(Text(name, style="bold"), what, one.words())
        if len(busy) > _MOST_HOSTS:
            table.add_row(Text(f"{len(busy) - _MOST_HOSTS} more"), "at work", "")
        for state, names in idle.items():
            table.add_row(
                Text(counted(len(names), "host"), style="dim"), state, cut(", ".join(names), 60)
            )
        return table

    def _finished(self, result: Result, so_far: str) -> None:
        self.here.trial = None
        for chosen in result.recordings.of(ChosenThreads):
            where = f"Load driver on {result.host}" if result.host else "Load driver"
            self.console.print(f"{where}: {chosen.words}")
        words = [_outcome_words(result), so_far]
        if result.host:
            words.insert(0, result.host)
            self.hosts[result.host] = _Line(state="ready")
        if not self.console.is_terminal and self.waiting:
            words.append(self._left())
        assert self.design is not None, "a run begins before its trials end"
        label = cut(self.design.label(result.trial.treatment), _MOST_LABEL)
        self.width = max(self.width, len(label))
        line = "  ".join(
            (
                f"{result.trial.number:>3}/{self.trials}",
                f"{label:<{self.width}}",
                *filter(None, words),
            )
        )
        # A rate is cut to one line; the reason for a missing one is printed in full.
        is_cut = self.console.is_terminal and result.outcome is Outcome.MEASURED
        overflow: OverflowMethod = "ellipsis" if is_cut else "ignore"
        self.console.print(line, no_wrap=True, overflow=overflow, crop=False)

    def _numbered(self, trial: Trial) -> str:
        rung = self.rungs.get(trial.treatment.name)
        name = trial.treatment.name if rung is None else f"{rung.name} {rung.title}"
        again = "" if trial.replicate == 1 else f" (replicate {trial.replicate})"
        return f"{trial.number}/{self.trials} {name}{again}"

    def _left(self) -> str:
        """Return the time left: for the fewest trials, and for the most."""
        if not self.waiting and not any(x.trial for x in (self.here, *self.hosts.values())):
            return ""
        return self.left.words(time.monotonic() - self.left_since_s)


def _doing(here: _Line, phase: PhaseStarted, elapsed_s: float) -> str:
    text = f"{phase.name} {elapsed_s:.0f} s"
    if here.progress is not None and here.progress.done > 0:
        done, total = here.progress.done, here.progress.total
        left = format_duration(round(elapsed_s * (total / done - 1)))
        per_s = done / max(elapsed_s, 1e-3)
        share = done / max(1.0, total)
        text += f" · {share:.0%} · {per_s:,.0f} {here.progress.unit}/s · {left} left"
    if (seen := here.throughput) is not None:
        text += f" · {format_rate(seen.mean_per_s)} so far · {seen.committed:,} committed"
        if phase.expected_s and seen.elapsed_s > phase.expected_s + 1:
            text += " · few commits: window extended"
    return text


def _budget_words(spent_s: float, trial: Trial) -> str:
    spent = format_duration(round(spent_s))
    return (
        f"Trial {trial.number} would not end within the time budget, of which {spent} are used. To go on: "
        f"pgdrag resume last --budget {math.ceil(2 * spent_s / 60)}min"
    )


def count_words(fewest: int, most: int) -> str:
    """Return a number of trials: "12", or "12-40" if it depends on the results."""
    return f"{fewest}" if fewest >= most else f"{fewest}-{most}"


def _outcome_words(result: Result) -> str:
    if result.measurement is None or result.outcome is not Outcome.MEASURED:
        return f"{result.outcome}: {result.reason}" if result.reason else str(result.outcome)
    return f"{trial_rate_words(result, result.measurement):>8}"
