"""Which transactions go on since a query found a row, and which since it found none?

A program looks whether a room is free, and books it if it is: the log shows transactions that end with the look, and others
that book. What each look found it does not show. But if all looks together found as many rows as there are transactions of
one kind, those found one each, and the others none. So each kind gets values with which the query finds what it has to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import psycopg

from pgdrag.data_twin.load.kinds import TransactionType
from pgdrag.data_twin.load.leading import runs_once
from pgdrag.data_twin.load.scripts import Sendable, with_variables
from pgdrag.data_twin.load.statements import Analysed, cast_type
from pgdrag.twins.model import Statement

_ENDS = 0.003  # of the calls: by how much counts of the log and of the server differ, as their windows do
_BY_CHANCE = 0.05  # probability that some kinds have just as many transactions without a reason
_ALL = 0.05  # of the calls may be other transactions'
_MOST_ROWS = 20_000  # of a pool that is parted
_PART_S = 20
_FOUND = "found"

Outcomes = Mapping[
    int, Mapping[int, bool]
]  # statement: place of the transaction's kind: whether it finds a row


def outcomes(
    kinds: Sequence[TransactionType], known: Mapping[int, Analysed], *, at_once: int
) -> Outcomes:
    """Return of queries whether they find a row, where each kind of transaction always does the same.

    Args:
        at_once: transactions that the ends of a window may cut.
    """
    found = {}
    for number, one in known.items():
        has_values = one.change.kind == "select" and one.types
        callers = _callers(kinds, number) if has_values else {}
        finding = _finding(callers, one.wanted, at_once)
        if finding:
            found[number] = {at: at in finding for at in callers}
    return found


def _callers(kinds: Sequence[TransactionType], number: int) -> dict[int, float]:
    """Return how many transactions of each kind ran a statement; nothing where some ran it several times, or not always."""
    found = {}
    for place, kind in enumerate(kinds):
        steps = [at for at, x in enumerate(kind.steps) if x.statement == number]
        if not steps:
            continue
        if len(steps) > 1 or not kind.knows_order or not runs_once(kind, steps[0]):
            return {}
        found[place] = kind.weight
    return found


def _finding(callers: Mapping[int, float], wanted: Statement, at_once: int) -> tuple[int, ...]:
    """Return the kinds that have as many transactions together as all found rows; nothing where chance may explain it."""
    calls = sum(callers.values())
    if abs(calls - wanted.calls) > _ALL * wanted.calls or not calls:
        return ()
    off = at_once + _ENDS * calls
    if (2 ** len(callers) - 2) * 2 * off > _BY_CHANCE * calls:
        return ()
    rows = wanted.rows * calls / wanted.calls
    some = (x for size in range(1, len(callers)) for x in combinations(callers, size))
    fitting = [x for x in some if abs(sum(callers[place] for place in x) - rows) <= off]
    return fitting[0] if len(fitting) == 1 else ()


def part_pool(connection: psycopg.Connection[Any], one: Analysed, pool: str) -> bool:
    """Make two pools of a query's: one of values that find a row, one of those that find none.

    Returns:
        Whether there are both.
    """
    values = {n: f"(p.p{n}::{cast_type(one.types[n - 1])})" for n in one.parameters}
    found = f"EXISTS ({with_variables(one.text.strip().rstrip(';'), values, one.types)})"
    table = f"pgdrag_twin.pool_{pool}"
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = '{_PART_S}s'".encode())
            rest = f"NOT EXISTS (SELECT FROM {table}{_FOUND} AS f WHERE f.n = p.n)"
            for finds, condition in ((True, found), (False, rest)):
                part = f"pgdrag_twin.pool_{_part(pool, finds=finds)}"
                connection.execute(f"DROP TABLE IF EXISTS {part}".encode())
                connection.execute(
                    f"CREATE TABLE {part} AS SELECT p.* FROM {table} AS p WHERE p.n <= {_MOST_ROWS} AND {condition}".encode()
                )
                row = connection.execute(f"SELECT FROM {part} LIMIT 1".encode()).fetchone()
                if row is None:
                    raise psycopg.Rollback
            return True
    except psycopg.Error:
        if connection.closed:
            raise
    return False


def with_outcome(one: Sendable, *, finds: bool) -> Sendable:
    """Return a query whose pool was parted, as a transaction sends it that goes on only if it finds a row, or none.

    Statements before it are about the same rows, whatever these take. What finds nothing may be inserted next, so that it is not
    asked for again before all others were.
    """
    pool = _part(one.pool, finds=finds)
    return replace(one, pool=pool, deviation=math.inf, is_in_turn=one.is_in_turn or not finds)


def _part(pool: str, *, finds: bool) -> str:
    return f"{pool}{_FOUND}" if finds else f"{pool}none"
