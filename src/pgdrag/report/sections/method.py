"""How was it measured, what was set, and what do the words mean? Enough to judge the numbers, and to run it again."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from pgdrag.english import counted, listed
from pgdrag.findings.claim_kinds.analysis import StatedClaims
from pgdrag.findings.claims import ClaimsFinding
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.together import trial_rate_words
from pgdrag.findings.levels import LevelsFinding
from pgdrag.findings.series_claims import SeriesClaimFinding
from pgdrag.findings.values import Answer, Findings, InstrumentCost, Interval, TreatmentFinding
from pgdrag.model import Applied, CopyMethod, Level, Outcome, RestoreCost, Result, RunRecord
from pgdrag.model.load import BenchBaseRate, Closed, LoadProfile, Open, Pacing
from pgdrag.model.measurement import Measurement
from pgdrag.report.cells import answer_words, checkpoints_of
from pgdrag.report.document import (
    NOTHING,
    Block,
    Cell,
    Details,
    Items,
    KeyValues,
    Note,
    Paragraph,
    Tone,
    table_of,
)
from pgdrag.report.sections import Section
from pgdrag.report.sections.answer import every_warning, note
from pgdrag.report.stretch.words import utc_words
from pgdrag.units import format_bytes, format_duration, format_interval, format_rate
from pgdrag.workloads import Workload, all_workloads

LOOKING = "collectors_cpu_share"
_METHODS: Mapping[CopyMethod, str] = {"reflink": "by reflink", "copy": "by copying"}


class MethodSection(Section):
    name = "method"
    summary = "protocol, machine, versions, intervals, and every trial in the order it ran"
    title = "How it was measured"
    order = 90

    def applies(self, findings: Findings) -> bool:
        return True

    def blocks(self, findings: Findings) -> Sequence[Block]:
        pairs = (*_protocol(findings), *_place_and_time(findings.run))
        known = tuple((key, Cell(value)) for key, value in pairs if value)
        notes = findings.run.study.notes
        return (
            KeyValues(known),
            *([Note("Notes of the experiment", notes)] if notes else []),
            *_trials(findings.run.results),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        return note("Warnings", every_warning(findings))


def _protocol(findings: Findings) -> list[tuple[str, str]]:
    run, study = findings.run, findings.run.study
    load = study.load
    given = study.design_parameters.model_dump(mode="json", exclude_defaults=True)
    parameters = ", ".join(f"{key} = {value}" for key, value in given.items())
    # A newer pgdrag's workload may be unknown here; its parameters are values all the same.
    workload = all_workloads().get(study.workload.kind, Workload).words(study.workload.parameters)
    ordered = sorted(run.results, key=lambda result: result.trial.number)
    slowdowns = {
        rung.rung.name: None if rung.to_baseline is None else rung.to_baseline.slowdown
        for rung in findings.rungs
    }
    return [
        ("Experiment", f"{study.name}, {study.scale_words}"),
        ("Design", f"{study.design} ({parameters})" if parameters else study.design),
        ("Workload", ", ".join(filter(None, (study.workload.kind, workload)))),
        ("Load", load_words(load)),
        (
            "Window",
            f"{format_duration(load.warm_up_s)} warm-up, {format_duration(load.measure_s)} measured; "
            f"with fewer than {load.min_commits} commits up to {format_duration(load.budget_s)}",
        ),
        ("Replicates", str(study.replicates)),
        ("Order", " ".join(result.trial.treatment.name for result in ordered)),
        ("Seed", str(run.seed)),
        ("Dataset", _restore_words(run.results)),
        ("Page cache", _page_cache_words(run.results)),
        ("Consistency check", _check_words(run)),
        ("Collectors' CPU time", _use_words(run.results)),
        ("Collectors' cost", _cost_words(findings.instrument)),
        ("Intervals of rates", _intervals({x.rung.name: x.tps for x in findings.rungs})),
        ("Intervals of slowdowns", _intervals(slowdowns)),
        ("Published set-up", study.source.setup),
    ]


def _intervals(found: Mapping[str, Interval | None]) -> str:
    """Say how the intervals of the rungs were made."""
    names: dict[str, list[str]] = {}
    for name, interval in found.items():
        if interval is not None:
            made = f"{interval.confidence * 100:.3g} %, {interval.method}"
            names.setdefault(made, []).append(name)
    return "; ".join(f"{made} ({listed(of)})" for made, of in names.items())


def load_words(load: LoadProfile) -> str:
    """Return how hard a load is: `8 connections, no pauses (closed loop)`."""
    number = load.threads or 1
    threads = "" if number == 1 else f", {number} driver threads"
    if load.generators:
        each = f" with {number} threads each" if number > 1 else ""
        threads = f", {counted(len(load.generators), 'load generator')}{each}"
    clients = f"{counted(load.connections, 'connection')}{threads}"
    limit = ""
    if load.latency_limit_us is not None:
        limit = f"; latency limit {format_duration(load.latency_limit_us / 1e6)}"
    steps = f"; in {counted(len(load.steps), 'step')}" if load.steps else ""
    return f"{clients}, {_pacing_words(load.pacing)}{steps}{limit}"


def _pacing_words(pacing: Pacing) -> str:
    match pacing:
        case Closed():
            return "no pauses (closed loop)"
        case Open(rate_per_s=rate, arrivals=arrivals):
            kind = "Poisson" if arrivals == "poisson" else "uniform"
            return f"{format_rate(rate)} offered in total (open loop, {kind} arrivals)"
        case BenchBaseRate(rate_per_s=rate, queue_limit=most):
            return (
                f"{format_rate(rate)} offered in total (BenchBase's rate limit, queue of {most:,})"
            )


def _restore_words(results: Sequence[Result]) -> str:
    costs = [one.restored for one in results if one.restored is not None]
    if not costs:
        return ""
    times_s = [cost.seconds for cost in costs]
    mean = format_duration(sum(times_s) / len(times_s))
    most = f", at most {format_duration(max(times_s))}" if len(times_s) > 1 else ""
    how = " and ".join(dict.fromkeys(_METHODS[cost.method] for cost in costs))
    size = format_bytes(max(cost.bytes for cost in costs))
    return f"restored before every trial from a snapshot: {size}, {how}, {mean} each{most}"


def _page_cache_words(results: Sequence[Result]) -> str:
    """Say that trials began cold, as all do where the machine itself is treated."""
    costs_s = [x.phases_s["empty page cache"] for x in results if "empty page cache" in x.phases_s]
    if not costs_s:
        return ""
    mean = format_duration(statistics.fmean(costs_s))
    return f"flushed and dropped before the server started in every trial, {mean} each"


def _check_words(run: RunRecord) -> str:
    if not run.study.is_checked:
        return "switched off"
    costs_s = [one.phases_s["check"] for one in run.results if "check" in one.phases_s]
    each = f", {format_duration(statistics.fmean(costs_s))} each" if costs_s else ""
    return f"after every trial{each}"


def _use_words(results: Sequence[Result]) -> str:
    """Say what looking took of the machine's processors, from the trials that were looked at."""
    shares = [
        100 * one.value
        for result in results
        for one in result.evidence
        if one.name == LOOKING and one.value is not None
    ]
    if not shares:
        return "not measured"
    most = f", at most {max(shares):.2g} %" if len(shares) > 1 else ""
    return f"{statistics.median(shares):.2g} % of the machine's CPU time in the window{most}"


def _cost_words(cost: InstrumentCost | None) -> str:
    if cost is None:
        return "not measured on this machine; run pgdrag calibrate --collectors"
    interval = cost.slowdown
    ratio = format_interval(interval.low, interval.center, interval.high)
    other = "" if cost.is_alike else " (another workload or load)"
    return (
        f"throughput is {ratio} as high without them ({interval.confidence * 100:.3g} % CI), from "
        f"{counted(cost.blocks, 'block')} of four turns on {utc_words(cost.when_unix_s)[:10]}, {cost.workload}{other}"
    )


def _place_and_time(run: RunRecord) -> list[tuple[str, str]]:
    host = run.host
    planned = "" if run.planned_trials is None else f" of {run.planned_trials}"
    memory = format_bytes(host.memory_bytes)
    at = run.under_way
    return [
        ("Machine", f"{host.cpu_model}, {host.cpu_count} processors, {memory}"),
        ("Kernel", host.kernel),
        ("File system", host.file_system),
        ("PostgreSQL", run.server_version),
        ("pgdrag", run.pgdrag_version),
        ("Run", f"{run.run_id}, {run.status}, {len(run.results)}{planned} trials"),
        ("Started", utc_words(run.started_unix_s)),
        ("In progress", "" if at is None else f"{at.words} since {utc_words(at.started_unix_s)}"),
        ("Finished", "" if run.finished_unix_s is None else utc_words(run.finished_unix_s)),
    ]


def _trials(results: Sequence[Result]) -> list[Block]:
    if not results:
        return []
    ordered = sorted(results, key=lambda result: result.trial.number)
    title = "Every trial, in the order it ran"
    table = table_of(
        title,
        ordered,
        {
            ">Trial": lambda x: Cell(str(x.trial.number), anchor=f"trial-{x.trial.number}"),
            ">Block": lambda x: str(x.trial.block),
            ">Replicate": lambda x: str(x.trial.replicate),
            "Treatment": lambda x: Cell(x.trial.treatment.name, is_strong=True),
            "Outcome": lambda x: Cell(x.outcome.value, x.reason),
            ">Restore": lambda x: _restore_cell(x.restored),
            ">Committed": lambda x: _measured(x, lambda one: f"{one.total.committed:,}"),
            ">Window": lambda x: _measured(x, _window_cell),
            ">Checkpoints": lambda x: NOTHING if (n := checkpoints_of(x)) is None else f"{n:,}",
            ">Rate": lambda x: _measured(x, lambda one: trial_rate_words(x, one)),
        },
    )
    violations = tuple(
        f"Trial {result.trial.number}: {text}." for result in ordered for text in result.violations
    )
    return [Details(title, (table, Items(violations)) if violations else (table,))]


def _restore_cell(cost: RestoreCost | None) -> Cell:
    if cost is None:
        return NOTHING
    return Cell(format_duration(cost.seconds), f"{format_bytes(cost.bytes)} by {cost.method}")


def _measured(result: Result, shown: Callable[[Measurement], Cell | str]) -> Cell | str:
    measured = result.measurement
    return NOTHING if measured is None or measured.elapsed_s <= 0 else shown(measured)


def _window_cell(measured: Measurement) -> Cell:
    # A window that was cut or extended is not the one that was planned.
    note = "" if measured.stopped_by == "deadline" else f"ended by {measured.stopped_by}"
    return Cell(format_duration(measured.elapsed_s), note)


class SettingsSection(Section):
    name = "settings"
    summary = "each level that a treatment adds, asked for and read back"
    title = "Settings, as set and as read back"
    order = 80

    def applies(self, findings: Findings) -> bool:
        return any(_levels(rung, at) for at, rung in enumerate(findings.rungs))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the table, and what was undone, impossible or without effect."""
        added = [
            (rung, level) for at, rung in enumerate(findings.rungs) for level in _levels(rung, at)
        ]
        table = table_of(
            f"Levels that each {findings.noun} adds",
            added,
            {
                findings.noun_heading: lambda x: Cell(x[0].rung.name, is_strong=True),
                "Factor": lambda x: (
                    x[1].name if x[1].kind == "setting" else f"{x[1].name} ({x[1].kind})"
                ),
                "Set to": lambda x: x[1].shown,
                "Read back": lambda x: _read_back(x[0].applied, x[1]),
            },
        )
        reading = "Values are read back from the running server."
        if findings.is_cumulative:
            reading = f"Each rung keeps the settings of the rungs before it. {reading}"
        remarks: list[str] = []
        for rung in findings.rungs:
            levels = rung.get(LevelsFinding) or LevelsFinding()
            remarks += [f"{text}." for text in levels.overrides]  # they name the rung themselves
            remarks += [f"{rung.rung.name}: {text}." for text in levels.inert]
        blocks = (Paragraph(reading, Tone.MUTED), table)
        return (*blocks, Items(tuple(remarks))) if remarks else blocks


def _levels(rung: TreatmentFinding, at: int) -> tuple[Level, ...]:
    """Return the levels that a rung adds; the baseline adds all of its own."""
    return rung.rung.added or (rung.rung.treatment.levels if at == 0 else ())


def _read_back(every: Sequence[Applied], level: Level) -> Cell:
    applied = next((one for one in every if one.level.factor == level.factor), None)
    if applied is None:
        return Cell("not read back", tone=Tone.MUTED)
    if applied.effective is None:
        return Cell("– untestable here", applied.note, Tone.WARNING)
    note = "; ".join(filter(None, (applied.note, applied.how)))
    return Cell(applied.effective, note, Tone.WARNING if applied.note else Tone.PLAIN)


_NUMBERS = {
    "× slower": "Throughput of the reference divided by that of this {noun}: 7× slower is one seventh of the speed.",
    "Interval": "Confidence interval for repeating the run on this machine. It says nothing about other machines.",
    "< and >": "A {noun} that committed nothing has only an upper bound for its rate, and a lower bound for its slowdown.",
    "Not significant": "The interval includes no change. “No change” is stronger: the interval excludes any effect that "
    "matters.",
}
_INERT = "Every setting of this {noun} reads as before, so it is the same server again: any difference is noise."
_RUNG = "A step of the ladder: the changes of the rung before, and its own."
_SHARE = (
    "Part of the logarithm of the whole slowdown, so that all shares sum to 100 %. It depends on the order of "
    "the rungs: a rung can look harmless because an earlier one already did the damage."
)
_CLAIMS = {
    Answer.REPRODUCED: "Same direction, and the estimate is within a factor of two of the published ratio (under 4×, of its logarithm), or the interval holds it.",
    Answer.PARTLY: "Same direction, different size.",
    Answer.NOT_REPRODUCED: "Opposite direction, or no effect although these trials can detect the published one.",
    Answer.INCONCLUSIVE: "More or longer trials are needed.",
    Answer.UNTESTABLE: "This server or machine lacks what the {noun} needs, or one side has no number.",
    Answer.NOT_RUN: "No trial of this {noun} was run yet.",
}
_WRONG = (
    "Its trials lose updates or leave a dataset that fails its check, so its speed means nothing."
)


class HowToReadSection(Section):
    name = "how-to-read"
    summary = "the words, explained"
    title = "How to read this report"
    order = 100

    def blocks(self, findings: Findings) -> Sequence[Block]:
        meanings = dict(_NUMBERS)
        if any(rung.outcome is Outcome.INERT for rung in findings.rungs):
            meanings["Inert"] = _INERT
        if findings.is_cumulative:
            meanings |= {"Rung": _RUNG, "Share": _SHARE}
        if any(findings.has(kind) for kind in (ClaimsFinding, SeriesClaimFinding, StatedClaims)):
            meanings |= {answer_words(answer): meaning for answer, meaning in _CLAIMS.items()}
        if any(one.wrong for one in findings.by_rung(DecayFinding).values()):
            meanings[answer_words(Answer.WRONG)] = _WRONG
        return (
            KeyValues(
                tuple((word, Cell(x.format(noun=findings.noun))) for word, x in meanings.items())
            ),
        )
