"""Which work do statements do that they need not do?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import percent_words
from pgdrag.findings.doctor import Reading, Sights, Symptom
from pgdrag.model.live import CopyOut, StatementTime, TableUse

# A session filters about ten million narrow rows a second: so long is at least what a scan took.
_S_PER_ROW = 1e-7
_COPY_MARGIN = 1.2  # samples see no COPY at its very end, when it has sent most
_FEW_ROWS = 5_000  # of a table that is read whole anyway, in some 30 to 100 pages
_MANY_ROWS = 1_000
_HEAVY_BYTES_PER_S = 50e6
_TEMP_BYTES_PER_S = 250e6  # written and read again


def _scanned_most(sights: Sights) -> tuple[TableUse, float] | None:
    """Return the table with most rows read by sequential scans, unless it is small, and their number.

    Without those that COPY sends, since these are wanted. The table of a COPY (query) is unknown.
    """
    copied = {
        x.table: _COPY_MARGIN * x.time_s * x.rows_per_s
        for x in sights.all_of(CopyOut, "live_tables")
    }
    rows = {
        x: max(x.seq_rows - copied.get(x.table, 0.0) - copied.get("", 0.0), 0.0)
        for x in sights.all_of(TableUse, "live_tables")
        if x.seq_scans and x.seq_rows / x.seq_scans >= _FEW_ROWS
    }
    return max(rows.items(), key=lambda each: each[1], default=None)


def top_statement(sights: Sights) -> str:
    """Return words on the statement that took most of sessions' time at work; "" where nobody tells."""
    named = [x for x in sights.all_of(StatementTime, "waits") if x.query and x.at_work_s]
    if not named:
        return ""
    top = max(named, key=lambda one: one.at_work_s)
    text = " ".join(top.query.split())
    shown = text if len(text) <= 100 else f"{text[:99]}…"
    return f"Most expensive statement: {shown} ({percent_words(sights.time.share(top.at_work_s))})."


def _scans(sights: Sights) -> Reading | None:
    scanned = _scanned_most(sights)
    if scanned is None:
        return None
    table, rows = scanned
    lost_s = rows * _S_PER_ROW
    return {
        "per_s": table.seq_scans / sights.length_s,
        "rows": table.seq_rows / table.seq_scans,
        "share": sights.time.share(lost_s),
        "sessions": sights.time.on_average(lost_s),
        "table": table.table,
        "index_scans": table.index_scans,
        "statement": top_statement(sights),
        "indexes": float(table.indexes),
        "forbidding": ", ".join(forbidding(sights)),
        "forbidden": float(len(forbidding(sights))),
    }


MISSING_INDEX = Symptom(
    "missing-index",
    _scans,
    {"per_s": 1.0, "share": 0.1, "sessions": 0.05},
    why="A statement that scans a table of 5,000 rows or more every second usually needs only a few of them. The "
    "share of time assumes ten million rows per second, the most that one session can read. Rows that COPY sends are "
    "not counted.",
    says="table {table} is scanned sequentially {per_s} times a second, at least {share:.0%} of sessions' time",
    evidence="{rows:,.0f} rows per sequential scan, {index_scans:,.0f} index scans (pg_stat_user_tables). {statement}",
    step="EXPLAIN the most frequent statements on {table}: they probably need an index on the columns of their "
    "WHERE clause.",
    unless=("planner-settings", "missing-statistics"),
)


def forbidding(sights: Sights) -> Sequence[str]:
    """Return settings that keep the planner from index scans, as they may be written."""
    found = [
        x.words
        for x in sights.settings.values()
        if x.name.startswith("enable_") and x.value == "off" and x.default == "on"
    ]
    by_name = sights.settings
    random = by_name.get("random_page_cost")
    sequential = by_name.get("seq_page_cost")
    if random is not None and (random.size or 0) >= 10 * ((sequential and sequential.size) or 1):
        found.append(random.words)
    for name in ("cpu_index_tuple_cost", "cpu_operator_cost", "cpu_tuple_cost"):
        cost = by_name.get(name)
        if cost is not None and (cost.size or 0) >= 10 * float(cost.default):
            found.append(cost.words)
    return found


PLANNER_SETTINGS = Symptom(
    "planner-settings",
    _scans,
    {"per_s": 1.0, "share": 0.1, "forbidden": 1.0, "indexes": 1.0},
    why="A planner method that is disabled, or a cost of ten times its default, keeps the planner from using "
    "existing indexes.",
    says="{forbidding} keeps the planner from using indexes: table {table} is scanned sequentially {per_s} times a "
    "second",
    evidence="{rows:,.0f} rows per sequential scan, at least {share:.0%} of sessions' time; {table} has {indexes:.0f} "
    "indexes (pg_stat_user_tables, pg_settings). {statement}",
    step="First try it in one session: SET the setting to its default, and EXPLAIN the statement again.",
)


def _statistics(sights: Sights) -> Reading | None:
    tables = [
        x
        for x in sights.all_of(TableUse, "live_tables")
        if not x.has_statistics
        and x.live >= _MANY_ROWS
        and x.seq_scans + x.index_scans >= sights.length_s
    ]
    if not tables:
        return None
    table = max(tables, key=lambda one: one.seq_rows + one.index_scans)
    return {
        "count": float(len(tables)),
        "table": table.table,
        "rows": float(table.live),
        "per_s": (table.seq_scans + table.index_scans) / sights.length_s,
        "sessions": sights.time.sessions,
        "statement": top_statement(sights),
        "severity": 0.3,
    }


MISSING_STATISTICS = Symptom(
    "missing-statistics",
    _statistics,
    {"count": 1.0, "sessions": 0.2},
    why="Without statistics, the planner can only guess how many rows match a condition. With 1,000 rows or more, "
    "a wrong guess can mean a plan many times slower.",
    says="table {table} has no statistics and is scanned {per_s} times a second",
    evidence="{rows:,.0f} rows, never analyzed; {count:.0f} tables in all (pg_stat_user_tables, pg_stats). {statement}",
    step="Run ANALYZE {table}. Then find out why autovacuum did not: autovacuum or track_counts is off, or the "
    "table is new.",
)


def _spill(sights: Sights) -> Reading | None:
    per_s, files_per_s = sights.value("temp_bytes_per_s"), sights.value("temp_files_per_s")
    lost_s = max(sights.time.seconds("IO:BufFile*"), per_s * sights.length_s / _TEMP_BYTES_PER_S)
    return {
        "bytes_per_s": per_s,
        "files": files_per_s,
        "weight": max(files_per_s, per_s / _HEAVY_BYTES_PER_S),
        "share": sights.time.share(lost_s),
        "severity": max(sights.time.share(lost_s), 0.2),
        "work_mem": sights.setting("work_mem"),
        "statement": top_statement(sights),
    }


TEMP_SPILL = Symptom(
    "temp-spill",
    _spill,
    {"bytes_per_s": 10e6, "weight": 1.0},
    why="Temporary files are written and read again, in addition to all other I/O. The threshold is 10 MB/s, with "
    "at least one file or 50 MB every second: an index build makes less.",
    says="sorts and hashes spill {bytes_per_s:bytes}/s to temporary files, about {share:.0%} of sessions' time",
    evidence="{files} files per second (pg_stat_database); {work_mem}. {statement}",
    step="Find the statements with log_temp_files = 0. Raise work_mem for these alone (SET LOCAL), since each node "
    "of each session's plan may use that much.",
)


def _jit(sights: Sights) -> Reading | None:
    jit_s = sights.value("jit_s_per_transaction")
    executing_s = sights.value("execution_s_per_transaction")
    if not executing_s:
        return None
    return {
        "share": min(jit_s / executing_s, 1.0),
        "sessions": sights.per_s("jit_s_per_transaction"),
    }


JIT = Symptom(
    "jit",
    _jit,
    {"share": 0.2, "sessions": 0.05},
    why="Compilation that takes a fifth of the execution time does not pay for itself.",
    says="just-in-time compilation takes {share:.0%} of statements' execution time",
    evidence="{sessions:.2f} s in each second (pg_stat_statements).",
    step="Set jit = off, or raise jit_above_cost.",
)
