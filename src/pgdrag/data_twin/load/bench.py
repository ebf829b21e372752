"""What does a statement take with such values? It is executed on the twin's server, in transactions that are rolled back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from pgdrag.data_twin.load.effort import Effort
from pgdrag.data_twin.load.fresh import Fresh
from pgdrag.data_twin.load.sampling import Sampled
from pgdrag.data_twin.load.statements import (
    Analysed,
    cast_type,
    executing,
    literal,
    planned_as,
    prepared,
)
from pgdrag.data_twin.load.texts import probe_of
from pgdrag.data_twin.load.work import SOME, Values, Work, average, work_of

ASKED = "pgdrag_twin.asked"  # candidates with values that the log has, as often as it has them, and others
CHANGES = 3  # that are made and rolled back, to see that nothing refuses them
_TRY_S = 4.0  # of effort, for a stratum
_STRATUM_S = 0.3  # of it, and then no more tries, if there were some
_CUSTOM_PLANS = 5  # after which the server decides whether it keeps one
MISSING = frozenset({"absent", "apart"})  # modes of which there may be no row
_COMPARED = 4  # strata of which plans are compared

Given = tuple[tuple[int, str], ...]  # parameters' numbers and values


@dataclass(frozen=True)
class Stratum:
    """Candidates that are alike.

    Attributes:
        mode: "asked": as often as the original's calls had them, by its log; "placed": others, so that all together are as often in
            each part of the column's rows; "row": by lot; "joined": by lot, of those
            that other tables have rows for; "absent": keys that no row has; "apart": keys and further values of different rows; "1" … : keys of that band, the first having
            the most rows.
        level: of ranges, lists and prefixes.
        given: values of parameters that no row tells: those that limit rows, bounds of all rows, and sizes of what is written.
    """

    mode: str
    level: int
    given: Given = ()


class Bench:
    """A statement with its candidates, on the twin's server.

    Attributes:
        executed: the values of each stratum that it was executed with, and what these took.
        problem: what the server said last of values that it refused.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        one: Analysed,
        drawn: Sampled,
        fresh: Sequence[Fresh],
        candidates: str,
        effort: Effort,
        *,
        keeps_plans: bool,
        settings: Mapping[str, str] | None = None,
        alike: Mapping[int, int] | None = None,
    ) -> None:
        """Begin.

        Args:
            candidates: the table that has them.
            settings: of the original that the planner knows.
            alike: parameters that are equal to an earlier one.
        """
        self.connection, self.one, self.drawn = connection, one, drawn
        self.candidates, self.effort = candidates, effort
        self._fresh = {x.parameter: x for x in fresh}
        self._keeps_plans, self._settings = keeps_plans, dict(settings or {})
        self._alike = dict(alike or {})
        self._serial = itertools.count(1)
        # What is changed and rolled back leaves dead rows: a query finds the same rows without.
        probe = probe_of(one.text)
        self._text, self._types = (
            (probe, [cast_type(x) for x in one.types]) if probe else (one.text, [])
        )
        self.executed: dict[Stratum, list[tuple[Values, Work]]] = {}
        self.problem = ""

    def tried(self, stratum: Stratum, tries: int) -> Work | None:
        """Execute a statement with further values of a stratum; None where none could be executed, ever."""
        executed, before_s = self.executed.setdefault(stratum, []), self.effort.spent_s
        more = self.values(stratum, tries, first=len(executed))
        with self._ready(more, self._text, self._types):
            for values in more:
                work = self._execute(values)
                if work is not None:
                    executed.append((values, work))
                took_s = self.effort.spent_s - before_s
                if took_s > _TRY_S or (took_s > _STRATUM_S and len(executed) >= SOME):
                    break
                if not self.effort.may_go_on and len(executed) >= SOME:
                    break
        return self._average(stratum)

    def values(self, stratum: Stratum, count: int, *, first: int = 0) -> list[Values]:
        """Return values for all parameters, in their order, of so many candidates from one on."""
        query = f"{self.selection(stratum)} ORDER BY n LIMIT {count} OFFSET {first}"
        return [self.with_fresh(row) for row in self.connection.execute(query.encode()).fetchall()]

    def with_fresh(self, row: Sequence[str | None]) -> Values:
        """Return a row's values as the load sends them, with new ones where it needs what no row has."""
        serial = next(self._serial)
        values = [
            self._fresh[n].value(serial) if n in self._fresh else value
            for n, value in enumerate(row, start=1)
        ]
        for n, other in sorted(self._alike.items()):
            values[n - 1] = values[other - 1]
        return values

    def selection(self, stratum: Stratum) -> str:
        """Return the query for a stratum's candidates, a column for each parameter, without an order."""
        drawn, one = self.drawn, self.one
        given = dict(stratum.given)
        columns = []
        for number in one.parameters:
            if number in given:
                columns.append(f"{literal(given[number])}::text")
            elif number in drawn.levels:
                columns.append(drawn.column(number, stratum.level, stratum.mode))
            else:
                columns.append(f"{literal(drawn.free.get(number))}::text")
        of_modes = {"joined": "is_joined", "asked": "is_common", "placed": "NOT is_common"}
        which = (
            f"{drawn.band(stratum.level)} = {stratum.mode}"
            if stratum.mode.isdigit()
            else of_modes.get(stratum.mode, "")
        )
        which = f" WHERE {which}" if which else ""
        source = ASKED if stratum.mode in ("asked", "placed") else self.candidates
        return f"SELECT {', '.join(columns) or 'NULL'} FROM {source}{which}"

    def _execute(self, values: Values) -> Work | None:
        connection = self.connection
        query = f"EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON) {executing(self.one, values)}"
        try:
            connection.execute(f"BEGIN; SET LOCAL statement_timeout = {round(self.effort.timeout_s * 1000)}".encode())  # fmt: skip
            row = connection.execute(query.encode()).fetchone()
            assert row is not None, "EXPLAIN has an answer"
            self.effort.executed(row[0][0]["Plan"])
            return work_of(row[0][0]["Plan"])
        except psycopg.Error as error:
            if connection.closed:
                raise
            self.effort.failed(is_cancelled=isinstance(error, psycopg.errors.QueryCanceled))
            self.problem = error.diag.message_primary or type(error).__name__
            return None
        finally:
            if not connection.closed:
                connection.execute(b"ROLLBACK")

    @contextmanager
    def _ready(
        self, sample: Sequence[Values], text: str, types: Sequence[str] = ()
    ) -> Iterator[None]:
        """Prepare a statement, and have it planned as in a session of the load that has executed it some times.

        Args:
            sample: values that it is executed with.
        """
        mode = "auto" if self._keeps_plans else "force_custom_plan"
        with (
            planned_as(self.connection, {**self._settings, "plan_cache_mode": mode}),
            prepared(self.connection, text, types),
        ):
            if self._keeps_plans and self.one.types and sample:
                for values in itertools.islice(itertools.cycle(sample), _CUSTOM_PLANS):
                    self._explain(values)
            yield

    def checked(self, rows: Sequence[Values]) -> list[Work]:
        """Return what executions with these values take; nothing where the first ones fail."""
        few = rows if self.one.change.kind == "select" else rows[:CHANGES]
        with self._ready(few, self.one.text):
            works = [work for values in few if (work := self._execute(values)) is not None]
        if len(few) < len(rows) and works and self._types:
            with self._ready(rows, self._text, self._types):
                works = [work for values in rows if (work := self._execute(values)) is not None]
        return works

    def leave_entries(self, rows: Sequence[Values]) -> None:
        """Execute the statement with these values, and roll it back: its entries in pending lists of GIN indexes stay."""
        with self._ready((), self.one.text):
            for row in rows:
                self._execute(self.with_fresh(row))

    def plans_differ(self, shares: Iterable[tuple[Stratum, float]]) -> bool:
        """Return whether a plan that is kept is another one than those that are made for some of the values.

        Args:
            shares: of the calls that have a stratum's values.
        """
        if not self.one.types:
            return False
        some = [x for x, _ in sorted(shares, key=lambda x: -x[1])[:_COMPARED]]
        sample = [values for stratum in some for values in self.values(stratum, _CUSTOM_PLANS)]
        kept, own = (self._plans(sample, keeps_plans=x) for x in (True, False))
        return kept != own

    def _plans(self, sample: Sequence[Values], *, keeps_plans: bool) -> list[str]:
        """Return the plans for some values, in words that tell them apart."""
        before, self._keeps_plans = self._keeps_plans, keeps_plans
        try:
            with self._ready(sample, self._text, self._types):
                return [self._explain(values) for values in sample]
        finally:
            self._keeps_plans = before

    def _explain(self, values: Values) -> str:
        """Have a plan made, and return what it is made of; "" where these values cannot be planned for."""
        query = f"EXPLAIN (FORMAT JSON) {executing(self.one, values)}"
        try:
            row = self.connection.execute(query.encode()).fetchone()
        except psycopg.Error:
            if self.connection.closed:
                raise
            return ""
        assert row is not None, "EXPLAIN has an answer"
        return _form(row[0][0]["Plan"])

    def _average(self, stratum: Stratum) -> Work | None:
        works = [work for _, work in self.executed[stratum]]
        return average(works) if works else None


def _form(plan: Mapping[str, Any]) -> str:
    """Return what a plan is made of: kinds of nodes with their tables and indexes."""
    own = [str(plan.get(x, "")) for x in ("Node Type", "Join Type", "Relation Name", "Index Name")]
    return f"{'|'.join(own)}({','.join(map(_form, plan.get('Plans', ())))})"
