"""How does a twin's database get the load's pools, and the job that takes values from them?"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from pgdrag.data_twin import clock
from pgdrag.data_twin.load.calibration import Bench, Calibrated
from pgdrag.data_twin.load.constants import OWNER, drawn_variables, home_query, homes
from pgdrag.data_twin.load.dead_ends import without_dead_ends
from pgdrag.data_twin.load.fresh import Fresh, fresh_options
from pgdrag.data_twin.load.growth import MIDDLE, Growth, grown_tables, grows
from pgdrag.data_twin.load.job import NOTHING, job, job_of, keeps_plans
from pgdrag.data_twin.load.kinds import TransactionType
from pgdrag.data_twin.load.links import (
    belonging,
    columns_by_parameter,
    foreign_keys,
    linked,
)
from pgdrag.data_twin.load.mix import Mix, shortened
from pgdrag.data_twin.load.owned import homes_of_owned, owned_rows, with_owned
from pgdrag.data_twin.load.parameters import free_value, is_once
from pgdrag.data_twin.load.sampling import Sampled, sampled
from pgdrag.data_twin.load.scripts import WHOLE_NUMBERS, Sendable, counters_of, script_of
from pgdrag.data_twin.load.statements import Analysed, analysed, planning_settings
from pgdrag.data_twin.load.texts import change_of
from pgdrag.data_twin.load.work import Values, Work, wanted
from pgdrag.data_twin.making import keep_notes
from pgdrag.errors import DriverError
from pgdrag.twins.ddl import quoted
from pgdrag.twins.model import Statement, Twin

if TYPE_CHECKING:
    from pgdrag.driver.process import Target

LEAST_ROWS, MOST_ROWS = 2_000, 100_000  # of a pool
_ALL_ROWS = 1_000_000  # of all pools
_ALL_BYTES = 200_000_000
_QUERY_S = 40
# Trying one statement takes so long at most, and more by its share of the load's time; all of them together.
_LEAST_S, _SHARED_S, _ALL_S = 4.0, 60.0, 900.0
_CHECKS = 60
_FEW_CALLS = 1000  # in the window: of so few the mean depends on which values come
_CANDIDATES = "pgdrag_twin.candidate"
_CLOSE = 0.1
_UNLISTED = re.compile(r"\bfastupdate\s*=\s*'?(?:off|false|no|0)\b", re.IGNORECASE)
_MOST_ENTRIES = 5_000
_EACH = "e"  # behind the names of pools whose values are for plans of their own
_FAR = 1.0  # logarithm of a ratio from which on more is not worse
_TELLING = 0.005  # share of the load that a statement has to have to be told about

_BEGIN: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS pgdrag_twin",
    "DROP TABLE IF EXISTS pgdrag_twin.job, pgdrag_twin.statement, pgdrag_twin.candidate",
    "CREATE TABLE pgdrag_twin.job (job jsonb NOT NULL)",
    "CREATE TABLE pgdrag_twin.statement (number int PRIMARY KEY, wanted jsonb NOT NULL, found jsonb, problem text NOT NULL)",
)
_SIZE: LiteralString = """
SELECT count(*), (SELECT coalesce(avg(pg_catalog.pg_column_size(s.*)), 0) FROM (SELECT * FROM pgdrag_twin.candidate LIMIT 1000) AS s)
  FROM pgdrag_twin.candidate
"""
_SESSION: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM (VALUES ('work_mem', '64MB'), ('jit', 'off'), ('client_min_messages', 'error'), ('lock_timeout', '10s'))
       AS wanted (name, value)
"""


@dataclass(frozen=True)
class _Prepared:
    """A statement with its pool.

    Attributes:
        work: what an execution takes; None where none could be tried.
        plans_differ: a plan that is kept is another one than those for some values.
    """

    sendable: Sendable
    work: Work | None
    problem: str
    plans_differ: bool = False


def prepare(
    connection: psycopg.Connection[Any],
    twin: Twin,
    mix: Mix,
    *,
    seed: int,
    step: Callable[[str, int, int], None],
) -> tuple[str, ...]:
    """Make the pools and keep the job; see `prepare_load`."""
    connection.prepare_threshold = None
    connection.execute(_SESSION)
    connection.execute(f"SET statement_timeout = {_QUERY_S * 1000}".encode())
    for sql in _BEGIN:
        connection.execute(sql)
    clock.stop_clock(connection, twin.now)
    _name_schemas(connection, twin)
    notes = [*mix.left_out]
    known: dict[int, Analysed] = {}
    ready: dict[int, _Prepared] = {}
    told, settings = keeps_plans(twin), planning_settings(twin)
    # With plans that are made for each call, where those are others.
    other: dict[int, _Prepared] = {}
    total_s = max(sum(x.exec_s for x in mix.statements.values()), 1e-9)
    end_s = time.monotonic() + _ALL_S
    growth, growing = Growth(connection, twin), grown_tables(mix.statements.values(), twin)
    ordered = _in_turn(mix, twin, growing)
    for done, (number, statement) in enumerate(ordered):
        step("statements", done, len(mix.statements))
        found = analysed(connection, statement, twin)
        if isinstance(found, str):
            notes.append(f"{_named(statement)} is not sent: {found}")
            continue
        found = known[number] = growth.beside(found)
        most = max(_ALL_ROWS // len(mix.statements), LEAST_ROWS)
        most_s = min(
            _LEAST_S + _SHARED_S * statement.exec_s / total_s, max(end_s - time.monotonic(), 0)
        )
        entries = round(statement.calls * MIDDLE) if _listed_table(statement.text, twin) else 0
        make = partial(_prepared, connection, found, seed=seed, now=twin.now, most=min(most, MOST_ROWS), most_s=most_s, settings=settings, entries=entries, growth=growth if grows(statement, growing) else None)  # fmt: skip
        ready[number] = make(keeps_plans=told is not False)
        if told is None and ready[number].plans_differ:
            other[number] = make(keeps_plans=False, suffix=_EACH)
    kept = told if told is not None else _are_kept(known, ready, other)
    if not kept:
        ready |= other
    for number, one in known.items():
        _keep(connection, one, ready[number])
    step("statements", len(mix.statements), len(mix.statements))
    notes += _differences(twin, known, ready)
    foreign = foreign_keys(twin)
    sendable = {
        n: x.sendable if is_once(known[n]) else replace(x.sendable, belonging=partial(belonging, known[n], foreign=foreign))
        for n, x in ready.items()
    }  # fmt: skip
    _keep_job(connection, twin, mix, known, sendable, keeps_plans=kept)
    growth.remove()
    for schema, name in {(x.table.schema, x.table.name) for x in known.values() if x.table}:
        # What was tried left dead rows behind. All pages, or its rows are estimated from those that changed.
        connection.execute(f"VACUUM (DISABLE_PAGE_SKIPPING) {quoted(schema, name)}".encode())
    connection.execute("DROP TABLE IF EXISTS pgdrag_twin.candidate")
    connection.execute("RESET ALL")
    keep_notes(connection, notes)
    return tuple(notes)


def _in_turn(mix: Mix, twin: Twin, growing: frozenset[str]) -> list[tuple[int, Statement]]:
    """Return the statements in the order in which they are tried: queries before changes, as what is rolled back leaves traces.

    But first what inserts rows of the present moment, and entries of the pending lists of GIN indexes: queries read those under load, too.
    """

    def place(one: tuple[int, Statement]) -> int:
        text = one[1].text
        is_first = _listed_table(text, twin) or grows(one[1], growing)
        return 0 if is_first else 1 if change_of(text).kind == "select" else 2

    return sorted(mix.statements.items(), key=place)


def _listed_table(text: str, twin: Twin) -> str:
    """Return the table that a statement changes, if an index of it has a pending list; else ""."""
    change = change_of(text)
    table = change.table[-1] if change.kind in ("insert", "update") and change.table else ""
    is_listed = any(
        x.table == table and x.method == "gin" and not _UNLISTED.search(x.definition) for x in twin.schema.indexes
    )  # fmt: skip
    return table if is_listed else ""


def _name_schemas(connection: psycopg.Connection[Any], twin: Twin) -> None:
    """Let statements find all tables: where the original's sessions looked, the file does not tell."""
    schemas = dict.fromkeys(["public", *twin.schema.schemas, *(x.schema for x in twin.source.extensions)])  # fmt: skip
    path = ", ".join((clock.PATH, *(quoted(x) for x in schemas if x != "pg_catalog")))
    database = quoted(connection.info.dbname)
    connection.execute(
        f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET search_path = {path}".encode()
    )
    connection.execute(f"SET search_path = {path}".encode())


def _prepared(
    connection: psycopg.Connection[Any],
    one: Analysed,
    *,
    seed: int,
    now: str,
    most: int,
    most_s: float,
    keeps_plans: bool,
    settings: Mapping[str, str],
    entries: int = 0,
    growth: Growth | None = None,
    suffix: str = "",
) -> _Prepared:
    """Choose a statement's values, and make its pool.

    Args:
        keeps_plans: plans are those of a statement that a session has prepared.
        settings: of the original's planner.
        entries: executions whose entries are left in pending lists.
        growth: gets the rows that it inserts.
        suffix: of the pool's name.
    """
    keys = fresh_options(connection, one)
    drawn = sampled(one, seed=seed, now=now)
    problem = _make_candidates(connection, drawn)
    if problem:
        drawn = sampled(one, seed=seed, now=now, is_plain=True)
        problem = _make_candidates(connection, drawn)
    if problem:
        free = {n: free_value(one, n, now) for n in one.parameters if n not in one.limits}
        drawn = Sampled("", {}, free=free)
        _make_candidates(connection, drawn)
    bench = Bench(
        connection, one, drawn, _first(keys), _CANDIDATES,
        most_s=most_s, keeps_plans=keeps_plans, settings=settings,
    )  # fmt: skip
    calibrated = bench.calibrated()
    pool, work = f"s{one.number}{suffix}" if one.types else "", calibrated.work
    is_in_turn = is_once(one)
    if pool:
        rows: list[Values] = []
        if one.change.kind == "select" and one.wanted.calls < _FEW_CALLS:
            rows = bench.balanced(calibrated)
        if rows:
            _fill_with(connection, f"pgdrag_twin.pool_{pool}", one, rows)
            is_in_turn = True
        else:
            _fill(connection, f"pgdrag_twin.pool_{pool}", one, bench, calibrated, most=most)
        columns = ", ".join(f"p{n}" for n in one.parameters)
        query = f"SELECT {columns} FROM pgdrag_twin.pool_{pool} ORDER BY n LIMIT {_CHECKS}"
        rows = connection.execute(query.encode()).fetchall()
        work = bench.checked([bench.with_fresh(row) for row in rows]) or work
        if entries:
            limit = query.removesuffix(str(_CHECKS)) + str(min(entries, _MOST_ENTRIES))
            bench.leave_entries(connection.execute(limit.encode()).fetchall())
        if growth is not None:
            query = query.removesuffix(str(_CHECKS)) + str(growth.executions(one))
            all_rows = itertools.cycle(connection.execute(query.encode()).fetchall())
            growth.add(one, (bench.with_fresh(row) for row in all_rows))
    why = bench.problem if work is None else ""
    sendable = Sendable(one.text, one.types, pool, keys, is_in_turn)
    return _Prepared(sendable, work, problem or why, bench.plans_differ(calibrated))


def _are_kept(
    known: Mapping[int, Analysed], kept: Mapping[int, _Prepared], each: Mapping[int, _Prepared]
) -> bool:
    """Return whether the original's sessions kept plans: how a call's rows and blocks are nearer to what was counted."""

    def distance(number: int, of: Mapping[int, _Prepared]) -> float:
        work, target = of[number].work, wanted(known[number])
        if work is None:
            return _FAR
        return min(_FAR, sum(abs(math.log((getattr(work, x) + 1) / (getattr(target, x) + 1))) for x in ("rows", "blocks")))  # fmt: skip

    nearer_s = sum(known[x].wanted.exec_s * (distance(x, kept) - distance(x, each)) for x in each)
    return nearer_s <= _CLOSE * sum(x.wanted.exec_s for x in known.values())


def _first(keys: Sequence[Sequence[Fresh]]) -> list[Fresh]:
    """Return what is fresh where nothing of an earlier statement is."""
    chosen: dict[int, Fresh] = {}
    for options in keys:
        usable = [x for x in options if not x.refers]
        if usable and not {x.parameter for x in options} & chosen.keys():
            chosen[usable[0].parameter] = usable[0]
    return [*chosen.values()]


def _make_candidates(connection: psycopg.Connection[Any], drawn: Sampled) -> str:
    """Make the table of candidates; return why that was not possible, or ""."""
    connection.execute("DROP TABLE IF EXISTS pgdrag_twin.candidate")
    query = drawn.query or "SELECT 1 AS n, NULL::int AS band, true AS is_joined"
    try:
        connection.execute(f"CREATE UNLOGGED TABLE pgdrag_twin.candidate AS {query}".encode())
    except psycopg.Error as error:
        if connection.closed:
            raise
        return error.diag.message_primary or type(error).__name__
    connection.execute("ANALYZE pgdrag_twin.candidate")
    row = connection.execute("SELECT count(*) FROM pgdrag_twin.candidate").fetchone()
    return "" if row and row[0] else "there are no rows to take values from"


def _fill(
    connection: psycopg.Connection[Any],
    table: str,
    one: Analysed,
    bench: Bench,
    calibrated: Calibrated,
    *,
    most: int,
) -> None:
    """Make a statement's pool: so many rows of each stratum, in an order by lot."""
    row = connection.execute(_SIZE).fetchone()
    assert row is not None, "an aggregate has a row"
    most = min(most, max(int(row[0]), LEAST_ROWS), int(_ALL_BYTES / 10 / max(float(row[1]), 1)))
    names = ", ".join(f"p{n}" for n in one.parameters)
    parts, taken = [], []
    for at, (stratum, share) in enumerate(calibrated.shares):
        count = max(round(share * most), 1)
        chosen = f"{bench.selection(stratum)} ORDER BY n LIMIT {count}"
        parts.append(f"s{at} AS MATERIALIZED (SELECT row_number() OVER () AS k, c.* FROM ({chosen}) AS c ({names}))")  # fmt: skip
        there = f"(SELECT count(*) FROM s{at})"
        wanted_rows = f"least({count}, {there})" if is_once(one) else str(count)
        taken.append(f"SELECT i, {at} AS stratum, {names} FROM generate_series(1, {wanted_rows}) AS i JOIN s{at} ON k = 1 + (i - 1) % {there}")  # fmt: skip
    connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
    order = "pg_catalog.hashint8(i::int8 * 64 + stratum), i, stratum"
    connection.execute(
        f"CREATE TABLE {table} AS WITH {', '.join(parts)} SELECT row_number() OVER (ORDER BY {order}) AS n, {names} "
        f"FROM ({' UNION ALL '.join(taken)}) AS t".encode()
    )


def _fill_with(
    connection: psycopg.Connection[Any], table: str, one: Analysed, rows: Sequence[Values]
) -> None:
    """Make a statement's pool of these rows, in their order."""
    names = ", ".join(f"p{n} text" for n in one.parameters)
    connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
    connection.execute(f"CREATE TABLE {table} (n int8, {names})".encode())
    places = ", ".join(["%s"] * (len(one.parameters) + 1))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} VALUES ({places})".encode(),
            [(n, *values[: len(one.parameters)]) for n, values in enumerate(rows, start=1)],
        )


def _keep(connection: psycopg.Connection[Any], one: Analysed, ready: _Prepared) -> None:
    found = None if ready.work is None else json.dumps(vars(ready.work))
    connection.execute(
        "INSERT INTO pgdrag_twin.statement VALUES (%s, %s::jsonb, %s::jsonb, %s)",
        (one.number, json.dumps(vars(wanted(one))), found, ready.problem),
    )


def _differences(
    twin: Twin, known: Mapping[int, Analysed], ready: Mapping[int, _Prepared]
) -> list[str]:
    """Return clauses on statements that do not do what the original's did."""
    total = sum(x.exec_s for x in twin.workload.statements if x.is_toplevel) or 1.0
    notes = []
    for number, one in known.items():
        is_small = one.wanted.exec_s < _TELLING * total
        found, target = ready[number].work, wanted(one)
        if found is None:
            notes.append(f"{_named(one.wanted)} fails by itself: {ready[number].problem}")
        elif not is_small and one.wanted.calls:
            off = [
                f"{getattr(found, kind):.4g} {kind} a call, {getattr(target, kind):.4g} in the original"
                for kind, least in (("rows", 0.05), ("blocks", 1.0))
                if abs(getattr(found, kind) - getattr(target, kind))
                > _CLOSE * max(getattr(target, kind), least)
                # What a change touches depends on the pages' state.
                and (kind == "rows" or one.change.kind == "select")
            ]
            if off:
                notes.append(f"{_named(one.wanted)}: {'; '.join(off)}")
    return notes


def _named(statement: Statement) -> str:
    return f"statement {statement.number} ({shortened(statement.text)})"


def _keep_job(
    connection: psycopg.Connection[Any],
    twin: Twin,
    mix: Mix,
    known: Mapping[int, Analysed],
    sendable: Mapping[int, Sendable],
    *,
    keeps_plans: bool,
) -> None:
    scripts: list[dict[str, object]] = []
    used: dict[str, object] = {}
    with_pools = (n for n, x in sendable.items() if x.pool)
    kept = homes(mix.types, with_pools, columns_by_parameter(known, twin))
    owned = [x for x in owned_rows(known, twin) if sendable[x.statement].pool]
    kept = homes_of_owned(owned, kept, known, twin)
    for x in kept.values():
        names = drawn_variables(kept, x.pool)
        pool = f"pgdrag_twin.pool_{sendable[x.statement].pool}"
        used[x.pool] = {
            "query": home_query(pool, names, is_own=x.is_own),
            "variables": [*names, OWNER] if x.is_own else names,
            "order": "random" if x.is_own else "in_turn",
        }
    for kind in mix.types:
        kind_linked = without_dead_ends(connection, linked(kind, known, twin), known, sendable)
        kind_linked = with_owned(kind_linked, owned, known)
        starts = _starts(connection, kind_linked, sendable)
        script = script_of(kind_linked, sendable, starts, kept)
        weight = max(round(kind.weight), 1) if script.text != NOTHING else 0
        draws = [{name: x for name, x in asdict(draw).items() if x} for draw in script.draws]
        scripts.append({"name": kind.name, "text": script.text, "weight": weight, "draws": draws})
        for pool in {x.pool for x in script.draws} - used.keys():
            one = known[int(pool[1:].removesuffix(_EACH))]
            names = [f"p{n}" for n in one.parameters]
            used[pool] = {
                "query": f"SELECT {', '.join(names)} FROM pgdrag_twin.pool_{pool} ORDER BY n",
                "variables": names,
                "order": "in_turn" if sendable[one.number].is_in_turn else "random",
            }
    is_any = any(x["weight"] for x in scripts)
    sent = job_of(scripts, used, keeps_plans=keeps_plans) if is_any else job(twin)
    connection.execute("INSERT INTO pgdrag_twin.job VALUES (%s::jsonb)", (json.dumps(sent),))


def _starts(
    connection: psycopg.Connection[Any], kind: TransactionType, sendable: Mapping[int, Sendable]
) -> dict[tuple[int, int], int]:
    """Return where counters of a transaction's loops begin: at an end of the values, where these are hardly more than the rounds."""
    found = {}
    for (step, parameter), difference, rounds in counters_of(kind):
        one = sendable.get(kind.steps[step].statement)
        if one is None or not one.pool or one.types[parameter - 1] not in WHOLE_NUMBERS:
            continue
        query = f"SELECT min(p{parameter}::int8), max(p{parameter}::int8) FROM pgdrag_twin.pool_{one.pool} WHERE p{parameter}::int8 >= 0"  # fmt: skip
        row = connection.execute(query.encode()).fetchone()
        if row and row[0] is not None and row[1] - row[0] < 2 * rounds * abs(difference):
            found[step, parameter] = row[0] if difference > 0 else row[1]
    return found


def begin_load(target: Target, moment: str) -> dict[str, object]:
    """Return the job that a database keeps, and let its clock go on from a moment.

    Raises:
        DriverError: it has none, or cannot be reached.
    """
    try:
        with psycopg.connect(
            host=target.host, port=target.port, user=target.user, dbname=target.database,
            password=target.password, application_name="pgdrag twin", autocommit=True,
        ) as connection:  # fmt: skip
            row = connection.execute("SELECT job FROM pgdrag_twin.job").fetchone()
            clock.start_clock(connection, moment)
    except psycopg.Error as error:
        raise DriverError(f"could not read the twin's load: {error.diag.message_primary or str(error).strip()}") from error  # fmt: skip
    if row is None:
        raise DriverError("this database has no load of a twin")
    found: dict[str, object] = row[0]
    return found
