"""How much room does the data directory's file system have? A collector, its recording and their section.

`FreeSpaceCollector` samples statvfs(3) within the measured window. Its metric is compared between
treatments like any other; its recording holds every sample, and `FreeSpaceSection` draws them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Recording, Recordings
from pgdrag.report.document import Block, Figure, Heading
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes


@dataclass(frozen=True)
class FreeSpace(Recording):
    """The free space of a file system over one window.

    Attributes:
        times_s: seconds from the window's start.
        free_bytes: at each of these.
    """

    key: ClassVar[str] = "pgdrag_demo_free_space"
    times_s: tuple[float, ...]
    free_bytes: tuple[int, ...]


class FreeSpaceCollector(Collector):
    """Free space at the beginning, about once a second, and at the end."""

    name = "free_space"
    summary = "free space of the data directory's file system"
    is_of_machine = True  # other programs use the disk, too
    # An amount, its name and unit. The unit says what to divide by: "bytes" nothing, "bytes/s" seconds …
    metrics = (
        Metric(
            "free_space_bytes",
            "least free space of the data directory's file system",
            "least free",
            "bytes",
            step="block size",
        ),
    )

    def __init__(self) -> None:
        self._samples: list[tuple[float, int]] = []
        self._block_bytes = 1
        self._unseen: Unseen | None = None

    def before(self, observer: Observer) -> None:
        """Take the first sample."""
        self._take(observer)

    def sample(self, observer: Observer) -> None:
        """Take one more, on the collectors' thread."""
        self._take(observer)

    def after(self, observer: Observer) -> None:
        """Take the last sample."""
        self._take(observer)

    def amounts(self, window: Window) -> Amounts:
        """Return what the metrics are made of; raise `Unseen` where it could not be seen."""
        if self._unseen is not None or not self._samples:
            raise self._unseen or Unseen("no reading was taken")
        least = min(free for _, free in self._samples)
        return {"least free": float(least), "block size": float(self._block_bytes)}

    def recordings(self, window: Window) -> Recordings:
        """Return all samples; the journal keeps them under the recording's key."""
        if len(self._samples) < 2:
            return Recordings()
        times = tuple(unix_s - window.started_unix_s for unix_s, _ in self._samples)
        return Recordings([FreeSpace(times, tuple(free for _, free in self._samples))])

    def _take(self, observer: Observer) -> None:
        try:
            observer.postmaster()  # the server's disk is this host's as long as the server is
            found = os.statvfs(observer.cluster.data_directory)
        except Unseen as unseen:
            self._unseen = unseen
        except OSError as error:
            self._unseen = Unseen(f"the data directory cannot be looked at: {error.strerror}")
        else:
            self._block_bytes = found.f_frsize
            self._samples.append((CLOCK.unix_s(), found.f_bavail * found.f_frsize))


class FreeSpaceSection(Section):
    """A panel for each treatment, on one scale."""

    name = "free-space"
    summary = "disk space taken over the window, in a panel for each treatment"
    title = "Disk space"
    order = 58  # after pgdrag's own evidence; no two sections have the same

    def applies(self, findings: Findings) -> bool:
        """Show it as soon as some trial was sampled."""
        return any(rung.recordings.of(FreeSpace) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the picture, its caption, and the same in characters for the terminal and Markdown."""
        rungs = [rung for rung in findings.rungs if rung.recordings.of(FreeSpace)]
        most_free = max(max(_of(rung).free_bytes) for rung in rungs)
        most_taken = most_free - min(min(_of(rung).free_bytes) for rung in rungs)
        panels = [_panel(rung, most_free, most_taken) for rung in rungs]
        end_s = max(_of(rung).times_s[-1] for rung in rungs)
        words = "\n".join(f"{panel.name}: {panel.words}" for panel in panels)
        drawn = panels_chart("free-space-chart", panels, self.title, words, end=end_s, plot=32)
        caption = (
            "Space taken since the moment with the most free space in any trial shown, by any program; "
            "in the trial with the median throughput. All panels have one scale."
        )
        return (Figure(drawn, caption, words),)

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the same for the terminal; a section without `brief` is not shown there."""
        return (Heading(self.title), *self.blocks(findings))


def _of(rung: TreatmentFinding) -> FreeSpace:
    return rung.recordings.of(FreeSpace)[0]


def _panel(rung: TreatmentFinding, most_free: int, most_taken: int) -> Panel:
    found = _of(rung)
    taken = [most_free - free for free in found.free_bytes]
    points = [(max(at, 0.0), float(y)) for at, y in zip(found.times_s, taken, strict=True)]
    words = f"{format_bytes(min(taken))} to {format_bytes(max(taken))} taken"
    line = Line(points, "trace")
    top = format_bytes(most_taken)
    return Panel(rung.rung.name, rung.rung.title, words, (line,), float(most_taken), top)
