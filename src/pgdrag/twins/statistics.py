"""How large are a twin's tables and indexes, and what does the planner know of their columns?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pgdrag.twins.fields import STRICT, Count, Height, Share

RelationKind = Literal["table", "partitioned table", "index", "partitioned index", "materialized view", "toast"]  # fmt: skip


@dataclass(frozen=True)
class Relation:
    """Size and use of a table, an index or a materialized view.

    Attributes:
        table: of an index its table, else "".
        pages, tuples, all_visible_pages, all_frozen_pages: as pg_class has them; tuples is -1 if they were never counted.
        bytes: of the main fork, when the window ended; None where it could not be read.
        bytes_before: the same, when the window began.
        toast_bytes: of its TOAST table with its index; None where there is none.
        height: of a B-tree: levels above the leaves; None where the server does not tell.
        live_rows, dead_rows: estimates of the cumulative statistics.
        moved: what its counters grew by in the window, by their names in pg_stat_all_tables, pg_statio_all_tables,
            pg_stat_all_indexes and pg_statio_all_indexes.
    """

    __pydantic_config__ = STRICT

    schema: str
    name: str
    kind: RelationKind
    pages: Count
    tuples: float
    all_visible_pages: Count = 0
    all_frozen_pages: Count = 0
    bytes: Count | None = None
    bytes_before: Count | None = None
    toast_bytes: Count | None = None
    height: Height | None = None
    table: str = ""
    live_rows: Count = 0
    dead_rows: Count = 0
    moved: Mapping[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnStatistics:
    """What pg_stats says of a column, or of an index's expression, with tokens for values.

    Attributes:
        relation: the table, or the index whose expression it is.
        column: its name; of an expression, as pg_stats has it.
        number: its attnum.
        is_inherited: of the table with its children.
        type: as format_type has it; "" where it is unknown.
        value_class: columns of one class have the same token for the same value; None: values are not kept.
        is_kept: their values are their own tokens: booleans.
        has_hidden_values: there are values in the original that have no token, since their type is not known.
        n_distinct: as pg_stats has it: negative, it is a share of the rows.
        most_common, most_common_shares, histogram, correlation: as pg_stats has them.
        elements, element_shares, element_counts: most_common_elems, most_common_elem_freqs, elem_count_histogram.
        range_bounds: range_bounds_histogram: the nth of all lower bounds and the nth of all upper bounds, as ranges.
        range_lengths: range_length_histogram, of times in seconds, of dates in days; a length without end is infinite.
        empty_share: range_empty_frac: of the ranges that are not NULL; None: it is unknown.
    """

    __pydantic_config__ = STRICT

    schema: str
    relation: str
    column: str
    number: int
    is_inherited: bool
    type: str
    null_share: Share
    width: int
    n_distinct: float
    value_class: int | None = None
    is_kept: bool = False
    has_hidden_values: bool = False
    most_common: tuple[str, ...] = ()
    most_common_shares: tuple[float, ...] = ()
    histogram: tuple[str, ...] = ()
    correlation: float | None = None
    elements: tuple[str, ...] = ()
    element_shares: tuple[float, ...] = ()
    element_counts: tuple[float, ...] = ()
    range_bounds: tuple[str, ...] = ()
    range_lengths: tuple[str, ...] = ()
    empty_share: Share | None = None

    def __post_init__(self) -> None:
        if len(self.most_common) != len(self.most_common_shares):
            raise ValueError("each of the most common values has a share")
        if len(self.elements) > len(self.element_shares):
            raise ValueError("each of the most common elements has a share")
