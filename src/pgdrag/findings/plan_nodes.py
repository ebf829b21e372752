"""What does a plan consist of? EXPLAIN's own JSON, walked and named; and how far its estimates were off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pgdrag.english import listed
from pgdrag.model.recordings import Plan

# What stops its input early: that saw fewer rows than it has, which says nothing of the estimate.
_STOPPERS = frozenset({"Limit", "Merge Join"})
_STOPPING_JOINS = frozenset({"Semi", "Anti", "Right Semi", "Right Anti"})
# Written out where they are scanned: "sequential scan of stock".
_SCANS = {
    "Seq Scan": "sequential scan",
    "Sample Scan": "sample scan",
    "Index Scan": "index scan",
    "Index Only Scan": "index-only scan",
    "Bitmap Heap Scan": "bitmap scan",
    "Tid Scan": "TID scan",
    "Tid Range Scan": "TID range scan",
    "Foreign Scan": "foreign scan",
}
JOINS = {"Nested Loop": "nested loop", "Hash Join": "hash join", "Merge Join": "merge join"}


@dataclass(frozen=True)
class Misestimate:
    """Where a plan expected another number of rows than came, each time that the node ran.

    Attributes:
        node: "index scan of stock by stock_pkey".
        factor: how many times more or fewer rows came; at least 1.
    """

    node: str
    estimated: float
    actual: float
    factor: float

    @property
    def words(self) -> str:
        """Return "rows estimated 1, actual 100,000 (sequential scan of stock)"."""
        return f"rows estimated {self.estimated:,.0f}, actual {self.actual:,.0f} ({self.node})"


def tidy(explained: Mapping[str, Any]) -> Plan:
    """Return the plan without what says nothing: what is false, and buffers that are 0."""
    plan = dict(_said(explained["Plan"]))
    return plan | {"JIT": explained["JIT"]} if "JIT" in explained else plan


def _said(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "Plans":
            yield key, [dict(_said(child)) for child in value]
        elif value is not False and not (key.endswith(" Blocks") and value == 0):
            yield key, value


def children(node: Plan) -> Sequence[Plan]:
    """Return the nodes right below one."""
    return cast("Sequence[Plan]", node.get("Plans", ()))


def nodes(plan: Plan) -> Iterator[Plan]:
    """Yield the node and all below it, from the top down."""
    yield plan
    for child in children(plan):
        yield from nodes(child)


def text_of(node: Plan, key: str) -> str:
    """Return what a node says under a key; "" where it says nothing."""
    return str(node.get(key, ""))


def number_of(node: Plan, key: str) -> float:
    """Return a number of a node's; 0 where there is none."""
    found = node.get(key, 0)
    return float(found) if isinstance(found, int | float) else 0.0


def is_scan(node: Plan) -> bool:
    """Tell whether the node reads a table."""
    return text_of(node, "Node Type") in _SCANS


def scanned(node: Plan) -> str:
    """Return what the node scans, by the name that the statement has for it."""
    name, alias = text_of(node, "Relation Name"), text_of(node, "Alias")
    return f"{name} ({alias})" if name and alias and alias != name else name or alias


def node_words(node: Plan) -> str:
    """Return a name for any node: "backward index scan of stock by stock_pkey", "hash join"."""
    kind = text_of(node, "Node Type")
    if not is_scan(node):
        return JOINS.get(kind, kind.lower())
    way = "backward " if text_of(node, "Scan Direction") == "Backward" else ""
    indexes = dict.fromkeys(text_of(each, "Index Name") for each in _own_nodes(node))
    named = listed([name for name in indexes if name])
    return f"{way}{_SCANS[kind]} of {scanned(node)}" + (f" by {named}" if named else "")


def misestimate(plan: Plan) -> Misestimate | None:
    """Return the worst of an analyzed plan's estimates; None where all are within a row, or nothing ran.

    Both numbers are at least 1: the server estimates no fewer.
    """
    found = max(_misestimates(plan, is_stopped=False), key=lambda each: each.factor, default=None)
    return found if found is not None and found.factor > 1 else None


def _misestimates(node: Plan, *, is_stopped: bool) -> Iterator[Misestimate]:
    estimated = max(1.0, number_of(node, "Plan Rows"))
    actual = number_of(node, "Actual Rows")
    seen = max(1.0, actual)
    is_seen = number_of(node, "Actual Loops") > 0 and not (is_stopped and seen < estimated)
    if is_seen:
        factor = max(seen, estimated) / min(seen, estimated)
        yield Misestimate(node_words(node), estimated, actual, factor)
    is_stopping = (
        is_stopped
        or text_of(node, "Node Type") in _STOPPERS
        or text_of(node, "Join Type") in _STOPPING_JOINS
    )
    for child in children(node):
        yield from _misestimates(child, is_stopped=is_stopping)


def _own_nodes(scan: Plan) -> Iterator[Plan]:
    """Yield a scan and those below that look into indexes for it."""
    yield scan
    for child in children(scan):
        if text_of(child, "Node Type").startswith("Bitmap"):
            yield from _own_nodes(child)
