"""Where does each of a statement's calls take its values from? From a table of the database, its pool, which is made here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from pgdrag.data_twin.load.bench import ASKED, MISSING, Bench
from pgdrag.data_twin.load.calibration import Calibrated, Calibration
from pgdrag.data_twin.load.effort import ENTRIES_S, Effort, executions_within
from pgdrag.data_twin.load.free import free_value
from pgdrag.data_twin.load.fresh import Fresh, fresh_options
from pgdrag.data_twin.load.growth import Growth
from pgdrag.data_twin.load.parameters import RANGES, by_lot
from pgdrag.data_twin.load.sampling import Sampled, sampled
from pgdrag.data_twin.load.scripts import Sendable
from pgdrag.data_twin.load.statements import Analysed, cast_type
from pgdrag.data_twin.load.work import Values, Work, average, deviation
from pgdrag.data_twin.load.written import is_once, tells_positions
from pgdrag.twins.transactions import POSITIONS, Parameter

EACH = "e"  # behind the names of pools whose values are for plans of their own
LEAST_ROWS, MOST_ROWS = 2_000, 100_000  # of a pool
_ALL_BYTES = 200_000_000
_CHECKS = 60
_FEW_CALLS = 1000  # in the window: of so few the mean depends on which values come
_CANDIDATES = "pgdrag_twin.candidate"
_MOST_ENTRIES = 5_000
_TOOK_LONG = "it took too long"
_ASKED_ROWS = 2_000
_ALL_TOLD = 0.98  # of the calls had values that the log names

_SIZE: LiteralString = """
SELECT count(*), (SELECT coalesce(avg(pg_catalog.pg_column_size(s.*)), 0) FROM (SELECT * FROM pgdrag_twin.candidate LIMIT 1000) AS s)
  FROM pgdrag_twin.candidate
"""


@dataclass(frozen=True)
class Pooled:
    """A statement with its pool.

    Attributes:
        work: what an execution takes; None where none could be tried.
        plans_differ: a plan that is kept is another one than those for some values.
        is_cut_short: the clock decided what was tried.
    """

    sendable: Sendable
    work: Work | None
    problem: str
    plans_differ: bool = False
    is_cut_short: bool = False


def pooled(
    connection: psycopg.Connection[Any],
    one: Analysed,
    *,
    seed: int,
    now: str,
    most: int,
    most_s: float,
    clock: Callable[[], float],
    keeps_plans: bool,
    settings: Mapping[str, str],
    entries: int = 0,
    growth: Growth | None = None,
    suffix: str = "",
    logged: Sequence[Parameter] = (),
    most_absent: float = 1.0,
    alike: Mapping[int, int] | None = None,
    is_led: bool = False,
) -> Pooled:
    """Choose a statement's values, and make its pool.

    Args:
        most_s, clock: see `Effort`.
        keeps_plans: plans are those of a statement that a session has prepared.
        settings: of the original's planner.
        entries: executions whose entries are left in pending lists.
        growth: gets the rows that it inserts.
        logged: what the log tells of its parameters.
        most_absent: share of the calls that may ask for keys that no row has.
        alike: parameters that are equal to an earlier one of the same call.
        is_led: its values have to agree with those of statements before it, so that many are needed.
        suffix: of the pool's name.
    """
    keys = fresh_options(connection, one)
    drawn = sampled(one, seed=seed, now=now, logged=logged, is_led=is_led)
    first = problem = _make_candidates(connection, drawn)
    if problem:
        drawn = sampled(one, seed=seed, now=now, logged=logged, is_plain=True, is_led=is_led)
        problem = _make_candidates(connection, drawn)
    if problem:
        free = {n: free_value(one, n, now) for n in one.parameters if n not in one.limits}
        drawn = Sampled("", {}, free=free)
        _make_candidates(connection, drawn)
    asked, is_placed = (
        (0.0, False) if problem or is_once(one) else _make_asked(connection, one, drawn, logged)
    )
    bench = Bench(
        connection, one, drawn, _first(keys), _CANDIDATES, Effort(one, most_s, clock),
        keeps_plans=keeps_plans, settings=settings, alike=alike,
    )  # fmt: skip
    calibration = Calibration(
        bench, asked=asked, is_placed=is_placed, most_absent=1.0 if is_led else most_absent
    )
    calibrated = calibration.calibrated()
    pool, work = f"s{one.number}{suffix}" if one.types else "", calibrated.work
    is_in_turn, works = is_once(one), list[Work]()
    if pool:
        rows: list[Values] = []
        if one.change.kind == "select" and one.wanted.calls < _FEW_CALLS and not is_led:
            rows = calibration.balanced(calibrated)
        if rows:
            _fill_with(connection, f"pgdrag_twin.pool_{pool}", one, rows)
            is_in_turn = True
        else:
            _fill(connection, f"pgdrag_twin.pool_{pool}", one, bench, calibrated, most=most)
        columns = ", ".join(f"p{n}" for n in one.parameters)
        query = f"SELECT {columns} FROM pgdrag_twin.pool_{pool} ORDER BY n LIMIT {_CHECKS}"
        rows = connection.execute(query.encode()).fetchall()
        works = bench.checked([bench.with_fresh(row) for row in rows])
        work = average(works) if works else work
        if entries:
            limit = query.removesuffix(str(_CHECKS)) + str(
                min(entries, _MOST_ENTRIES, executions_within(ENTRIES_S, one))
            )
            bench.leave_entries(connection.execute(limit.encode()).fetchall())
        if growth is not None:
            query = query.removesuffix(str(_CHECKS)) + str(growth.executions(one))
            all_rows = itertools.cycle(connection.execute(query.encode()).fetchall())
            growth.add(one, (bench.with_fresh(row) for row in all_rows))
    why = bench.problem if work is None else ""
    is_there = is_led or all(x.mode not in MISSING for x, _ in calibrated.shares)
    sendable = Sendable(one.text, one.types, pool, keys, is_in_turn, deviation(works), is_there)
    is_cut_short = bench.effort.was_cut_short or _TOOK_LONG in (first, problem)
    return Pooled(
        sendable, work, problem or why, bench.plans_differ(calibrated.shares), is_cut_short
    )


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
    except psycopg.errors.QueryCanceled:
        return _TOOK_LONG
    except psycopg.Error as error:
        if connection.closed:
            raise
        return error.diag.message_primary or type(error).__name__
    connection.execute("ANALYZE pgdrag_twin.candidate")
    row = connection.execute("SELECT count(*) FROM pgdrag_twin.candidate").fetchone()
    return "" if row and row[0] else "there are no rows to take values from"


def _make_asked(
    connection: psycopg.Connection[Any], one: Analysed, drawn: Sampled, logged: Sequence[Parameter]
) -> tuple[float, bool]:
    """Make a table of candidates as the log has the values of a parameter: of those that tell something the one with the most values.

    Values that the log has are there as often as it has them, among any number of the first ones, too; the others make its values as
    frequent in each part of the column's rows as they were. What else is inserted has the log's values on its own, where it has all.

    Returns:
        The share of the original's calls that had one of the former, and whether the latter are told.
    """
    usable = [
        x
        for x in logged
        if x.number in _told(one, drawn) and x.distinct > 1 and (x.common or tells_positions(x))
    ]
    if not usable:
        return 0.0, False
    chosen = max(usable, key=lambda x: x.distinct)
    value = drawn.column(chosen.number, 0)
    columns = [f"p{n}_{level}" for n, count in drawn.levels.items() for level in range(count)]
    columns += [f"absent_{n}" for n in drawn.absent] + [f"apart_{n}" for n in drawn.apart]
    selected, is_placed = ", ".join(columns), tells_positions(chosen)
    order = f"{value}::{cast_type(one.types[chosen.number - 1])}"
    # Those of one value are in the part in the middle of them, as the log's are.
    middle = f"(rank() OVER (ORDER BY {order}) - 1 + count(*) OVER (PARTITION BY {value}) / 2.0) / count(*) OVER ()"
    part = (
        f"least(1 + floor({POSITIONS} * {middle}), {POSITIONS})::int" if is_placed else "NULL::int"
    )
    connection.execute(f"DROP TABLE IF EXISTS {ASKED}".encode())
    with connection.transaction():
        # How many rows parts of this query have, the planner does not know; so those are made before they are joined.
        connection.execute("SET LOCAL enable_nestloop = off")
        connection.execute(
            f"""
        CREATE UNLOGGED TABLE {ASKED} AS
        WITH logged AS MATERIALIZED (SELECT key AS token, value::float8 AS share FROM pg_catalog.jsonb_each_text(%(common)s)),
             there AS MATERIALIZED (SELECT n, {selected}, token, share, {part} AS part, count(*) OVER () AS most,
                                           row_number() OVER w AS place, count(*) OVER (PARTITION BY {value}) AS alike
                                      FROM {_CANDIDATES} LEFT JOIN logged ON token = {value} WINDOW w AS (PARTITION BY {value} ORDER BY n)),
             known AS (SELECT part, sum(share) AS share FROM (SELECT DISTINCT part, token, share FROM there WHERE token IS NOT NULL) AS t GROUP BY part),
             rest AS (SELECT part, greatest(wanted - coalesce(share, 0), 0) AS wanted
                        FROM pg_catalog.unnest(%(positions)s::float8[]) WITH ORDINALITY AS p (wanted, part) LEFT JOIN known USING (part)),
             others AS (SELECT there.*, row_number() OVER w AS k, count(*) OVER (PARTITION BY part) AS beside
                          FROM there WHERE token IS NULL WINDOW w AS (PARTITION BY part ORDER BY n)),
             of_tokens AS MATERIALIZED (SELECT token, i, 1 + (i - 1) %% alike AS place
                             FROM there CROSS JOIN LATERAL pg_catalog.generate_series(1, round(share * {_ASKED_ROWS})::int) AS i WHERE token IS NOT NULL AND place = 1),
             of_parts AS MATERIALIZED (SELECT part, i, 1 + (i - 1) %% beside AS k
                            FROM others JOIN rest USING (part) CROSS JOIN LATERAL pg_catalog.generate_series(1, ceil(most * wanted)::int) AS i WHERE k = 1)
        SELECT row_number() OVER (ORDER BY (i - 0.5 - pg_catalog.hashtextextended(token, i) / 2.0 ^ 64) / share) AS n, true AS is_common, token, share, {selected}
          FROM of_tokens JOIN there USING (token, place)
        UNION ALL
        SELECT row_number() OVER (ORDER BY pg_catalog.hashint8(i * {POSITIONS} + part)), false, NULL, NULL, {selected}
          FROM of_parts JOIN others USING (part, k)""".encode(),
            {"common": json.dumps(dict(chosen.common)), "positions": [*chosen.positions] if is_placed else []},
        )  # fmt: skip
    if one.change.kind == "insert" and one.table is not None:
        bound = {column for key in (*one.table.unique, *one.table.foreign) for column in key}
        free = {x.parameter for x in one.change.assignments if x.column not in bound} - {
            chosen.number
        }
        for x in usable:
            if x.number in free and sum(share for _, share in x.common) > _ALL_TOLD:
                for table in (ASKED, _CANDIDATES):
                    value = by_lot(x.common, "n", x.number)
                    connection.execute(
                        f"UPDATE {table} SET {drawn.column(x.number, 0)} = {value}".encode()
                    )
    query = f"SELECT coalesce(sum(share), 0), (SELECT count(*) FROM {ASKED} WHERE NOT is_common) > 0 FROM (SELECT DISTINCT token, share FROM {ASKED} WHERE is_common) AS t"
    row = connection.execute(query.encode()).fetchone()
    assert row is not None, "an aggregate has a row"
    return min(float(row[0]), 1.0), bool(row[1])


def _told(one: Analysed, drawn: Sampled) -> set[int]:
    """Return the parameters of which a log may tell the values: equal to a column, the beginning of a range, or inserted."""
    equal = {
        n for n, x in one.conditions.first().items()
        if x.operator == "=" or (x.operator in RANGES and x.is_plain and drawn.levels.get(n) == 1)
    }  # fmt: skip
    inserted = {x.parameter for x in one.change.assignments if x.is_inserted and x.is_plain}
    return {n for n in equal | inserted if n in drawn.levels}


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
    """Make a statement's pool of these rows, in their order.

    Again and again, if there are few: some clients would have more of them for themselves than others.
    """
    names = ", ".join(f"p{n} text" for n in one.parameters)
    connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
    connection.execute(f"CREATE TABLE {table} (n int8, {names})".encode())
    places = ", ".join(["%s"] * (len(one.parameters) + 1))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} VALUES ({places})".encode(),
            [
                (n, *values[: len(one.parameters)])
                for n, values in enumerate([*rows] * max(LEAST_ROWS // len(rows), 1), start=1)
            ],
        )
