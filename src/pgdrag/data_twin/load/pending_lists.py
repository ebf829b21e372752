"""Which statements add to pending lists of GIN indexes? Searches read those, too."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdrag.data_twin.load.texts import change_of
from pgdrag.twins.model import Statement, Twin

_WORDS = re.compile(r"\w+")
_UNLISTED = re.compile(r"\bfastupdate\s*=\s*'?(?:off|false|no|0)\b", re.IGNORECASE)


def listed_table(text: str, twin: Twin) -> str:
    """Return the table that a statement changes, if an index of it has a pending list; else ""."""
    change = change_of(text)
    table = change.table[-1] if change.kind in ("insert", "update") and change.table else ""
    is_listed = any(
        x.table == table and x.method == "gin" and not _UNLISTED.search(x.definition) for x in twin.schema.indexes
    )  # fmt: skip
    return table if is_listed else ""


def listed_share(statement: Statement, every: Iterable[Statement], twin: Twin) -> float:
    """Return in which share of its calls a statement adds to pending lists of GIN indexes: an update that is HOT does not.

    Updates that write a column of an index never are; how many of the others were, the table's counters tell.

    Args:
        every: statements of the load.
    """
    table = listed_table(statement.text, twin)
    if not table:
        return 0.0
    words = {x for one in twin.schema.indexes if one.table == table for x in _WORDS.findall(one.definition)}  # fmt: skip

    def is_never_hot(text: str) -> bool:
        change = change_of(text)
        return change.kind == "update" and any(x.column in words for x in change.assignments)

    if change_of(statement.text).kind == "insert" or is_never_hot(statement.text):
        return 1.0
    moved = next((x.moved for x in twin.relations if x.kind == "table" and x.name == table), {})
    updates, hot = (moved.get(x, 0) for x in ("n_tup_upd", "n_tup_hot_upd"))
    never = sum(x.rows for x in every if listed_table(x.text, twin) == table and is_never_hot(x.text))  # fmt: skip
    return max(updates - hot - never, 0) / (updates - never) if updates > never else 1.0
