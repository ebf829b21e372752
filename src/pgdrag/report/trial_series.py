"""What was seen of a treatment's middle trial, as panels over one time axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pgdrag.findings.expecto.published import operational_speeds
from pgdrag.model import OPERATIONAL_SPEED, Rung
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings
from pgdrag.report.document import Panel, Recording, Trace
from pgdrag.report.series_panels import events_by_kind, marks_of, panels_of
from pgdrag.units import format_duration


class Recorded(Protocol):
    """A treatment with what was seen of its middle trial, such as `RungTrials` and `TreatmentFinding`."""

    @property
    def rung(self) -> Rung:
        """The treatment."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """What the driver counted."""

    @property
    def recordings(self) -> Recordings:
        """What collectors recorded."""


def recording_of(rung: Recorded, marks_of_kind: int) -> Recording:
    """Return all panels of a rung that show anything, and at most so many marks of each kind."""
    ends = [rung.samples[-1].t_s] if rung.samples else []
    ends += sorted((one.times_s[-1] for one in rung.recordings.series if one.times_s), reverse=True)
    # The driver's window is the window; others were still looking when it had ended.
    length_s = ends[0] if ends else 0.0
    marks = [
        mark
        for events in events_by_kind(rung.recordings.events).values()
        for mark in marks_of(events, length_s, marks_of_kind)
    ]
    marks.sort(key=lambda mark: mark.start_s)
    return Recording(rung.rung.name, length_s, tuple(_panels(rung)), tuple(marks))


def has_recording(rung: Recorded) -> bool:
    """Tell whether a rung has anything that a line can be drawn of."""
    return len(rung.samples) > 1 or any(len(one.times_s) > 1 for one in rung.recordings.series)


def _panels(rung: Recorded) -> Iterator[Panel]:
    if len(rung.samples) > 1:
        yield from driver_panels(rung.samples)
        if rung.rung.claim.of == OPERATIONAL_SPEED:
            yield from _published_panel(rung)
    yield from panels_of(rung.recordings.series)


def driver_panels(samples: Sequence[Sample]) -> Iterator[Panel]:
    """Yield what the driver counted; a slow interval without any commit has no latency."""
    begin_s = samples[0].t_s - samples[0].duration_s
    ends = tuple(one.t_s for one in samples)

    def trace(label: str, colour: int, value: Callable[[Sample], float | None]) -> Trace:
        return Trace(label, begin_s, ends, tuple(value(one) for one in samples), colour)

    ended = [trace("committed", 1, lambda one: one.committed / one.duration_s)]
    if any(one.failed for one in samples):
        ended.append(trace("failed", 3, lambda one: one.failed / one.duration_s))
    yield Panel("Throughput", "1/s", tuple(ended))
    percentiles = (
        trace("50th percentile", 2, lambda one: one.p50_us and one.p50_us / 1e6),
        trace("95th percentile", 4, lambda one: one.p95_us and one.p95_us / 1e6),
        trace("99th percentile", 1, lambda one: one.p99_us and one.p99_us / 1e6),
    )
    known = tuple(one for one in percentiles if any(x is not None for x in one.values))
    if known:
        yield Panel("Latency", "s", known)
    if len({one.sessions for one in samples}) > 1:
        yield Panel(
            "Sessions with work", "count", (trace("sessions", 1, lambda one: one.sessions),)
        )


def _published_panel(rung: Recorded) -> Iterator[Panel]:
    """Yield what was published of such a study; nothing else in the picture is smoothed."""
    found = operational_speeds(rung.samples, rung.recordings)
    if found is not None and len(found.times_s) > 1:
        window = format_duration(found.window_s)
        of = "calls and rows" if found.source == "statements" else "commits"
        title = (
            f"Operational speed as pg_expecto defines it (trailing medians of {of} over {window})"
        )
        values = tuple(value / 60 for value in found.per_min)
        start_s = found.times_s[0] - found.interval_s
        yield Panel(title, "1/s", (Trace("operational speed", start_s, found.times_s, values, 2),))
