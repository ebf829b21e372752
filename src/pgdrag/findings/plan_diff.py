"""How does one plan differ from another? Said in words; costs and estimates alone are no difference.

Scans are compared table by table, joins by the tables below them, and everything else by how often it
is there: two plans of the same form are one plan, whatever the settings make them cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.plan_nodes import (
    JOINS,
    children,
    is_scan,
    misestimate,
    nodes,
    number_of,
    scan_words,
    scanned,
    text_of,
)
from pgdrag.model.recordings import Plan, StatementPlan

_NAMED = 4  # differences of one statement
# What else a plan may do, for people; other kinds of nodes keep their own names.
_WORK = {
    "Sort": "a sort",
    "Incremental Sort": "an incremental sort",
    "Hash": "a hash table",
    "Materialize": "a materialization",
    "Memoize": "a cache of inner rows",
    "WindowAgg": "a window",
    "Unique": "a removal of duplicates",
    "LockRows": "row locks",
    "Append": "an append",
    "Merge Append": "a merging append",
    "Subquery Scan": "a subquery",
    "CTE Scan": "a common table expression",
    "Function Scan": "a function's rows",
}


_NAMED_ELSEWHERE = frozenset({"Aggregate", "Gather", "Gather Merge"})


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


def plan_diff(before: Plan, after: Plan, analyzed: Plan | None = None) -> str:
    """Say how the second plan differs from the first; "" where they have the same form.

    Args:
        before: EXPLAIN's object below "Plan", as the other.
        after: of the same statement.
        analyzed: the second as it ran, for what it expected against what came.

    Returns:
        "stock by stock_pkey (index scan) → sequential scan of stock; cost 8.4 → 2,500; rows estimated
        1, actual 100,000 (sequential scan of stock)".
    """
    found = list(_differences(before, after))
    if not found:
        return ""
    parts = found[:_NAMED]
    if len(found) > _NAMED:
        parts.append(f"{len(found) - _NAMED} more differences")
    parts.append(f"cost {_cost(before)} → {_cost(after)}")
    worst = misestimate(analyzed) if analyzed is not None else None
    if worst is not None:
        parts.append(worst.words)
    return "; ".join(parts)


def plan_changes(
    before: Sequence[StatementPlan], after: Sequence[StatementPlan]
) -> tuple[PlanChange, ...]:
    """Return the statements whose plan is another, in the order of the second; by their text."""
    known = {plan.query: plan for plan in before}
    pairs = ((known[plan.query], plan) for plan in after if plan.query in known)
    return tuple(change for pair in pairs if (change := _change(*pair)) is not None)


def _change(before: StatementPlan, after: StatementPlan) -> PlanChange | None:
    generic = _diff(before.generic, after.generic, None)
    custom = _diff(before.custom, after.custom, after.analyzed)
    if not generic and not custom:
        return None
    kind: Literal["generic", "custom", "generic and custom"] = "custom"
    if generic:
        kind = "generic and custom" if custom else "generic"
    return PlanChange(after.transaction, after.query, kind, custom or generic)


def _diff(before: Plan | None, after: Plan | None, analyzed: Plan | None) -> str:
    return "" if before is None or after is None else plan_diff(before, after, analyzed)


def _differences(before: Plan, after: Plan) -> Iterator[str]:
    yield from _scan_differences(_scans(before), _scans(after))
    yield from _join_differences(_joins(before), _joins(after))
    yield from _aggregate_differences(_aggregates(before), _aggregates(after))
    yield from _work_differences(_work(before), _work(after))
    workers = [
        sum(number_of(x, "Workers Planned") for x in nodes(each)) for each in (before, after)
    ]
    if workers[0] != workers[1]:
        yield f"parallel workers {workers[0]:.0f} → {workers[1]:.0f}"
    if ("JIT" in before) != ("JIT" in after):
        yield "compiled (JIT)" if "JIT" in after else "no longer compiled (JIT)"


def _scans(plan: Plan) -> dict[str, str]:
    """Return how each table is read, by its name in the statement; a second time has a number."""
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for node in nodes(plan):
        if is_scan(node):
            name = scanned(node)
            times[name] += 1
            found[name if times[name] == 1 else f"{name} #{times[name]}"] = scan_words(node)
    return found


def _scan_differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in [*after, *(name for name in before if name not in after)]:
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if was is None:
            yield f"now also {now} of {name}"
        elif now is None:
            yield f"no {was} of {name} any more"
        else:
            yield f"{name} {_by(was)} → {_of(now, name)}"


def _by(words: str) -> str:
    """Return "by stock_pkey (index scan)" of "index scan by stock_pkey"."""
    kind, _, index = words.partition(" by ")
    return f"by {index} ({kind})" if index else f"by {kind}"


def _of(words: str, name: str) -> str:
    kind, by, index = words.partition(" by ")
    return f"{kind} of {name}{by}{index}"


# By which tables are below a join: its kind, and which of them come from its outer side.
_Joins = Mapping[frozenset[str], tuple[str, frozenset[str]]]


def _joins(plan: Plan) -> _Joins:
    return {
        _tables(node): (_join_words(node), _tables(children(node)[0]))
        for node in nodes(plan)
        if text_of(node, "Node Type") in JOINS
    }


def _tables(node: Plan) -> frozenset[str]:
    return frozenset(scanned(x) for x in nodes(node) if is_scan(x))


def _join_words(node: Plan) -> str:
    kind, join = JOINS[text_of(node, "Node Type")], text_of(node, "Join Type")
    return kind if join in ("", "Inner") else f"{kind} ({join.lower()})"


def _join_differences(before: _Joins, after: _Joins) -> Iterator[str]:
    for tables in sorted(after.keys() & before.keys(), key=sorted):
        (was, was_outer), (now, now_outer) = before[tables], after[tables]
        if was != now:
            yield f"{was} of {_listed(tables)} → {now}"
        elif was_outer != now_outer:
            yield f"{now} of {_listed(tables)} now begins with {_listed(now_outer)}"
    if after.keys() != before.keys():
        yield f"other joins: {_joins_words(before)} → {_joins_words(after)}"


def _joins_words(joins: _Joins) -> str:
    """Return the joins from the innermost out."""
    ranked = sorted(joins.items(), key=lambda each: (len(each[0]), sorted(each[0])))
    return ", ".join(f"{kind} of {_listed(of)}" for of, (kind, _) in ranked) or "none"


def _listed(tables: Iterable[str]) -> str:
    return " and ".join(sorted(tables))


def _aggregates(plan: Plan) -> list[str]:
    return [
        " ".join(x for x in (text_of(node, "Strategy").lower(), _partial(node)) if x)
        for node in nodes(plan)
        if text_of(node, "Node Type") == "Aggregate"
    ]


def _partial(node: Plan) -> str:
    mode = text_of(node, "Partial Mode").lower()
    return "" if mode == "simple" else mode


def _aggregate_differences(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    if before != after:
        was, now = (", ".join(each) or "none" for each in (before, after))
        yield f"aggregate {was} → {now}"


def _work(plan: Plan) -> Counter[str]:
    """Count the nodes of other kinds."""
    kinds = (text_of(node, "Node Type") for node in nodes(plan) if not is_scan(node))
    counted = Counter(kind for kind in kinds if kind not in JOINS and kind not in _NAMED_ELSEWHERE)
    return Counter({kind: n for kind, n in counted.items() if not kind.startswith("Bitmap")})


def _work_differences(before: Counter[str], after: Counter[str]) -> Iterator[str]:
    for kind in sorted(after.keys() | before.keys()):
        if before[kind] != after[kind]:
            words = _WORK.get(kind, f'a node "{kind}"')
            if not before[kind] or not after[kind]:
                yield f"with {words}" if after[kind] else f"without {words}"
            else:
                yield f"{words}: {before[kind]} → {after[kind]} times"


def _cost(plan: Plan) -> str:
    cost = number_of(plan, "Total Cost")
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


@dataclass(frozen=True)
class PlanChanges:
    """The statements that the server plans in another way than on the rung before."""

    changes: tuple[PlanChange, ...] = ()


class PlanAnalysis(TreatmentAnalysis[PlanChanges]):
    """Which statements are planned in another way."""

    name = "plan_changes"
    finds = PlanChanges

    def find(self, one: Compared, treatments: Treatments) -> PlanChanges | None:
        """Return the changes of a treatment that has some."""
        before, after = (x.recordings.of(StatementPlan) for x in (one.reference, one.trials))
        changes = plan_changes(before, after) if one.previous else ()
        return PlanChanges(changes) if changes else None
