"""How large are a database's relations, and what does the planner know of their columns? Values are as they are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

from pgdrag.capture.schema import OURS
from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.planning.btree_heights import btree_heights
from pgdrag.twins.model import Relation, RelationKind

_FROZEN_SINCE, _NEW_PAGE_SINCE = 180000, 160000
_KINDS: Mapping[str, RelationKind] = {
    "r": "table",
    "p": "partitioned table",
    "i": "index",
    "I": "partitioned index",
    "m": "materialized view",
}
_RELATIONS: LiteralString = f"""
SELECT c.oid::bigint, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
       greatest(c.relpages, 0) AS pages, c.reltuples::float8 AS tuples, c.relallvisible AS all_visible_pages,
       {{frozen}} AS all_frozen_pages,
       CASE WHEN c.relkind IN ('r', 'i', 'm') THEN pg_relation_size(c.oid) END AS bytes,
       CASE WHEN c.reltoastrelid <> 0 THEN pg_total_relation_size(c.reltoastrelid) END AS toast_bytes,
       coalesce((SELECT relname FROM pg_index JOIN pg_class AS t ON t.oid = indrelid WHERE indexrelid = c.oid), '')::text
           AS table,
       coalesce(pg_stat_get_live_tuples(c.oid), 0) AS live_rows, coalesce(pg_stat_get_dead_tuples(c.oid), 0) AS dead_rows
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'i', 'I', 'm') AND c.relpersistence <> 't' AND {OURS} ORDER BY c.oid
"""
_SIZES: LiteralString = f"""
SELECT c.oid::bigint, pg_relation_size(c.oid)
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'i', 'm') AND c.relpersistence <> 't' AND {OURS}
"""
_TABLE_COUNTERS: LiteralString = """
SELECT relid::bigint, seq_scan, seq_tup_read, coalesce(idx_scan, 0) AS idx_scan,
       coalesce(idx_tup_fetch, 0) AS idx_tup_fetch, n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd, {new_page}
       vacuum_count, autovacuum_count, analyze_count, autoanalyze_count,
       heap_blks_read, heap_blks_hit, coalesce(idx_blks_read, 0) AS idx_blks_read,
       coalesce(idx_blks_hit, 0) AS idx_blks_hit, coalesce(toast_blks_read, 0) AS toast_blks_read,
       coalesce(toast_blks_hit, 0) AS toast_blks_hit
  FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid)
"""
_INDEX_COUNTERS: LiteralString = """
SELECT indexrelid::bigint AS relid, idx_scan, idx_tup_read, idx_tup_fetch, idx_blks_read, idx_blks_hit
  FROM pg_stat_user_indexes JOIN pg_statio_user_indexes USING (relid, indexrelid)
"""
_STATISTICS: LiteralString = f"""
SELECT n.nspname::text AS schema, s.tablename::text AS relation, s.attname::text AS column, s.inherited AS is_inherited,
       s.null_frac::float8 AS null_share, s.avg_width AS width, s.n_distinct::float8,
       s.most_common_vals::text AS most_common, s.most_common_freqs::float8[] AS most_common_shares,
       s.histogram_bounds::text AS histogram, s.correlation::float8, s.most_common_elems::text AS elements,
       s.most_common_elem_freqs::float8[] AS element_shares, s.elem_count_histogram::float8[] AS element_counts,
       {{ranges}}
  FROM pg_stats AS s JOIN pg_namespace AS n ON n.nspname = s.schemaname WHERE {OURS} ORDER BY 1, 2, 3, 4
"""
_RANGES: LiteralString = """s.range_bounds_histogram::text AS range_bounds,
       s.range_length_histogram::text AS range_lengths, s.range_empty_frac::float8 AS empty_share"""
_NO_RANGES: LiteralString = (
    "NULL::text AS range_bounds, NULL::text AS range_lengths, NULL::float8 AS empty_share"
)
_RANGES_IN_VIEW_SINCE = 170000
# Before, they are where ANALYZE writes them (kinds 7 and 6): who may SELECT a single table does not see that.
_OF_RANGES: LiteralString = f"""
SELECT n.nspname::text, c.relname::text, a.attname::text, s.stainherit,
       CASE 7 WHEN stakind1 THEN stavalues1::text WHEN stakind2 THEN stavalues2::text WHEN stakind3 THEN stavalues3::text END,
       CASE 6 WHEN stakind1 THEN stavalues1::text WHEN stakind2 THEN stavalues2::text WHEN stakind3 THEN stavalues3::text END,
       CASE 6 WHEN stakind1 THEN stanumbers1[1] WHEN stakind2 THEN stanumbers2[1] WHEN stakind3 THEN stanumbers3[1] END::float8
  FROM pg_statistic AS s JOIN pg_attribute AS a ON a.attrelid = s.starelid AND a.attnum = s.staattnum
  JOIN pg_class AS c ON c.oid = s.starelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE {OURS} AND (6 IN (stakind1, stakind2, stakind3) OR 7 IN (stakind1, stakind2, stakind3))
"""
_EXTENDED: LiteralString = """
SELECT statistics_schemaname::text, statistics_name::text, n_distinct::text, dependencies::text, most_common_vals,
       most_common_freqs, most_common_base_freqs, inherited
  FROM pg_stats_ext
"""
_EXTENDED_14: LiteralString = _EXTENDED.replace("inherited", "false")
_UNREADABLE: LiteralString = f"""
SELECT n.nspname || '.' || c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'm') AND c.relpersistence <> 't'
   AND (NOT has_table_privilege(c.oid, 'SELECT') OR row_security_active(c.oid)) AND {OURS} ORDER BY c.relpages DESC
"""
# Those of the catalogs, and pgdrag's own look into them, are not of the workload.
_Counters = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class FoundStatistics:
    """A row of pg_stats; arrays of values, and of lengths of ranges, are in the server's own words."""

    schema: str
    relation: str
    column: str
    is_inherited: bool
    null_share: float
    width: int
    n_distinct: float
    most_common: str | None
    most_common_shares: Sequence[float] | None
    histogram: str | None
    correlation: float | None
    elements: str | None
    element_shares: Sequence[float] | None
    element_counts: Sequence[float] | None
    range_bounds: str | None
    range_lengths: str | None
    empty_share: float | None


@dataclass(frozen=True)
class FoundExtended:
    """What ANALYZE found for extended statistics."""

    n_distinct: str
    dependencies: str
    most_common: tuple[tuple[tuple[str | None, ...], float, float], ...]


def read_counters(observer: Observer) -> dict[int, dict[str, int]]:
    """Return the cumulative counters of all tables and indexes, by their numbers.

    Raises:
        Unseen: the server refused or did not answer.
    """
    has_new_page = observer.server_version_num >= _NEW_PAGE_SINCE
    tables: LiteralString = _TABLE_COUNTERS.replace(
        "{new_page}", "n_tup_newpage_upd," if has_new_page else ""
    )
    rows = (*observer.table(tables), *observer.table(_INDEX_COUNTERS))
    return {row.pop("relid"): row for row in rows}


def read_sizes(observer: Observer) -> dict[int, int | None]:
    """Return the bytes of all tables and indexes, by their numbers; none where a lock keeps them away."""
    rows = attempt(lambda: observer.query(_SIZES))
    return {} if isinstance(rows, Unseen) else dict(rows)


def read_relations(
    observer: Observer, before: _Counters, after: _Counters, sizes: Mapping[int, int | None]
) -> tuple[Relation, ...]:
    """Return the sizes of all relations, and what their counters grew by; without sizes where a lock keeps them away.

    Args:
        before, after: counters when the window began, and when it ended.
        sizes: when it began.

    Raises:
        Unseen: the server refused or did not answer.
    """
    has_frozen = observer.server_version_num >= _FROZEN_SINCE
    sql = _RELATIONS.replace("{frozen}", "c.relallfrozen" if has_frozen else "0")
    rows = attempt(lambda: observer.table(sql))
    if isinstance(rows, Unseen):
        rows = observer.table(_without_sizes(sql))
    heights = btree_heights(observer.connection)
    found = []
    for row in rows:
        oid, kind = row.pop("oid"), _KINDS[row.pop("kind")]
        moved = _growth(before.get(oid, {}), after.get(oid, {}))
        height = heights.get((row["schema"], row["name"]))
        found.append(Relation(**row, kind=kind, height=height, moved=moved, bytes_before=sizes.get(oid)))  # fmt: skip
    return tuple(found)


def _without_sizes(sql: LiteralString) -> LiteralString:
    return sql.replace("pg_relation_size(c.oid)", "NULL::bigint").replace(
        "pg_total_relation_size(c.reltoastrelid)", "NULL::bigint"
    )


def read_statistics(observer: Observer) -> tuple[FoundStatistics, ...]:
    """Return what pg_stats shows to this role.

    Raises:
        Unseen: the server refused or did not answer.
    """
    is_in_view = observer.server_version_num >= _RANGES_IN_VIEW_SINCE
    sql = _STATISTICS.replace("{ranges}", _RANGES if is_in_view else _NO_RANGES)
    found = tuple(FoundStatistics(**row) for row in observer.table(sql))
    if is_in_view or not may_read_ranges(observer):
        return found
    known = {tuple(row[:4]): row[4:] for row in observer.query(_OF_RANGES)}
    names = ("range_bounds", "range_lengths", "empty_share")
    return tuple(
        replace(one, **dict(zip(names, of_ranges, strict=True)))
        if (of_ranges := known.get((one.schema, one.relation, one.column, one.is_inherited)))
        else one
        for one in found
    )


def may_read_ranges(observer: Observer) -> bool:
    """Return whether this role may see what ANALYZE found of ranges: before version 17, who may read all tables.

    Raises:
        Unseen: the server refused or did not answer.
    """
    if observer.server_version_num >= _RANGES_IN_VIEW_SINCE:
        return True
    [(may_read,)] = observer.query("SELECT has_table_privilege('pg_statistic', 'SELECT')")
    return bool(may_read)


def read_extended(observer: Observer) -> dict[tuple[str, str], FoundExtended]:
    """Return what pg_stats_ext shows to this role, by schema and name; of a table with its children where there is both."""
    sql = _EXTENDED if observer.server_version_num >= 150000 else _EXTENDED_14
    rows = attempt(lambda: observer.query(sql))
    found: dict[tuple[str, str], FoundExtended] = {}
    for schema, name, distinct, dependencies, values, shares, bases, _ in (
        () if isinstance(rows, Unseen) else sorted(rows, key=lambda row: bool(row[-1]))
    ):
        combinations = tuple(
            (tuple(one), float(share), float(base))
            for one, share, base in zip(values or (), shares or (), bases or (), strict=True)
        )
        found[schema, name] = FoundExtended(distinct or "", dependencies or "", combinations)
    return found


def unreadable_tables(observer: Observer) -> list[str]:
    """Return the tables whose statistics this role may not see, the largest first.

    Raises:
        Unseen: the server refused or did not answer.
    """
    return [name for (name,) in observer.query(_UNREADABLE)]


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what grew; what was reset counts from 0."""
    moved = {}
    for name, value in after.items():
        then = before.get(name, 0)
        moved[name] = value - then if value >= then else value
    return {name: value for name, value in moved.items() if value}
