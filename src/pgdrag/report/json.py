"""The findings as JSON, for programs: stable keys, numbers in the units that their names end in.

The JSON Schema is made by `report.schema`, and kept as docs/reference/report.schema.json.

The document is one object::

    pgdrag_report   1; changes when a key changes its meaning or goes away
    answer          the question answered in words
    noise_floor     ratio of the most different trials of the baseline, or null
    instrument      what the collectors cost on this machine, or null
    warnings        doubts about the run
    run             run_id, status, seed, versions, host, planned_trials, times (Unix, seconds)
    study           name, title, question, scale, design, source, workload, load, replicates, notes
    rungs           in order; each with `rung` (what was asked for), `state`, and the fields of
                    `TreatmentFinding`, and of each registered analysis what it found, by
                    its name; null where it found nothing
    found           what only the design can say, with its name in `design`; null where it has
                    nothing to say of its own
    trials          in the order run: outcome, reason, elapsed_s, arrivals (null in closed loop),
                    committed, committed_per_s (without bias: of an extended window one commit less,
                    as it stopped at its last), driver (what the load driver used), restored (what
                    its dataset took: seconds, bytes, and method: "reflink" or "copy"; or null)

An interval is {low, center, high, confidence, method, warnings, censored}. JSON has no infinity: an
open end is null. `censored` says how to read that: "upper bound" (the value lies below `high`, and
`center` is null: nothing was committed), "lower bound" (it lies above `low`), or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeAlias

from pgdrag.findings.analysis import treatment_analyses
from pgdrag.findings.combine import rate_of
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.model import Result, RunRecord, Study
from pgdrag.model.recordings import Recordings

FORMAT = 1

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def render_json(findings: Findings) -> str:
    """Return the findings as an indented JSON object, as the module says; no NaN, no Infinity."""
    document: dict[str, Json] = {
        "pgdrag_report": FORMAT,
        "answer": findings.answer,
        "noise_floor": plain(findings.noise_floor),
        "instrument": plain(findings.instrument),
        "warnings": plain(findings.warnings),
        "run": _run(findings.run),
        "study": _study(findings.run.study),
        "rungs": [_rung(rung) for rung in findings.rungs],
        "found": _found(findings),
        "trials": [_trial(result) for result in findings.run.results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _run(run: RunRecord) -> Json:
    return {
        field.name: plain(getattr(run, field.name))
        for field in fields(run)
        if field.name not in ("study", "results")  # they have keys of their own
    }


def _study(study: Study) -> Json:
    return {
        field.name: plain(getattr(study, field.name))
        for field in fields(study)
        if field.name != "rungs"  # each stands with what was found of it
    }


def _rung(rung: TreatmentFinding) -> Json:
    core = {x.name: plain(getattr(rung, x.name)) for x in fields(rung) if x.name != "found"}
    analysed = {name: plain(rung.get(kind.finds)) for name, kind in treatment_analyses().items()}
    return {"state": rung.state, **core, **analysed}


def _found(findings: Findings) -> Json:
    found = plain(findings.found)
    return {"design": findings.run.study.design, **found} if isinstance(found, dict) else None


def _trial(result: Result) -> Json:
    trial, measured = result.trial, result.measurement
    return {
        "number": trial.number,
        "block": trial.block,
        "replicate": trial.replicate,
        "treatment": trial.treatment.name,
        "levels": plain(trial.treatment.levels),
        "is_brief": trial.is_brief,
        "seed": trial.seed,
        "started_unix_s": result.started_unix_s,
        "server_version": result.server_version,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "elapsed_s": measured.elapsed_s if measured else None,
        "stopped_by": measured.stopped_by if measured else None,
        "warm_up_s": measured.warm_up_s if measured else None,
        "arrivals": plain(measured.arrivals) if measured else None,
        "committed": measured.total.committed if measured else None,
        "committed_per_s": rate_of(result, measured).per_s
        if measured and measured.elapsed_s
        else None,
        "counts": plain(measured.transactions) if measured else None,
        "driver": plain(measured.driver) if measured else None,
        "phases_s": plain(result.phases_s),
        "restored": plain(result.restored),
        "violations": plain(result.violations),
        "warnings": plain(result.warnings),
    }


def plain(value: object) -> Json:
    """Return a value of the findings as JSON has it; what is not finite is null."""
    match value:
        case Interval():
            return _interval(value)
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Recordings():
            return plain(value.as_json())
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            assert is_dataclass(value), f"no JSON for {type(value).__name__}"
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def _interval(interval: Interval) -> Json:
    is_below = interval.center == 0
    is_above = math.isinf(interval.center)
    return {
        "low": plain(interval.low),
        "center": None if is_below else plain(interval.center),
        "high": plain(interval.high),
        "confidence": interval.confidence,
        "method": interval.method,
        "warnings": plain(interval.warnings),
        "censored": "upper bound" if is_below else "lower bound" if is_above else None,
    }
