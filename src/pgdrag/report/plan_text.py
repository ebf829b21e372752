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
    cost, rows = number_of(node, "Total Cost"), number_of(node, "Plan Rows")
    yield f"{head}{_title(node)}  (cost {cost:,.2f}, rows {rows:,.0f}){_actual(node)}"
    for key in _SAID:
        if (value := node.get(key, 0)) != 0:
            words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            yield f"{below}{key}: {words}"
    buffers = [f"{key.lower()} {number_of(node, key):,.0f}" for key in _BUFFERS if key in node]
    if buffers:
        yield f"{below}Buffers: {', '.join(buffers)}"
    for child in children(node):
        yield from _node_lines(child, depth + 1)


def _title(node: Plan) -> str:
    kind, strategy = text_of(node, "Node Type"), text_of(node, "Strategy")
    if kind == "Aggregate" and strategy:
        kind = f"{strategy} Aggregate"
    elif kind == "ModifyTable":
        kind = text_of(node, "Operation") or kind
    join, parent = text_of(node, "Join Type"), text_of(node, "Parent Relationship")
    index, name = text_of(node, "Index Name"), text_of(node, "Relation Name")
    alias = text_of(node, "Alias")
    is_beside = parent in ("InitPlan", "SubPlan")  # run beside the parent's own input
    words = [
        kind,
        f"({join.lower()})" if join not in ("", "Inner") else "",
        f"using {index}" if index else "",
        f"on {name}" if name else "",
        alias if alias != name else "",
        f"({parent.lower()})" if is_beside else "",
    ]
    return " ".join(word for word in words if word)


def _actual(node: Plan) -> str:
    if "Actual Loops" not in node:
        return ""
    loops = number_of(node, "Actual Loops")
    if not loops:
        return "  (never run)"
    times = "" if loops == 1 else f", {loops:,.0f} times"
    time_ms = number_of(node, "Actual Total Time")
    took = f" in {time_ms:.3f} ms" if "Actual Total Time" in node else ""
    return f"  (actual rows {number_of(node, 'Actual Rows'):,.0f}{took}{times})"
