"""What do commands print with --json? Every document with the type that it is made of, and so its JSON Schema.

`documents` has them all; tests hold whatever a command prints to the schemas of its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdrag.findings.doctor import Diagnosis
from pgdrag.findings.doctor.periods import Rise
from pgdrag.findings.doctor.statement_rises import StatementRise
from pgdrag.fleet.messages import Facts
from pgdrag.model.load import LoadProfile

Schema = dict[str, Any]


@dataclass(frozen=True)
class Document:
    """What commands print.

    Attributes:
        title: what it is, in a few words.
        commands: those that print it, without `pgdrag`.
        schema: makes its JSON Schema.
    """

    title: str
    commands: tuple[str, ...]
    schema: Callable[[], Schema]


@dataclass(frozen=True)
class Story:
    """A run in ten lines."""

    run: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """One consistency condition of TPC-C.

    Attributes:
        demands: what it demands, in words.
        violation: how it is violated; null: it holds.
    """

    condition: str
    demands: str
    violation: str | None


@dataclass(frozen=True)
class ConsistencyCheck:
    """Whether TPC-C's tables are consistent."""

    server: str
    consistent: bool
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class RestoredChange:
    """A change that a dead pgdrag had made.

    Attributes:
        kind: the kind of change.
        change: what it was.
        state: "restored", "already restored", "gone", "changed since" (and left alone) or "failed".
        sentence: the same for people.
    """

    kind: str
    change: Mapping[str, Any]
    state: str
    sentence: str


@dataclass(frozen=True)
class Restored:
    """What dead pgdrag processes had changed, and what became of that.

    Attributes:
        unreadable: what could not be read of the undo journal, in sentences.
    """

    changes: tuple[RestoredChange, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class CheckedHost:
    """A host of a fleet.

    Attributes:
        facts: what it is; null: it did not answer.
        clock_ahead_s: its clock less this machine's; null: not known.
        problems: why trials cannot run there, in words.
    """

    facts: Facts | None
    clock_ahead_s: float | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class FleetCheck:
    """The hosts of a fleet by name, and in what they differ."""

    hosts: Mapping[str, CheckedHost]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class ListedExperiment:
    """A shipped experiment, with what each of its scales is."""

    name: str
    title: str
    question: str
    scales: Mapping[str, str]


@dataclass(frozen=True)
class ListedObservation:
    """Something that a collector observes."""

    collector: str
    name: str
    unit: str
    label: str


@dataclass(frozen=True)
class ListedMechanism:
    """A mechanism of slowdown, and which way it moves observations."""

    name: str
    summary: str
    signs: Mapping[str, str]


@dataclass(frozen=True)
class Listing:
    """What this installation has: experiments, and the summary of every plug-in by name."""

    experiments: tuple[ListedExperiment, ...]
    workloads: Mapping[str, str]
    factors: Mapping[str, str]
    holders: Mapping[str, str]
    designs: Mapping[str, str]
    collectors: Mapping[str, str]
    sections: Mapping[str, str]
    formats: Mapping[str, str]
    observations: tuple[ListedObservation, ...]
    mechanisms: tuple[ListedMechanism, ...]


@dataclass(frozen=True)
class Bounds:
    """A ratio with its interval."""

    low: float
    center: float
    high: float


@dataclass(frozen=True)
class Since:
    """A live server against an earlier recording of it.

    Attributes:
        slowdown: throughput then divided by now.
        too_short: why there is no verdict, or "".
        statements: that take longer or read more per call.
        not_compared: why no statement was compared, or "".
    """

    file: str
    is_regression: bool
    statements: tuple[StatementRise, ...]
    statements_compared: int
    not_compared: str
    slowdown: Bounds | None = None
    confidence: float | None = None
    rises: tuple[Rise, ...] = ()
    too_short: str = ""


@dataclass(frozen=True)
class Diagnosed:
    """What costs time on a live server.

    Attributes:
        transactions: committed in the window; null: not known.
        sessions: at work, on average.
        waits_s: sessions' time by wait.
        looked_for: names of the symptoms that could be looked for; not_seen: of the others, with the reason.
        own_queries, own_share: what pgdrag asked the server, and the share of the window that this took.
        since: with --since.
    """

    server: str
    version: str
    window_s: float
    transactions: int | None
    sessions: float | None
    waits_s: Mapping[str, float] | None
    is_healthy: bool
    diagnoses: tuple[Diagnosis, ...]
    looked_for: tuple[str, ...]
    not_seen: Mapping[str, str]
    notes: tuple[str, ...]
    own_queries: int
    own_share: float
    since: Since | None = None


@dataclass(frozen=True)
class WindowPlan:
    """What a command would do; `before` is what it would do to the server before the load."""

    server: str
    workload: str
    before: tuple[str, ...] = ()
    load: LoadProfile | None = None


_QUESTIONS = ("compare", "ablate", "bisect", "screen", "boundary", "search", "calibrate")


def documents() -> dict[str, Document]:
    """Return every document that a command prints with --json, by its name."""
    from pgdrag.experiment.conf_diff import ConfDiff
    from pgdrag.experiment.conf_doctor import ConfDiagnosis
    from pgdrag.experiment.conf_lines import ConfLine
    from pgdrag.experiment.plan import Plan
    from pgdrag.experiment.preflight import Checked
    from pgdrag.experiment.search_space import SearchSpace
    from pgdrag.findings.history import History
    from pgdrag.findings.holds.distribution import HoldDistribution
    from pgdrag.findings.plan_flips import TwinPlans
    from pgdrag.findings.two_runs import TwoRuns
    from pgdrag.horizon.state import HorizonState
    from pgdrag.journal import RunSummary
    from pgdrag.report import plans_page, twin_check_page
    from pgdrag.report.claims_page import ClaimByRun
    from pgdrag.report.schema import extended, report_schema, schema_of
    from pgdrag.twins.fidelity import TwinCheck
    from pgdrag.twins.leaks import Scan
    from pgdrag.twins.model import Twin

    def of(kind: Any, title: str, *commands: str) -> Document:
        return Document(title, commands, lambda: schema_of(kind, f"pgdrag {commands[0]}", title))

    plans = extended(
        TwinPlans, {"pgdrag_plans": Literal[plans_page.FORMAT], "flipped_share": float}
    )
    twin_check = extended(
        TwinCheck,
        {
            "pgdrag_twin_check": Literal[twin_check_page.FORMAT],
            "verdict": str,
            "sentence": str,
            "faithful_share": float,
            "off": Mapping[str, tuple[str, ...]],
            "warnings": tuple[str, ...],
        },
    )
    study = ("run", "resume", *_QUESTIONS)
    return {
        "report": Document(
            "What a run found",
            (*study, "show", "bench", "tpcc run"),
            report_schema,
        ),
        "plan": of(Plan, "What a run would do, with --dry-run", *study),
        "window-plan": of(WindowPlan, "What a load would do, with --dry-run", "bench"),
        "search-space": of(SearchSpace, "What a search may change, with --list-space", "search"),
        "runs": of(tuple[RunSummary, ...], "All runs, newest first", "runs"),
        "explain": of(Story, "A run in ten lines", "explain"),
        "history": of(History, "How an experiment's runs went over time", "history"),
        "two-runs": of(TwoRuns, "One run against another", "report"),
        "claims": of(
            Mapping[str, tuple[ClaimByRun, ...]],
            "Published figures with their answers, by experiment",
            "claims",
        ),
        "check": of(Checked, "Whether an experiment or settings would run here", "check"),
        "conf-lines": of(
            tuple[ConfLine, ...], "Lines of a configuration", "conf explain", "conf lint"
        ),
        "conf-diff": of(ConfDiff, "In what two configurations differ", "conf diff"),
        "doctor": of(Diagnosed, "What costs time on a live server", "doctor"),
        "doctor-conf": of(ConfDiagnosis, "Which lines are known to hurt", "doctor"),
        "fleet-check": of(FleetCheck, "What each host of a fleet is", "fleet check"),
        "horizon": of(HorizonState, "Who holds back the horizon", "horizon show"),
        "holds": of(HoldDistribution, "How a horizon is held", "capture horizon"),
        "tpcc-check": of(ConsistencyCheck, "Whether TPC-C's tables are consistent", "tpcc check"),
        "plans": of(plans, "Which plans of a twin a configuration changes", "plans"),
        "twin": of(Twin, "What is in a twin", "twin show"),
        "twin-scan": of(Scan, "Values of the original in a twin, with --scan", "twin show"),
        "twin-check": of(twin_check, "How far a twin is like the original", "twin check"),
        "list": of(Listing, "What this installation has", "list"),
        "restore": of(Restored, "What was undone", "restore"),
    }
