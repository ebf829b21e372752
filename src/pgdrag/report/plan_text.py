"""A plan as lines of text, much as EXPLAIN prints it."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.findings.plan_nodes import children, number_of, text_of
from pgdrag.model.recordings import Plan

# What a node says of itself beside its name, in this order.
_SAID = (
    *("Sort Key", "Presorted Key", "Group Key", "Index Cond", "Recheck Cond", "Hash Cond"),
    *("Merge Cond", "Join Filter", "TID Cond", "Filter", "Rows Removed by Filter"),
    *("Rows Removed by Index Recheck", "Workers Planned", "Workers Launched", "Sort Method"),
    *("Sort Space Used", "Heap Fetches", "Index Searches", "Cache Key"),
)
_BUFFERS = ("Shared Hit Blocks", "Shared Read Blocks", "Temp Read Blocks", "Temp Written Blocks")
_INDENT = "  "


def plan_text(plan: Plan) -> str:
    """Return the plan, a line a node and a line for each thing that it says of itself."""
    lines = list(_node_lines(plan, 0))
    return "\n".join([*lines, "JIT: compiled"] if "JIT" in plan else lines)


def _node_lines(node: Plan, depth: int) -> Iterator[str]:
    head, below = _INDENT * 2 * depth, _INDENT * (2 * depth + 1)
    yield f"{head}{_title(node)}  ({_estimates(node)}){_actual(node)}"
    for key in _SAID:
        if node.get(key, 0) != 0:
            yield f"{below}{key}: {_value(node[key])}"
    buffers = [f"{key.lower()} {number_of(node, key):,.0f}" for key in _BUFFERS if key in node]
    if buffers:
        yield f"{below}Buffers: {', '.join(buffers)}"
    for child in children(node):
        yield from _node_lines(child, depth + 1)


def _title(node: Plan) -> str:
    strategy = text_of(node, "Strategy")
    kind = (
        f"{strategy} Aggregate" if strategy and _is_aggregate(node) else text_of(node, "Node Type")
    )
    operation, join = text_of(node, "Operation"), text_of(node, "Join Type")
    kind = operation if operation and kind == "ModifyTable" else kind
    index, name = text_of(node, "Index Name"), text_of(node, "Relation Name")
    alias = text_of(node, "Alias")
    words = [
        kind,
        f"({join.lower()})" if join not in ("", "Inner") else "",
        f"using {index}" if index else "",
        f"on {name}" if name else "",
        alias if alias != name else "",
        f"({text_of(node, 'Parent Relationship').lower()})" if _is_beside(node) else "",
    ]
    return " ".join(word for word in words if word)


def _is_aggregate(node: Plan) -> bool:
    return text_of(node, "Node Type") == "Aggregate"


def _is_beside(node: Plan) -> bool:
    """Tell whether the node is run for its parent beside the parent's own input."""
    return text_of(node, "Parent Relationship") in ("InitPlan", "SubPlan")


def _estimates(node: Plan) -> str:
    rows = number_of(node, "Plan Rows")
    return f"cost {number_of(node, 'Total Cost'):,.2f}, rows {rows:,.0f}"


def _actual(node: Plan) -> str:
    if "Actual Loops" not in node:
        return ""
    loops = number_of(node, "Actual Loops")
    if not loops:
        return "  (never run)"
    times = "" if loops == 1 else f", {loops:,.0f} times"
    took = (
        f" in {number_of(node, 'Actual Total Time'):.3f} ms" if "Actual Total Time" in node else ""
    )
    return f"  (actual rows {number_of(node, 'Actual Rows'):,.0f}{took}{times})"


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
