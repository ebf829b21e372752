"""How does one plan differ from another? Said in words; costs and estimates alone are no difference.

Scans are compared table by table, joins by the tables on their two sides, and everything else, under EXPLAIN's
name for it, by how often it is there: two plans of the same form are one plan, whatever the settings make them cost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgdrag.english import listed
from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.plan_nodes import (
    JOINS,
    children,
    is_scan,
    misestimate,
    node_words,
    nodes,
    number_of,
    scanned,
    text_of,
)
from pgdrag.model.recordings import Plan, StatementPlan

_NAMED = 4  # differences of one statement


@dataclass(frozen=True)
class PlanChange:
    """A statement of the workload that the server plans in another way than on the reference rung.

    Attributes:
        kind: which of its plans: for any values ("generic"), for given ones ("custom"), or both.
        words: how it differs, the custom plan where both do.
    """

    transaction: str
    query: str
    kind: Literal["generic", "custom", "generic and custom"]
    words: str


@dataclass(frozen=True)
class PlanChanges:
    """The statements that the server plans in another way than on the rung before."""

    changes: tuple[PlanChange, ...] = ()


def plan_changes(
    before: Sequence[StatementPlan], after: Sequence[StatementPlan]
) -> tuple[PlanChange, ...]:
    """Return the statements whose plan is another, in the order of the second; by their text."""
    known = {plan.query: plan for plan in before}
    changes = []
    for now in after:
        was = known.get(now.query)
        if was is None:
            continue
        generic = plan_diff(was.generic, now.generic)
        custom = plan_diff(was.custom, now.custom, now.analyzed)
        kind: Literal["generic", "custom", "generic and custom"] = "custom"
        if generic:
            kind = "generic and custom" if custom else "generic"
        if generic or custom:
            changes.append(PlanChange(now.transaction, now.query, kind, custom or generic))
    return tuple(changes)


def plan_diff(before: Plan | None, after: Plan | None, analyzed: Plan | None = None) -> str:
    """Say how the second plan differs from the first; "" where they have the same form, or one is not known.

    Args:
        before: EXPLAIN's object below "Plan", as the other.
        after: of the same statement.
        analyzed: the second as it ran, for what it expected against what came.

    Returns:
        "index scan of stock by stock_pkey → sequential scan of stock; cost 8.4 → 2,500; rows estimated
        1, actual 100,000 (sequential scan of stock)".
    """
    found = [] if before is None or after is None else list(_differences(before, after))
    if before is None or after is None or not found:
        return ""
    parts = found[:_NAMED]
    if len(found) > _NAMED:
        parts.append(f"{len(found) - _NAMED} more differences")
    parts.append(f"cost {_cost(before)} → {_cost(after)}")
    worst = misestimate(analyzed) if analyzed is not None else None
    if worst is not None:
        parts.append(worst.words)
    return "; ".join(parts)


def _differences(before: Plan, after: Plan) -> Iterator[str]:
    was, now = _parts(before), _parts(after)
    for kind in dict.fromkeys([*now, *was]):
        lost, added = was[kind] - now[kind], now[kind] - was[kind]
        if lost and added:
            yield f"{listed(sorted(lost))} → {listed(sorted(added))}"
        elif lost or added:
            yield f"{'with' if added else 'without'} {listed(sorted(lost | added))}"
    workers = [
        sum(number_of(x, "Workers Planned") for x in nodes(each)) for each in (before, after)
    ]
    if workers[0] != workers[1]:
        yield f"parallel workers {workers[0]:.0f} → {workers[1]:.0f}"


def _parts(plan: Plan) -> Mapping[str, Counter[str]]:
    """Return what a plan consists of, in words: the scans of each table, then joins, aggregates and the rest."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in sorted(nodes(plan), key=lambda each: not is_scan(each)):
        kind = text_of(node, "Node Type")
        if is_scan(node):
            found[f"scans of {scanned(node)}"][_scan_words(node)] += 1
        elif kind in JOINS:
            found["joins"][_join_words(node)] += 1
        elif kind == "Aggregate":
            how = (text_of(node, "Partial Mode").lower(), text_of(node, "Strategy").lower())
            words = " ".join(word for word in how if word not in ("", "simple"))
            found["aggregates"][f"{words} aggregate".strip()] += 1
        elif kind == "Append":
            found["rest"][f"{_parallel(node).title()}{kind}"] += 1
        elif not kind.startswith(("Bitmap", "Gather")):  # part of a scan; seen in its workers
            found["rest"][kind] += 1
    if "JIT" in plan:
        found["rest"]["JIT compilation"] += 1
    return found


def _scan_words(node: Plan) -> str:
    """Return "parallel sequential scan of stock", "bitmap scan of stock by kind (BitmapOr of 2)"."""
    kinds = [text_of(x, "Node Type") for x in nodes(node)]
    scans = kinds.count("Bitmap Index Scan")
    either = f" (BitmapOr of {scans})" if "BitmapOr" in kinds else ""
    return f"{_parallel(node)}{node_words(node)}{either}"


def _join_words(node: Plan) -> str:
    """Return "nested loop of stock with item and orders", its outer side first."""
    outer, inner = (
        listed(sorted({scanned(x) for side in sides for x in nodes(side) if is_scan(x)}))
        for sides in (children(node)[:1], children(node)[1:])
    )
    join = text_of(node, "Join Type").lower()
    kind = f" ({join})" if join not in ("", "inner") else ""
    return f"{_parallel(node)}{node_words(node)}{kind} of {outer} with {inner}"


def _parallel(node: Plan) -> str:
    """Return a word for a node whose workers share its rows; in others each worker has all of them."""
    return "parallel " if node.get("Parallel Aware") else ""


def _cost(plan: Plan) -> str:
    cost = number_of(plan, "Total Cost")
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


def _plans(one: Compared, _: Treatments) -> PlanChanges | None:
    before, after = (x.recordings.of(StatementPlan) for x in (one.reference, one.trials))
    changes = plan_changes(before, after) if one.previous else ()
    return PlanChanges(changes) if changes else None


PLANS = TreatmentAnalysis("plan_changes", PlanChanges, _plans)
