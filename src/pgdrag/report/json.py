"""The findings as JSON, for programs: stable keys, numbers in the units that their names end in.

The keys are those of `Findings`, of its run and study, and of each rung's `TreatmentFinding`, with what each registered
analysis found under the name of that (null: nothing). `report.schema` makes the JSON Schema, which describes them all;
it is kept as docs/reference/report.schema.json.

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
from pgdrag.model import Level, Outcome, RestoreCost, Result, RunRecord, Study
from pgdrag.model.measurement import Arrivals, Counts, DriverCost, Generator
from pgdrag.model.recordings import Recordings

FORMAT: Final = 2  # changes when a key changes its meaning or goes away
HEAD = ("answer", "noise_floor", "instrument", "warnings")  # the keys of the whole run

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def render_json(findings: Findings) -> str:
    """Return the findings as an indented JSON object, as the module says; no NaN, no Infinity."""
    found = plain(findings.found)
    document: dict[str, Json] = {
        "pgdrag_report": FORMAT,
        **_fields(findings, HEAD),
        "run": _fields(findings.run, keys_of(RunRecord, without=["study", "results"])),
        "study": _fields(findings.run.study, keys_of(Study, without=["rungs", "claims"])),
        "rungs": [_rung(rung) for rung in findings.rungs],
        **{name: plain(findings.get(kind.finds)) for name, kind in run_analyses().items()},
        "found": {"design": findings.run.study.design, **found}
        if isinstance(found, dict)
        else None,
        "trials": [plain(_trial(result)) for result in findings.run.results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def json_of(value: object) -> str:
    """Return a value as an indented JSON object, with `plain`."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# What a page carries of the rungs and trials: their numbers, without what was seen of them.
_RUNG_NUMBERS = ("state", "outcome", "reason", "trials", "tps", "to_baseline", "to_previous")
_TRIAL_NUMBERS = (
    "number",
    "block",
    "treatment",
    "outcome",
    "elapsed_s",
    "committed",
    "committed_per_s",
)


def embedded_json(findings: Findings) -> str:
    """Return the numbers of the report under the keys of the whole document, for a script element of a page."""
    # Here: the terminal does not wait for Jinja.
    from jinja2.utils import htmlsafe_json_dumps

    run, study = findings.run, findings.run.study
    document: dict[str, Json] = {
        "pgdrag_report": FORMAT,
        **_fields(findings, HEAD),
        "run": _fields(run, ("run_id", "status", "server_version", "pgdrag_version", "host")),
        "study": _fields(study, ("name", "title", "question", "scale", "design")),
        "rungs": [
            {**_fields(one.rung, ("name", "title")), **_fields(one, _RUNG_NUMBERS)}
            for one in findings.rungs
        ],
        "trials": [_fields(_trial(one), _TRIAL_NUMBERS) for one in run.results],
    }
    return htmlsafe_json_dumps(document, separators=(",", ":"), allow_nan=False)


def keys_of(kind: type, without: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a dataclass that are keys of the document: all but those that stand elsewhere in it."""
    return tuple(x.name for x in fields(kind) if x.name not in without)


def _fields(value: object, names: Sequence[str]) -> dict[str, Json]:
    return {name: plain(getattr(value, name)) for name in names}


def _rung(rung: TreatmentFinding) -> Json:
    analysed = {name: plain(rung.get(kind.finds)) for name, kind in treatment_analyses().items()}
    return {**_fields(rung, ("state", *keys_of(TreatmentFinding, without=["found"]))), **analysed}


@dataclass(frozen=True)
class Trial:
    """One trial of the run, in the order run.

    Fields named as those of the trial, its result or its measurement are those; without a measurement they are None.

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
    generators: tuple[Generator, ...] | None
    phases_s: Mapping[str, float]
    restored: RestoreCost | None
    violations: tuple[str, ...]
    warnings: tuple[str, ...]


def _trial(result: Result) -> Trial:
    trial, measured = result.trial, result.measurement
    found: dict[str, Any] = {
        x.name: next(
            (getattr(y, x.name) for y in (trial, result, measured) if hasattr(y, x.name)), None
        )
        for x in fields(Trial)
    }
    found |= {"treatment": trial.treatment.name, "levels": trial.treatment.levels}
    if measured is not None:
        rate = rate_of(result, measured).per_s if measured.elapsed_s else None
        found |= {
            "committed": measured.total.committed,
            "committed_per_s": rate,
            "counts": measured.transactions,
        }
    return Trial(**found)


def plain(value: object) -> Json:
    """Convert a value of the findings to JSON; what is not finite is null."""
    match value:
        case Interval(low, center, high, confidence, method, warnings):
            is_below, is_above = center == 0, math.isinf(center)
            return {
                "low": plain(low),
                "center": None if is_below else plain(center),
                "high": plain(high),
                "confidence": confidence,
                "method": method,
                "warnings": plain(warnings),
                "censored": "upper bound" if is_below else "lower bound" if is_above else None,
            }
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
