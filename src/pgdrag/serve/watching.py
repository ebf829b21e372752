"""What does a run do now? Its events, read from the file that it leaves them in, become what a page shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pgdrag.english import listed
from pgdrag.host.clock import CLOCK
from pgdrag.journal.live_file import LiveReader, Noted, TrialBegan, TrialEnded, TrialsLeft
from pgdrag.model.events import (
    Doing,
    HostChanged,
    OnHost,
    PhaseStarted,
    Progress,
    Sampled,
    Throughput,
    TimeLeft,
)
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Event, Series
from pgdrag.report.document import Recording, TimeSeries
from pgdrag.report.series_panels import events_by_kind, marks_of, panels_of
from pgdrag.report.series_script import series_json
from pgdrag.report.series_words import panels_text
from pgdrag.report.thinning import fitted
from pgdrag.report.trial_series import driver_panels
from pgdrag.units import format_duration, format_rate

_POINTS = 300  # of a line: more than a phone has pixels
_MARKS = 100  # of a kind
# Two looks at the server that are further apart saw two stretches of work.
_GAP_S = 2.5
_CAPTION = "Seconds from the start of the load, warm-up included. A step is one interval as it was counted."


@dataclass
class _At(Doing):
    """What this machine, or a host of a fleet, does now; times are Unix seconds."""

    trial: TrialBegan | None = None
    state: str = ""

    def words(self, now_unix_s: float) -> str:
        """Return the phase, how long it has lasted, and what the load does: "measure 3 s of 15 s"."""
        if self.phase is None:
            return self.state
        words = f"{self.phase.name} {max(now_unix_s - self.since_s, 0):.0f} s"
        if self.phase.expected_s:
            words += f" of {format_duration(self.phase.expected_s)}"
        if self.progress is not None:
            words += f", {self.progress.done / max(self.progress.total, 1.0):.0%} done"
        if self.throughput is not None:
            words += f", {format_rate(self.throughput.last_per_s)} now, {format_rate(self.throughput.mean_per_s)} so far"
        return words


@dataclass
class Watched:
    """What a run does now, and what was seen of the trial under way.

    Attributes:
        trials: how many, by its design.
        so_far: what the design knew when the last trial had ended, in a few words.
        hosts: by name; "" is this machine.
    """

    trials: TrialsLeft | None = None
    left: TimeLeft | None = None
    left_unix_s: float = 0.0
    so_far: str = ""
    hosts: dict[str, _At] = field(default_factory=lambda: {"": _At()})
    _began_unix_s: float | None = None
    _samples: list[Sample] = field(default_factory=list)
    _series: dict[str, list[Series]] = field(default_factory=dict)
    _phases: list[tuple[float, str]] = field(default_factory=list)
    _busy: list[tuple[float, str]] = field(default_factory=list)

    def note(self, at_unix_s: float, noted: Noted) -> None:
        """Take in one thing that happened."""
        match noted:
            case TrialsLeft():
                self.trials = noted
            case TimeLeft():
                self.left, self.left_unix_s = noted, at_unix_s
            case TrialBegan():
                self._trial_began(noted)
            case TrialEnded(_, host, so_far):
                self.so_far = so_far or self.so_far
                self.hosts[host] = _At()
            case HostChanged(host, state, reason):
                self._at(host).state = f"{state}: {reason}" if reason else state
            case OnHost(host, event):
                self._at(host).take(event, at_unix_s)
            case _:
                self._at("").take(noted, at_unix_s)
                self._seen(at_unix_s, noted)

    def _trial_began(self, began: TrialBegan) -> None:
        self.hosts[began.host] = _At(trial=began)
        if not began.host:
            self._began_unix_s = None
            for seen in (self._samples, self._series, self._phases, self._busy):
                seen.clear()

    def _at(self, host: str) -> _At:
        return self.hosts.setdefault(host, _At())

    def _seen(
        self, at_unix_s: float, event: PhaseStarted | Progress | Throughput | Sampled
    ) -> None:
        match event:
            case PhaseStarted(name):
                self._phases.append((at_unix_s, name))
            case Throughput(sample=Sample() as sample):
                if self._began_unix_s is None:
                    self._began_unix_s = at_unix_s - sample.t_s
                self._samples.append(sample)
            case Sampled(series, busy):
                for one in series:
                    self._series.setdefault(one.name, []).append(one)
                self._busy += [(at_unix_s, name) for name in busy]

    # --- what a page shows

    def doing(self) -> dict[str, str]:
        """Return in words what each host is at; "" is this machine."""
        now = CLOCK.unix_s()
        there = {name: one.words(now) for name, one in self.hosts.items() if name}
        return there or {"": self.hosts[""].words(now)}

    def trial_words(self) -> str:
        """Return where the run is: "Trial 3 of 4 to 8"."""
        many = ""
        if self.trials is not None:
            most = (
                f" to {self.trials.greatest}" if self.trials.greatest > self.trials.fewest else ""
            )
            many = f"{self.trials.fewest}{most}"
        at = [str(one.trial.number) for one in self.hosts.values() if one.trial]
        if not at:
            return f"Preparing, {many} trials" if many else "Preparing"
        return f"Trial{'s' * (len(at) > 1)} {listed(at)}{f' of {many}' if many else ''}"

    def left_words(self) -> str:
        """Return how long the rest takes: "about 2 min left, 5 min at most"; "" where nobody knows."""
        if self.left is None:
            return ""
        return self.left.words(CLOCK.unix_s() - self.left_unix_s)

    @property
    def length_s(self) -> float:
        """How long the load of the trial under way has lasted."""
        return self._samples[-1].t_s if self._samples else 0.0

    def figure(self) -> TimeSeries:
        """Return what was seen of the trial under way, over one time axis."""
        trial = self.hosts[""].trial
        name = f"trial {trial.number}: {trial.treatment}" if trial else "no trial"
        panels = list(driver_panels(self._samples)) if len(self._samples) > 1 else []
        panels += panels_of([one for one in self._joined() if len(one.times_s) > 1])
        events = events_by_kind(list(self._events()))
        marks = [x for one in events.values() for x in marks_of(one, self.length_s, _MARKS)]
        recording = Recording(name, self.length_s, tuple(panels), tuple(marks))
        figure = TimeSeries(recording, (), "", _CAPTION, panels_text(recording.panels))
        (block,) = fitted([figure], _POINTS)
        assert isinstance(block, TimeSeries), block
        return block

    def figure_json(self) -> str:
        """Return the figure as the page's script reads it."""
        return series_json([self.figure()])

    def _joined(self) -> Iterator[Series]:
        """Yield each series with all its moments; where one was not told of, nothing was seen of it."""
        if self._began_unix_s is None:
            return
        moments = sorted({one.times_s[0] for each in self._series.values() for one in each})
        times_s = tuple(round(x - self._began_unix_s, 3) for x in moments)
        for each in self._series.values():
            seen = {one.times_s[0]: one.values[0] for one in each}
            first = each[0]
            values = tuple(seen.get(x, 0.0) for x in moments)
            yield Series(first.name, first.label, first.unit, times_s, values, first.is_of_machine)

    def _events(self) -> Iterator[Event]:
        """Yield the phases of the trial but the measured one, and the stretches in which background processes worked."""
        began = self._began_unix_s
        if began is None:
            return
        ends = [at for at, _ in self._phases[1:]] + [began + self.length_s]
        for (at, name), end in zip(self._phases, ends, strict=True):
            if end > began and name != "measure":
                yield Event(name, max(at - began, 0.0), end - began)
        stretches: dict[str, list[list[float]]] = {}
        for at, name in self._busy:
            each = stretches.setdefault(name, [])
            if each and at - each[-1][1] <= _GAP_S:
                each[-1][1] = at
            else:
                each.append([at - 1, at])
        for name, found in stretches.items():
            for start, end in found:
                yield Event(f"{name} at work", max(start - began, 0.0), end - began)


class Watcher:
    """Follows the file of a run."""

    def __init__(self, path: Path) -> None:
        self._reader = LiveReader(path)
        self.watched = Watched()

    def look(self) -> bool:
        """Take in what is new, and return whether anything was."""
        found = self._reader.read()
        if self._reader.is_anew:
            self.watched = Watched(so_far=self.watched.so_far)
        for at_unix_s, noted in found:
            self.watched.note(at_unix_s, noted)
        return bool(found)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
