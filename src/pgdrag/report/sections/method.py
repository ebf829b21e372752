"""How was it measured? Enough to judge the numbers, and to run it again."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pgdrag.english import counted
from pgdrag.findings.decay.together import trial_rate_words
from pgdrag.findings.values import Findings
from pgdrag.model import CopyMethod, RestoreCost, Result, Study
from pgdrag.model.load import BenchBaseRate, Closed, LoadProfile, Open, Pacing
from pgdrag.report.document import Block, Cell, Details, Items, KeyValues, Note, Table, header
from pgdrag.report.sections import Section
from pgdrag.report.sections._warnings import brief_warnings
from pgdrag.units import format_bytes, format_duration, format_interval, format_rate
from pgdrag.workloads import Workload, all_workloads

LOOKING = "collectors_cpu_share"
_METHODS: Mapping[CopyMethod, str] = {
    "reflink": "by reflink",
    "copy": "by copying",
}


class MethodSection(Section):
    """Protocol, machine, versions, intervals, and every trial in the order it ran."""

    name = "method"
    summary = "protocol, machine, versions, intervals, and every trial in the order it ran"
    title = "How it was measured"
    order = 90

    def applies(self, findings: Findings) -> bool:
        """A run has always been set up somehow."""
        return True

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the protocol, the notes of the experiment, and the trials."""
        pairs = (*_protocol(findings), *_place(findings), *_times(findings))
        known = tuple((key, Cell(value)) for key, value in pairs if value)
        notes = findings.run.study.notes
        return (
            KeyValues(known),
            *([Note("Notes of the experiment", notes)] if notes else []),
            *_intervals(findings),
            *_trials(findings.run.results),
        )

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the most important warnings, last."""
        return brief_warnings(findings)


def _protocol(findings: Findings) -> list[tuple[str, str]]:
    run, study = findings.run, findings.run.study
    return [
        ("Experiment", f"{study.name}, {study.scale_words}"),
        ("Design", f"{study.design}{_parameters(study)}"),
        ("Workload", _workload(study)),
        ("Load", _load_words(study.load)),
        ("Window", _window_words(study.load)),
        ("Replicates", str(study.replicates)),
        ("Order", _order(run.results)),
        ("Seed", str(run.seed)),
        ("Dataset", _restore_words(findings.run.results)),
        ("Page cache", _page_cache_words(findings.run.results)),
        ("Consistency check", _check_words(findings)),
        ("Collectors' CPU time", _use_words(run.results)),
        ("Collectors' cost", _cost_words(findings)),
        ("Published set-up", study.source.setup),
    ]


def _parameters(study: Study) -> str:
    values = study.design_parameters.model_dump(mode="json", exclude_defaults=True)
    shown = ", ".join(f"{key} = {value}" for key, value in values.items())
    return f" ({shown})" if shown else ""


def _workload(study: Study) -> str:
    kind, parameters = study.workload.kind, study.workload.parameters
    # A newer pgdrag's workload may be unknown here; its parameters are values all the same.
    workload = all_workloads().get(kind, Workload)
    return ", ".join(filter(None, (kind, workload.words(parameters))))


def _load_words(load: LoadProfile) -> str:
    threads = "" if load.threads == 1 else f", {load.threads} driver threads"
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
    mean = format_duration(sum(costs_s) / len(costs_s))
    return f"flushed and dropped before the server started in every trial, {mean} each"


def _check_words(findings: Findings) -> str:
    if not findings.run.study.is_checked:
        return "switched off"
    costs_s = [one.phases_s["check"] for one in findings.run.results if "check" in one.phases_s]
    mean_s = sum(costs_s) / len(costs_s) if costs_s else 0.0
    return f"after every trial, {format_duration(mean_s)} each" if costs_s else "after every trial"


def _use_words(results: Sequence[Result]) -> str:
    """Say what looking took of the machine's processors, from the trials that were looked at."""
    shares = [
        one.value
        for result in results
        for one in result.evidence
        if one.name == LOOKING and one.value is not None
    ]
    if not shares:
        return "not measured"
    most = f", at most {_share_words(max(shares))}" if len(shares) > 1 else ""
    return (
        f"{_share_words(statistics.median(shares))} of the machine's CPU time in the window{most}"
    )


def _share_words(share: float) -> str:
    return f"{share * 100:.2g} %"


def _cost_words(findings: Findings) -> str:
    cost = findings.instrument
    if cost is None:
        return "not measured on this machine; run pgdrag calibrate --collectors"
    interval = cost.slowdown
    ratio = format_interval(interval.low, interval.center, interval.high)
    other = "" if cost.is_alike else " (another workload or load)"
    return (
        f"throughput is {ratio} as high without them ({interval.confidence * 100:.3g} % CI), from {counted(cost.blocks, 'block')} of four turns on "
        f"{_utc(cost.when_unix_s)[:10]}, {cost.workload}{other}"
    )


def _window_words(load: LoadProfile) -> str:
    return (
        f"{format_duration(load.warm_up_s)} warm-up, {format_duration(load.measure_s)} measured; "
        f"with fewer than {load.min_commits} commits up to {format_duration(load.budget_s)}"
    )


def _order(results: Sequence[Result]) -> str:
    """Return the treatments in the order that they ran in."""
    ordered = sorted(results, key=lambda result: result.trial.number)
    return " ".join(result.trial.treatment.name for result in ordered)


def _place(findings: Findings) -> list[tuple[str, str]]:
    host = findings.run.host
    machine = f"{host.cpu_model}, {host.cpu_count} processors, {format_bytes(host.memory_bytes)}"
    return [
        ("Machine", machine),
        ("Kernel", host.kernel),
        ("File system", host.file_system),
        ("PostgreSQL", findings.run.server_version),
        ("pgdrag", findings.run.pgdrag_version),
    ]


def _times(findings: Findings) -> list[tuple[str, str]]:
    run = findings.run
    finished = "" if run.finished_unix_s is None else _utc(run.finished_unix_s)
    planned = "" if run.planned_trials is None else f" of {run.planned_trials}"
    return [
        ("Run", f"{run.run_id}, {run.status}, {len(run.results)}{planned} trials"),
        ("Started", _utc(run.started_unix_s)),
        ("Finished", finished),
    ]


def _utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _intervals(findings: Findings) -> list[Block]:
    """Say how each interval was made."""
    rows = []
    for rung in findings.rungs:
        kinds = (
            ("committed", rung.tps),
            ("slowdown", rung.to_baseline.slowdown if rung.to_baseline else None),
        )
        for what, interval in kinds:
            if interval is None:
                continue
            confidence = f"{interval.confidence * 100:.3g} %"
            name = Cell(rung.rung.name, is_strong=True)
            rows.append((name, Cell(what), Cell(confidence), Cell(interval.method)))
    if not rows:
        return []
    columns = header("Rung", "Number", ">Confidence", "Interval made by")
    table = Table("How the intervals are made", columns, tuple(rows))
    return [Details(table.caption, (table,))]


def _trials(results: Sequence[Result]) -> list[Block]:
    if not results:
        return []
    columns = header(
        ">Trial",
        ">Block",
        ">Replicate",
        "Treatment",
        "Outcome",
        ">Restore",
        ">Committed",
        ">Window",
        ">Rate",
    )
    ordered = sorted(results, key=lambda result: result.trial.number)
    rows = tuple((*_trial_cells(result), *_measured_cells(result)) for result in ordered)
    violations = tuple(
        f"Trial {result.trial.number}: {text}." for result in ordered for text in result.violations
    )
    blocks: list[Block] = [Table("Every trial, in the order it ran", columns, rows)]
    if violations:
        blocks.append(Items(violations))
    return [Details("Every trial, in the order it ran", tuple(blocks))]


def _trial_cells(result: Result) -> tuple[Cell, ...]:
    trial = result.trial
    return (
        Cell(str(trial.number)),
        Cell(str(trial.block)),
        Cell(str(trial.replicate)),
        Cell(trial.treatment.name, is_strong=True),
        Cell(result.outcome.value, result.reason),
        _restore_cell(result.restored),
    )


def _restore_cell(cost: RestoreCost | None) -> Cell:
    if cost is None:
        return Cell("–")
    return Cell(format_duration(cost.seconds), f"{format_bytes(cost.bytes)} by {cost.method}")


def _measured_cells(result: Result) -> tuple[Cell, ...]:
    measured = result.measurement
    if measured is None or measured.elapsed_s <= 0:
        return (Cell("–"), Cell("–"), Cell("–"))
    # A window that was cut or extended is not the one that was planned.
    note = "" if measured.stopped_by == "deadline" else f"ended by {measured.stopped_by}"
    return (
        Cell(f"{measured.total.committed:,}"),
        Cell(format_duration(measured.elapsed_s), note),
        Cell(trial_rate_words(result, measured)),
    )
