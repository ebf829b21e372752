"""What do commands print with --json? Every document with the type that it is made of, and so its JSON Schema.

`documents` has them all; tests hold whatever a command prints to the schemas of its documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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


_QUESTIONS = ("compare", "ablate", "bisect", "screen", "boundary", "search", "calibrate")


def documents() -> dict[str, Document]:
    """Return every document that a command prints with --json, by its name."""
    from pgdrag.cli.bench import WindowPlan
    from pgdrag.cli.clean import Cleaned, Restored
    from pgdrag.cli.fetch import FetchedVersion
    from pgdrag.cli.fleet import FleetCheck
    from pgdrag.cli.list import Listing
    from pgdrag.cli.rm import Removed
    from pgdrag.cli.runs import Story
    from pgdrag.cli.tpcc import ConsistencyCheck
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
    from pgdrag.journal.run_list import RunSummary
    from pgdrag.model.observed import Stretch
    from pgdrag.report import plans_page, twin_check_page
    from pgdrag.report.claims_page import ClaimByRun
    from pgdrag.report.schema import extended, report_schema, schema_of
    from pgdrag.report.stretch import formats
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
    observations = extended(
        Stretch, {"pgdrag_observations": Literal[formats.FORMAT]}, formats.SHOWN
    )
    study = ("run", "resume", *_QUESTIONS)
    return {
        "report": Document(
            "What a run found", (*study, "show", "report", "bench", "tpcc run"), report_schema
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
        "observations": of(observations, "Part of a recording, with --format json", "observations"),
        "rm": of(Removed, "Which runs were removed", "rm"),
        "fetch": of(tuple[FetchedVersion, ...], "Where fetched versions are", "fetch"),
        "clean": of(Cleaned, "What was cleaned away", "clean"),
        "restore": of(Restored, "What was undone", "restore"),
    }
