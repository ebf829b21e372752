"""Which old row versions are kept, for whom, and does vacuum get rid of them?"""

from __future__ import annotations

from pgdrag.findings.doctor import Reading, Sights, Symptom
from pgdrag.model.live import TableUse
from pgdrag.units import format_duration


def _tables(sights: Sights) -> tuple[TableUse, ...]:
    return sights.all_of(TableUse, "live_tables")


def _dead_share(table: TableUse) -> float:
    return table.dead / (table.dead + table.live) if table.dead else 0.0


def _horizon(sights: Sights) -> Reading | None:
    held_s = sights.value("horizon_held_s")
    dead, live = sights.value("dead_rows"), sights.value("live_rows")
    return {
        "age": sights.value("horizon_age_transactions"),
        "held_s": held_s,
        "dead": dead,
        "who": sights.detail("horizon_age_transactions").removeprefix("The oldest: "),
        "severity": 0.3 + dead / (dead + live + 1),
    }


HELD_HORIZON = Symptom(
    "held-horizon",
    _horizon,
    {"age": 10_000, "held_s": 10.0},
    why="Vacuum keeps every row version that an open snapshot may need, and scans must skip them. A horizon that "
    "is 10,000 transactions and 10 s old is beyond what ordinary transactions hold.",
    says="vacuum cannot remove row versions that died in the last {age:,.0f} transactions: the horizon has been "
    "held for {held_s:duration}",
    evidence="{who} {dead:,.0f} dead rows in this database (pg_stat_user_tables).",
    step="Run pgdrag horizon show: it names all holders, and the statement that ends each.",
)


def _futile(sights: Sights) -> Reading | None:
    tables = [x for x in _tables(sights) if x.vacuums >= 2 and x.dead >= 1000]
    if not tables:
        return None
    table = max(tables, key=lambda one: one.dead * one.vacuums)
    return {
        "vacuums": float(table.vacuums),
        "dead": float(table.dead),
        "dead_share": _dead_share(table),
        "table": table.table,
        "age": sights.value("horizon_age_transactions"),
        "who": sights.detail("horizon_age_transactions"),
        "severity": 0.3 + _dead_share(table),
    }


FUTILE_VACUUM = Symptom(
    "futile-vacuum",
    _futile,
    {"vacuums": 2.0, "dead": 1000.0, "dead_share": 0.2},
    why="The table was vacuumed at least twice in the window, and 20 % of its rows are still dead. That is the "
    "share at which autovacuum starts (autovacuum_vacuum_scale_factor = 0.2), so it will soon start again.",
    says="vacuum ran {vacuums:.0f} times on table {table} and left {dead:,.0f} dead rows",
    evidence="{dead_share:.0%} of its rows are dead (pg_stat_user_tables); the horizon is {age:,.0f} transactions old. "
    "{who}",
    step="End whatever holds the horizon (pgdrag horizon show). Until then, vacuum reads the table without being "
    "able to remove these rows.",
)


def _storm(sights: Sights) -> Reading | None:
    tables = [x for x in _tables(sights) if x.vacuums]
    if not tables:
        return None
    table = max(tables, key=lambda one: one.vacuums)
    per_s = table.vacuums / sights.length_s
    return {
        "per_s": per_s,
        "vacuums": float(table.vacuums),
        "every": format_duration(sights.length_s / table.vacuums),
        "table": table.table,
        "changed": (table.updated + table.deleted + table.inserted) / table.vacuums,
        "naptime": sights.setting("autovacuum_naptime"),
        "severity": 0.25,
    }


VACUUM_STORM = Symptom(
    "vacuum-storm",
    _storm,
    {"per_s": 0.2, "vacuums": 3.0},
    why="By default, autovacuum checks a database once a minute. A table that is vacuumed every five seconds is "
    "read and written far more often than its changes require.",
    says="table {table} is vacuumed every {every}",
    evidence="{vacuums:.0f} vacuums in the window, {changed:,.0f} rows changed between two (pg_stat_user_tables); "
    "{naptime}.",
    step="Raise autovacuum_vacuum_threshold or autovacuum_vacuum_scale_factor of {table}, or set "
    "autovacuum_naptime to its default of 1min.",
    unless=("futile-vacuum",),
)


def _dead(sights: Sights) -> Reading | None:
    table = max(_tables(sights), key=lambda one: one.dead, default=None)
    if table is None:
        return None
    return {
        "dead": float(table.dead),
        "live": float(table.live),
        "dead_share": _dead_share(table),
        "table": table.table,
        "autovacuum": sights.setting("autovacuum"),
        "severity": _dead_share(table) / 2,
    }


DEAD_ROWS = Symptom(
    "dead-rows",
    _dead,
    {"dead": 20_000.0, "dead_share": 0.4},
    why="By default, autovacuum starts when about 20 % of the rows are dead. At 40 % it is off, or cannot keep "
    "up.",
    says="{dead_share:.0%} of the rows of table {table} are dead, and every scan has to skip them",
    evidence="{dead:,.0f} dead and {live:,.0f} live rows (pg_stat_user_tables); {autovacuum}.",
    step="Run VACUUM (VERBOSE, ANALYZE) {table}. Then find out why autovacuum did not: it is off, slowed down by "
    "its cost limit, or blocked by a lock.",
    unless=("held-horizon", "futile-vacuum"),
)


def _wraparound(sights: Sights) -> Reading | None:
    used = sights.value("frozen_age_share")
    return {
        "used": used,
        "age": sights.value("frozen_age_transactions"),
        "where": sights.detail("frozen_age_transactions"),
        "severity": 0.5 + used,
    }


WRAPAROUND = Symptom(
    "wraparound",
    _wraparound,
    {"used": 0.5},
    why="Autovacuum must freeze a table at autovacuum_freeze_max_age, by default about 10 % of the transaction "
    "IDs. At 50 %, freezing has been failing for a long time. At 100 %, the server refuses new transaction "
    "IDs.",
    says="{used:.0%} of the transaction IDs are used up; at 100 % the server accepts no more writes",
    evidence="The oldest unfrozen transaction ID is {age:,.0f} transactions old. {where}",
    step="End whatever holds the horizon (pgdrag horizon show), then run VACUUM (FREEZE, VERBOSE) on the oldest "
    "tables of that database.",
)
