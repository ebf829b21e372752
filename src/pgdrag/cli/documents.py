"""What do commands print with --json? Every document with the type that it is made of, and so its JSON Schema.

`documents` has them all; tests hold whatever a command prints to the schemas of its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
        state: "restored", "already restored", "gone", "changed since" (and left alone), "failed" or "forgotten".
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
class CleanedSnapshot:
    """A dataset snapshot.

    Attributes:
        key: what it was stored under.
        bytes: the size of its files.
    """

    key: str
    bytes: int
    is_removed: bool


@dataclass(frozen=True)
class Cleaned:
    """What dead pgdrag processes had left behind, and which dataset snapshots there are.

    Attributes:
        done: what was undone or removed, in sentences.
    """

    done: tuple[str, ...]
    snapshots: tuple[CleanedSnapshot, ...]


@dataclass(frozen=True)
class RemovedRun:
    """A run that was removed.

    Attributes:
        trials: how many had ended.
    """

    run: str
    trials: int
    has_report: bool


@dataclass(frozen=True)
class Removed:
    """Runs that were removed.

    Attributes:
        freed_bytes: what the file system got back.
        kept: why the journal keeps its size, or "".
    """

    runs: tuple[RemovedRun, ...]
    freed_bytes: int
    kept: str


@dataclass(frozen=True)
class FetchedVersion:
    """A version of PostgreSQL that was downloaded, and the directory of its programs."""

    version: str
    bin_dir: str


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
class WindowPlan:
    """What a command would do; `before` is what it would do to the server before the load."""

    server: str
    workload: str
    before: tuple[str, ...] = ()
    load: LoadProfile | None = None


_QUESTIONS = ("compare", "ablate", "bisect", "screen", "boundary", "search", "calibrate")


def documents() -> dict[str, Document]:
    """Return every document that a command prints with --json, by its name."""
    from pgdrag.cli.list import Listing
    from pgdrag.experiment.conf_diff import ConfDiff
    from pgdrag.experiment.conf_doctor import ConfDiagnosis
    from pgdrag.experiment.conf_lines import ConfLine
    from pgdrag.experiment.plan import Plan
    from pgdrag.experiment.preflight import Checked
    from pgdrag.experiment.search_space import SearchSpace
    from pgdrag.findings.doctor.words import Diagnosed
    from pgdrag.findings.history import History
    from pgdrag.findings.holds.distribution import HoldDistribution
    from pgdrag.findings.plan_flips import TwinPlans
    from pgdrag.findings.two_runs import TwoRuns
    from pgdrag.horizon.state import HorizonState
    from pgdrag.journal import RunSummary
    from pgdrag.report import plans_page, twin_check_page
    from pgdrag.report.claims_page import ClaimByRun
    from pgdrag.report.schema import extended, report_schema, schema_of
    from pgdrag.report.stretch.formats import ShownStretch
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
            (*study, "show", "report", "bench", "tpcc run"),
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
        "observations": of(ShownStretch, "Part of a recording, with --format json", "observations"),
        "rm": of(Removed, "Which runs were removed", "rm"),
        "fetch": of(tuple[FetchedVersion, ...], "Where fetched versions are", "fetch"),
        "clean": of(Cleaned, "What was cleaned away", "clean"),
        "restore": of(Restored, "What was undone", "restore"),
    }
