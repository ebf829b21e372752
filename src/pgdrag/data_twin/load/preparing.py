"""In which order do a twin's statements get their pools, with how much time for each, and what is said of them afterwards?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, LiteralString

import psycopg

from pgdrag.data_twin import clock as twin_clock
from pgdrag.data_twin.load.growth import MIDDLE, Growth, grown_tables, grows
from pgdrag.data_twin.load.job import keeps_plans
from pgdrag.data_twin.load.kept_job import keep_job
from pgdrag.data_twin.load.links import (
    agreeing,
    alike_in_a_call,
    belonging,
    foreign_keys,
    linked,
    most_absent,
)
from pgdrag.data_twin.load.mix import Mix, shortened
from pgdrag.data_twin.load.outcomes import outcomes, part_pool
from pgdrag.data_twin.load.pending_lists import listed_share, listed_table
from pgdrag.data_twin.load.pools import EACH, LEAST_ROWS, MOST_ROWS, Pooled, pooled
from pgdrag.data_twin.load.statements import (
    Analysed,
    analysed,
    logged_parameters,
    otherwise_typed,
    planning_settings,
)
from pgdrag.data_twin.load.texts import change_of
from pgdrag.data_twin.load.work import Work, wanted
from pgdrag.data_twin.load.written import is_once
from pgdrag.data_twin.making import keep_notes
from pgdrag.data_twin.unvacuumed import leave_unvacuumed
from pgdrag.english import counted, listed_some, percent_words
from pgdrag.twins.ddl import quoted
from pgdrag.twins.model import Statement, Twin

_ALL_ROWS = 1_000_000  # of all pools
_QUERY_S = 900  # far longer than what a server needs that does nothing else
# Effort to try one statement, at most, and more by its share of the load's time; to try all of them together.
_LEAST_S, _SHARED_S, _ALL_S = 4.0, 60.0, 900.0
_CLOSE = 0.1
_FAR = 1.0  # logarithm of a ratio from which on more is not worse
_FAR_BLOCKS = 1.0  # times as many as the fewer ones
_NAMED = 3
_TELLING = 0.005  # share of the load that a statement has to have to be told about

_BEGIN: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS pgdrag_twin",
    "DROP TABLE IF EXISTS pgdrag_twin.job, pgdrag_twin.statement, pgdrag_twin.candidate, pgdrag_twin.asked",
    "CREATE TABLE pgdrag_twin.job (job jsonb NOT NULL)",
    "CREATE TABLE pgdrag_twin.statement (number int PRIMARY KEY, wanted jsonb NOT NULL, found jsonb, problem text NOT NULL)",
)
_SESSION: LiteralString = """
SELECT pg_catalog.set_config(name, value, false)
  FROM (VALUES ('work_mem', '64MB'), ('jit', 'off'), ('client_min_messages', 'error'), ('lock_timeout', '10s'))
       AS wanted (name, value)
"""


def prepare(
    connection: psycopg.Connection[Any],
    twin: Twin,
    mix: Mix,
    *,
    seed: int,
    step: Callable[[str, int, int], None],
    warn: Callable[[str], None],
    clock: Callable[[], float],
) -> tuple[str, ...]:
    """Make the pools and keep the job; see `prepare_load`."""
    connection.prepare_threshold = None
    connection.execute(_SESSION)
    connection.execute(f"SET statement_timeout = {_QUERY_S * 1000}".encode())
    for sql in _BEGIN:
        connection.execute(sql)
    twin_clock.stop_clock(connection, twin.now)
    _name_schemas(connection, twin)
    notes = [*mix.left_out]
    known: dict[int, Analysed] = {}
    ready: dict[int, Pooled] = {}
    told, settings = keeps_plans(twin), planning_settings(twin)
    # With plans that are made for each call, where those are others.
    other: dict[int, Pooled] = {}
    logged = logged_parameters(twin)
    total_s = max(sum(x.exec_s for x in mix.statements.values()), 1e-9)
    least_s = min(_LEAST_S, (_ALL_S - _SHARED_S) / max(len(mix.statements), 1))
    growth, growing = Growth(connection, twin), grown_tables(mix.statements.values(), twin)
    ordered = _in_turn(mix, twin, growing)
    for number, statement in ordered:
        said = analysed(connection, statement, twin)
        if isinstance(said, str):
            notes.append(f"{_named(statement)} is not sent: {said}")
        else:
            known[number] = said
    mix = replace(mix, types=tuple(linked(x, known, twin) for x in mix.types))
    absent, led = most_absent(mix.types, known), agreeing(mix.types)
    for done, (number, one) in enumerate([*known.items()]):
        step("statements", done, len(known))
        statement, found = mix.statements[number], growth.beside(one)
        known[number] = found
        most = max(_ALL_ROWS // len(mix.statements), LEAST_ROWS)
        most_s = least_s + _SHARED_S * statement.exec_s / total_s
        entries = round(
            statement.calls * MIDDLE * listed_share(statement, mix.statements.values(), twin)
        )
        make = partial(pooled, connection, seed=seed, now=twin.now, most=min(most, MOST_ROWS), most_s=most_s, clock=clock, settings=settings, entries=entries, logged=logged.get(number, ()), most_absent=absent.get(number, 1.0), alike=alike_in_a_call(mix.types, number), is_led=number in led, growth=growth if grows(statement, growing) else None)  # fmt: skip
        made = partial(make, keeps_plans=told is not False)
        ready[number] = made(found)
        if told is None and ready[number].plans_differ:
            other[number] = make(found, keeps_plans=False, suffix=EACH, growth=None)
        both = (ready[number], other.get(number, ready[number]))
        is_telling = statement.exec_s >= _TELLING * total_s
        if typed := _typed(connection, found, both if is_telling else (), made, twin, growth):
            known[number], ready[number] = typed
            other.pop(number, None)
    kept = told if told is not None else _are_kept(known, ready, other)
    if not kept:
        ready |= other
    for number, one in known.items():
        _keep(connection, one, ready[number])
    step("statements", len(known), len(known))
    notes += _differences(twin, known, ready)
    if hurried := _hurried(known, ready):
        notes.append(hurried)
        warn(hurried)
    foreign = foreign_keys(twin, known.values())
    sendable = {
        n: x.sendable if is_once(known[n]) else replace(x.sendable, belonging=partial(belonging, known[n], foreign=foreign))
        for n, x in ready.items()
    }  # fmt: skip
    told_apart = outcomes(mix.types, known, at_once=twin.activity.most_active + 3)
    parted = {
        n: x
        for n, x in told_apart.items()
        if part_pool(connection, known[n], ready[n].sendable.pool)
    }
    keep_job(connection, twin, mix, known, sendable, keeps_plans=kept, outcomes=parted)
    growth.remove()
    _vacuum(connection, known.values(), twin)
    connection.execute("DROP TABLE IF EXISTS pgdrag_twin.candidate, pgdrag_twin.asked")
    connection.execute("RESET ALL")
    keep_notes(connection, notes)
    return tuple(notes)


def _in_turn(mix: Mix, twin: Twin, growing: frozenset[str]) -> list[tuple[int, Statement]]:
    """Return the statements in the order in which they are tried: queries before changes, as what is rolled back leaves traces.

    But first what inserts rows of the present moment, and entries of the pending lists of GIN indexes: queries read those under load, too.
    """

    def place(one: tuple[int, Statement]) -> int:
        text = one[1].text
        is_first = listed_table(text, twin) or grows(one[1], growing)
        return 0 if is_first else 1 if change_of(text).kind == "select" else 2

    return sorted(mix.statements.items(), key=place)


def _name_schemas(connection: psycopg.Connection[Any], twin: Twin) -> None:
    """Let statements find all tables: where the original's sessions looked, the file does not tell."""
    schemas = dict.fromkeys(["public", *twin.schema.schemas, *(x.schema for x in twin.source.extensions)])  # fmt: skip
    path = ", ".join((twin_clock.PATH, *(quoted(x) for x in schemas if x != "pg_catalog")))
    database = quoted(connection.info.dbname)
    connection.execute(
        f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET search_path = {path}".encode()
    )
    connection.execute(f"SET search_path = {path}".encode())


def _vacuum(connection: psycopg.Connection[Any], known: Iterable[Analysed], twin: Twin) -> None:
    tables = {(x.table.schema, x.table.name) for x in known if x.table}
    for schema, name in sorted(tables):
        # What was tried left dead rows behind. All pages, or its rows are estimated from those that changed.
        connection.execute(f"VACUUM (DISABLE_PAGE_SKIPPING) {quoted(schema, name)}".encode())
    leave_unvacuumed(connection, twin, tables=tables)


def _are_kept(
    known: Mapping[int, Analysed], kept: Mapping[int, Pooled], each: Mapping[int, Pooled]
) -> bool:
    """Return whether the original's sessions kept plans: how a call's rows and blocks are nearer to what was counted."""

    def distance(number: int, of: Mapping[int, Pooled]) -> float:
        return min(_distance((known[number], of[number])), _FAR)

    nearer_s = sum(known[x].wanted.exec_s * (distance(x, kept) - distance(x, each)) for x in each)
    return nearer_s <= _CLOSE * sum(x.wanted.exec_s for x in known.values())


def _typed(
    connection: psycopg.Connection[Any],
    one: Analysed,
    of: Sequence[Pooled],
    made: Callable[..., Pooled],
    twin: Twin,
    growth: Growth,
) -> tuple[Analysed, Pooled] | None:
    """Return a statement with other types of its numbers, if these explain better than any values what its calls read."""
    if not of or not all(_is_far(one, x) for x in of):
        return None
    found, best = None, min(_distance((one, x)) for x in of)
    for type_, typed in otherwise_typed(connection, one, twin):
        tried = typed, made(growth.beside(typed), suffix=type_[0], growth=None)
        if (distance := _distance(tried)) < best:
            found, best = tried, distance
    return found


def _distance(of: tuple[Analysed, Pooled]) -> float:
    """Return how far a call's rows and blocks are from what was counted, as a logarithm."""
    one, pooled_ = of
    work, target = pooled_.work, wanted(one)
    if work is None:
        return math.inf
    return sum(abs(math.log((getattr(work, x) + 1) / (getattr(target, x) + 1))) for x in ("rows", "blocks"))  # fmt: skip


def _is_far(one: Analysed, of: Pooled) -> bool:
    """Whether a query reads far more or far fewer blocks than the original's calls, whatever its values are."""
    target = wanted(one).blocks
    if one.change.kind != "select" or of.work is None:
        return False
    return abs(of.work.blocks - target) > _FAR_BLOCKS * max(min(of.work.blocks, target), 1.0)


def _keep(connection: psycopg.Connection[Any], one: Analysed, ready: Pooled) -> None:
    found = None if ready.work is None else json.dumps(vars(ready.work))
    connection.execute(
        "INSERT INTO pgdrag_twin.statement VALUES (%s, %s::jsonb, %s::jsonb, %s)",
        (one.number, json.dumps(vars(wanted(one))), found, ready.problem),
    )


def _differences(
    twin: Twin, known: Mapping[int, Analysed], ready: Mapping[int, Pooled]
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
                for kind in _off(one, found)
            ]
            if off:
                notes.append(f"{_named(one.wanted)}: {'; '.join(off)}")
    return notes


def _off(one: Analysed, found: Work) -> list[str]:
    """Return in what executions differ from the original's calls: "rows", "blocks"."""
    target = wanted(one)
    return [
        kind
        for kind, least in (("rows", 0.05), ("blocks", 1.0))
        if abs(getattr(found, kind) - getattr(target, kind))
        > _CLOSE * max(getattr(target, kind), least)
        # What a change touches depends on the pages' state.
        and (kind == "rows" or one.change.kind == "select")
    ]


def _hurried(known: Mapping[int, Analysed], ready: Mapping[int, Pooled]) -> str:
    """Return a clause on statements that are not like the original's since the clock ended their tries, or ""."""
    total_s = sum(x.wanted.exec_s for x in known.values()) or 1.0
    found = [
        one.wanted
        for number, one in known.items()
        if (x := ready[number]).is_cut_short and (x.work is None or _off(one, x.work))
    ]
    share = sum(x.exec_s for x in found) / total_s
    if share < _TELLING:
        return ""
    longest = sorted(found, key=lambda x: -x.exec_s)
    return (
        f"the server was too slow to try enough values for {counted(len(found), 'statement')} with {percent_words(share)} of the time, "
        f"which do not do what the original's did: {listed_some([_named(x) for x in longest], _NAMED)}; "
        "on a less busy machine, run pgdrag clean --snapshots and have the twin made again"
    )


def _named(statement: Statement) -> str:
    return f"statement {statement.number} ({shortened(statement.text)})"
