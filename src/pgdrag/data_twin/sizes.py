"""How many rows has each table of a data twin, and how many bytes does all of it take?

The rule of scale: a table of up to 1,000 rows is as large as in the original, whatever the scale: those are tables of
codes, branches, warehouses. All others have their rows times the scale, and never fewer than 1,000.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pgdrag.twins.model import Relation, Setting, Twin

SMALLEST_SCALED_ROWS = 1000
SMALL_BLOCKS = 16  # of tables up to this, whose pages may have far more room than rows
_EMPTY_CLUSTER_BYTES = 60_000_000
_LEAST_ROW_BYTES = 28  # header and pointer
_SCALED_SETTINGS = (
    *("shared_buffers", "effective_cache_size"),
    # Sizes of tables from which on they are read in parallel.
    *("min_parallel_table_scan_size", "min_parallel_index_scan_size"),
)


def rows_of(relation: Relation) -> int:
    """Return how many rows a table of the original had when the window began, as the load of a twin begins there.

    Those that are counted as they change, else what ANALYZE saw.
    """
    if not relation.live_rows:
        return max(round(relation.tuples), 0)
    grown = relation.moved.get("n_tup_ins", 0) - relation.moved.get("n_tup_del", 0)
    return max(relation.live_rows - grown, 0) or relation.live_rows


def bytes_before(relation: Relation, table: Relation) -> float | None:
    """Return how many bytes a table or an index had when the window began, as the load of a twin begins there.

    Where nobody read that, as its table has grown since; None where nobody read the size at all.

    Args:
        table: the index's; of a table itself.
    """
    if relation.bytes_before is not None or relation.bytes is None:
        return relation.bytes_before
    return relation.bytes / _grown(table)


def at_the_beginning(twin: Twin) -> Twin:
    """Return a twin whose tables and indexes are as large as when the window began."""
    tables = {(x.schema, x.name): x for x in twin.relations if not x.table}

    def before(one: Relation) -> Relation:
        size = bytes_before(one, tables.get((one.schema, one.table or one.name), one))
        return one if size is None else replace(one, bytes=round(size))

    return replace(twin, relations=tuple(map(before, twin.relations)))


def _grown(table: Relation) -> float:
    """Return how many times as many rows a table had at the window's end as at its beginning."""
    return max(table.live_rows / rows_of(table), 1.0) if table.live_rows else 1.0


def scaled_rows(rows: int, scale: float) -> int:
    """Return how many rows a table of so many has at a scale."""
    return rows if rows <= SMALLEST_SCALED_ROWS else max(round(rows * scale), SMALLEST_SCALED_ROWS)


def table_scale(relation: Relation, scale: float) -> float:
    """Return what share of a table's rows a data twin has."""
    rows = rows_of(relation)
    return scaled_rows(rows, scale) / rows if rows else 1.0


def table_blocks(twin: Twin, table: tuple[str, str], scale: float) -> int:
    """Return how many blocks a table of a data twin is to have; 0 where nobody knows."""
    one = next((x for x in twin.relations if (x.schema, x.name) == table), None)
    if one is None:
        return 0
    size = bytes_before(one, one)
    blocks = one.pages / _grown(one) if size is None else size / twin.source.block_bytes
    if one.bytes is not None and one.moved.get("n_tup_ins", 0) <= one.moved.get("n_tup_del", 0):
        # Few rows, of which versions were made faster than they could be removed: half of the time it was as large as then.
        after = one.bytes / twin.source.block_bytes
        blocks = (blocks + after) / 2 if blocks < after <= SMALL_BLOCKS else blocks
    return round(blocks * table_scale(one, scale))


def data_twin_bytes(twin: Twin, scale: float) -> int:
    """Return about how many bytes a data twin takes on disk, an empty cluster included."""
    shares = {
        (one.schema, one.name): table_scale(one, scale) for one in twin.relations if not one.table
    }
    found = float(_EMPTY_CLUSTER_BYTES)
    for one in twin.relations:
        share = shares.get((one.schema, one.table or one.name), scale)
        size = one.pages * twin.source.block_bytes if one.bytes is None else one.bytes
        if not one.table:  # a stranger's file may say that a small table has many rows
            size = max(size, rows_of(one) * _LEAST_ROW_BYTES)
        found += share * (size + (one.toast_bytes or 0))
    return round(found)


def scaled_settings(settings: Iterable[Setting], scale: float) -> dict[str, str]:
    """Return settings in bytes that must shrink with the data, for the same share of it to fit in caches.

    Args:
        settings: of the original, as a twin has them; those at their default are not among them.

    Returns:
        By name, with a unit: {"shared_buffers": "12800kB"}. Memory of one operation (work_mem) stays: a call sees as
        many rows as in the original. So do settings for WAL: a second of the load writes as much of it.
    """
    found = {}
    for one in settings:
        if one.name in _SCALED_SETTINGS and one.value is not None and one.unit.endswith("kB"):
            kb = int(one.value) * int(one.unit.removesuffix("kB") or 1)
            found[one.name] = f"{max(round(kb * scale), 128)}kB"
    return found
