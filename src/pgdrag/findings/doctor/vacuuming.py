"""Which old row versions are kept, for whom, and does vacuum get rid of them?"""

from __future__ import annotations

from pgdrag.findings.doctor import Reading, Sights, Symptom
from pgdrag.model.live import TableUse
from pgdrag.units import format_bytes, format_duration


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
        "held": format_duration(held_s),
        "dead": dead,
        "who": sights.detail("horizon_age_transactions").removeprefix("The oldest: "),
        "severity": 0.3 + dead / (dead + live + 1),
    }


HELD_HORIZON = Symptom(
    "held-horizon",
    _horizon,
    {"age": 10_000, "held_s": 10.0},
    why="Of rows that are updated often, all versions of the last 10,000 transactions have to be kept and skipped; a "
    "transaction of less than 10 s is an ordinary one.",
    says="vacuum can remove nothing that died in the last {age:,.0f} transactions: the horizon has been held for {held}",
    evidence="{who} {dead:,.0f} dead rows in this database (pg_stat_user_tables).",
    step="pgdrag horizon show names all holders, and the statement that ends each.",
    severity="severity",
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
    why="A table that was vacuumed twice in the window and still is a fifth dead rows was read in vain: more than that "
    "is what autovacuum begins at (autovacuum_vacuum_scale_factor = 0.2).",
    says="vacuum of {table} ran {vacuums:.0f} times and left {dead:,.0f} dead rows",
    evidence="{dead_share:.0%} of the table is dead (pg_stat_user_tables); the horizon is {age:,.0f} transactions old. {who}",
    step="End who holds the horizon (pgdrag horizon show): until then each vacuum reads the table for nothing.",
    severity="severity",
)


def _storm(sights: Sights) -> Reading | None:
    tables = [x for x in _tables(sights) if x.vacuums]
    if not tables:
        return None
    table = max(tables, key=lambda one: one.vacuums)
    per_s = table.vacuums / sights.length_s
    naptime = sights.settings.get("autovacuum_naptime")
    return {
        "per_s": per_s,
        "vacuums": float(table.vacuums),
        "every": format_duration(sights.length_s / table.vacuums),
        "table": table.table,
        "changed": (table.updated + table.deleted + table.inserted) / table.vacuums,
        "naptime": naptime.words if naptime else "",
        "severity": 0.25,
    }


VACUUM_STORM = Symptom(
    "vacuum-storm",
    _storm,
    {"per_s": 0.2, "vacuums": 3.0},
    why="By default autovacuum looks at a database once a minute. A table that is vacuumed every five seconds is read, "
    "and its pages are written, far more often than its changes need.",
    says="table {table} is vacuumed every {every}",
    evidence="{vacuums:.0f} vacuums in the window, {changed:,.0f} rows changed between two (pg_stat_user_tables); {naptime}.",
    step="Raise autovacuum_vacuum_threshold or the scale factor of {table}, or autovacuum_naptime to its 1min.",
    severity="severity",
    unless=("futile-vacuum",),
)


def _dead(sights: Sights) -> Reading | None:
    table = max(_tables(sights), key=lambda one: one.dead, default=None)
    if table is None:
        return None
    autovacuum = sights.settings.get("autovacuum")
    return {
        "dead": float(table.dead),
        "live": float(table.live),
        "dead_share": _dead_share(table),
        "table": table.table,
        "bytes": format_bytes(table.bytes),
        "autovacuum": autovacuum.words if autovacuum else "",
        "severity": _dead_share(table) / 2,
    }


DEAD_ROWS = Symptom(
    "dead-rows",
    _dead,
    {"dead": 20_000.0, "dead_share": 0.4},
    why="Autovacuum begins at a fifth of dead rows by default: at twice that it does not keep up, or is off.",
    says="{dead_share:.0%} of table {table} are dead rows, which every scan has to skip",
    evidence="{dead:,.0f} dead and {live:,.0f} live rows (pg_stat_user_tables); {autovacuum}.",
    step="VACUUM (VERBOSE, ANALYZE) {table}; and see why autovacuum did not: autovacuum, its cost limit, or a lock.",
    severity="severity",
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
    why="Vacuum is forced at autovacuum_freeze_max_age, by default a tenth of the numbers: at half of them it has "
    "failed for long. At all of them no transaction can begin.",
    says="{used:.0%} of the transaction numbers are used up; the server stops at 100 %",
    evidence="The oldest that is not frozen is {age:,.0f} transactions old. {where}",
    step="End who holds the horizon (pgdrag horizon show), then VACUUM (FREEZE, VERBOSE) the oldest tables of that database.",
    severity="severity",
)
