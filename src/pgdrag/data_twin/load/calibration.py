"""How are values chosen so that a statement does as much as in the original?

Each stratum of candidates (rows by lot, each key once, frequent keys, keys that are not there; at each level) is tried a
few times on the twin's server, in transactions that are rolled back. A linear programme finds shares of the strata that
give, on average, the rows and blocks that the original's calls had.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.sampling import Sampled, cast_type
from pgdrag.data_twin.load.statements import NAME, Analysed, prepared
from pgdrag.data_twin.load.texts import probe_of

TRIES = 20  # of each stratum
CHANGES = 3  # that are made and rolled back, to see that nothing refuses them
_TRY_S = 4.0  # one execution
_STRATUM_S = 0.3  # and then no more tries, if there were some
_SOME = 6
_CLOSE = 0.05
# A program seldom asks for what is not there: sooner for keys that have fewer rows.
_COSTS = {"row": 0.0, "joined": 0.005, "absent": 2.0}
# Few keys wait for each other's rows more than the original's did: they have to be worth it, by a quarter of the blocks.
_BAND_COST = 1.0

Values = Sequence[str | None]


@dataclass(frozen=True)
class Work:
    """What an execution took, or executions on average."""

    rows: float
    blocks: float
    temp: float = 0.0
    wal_bytes: float = 0.0
    wal_images: float = 0.0


@dataclass(frozen=True)
class Stratum:
    """Candidates that are alike.

    Attributes:
        mode: "row": by lot; "joined": by lot, of those that other tables have rows for; "absent": keys that no row has;
            "1" … : keys of that band, the first having the most rows.
        level: of ranges, lists and prefixes.
        limits: values of parameters that limit rows.
    """

    mode: str
    level: int
    limits: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Calibrated:
    """Which shares of which strata a statement's values have.

    Attributes:
        work: an execution's with these, on average; None where none could be tried.
        problem: why there is none, or "".
    """

    shares: tuple[tuple[Stratum, float], ...]
    work: Work | None = None
    problem: str = ""


class Bench:
    """A statement with its candidates, on the twin's server."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        one: Analysed,
        drawn: Sampled,
        fresh: Sequence[Fresh],
        candidates: str,
        *,
        most_s: float,
    ) -> None:
        self._connection = connection
        self._one = one
        self._drawn = drawn
        self._fresh = {x.parameter: x for x in fresh}
        self._candidates = candidates
        self._most_s = most_s
        self._serial = itertools.count(1)
        # What is changed and rolled back leaves dead rows: a query finds the same rows without.
        probe = probe_of(one.text)
        self._text, self._types = (
            (probe, [cast_type(x) for x in one.types]) if probe else (one.text, [])
        )
        self.problem = ""

    def calibrated(self) -> Calibrated:
        """Try strata until shares of them do what the original's calls did, or nothing more is to be tried."""
        one, start = self._one, time.monotonic()
        if not one.types or (one.change.kind == "insert" and not one.change.has_conflict):
            [base, *_] = next(self._batches({}))
            return self._ended(
                {base: self._tried(base, TRIES if one.change.kind == "select" else CHANGES)}
            )
        found: dict[Stratum, Work | None] = {}
        for batch in self._batches(found):
            for stratum in batch:
                if stratum not in found and time.monotonic() - start < self._most_s:
                    found[stratum] = self._tried(stratum, TRIES)
            if self._is_close(found):
                break
        return self._ended(found)

    def _ended(self, found: Mapping[Stratum, Work | None]) -> Calibrated:
        known = {stratum: work for stratum, work in found.items() if work is not None}
        if not known:
            first = next(self._batches({}))[0]
            return Calibrated(((first, 1.0),), None, self.problem or "none of its values could be tried")  # fmt: skip
        shares = self._shares(known)
        return Calibrated(tuple(shares.items()), mean(shares, known))

    def _batches(self, found: Mapping[Stratum, Work | None]) -> Iterator[list[Stratum]]:
        """Yield what to try: likely levels first, then other keys, all levels, and other limits."""
        drawn, limits = self._drawn, self._limits()
        yield [Stratum("row", level, limits[0]) for level in drawn.likely[:3]]
        near = self._near(found)
        modes = ["joined"] if drawn.has_joins else []
        modes += [*self._bands()] + (["absent"] if drawn.absent else [])
        yield [Stratum(mode, level, limits[0]) for level in near for mode in modes]
        yield [Stratum("row", level, limits[0]) for level in drawn.likely]
        yield [Stratum("row", level, limit) for limit in limits[1:] for level in near]

    def _near(self, found: Mapping[Stratum, Work | None]) -> list[int]:
        """Return the levels that should be right, and those that were nearest."""
        target = self._target()
        kind = "rows" if target.rows > 1 or not self._weighs_blocks else "blocks"

        def distance(stratum: Stratum) -> float:
            work = found[stratum]
            return abs(math.log((getattr(work, kind) + 1) / (getattr(target, kind) + 1))) if work else math.inf  # fmt: skip

        nearest = [x.level for x in sorted(found, key=distance)]
        return list(dict.fromkeys([*self._drawn.likely[:1], *nearest[:2]]))

    def _bands(self) -> Iterator[str]:
        if not self._drawn.is_unique:
            rows = self._connection.execute(f"SELECT DISTINCT band FROM {self._candidates} WHERE band IS NOT NULL ORDER BY 1".encode())  # fmt: skip
            yield from (str(band) for (band,) in rows.fetchall())

    def _limits(self) -> list[tuple[tuple[int, str], ...]]:
        """Return values for LIMIT and OFFSET: as many rows as calls returned, and then more."""
        wanted = self._one.wanted.rows / max(self._one.wanted.calls, 1)
        of = self._one.limits
        if not of:
            return [()]
        most = max(1, math.ceil(wanted))
        sizes = list(dict.fromkeys([most, max(1, math.floor(wanted)), 2 * most, 10 * most]))
        found = [tuple((n, str(size) if kind == "limit" else "0") for n, kind in of.items()) for size in sizes]  # fmt: skip
        if "offset" in of.values():
            found += [
                tuple((n, str(most) if kind == "limit" else str(offset)) for n, kind in of.items())
                for offset in (most, 10 * most, 100 * most)
            ]
        return found

    # --- shares ---

    def _target(self) -> Work:
        return wanted(self._one)

    def _is_close(self, found: Mapping[Stratum, Work | None]) -> bool:
        known = {stratum: work for stratum, work in found.items() if work is not None}
        if not known:
            return False
        work, target = mean(self._shares(known), known), self._target()
        return _is_near(work.rows, target.rows) and (not self._weighs_blocks or _is_near(work.blocks, target.blocks))  # fmt: skip

    @property
    def _weighs_blocks(self) -> bool:
        # What a change touches depends on the rows' state far more than on which they are.
        return self._one.change.kind == "select"

    def _shares(self, tried: Mapping[Stratum, Work]) -> dict[Stratum, float]:
        # Where rows do not tell whether a key is there, as with an aggregate's, blocks alone must not make it miss.
        there = {x.level: work.rows for x, work in tried.items() if x.mode == "row"}
        known = {x: work for x, work in tried.items() if x.mode != "absent" or there.get(x.level) != work.rows}  # fmt: skip
        if len(known) == 1 or not self._one.wanted.calls:
            return {next(iter(known)): 1.0}
        shares = best_shares(
            [*known.values()], self._target(),
            weighs_blocks=self._weighs_blocks, costs=[_COSTS.get(x.mode, _BAND_COST) for x in known],
        )  # fmt: skip
        return {x: share for x, share in zip(known, shares, strict=True) if share > 0.001}

    # --- trying ---

    def _tried(self, stratum: Stratum, tries: int) -> Work | None:
        """Execute a statement with values of a stratum; None where none could be executed."""
        works, start = [], time.monotonic()
        with prepared(self._connection, self._text, self._types):
            for values in self.values(stratum, tries):
                work = self._execute(values)
                if work is not None:
                    works.append(work)
                took_s = time.monotonic() - start
                if took_s > _TRY_S or (took_s > _STRATUM_S and len(works) >= _SOME):
                    break
        return average(works) if works else None

    def checked(self, rows: Sequence[Values]) -> Work | None:
        """Return what executions with these values take, on average; None where the first ones fail."""
        few = rows if self._one.change.kind == "select" else rows[:CHANGES]
        with prepared(self._connection, self._one.text):
            works = [work for values in few if (work := self._execute(values)) is not None]
        if len(few) < len(rows) and works and self._types:
            with prepared(self._connection, self._text, self._types):
                works = [work for values in rows if (work := self._execute(values)) is not None]
        return average(works) if works else None

    def values(self, stratum: Stratum, count: int) -> list[Values]:
        """Return values for all parameters, in their order, of so many candidates."""
        query = f"{self.selection(stratum)} ORDER BY n LIMIT {count}"
        return [self.with_fresh(row) for row in self._connection.execute(query.encode()).fetchall()]

    def with_fresh(self, row: Sequence[str | None]) -> Values:
        """Return a row's values, with new ones where it needs what no row has."""
        serial = next(self._serial)
        return [
            self._fresh[n].value(serial) if n in self._fresh else value
            for n, value in enumerate(row, start=1)
        ]

    def selection(self, stratum: Stratum) -> str:
        """Return the query for a stratum's candidates, a column for each parameter, without an order."""
        drawn, one = self._drawn, self._one
        limits = dict(stratum.limits)
        columns = []
        for number in one.parameters:
            if number in limits:
                columns.append(f"{_literal(limits[number])}::text")
            elif number in drawn.levels:
                columns.append(drawn.column(number, stratum.level, is_absent=stratum.mode == "absent"))  # fmt: skip
            else:
                columns.append(f"{_literal(drawn.free.get(number))}::text")
        which = ""
        if stratum.mode == "joined":
            which = " WHERE is_joined"
        elif stratum.mode.isdigit():
            which = f" WHERE band = {stratum.mode}"
        return f"SELECT {', '.join(columns) or 'NULL'} FROM {self._candidates}{which}"

    def _execute(self, values: Values) -> Work | None:
        connection = self._connection
        arguments = ", ".join(_literal(x) for x in values[: len(self._one.types)])
        query = f"EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON) EXECUTE {NAME}{f'({arguments})' if arguments else ''}"  # fmt: skip
        try:
            connection.execute(f"BEGIN; SET LOCAL statement_timeout = {round(_TRY_S * 1000)}".encode())  # fmt: skip
            row = connection.execute(query.encode()).fetchone()
            assert row is not None, "EXPLAIN has an answer"
            return work_of(row[0][0]["Plan"])
        except psycopg.Error as error:
            if connection.closed:
                raise
            self.problem = error.diag.message_primary or type(error).__name__
            return None
        finally:
            if not connection.closed:
                connection.execute(b"ROLLBACK")


def wanted(one: Analysed) -> Work:
    """Return what a call of the original took, on average."""
    x = one.wanted
    calls = max(x.calls, 1)
    return Work(
        x.rows / calls, (x.shared_hit + x.shared_read) / calls, (x.temp_read + x.temp_written) / calls,
        x.wal_bytes / calls, x.wal_full_pages / calls,
    )  # fmt: skip


def work_of(plan: Mapping[str, Any]) -> Work:
    """Return what EXPLAIN (ANALYZE, BUFFERS, WAL) says of a plan: rows returned or changed, blocks, WAL."""
    rows = float(plan["Actual Rows"])
    if plan["Node Type"] == "ModifyTable" and not rows:
        feeding = [x for x in plan.get("Plans", ()) if x.get("Parent Relationship") in ("Outer", "Member")]  # fmt: skip
        rows = sum(float(x["Actual Rows"]) * float(x.get("Actual Loops", 1)) for x in feeding)
        rows -= float(plan.get("Conflicting Tuples", 0)) if plan.get("Conflict Resolution") == "NOTHING" else 0  # fmt: skip
    return Work(
        rows, float(plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0)),
        float(plan.get("Temp Read Blocks", 0) + plan.get("Temp Written Blocks", 0)),
        float(plan.get("WAL Bytes", 0)), float(plan.get("WAL FPI", 0)),
    )  # fmt: skip


def average(works: Sequence[Work]) -> Work:
    """Return the mean of executions; there is at least one."""
    return Work(*(math.fsum(getattr(x, name) for x in works) / len(works) for name in vars(works[0])))  # fmt: skip


def mean(shares: Mapping[Stratum, float], known: Mapping[Stratum, Work]) -> Work:
    """Return what executions take whose values have these shares."""
    zero = Work(0.0, 0.0)
    total = math.fsum(shares.values())
    return replace(zero, **{
        name: math.fsum(share / total * getattr(known[x], name) for x, share in shares.items())
        for name in vars(zero)
    })  # fmt: skip


def best_shares(
    works: Sequence[Work], target: Work, *, weighs_blocks: bool, costs: Sequence[float]
) -> list[float]:
    """Return shares, whose sum is 1, that come as near to the target as any do.

    Rows count most, then blocks; of shares that are as near, those whose executions are each like the target, and not
    only on average, with the lower costs.
    """
    from scipy.optimize import linprog

    count = len(works)
    kinds = [(100.0, "rows", 0.05)] + ([(4.0, "blocks", 1.0)] if weighs_blocks else [])
    own = [
        cost + 0.05 * sum(abs(math.log((getattr(x, k) + 1) / (getattr(target, k) + 1))) for _, k, _ in kinds)
        for x, cost in zip(works, costs, strict=True)
    ]  # fmt: skip
    # For each kind two more variables: how much more, and how much less it is than the target, as a share of that.
    objective = own + [weight for weight, _, _ in kinds for _ in range(2)]
    equal, sums = [[1.0] * count + [0.0] * (2 * len(kinds))], [1.0]
    for at, (_, kind, least) in enumerate(kinds):
        goal = max(getattr(target, kind), least)
        slack = [0.0] * (2 * len(kinds))
        slack[2 * at], slack[2 * at + 1] = -1.0, 1.0
        equal.append([getattr(x, kind) / goal for x in works] + slack)
        sums.append(getattr(target, kind) / goal)
    solved = linprog(objective, A_eq=equal, b_eq=sums, bounds=(0, None), method="highs")
    assert solved.success, "any shares are a solution, more or less near"
    return [max(float(x), 0.0) for x in solved.x[:count]]


def _is_near(value: float, target: float) -> bool:
    return abs(value - target) <= _CLOSE * max(target, 0.05)


def _literal(value: str | None) -> str:
    if value is None:
        return "NULL"
    escaped = value.replace("'", "''")
    return f" E'{escaped.replace(chr(92), chr(92) * 2)}'" if "\\" in escaped else f"'{escaped}'"
