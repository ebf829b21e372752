"""The findings as JSON, for programs: stable keys, numbers in the units that their names end in.

The JSON Schema is made by `report.schema`, and kept as docs/reference/report.schema.json.

The document is one object::

    pgdrag_report   2; changes when a key changes its meaning or goes away
    answer          the question answered in words
    noise_floor     ratio of the most different trials of the baseline, or null
    instrument      what the collectors cost on this machine, or null
    warnings        about the run
    run             run_id, status, seed, versions, host, planned_trials, times (Unix, seconds)
    study           name, title, question, scale, design, source, workload, load, replicates, notes
    rungs           in order; each with `rung` (what was asked for), `state`, and the fields of
                    `TreatmentFinding`, and of each registered analysis what it found, by
                    its name; null where it found nothing
    horizon, ...    what each registered analysis of the whole run found, by its name; or null
    found           what only the design can say, with its name in `design`; null where it has
                    nothing to say of its own
    trials          in the order run; the fields of `Trial`

An interval is {low, center, high, confidence, method, warnings, censored}. JSON has no infinity: an
open end is null. `censored` says how to read that: "upper bound" (the value lies below `high`, and
`center` is null: nothing was committed), "lower bound" (it lies above `low`), or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from pgdrag.findings.analysis import run_analyses, treatment_analyses
from pgdrag.findings.combine import rate_of
from pgdrag.findings.values import Findings, Interval, TreatmentFinding
from pgdrag.model import Level, Outcome, RestoreCost, Result
from pgdrag.model.measurement import Arrivals, Counts, DriverCost
from pgdrag.model.recordings import Recordings

FORMAT: Final = 2

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def render_json(findings: Findings) -> str:
    """Return the findings as an indented JSON object, as the module says; no NaN, no Infinity."""
    document: dict[str, Json] = {
        "pgdrag_report": FORMAT,
        "answer": findings.answer,
        "noise_floor": plain(findings.noise_floor),
        "instrument": plain(findings.instrument),
        "warnings": plain(findings.warnings),
        # The study and each result have keys of their own, and each rung stands with what was found of it.
        "run": _fields(findings.run, without=["study", "results"]),
        "study": _fields(findings.run.study, without=["rungs"]),
        "rungs": [_rung(rung) for rung in findings.rungs],
        **{name: plain(findings.get(kind.finds)) for name, kind in run_analyses().items()},
        "found": _found(findings),
        "trials": plain([_trial(result) for result in findings.run.results]),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _fields(value: Any, without: Sequence[str]) -> dict[str, Json]:
    return {x.name: plain(getattr(value, x.name)) for x in fields(value) if x.name not in without}


def _rung(rung: TreatmentFinding) -> Json:
    analysed = {name: plain(rung.get(kind.finds)) for name, kind in treatment_analyses().items()}
    return {"state": rung.state, **_fields(rung, without=["found"]), **analysed}


def _found(findings: Findings) -> Json:
    found = plain(findings.found)
    return {"design": findings.run.study.design, **found} if isinstance(found, dict) else None


@dataclass(frozen=True)
class Trial:
    """One trial of the run, in the order run.

    Attributes:
        arrivals: None in closed loop.
        committed_per_s: without bias: of an extended window one commit less, as it stopped at its last.
        driver: what the load driver used.
        restored: what restoring its dataset took.
    """

    number: int
    block: int
    replicate: int
    treatment: str
    levels: tuple[Level, ...]
    is_brief: bool
    seed: int
    started_unix_s: float | None
    server_version: str
    outcome: Outcome
    reason: str
    elapsed_s: float | None
    stopped_by: str | None
    warm_up_s: float | None
    arrivals: Arrivals | None
    committed: int | None
    committed_per_s: float | None
    counts: Mapping[str, Counts] | None
    driver: DriverCost | None
    phases_s: Mapping[str, float]
    restored: RestoreCost | None
    violations: tuple[str, ...]
    warnings: tuple[str, ...]


def _trial(result: Result) -> Trial:
    trial, measured = result.trial, result.measurement
    rate = rate_of(result, measured).per_s if measured and measured.elapsed_s else None
    return Trial(
        number=trial.number,
        block=trial.block,
        replicate=trial.replicate,
        treatment=trial.treatment.name,
        levels=trial.treatment.levels,
        is_brief=trial.is_brief,
        seed=trial.seed,
        started_unix_s=result.started_unix_s,
        server_version=result.server_version,
        outcome=result.outcome,
        reason=result.reason,
        elapsed_s=measured.elapsed_s if measured else None,
        stopped_by=measured.stopped_by if measured else None,
        warm_up_s=measured.warm_up_s if measured else None,
        arrivals=measured.arrivals if measured else None,
        committed=measured.total.committed if measured else None,
        committed_per_s=rate,
        counts=measured.transactions if measured else None,
        driver=measured.driver if measured else None,
        phases_s=result.phases_s,
        restored=result.restored,
        violations=result.violations,
        warnings=result.warnings,
    )


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
        case BaseModel():
            return plain(value.model_dump(mode="json"))
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
