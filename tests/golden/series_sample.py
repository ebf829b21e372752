"""Findings with all that collectors draw over time, and a comparison of two sides."""

from __future__ import annotations

from dataclasses import replace

from report_sample import RUNGS, hostile_findings, large_findings, slower

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Event, Recordings, Series

WAITS = {
    "on_cpu_sessions": ("on processors or waiting for one", 2.0),
    "io_wait_sessions": ("in I/O", 4.0),
    "lwlock_wait_sessions": ("waiting for LWLocks", 0.6),
    "lock_wait_sessions": ("waiting for locks", 0.3),
    "client_wait_sessions": ("waiting for clients", 1.0),
    "other_wait_sessions": ("in other waits", 0.2),
}
EACH_SECOND = (
    ("wal_bytes_per_s", "WAL", "bytes/s", 12_000_000, False),
    ("full_page_images_per_s", "full-page images", "1/s", 900, False),
    ("blocks_read_per_s", "blocks read into shared_buffers", "1/s", 40_000, False),
    ("host_user_processors", "processors: user", "count", 1.1, True),
    ("host_system_processors", "processors: system", "count", 0.5, True),
    ("host_iowait_processors", "processors: iowait", "count", 0.2, True),
    ("context_switches_per_s", "context switches", "1/s", 31_000, True),
    ("disk_reads_per_s", "reads from the device", "1/s", 2_100, True),
    ("disk_writes_per_s", "writes to the device", "1/s", 700, True),
    ("disk_read_bytes_per_s", "read from the device", "bytes/s", 81_000_000, True),
    ("disk_written_bytes_per_s", "written to the device", "bytes/s", 33_000_000, True),
    ("disk_queue_length", "requests under way", "count", 3.4, True),
)


def swing(at: int, salt: int) -> float:
    """Return a number in 0.4 to 1.6, as if by chance and always the same."""
    return 0.4 + 1.2 * ((at * 2_654_435_761 + salt * 40_503 + at * at * 97) % 9_973) / 9_973


def series(
    name: str, label: str, unit: str, level: float, salt: int, every_s: float, of_machine=False
):
    count = int(120 / every_s)
    times_s = tuple((at + 1) * every_s + 0.001 * ((at * 7) % 3) for at in range(count))
    values = tuple(level * swing(at, salt) for at in range(count))
    return Series(name, label, unit, times_s, values, of_machine)  # type: ignore[arg-type]


def looked_at(one: Series) -> Series:
    """Return what five looks in each interval make of it: whole sessions, divided by five."""
    return replace(one, values=tuple(round(value * 5) / 5 for value in one.values))


def recordings(
    at: int, text: str = "by WAL volume, 1,969 buffers written, 16.8 kB of WAL"
) -> Recordings:
    waits = [
        looked_at(series(name, label, "count", level * (1 + at / 4), at * 100 + place, 0.25))
        for place, (name, (label, level)) in enumerate(WAITS.items())
    ]
    counters = [
        series(name, label, unit, level / (1 + at), at * 100 + 10 + place, 1.0, of_machine)
        for place, (name, label, unit, level, of_machine) in enumerate(EACH_SECOND)
    ]
    events = (
        Event("checkpoint", -4.0, 19.5, text),
        Event("vacuum", 31.0, 33.2, "table stock: 1,204 pages, 8,100 dead tuples removed"),
        Event("checkpoint", 60.0 + at, 97.0, text),
        Event("deadlock", 71.3),
        Event("error", 80.25, None, "40P01 deadlock detected", 17),
        Event("vacuum", 118.0, 131.0, "table district: 12 dead tuples are not yet removable"),
    )
    if at >= 3:  # from here on the server is vacuumed and checkpointed all the time
        events += tuple(
            Event(kind, begin_s, begin_s + 0.4, f"public.order_line: {number} {text}")
            for kind, every_s in (("vacuum", 1.2), ("checkpoint", 4.0), ("lock wait", 1.5))
            for number in range(int(120 / every_s))
            for begin_s in [number * every_s]
        )
        events = tuple(sorted(events, key=lambda event: event.start_s))
    return Recordings((*waits, *counters, *events), missing={"slru": "is not there"})


def seconds(rate: float, salt: int) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            t + 1.0,
            1.0,
            0 if rate and t % 41 == 40 else round(rate * swing(t, salt)),
            failed=int(t % 13 == 0),
            p99_us=None if t % 41 == 40 else 9e6 / (rate + 1) * swing(t, salt + 1),
            sessions=8,
            p50_us=None if t % 41 == 40 else 2e6 / (rate + 1) * swing(t, salt + 2),
            p95_us=None if t % 41 == 40 else 3.5e6 / (rate + 1) * swing(t, salt + 1),
        )
        for t in range(120)
    )


def eventful(found: TreatmentFinding, at: int, rate: float) -> TreatmentFinding:
    return replace(found, samples=seconds(rate, at), recordings=recordings(at), middle_trial=at + 1)


def eventful_findings() -> Findings:
    """Seven rungs of 120 s: throughput each second, sessions four times a second, every counter, events."""
    findings = large_findings()
    rungs = tuple(
        replace(eventful(found, at, 1_187 / 2**at), previous=RUNGS[max(at - 1, 0)].name)
        for at, found in enumerate(findings.rungs)
    )
    return replace(findings, rungs=rungs)


def two_eventful_findings() -> Findings:
    """The first two of the seven rungs: a browser draws them in a fraction of the time."""
    findings = eventful_findings()
    study = replace(findings.run.study, rungs=RUNGS[:2])
    return replace(findings, run=replace(findings.run, study=study), rungs=findings.rungs[:2])


def long_findings(count: int) -> Findings:
    """As many rungs of 120 s with everything; each third changed throughput, the others hardly."""
    findings = large_findings()
    rungs = []
    for at in range(count):
        found = findings.rungs[1]
        rung = replace(found.rung, name=f"B{at}")
        center = 1.02 + at / 1e4 if at % 3 else 2.0 + at / 100
        to_previous = slower(center / 1.01, center, center * 1.01) if at else None
        rungs.append(
            replace(
                eventful(found, at, 1_187 / (1 + at / 4)),
                rung=rung,
                previous=f"B{max(at - 1, 0)}",
                to_previous=to_previous,
            )
        )
    study = replace(findings.run.study, rungs=tuple(one.rung for one in rungs))
    return replace(findings, run=replace(findings.run, study=study), rungs=tuple(rungs))


def compared_findings() -> Findings:
    """Two sides of a comparison: the second half as fast, by a window half as long."""
    findings = eventful_findings()
    study = replace(findings.run.study, rungs=RUNGS[:2]).with_design("compare")
    before, after = findings.rungs[:2]
    after = replace(after, samples=after.samples[:60])
    return replace(findings, run=replace(findings.run, study=study), rungs=(before, after))


def hostile_series(text: str) -> Findings:
    """The hostile sample with `text` wherever a collector or a log could have put words."""
    findings = hostile_findings(text)
    rungs = []
    for at, found in enumerate(findings.rungs):
        seen = recordings(at)
        rungs.append(
            replace(
                found,
                recordings=Recordings(
                    (
                        *(replace(one, label=f"{one.label} {text}") for one in seen.series),
                        *(replace(one, kind=text, text=text) for one in seen.events),
                    ),
                    {text: text},
                ),
            )
        )
    return replace(findings, rungs=tuple(rungs))


def without_series(findings: Findings) -> Findings:
    """The same with nothing that can be drawn over time."""
    rungs = tuple(replace(found, samples=(), recordings=Recordings()) for found in findings.rungs)
    return replace(findings, rungs=rungs)
