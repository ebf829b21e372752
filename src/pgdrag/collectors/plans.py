"""How does the server mean to run the workload's statements, under the treatment's own settings?

After the window, when all others have taken their readings: each statement is prepared in a session of
its own, which has the settings of the workload's sessions, and explained as for any values and as for
given ones. Those that only read are run once more, in a transaction that is rolled back, to see how
many rows come where how many were expected: the cheapest by the planner's estimate first, as many as
fit into a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import psycopg

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._session import (
    QUIET,
    SESSION,
    explain,
    planned_examples,
    prepare,
    probe_role,
    refusal,
)
from pgdrag.driver.abort_connection import abort_after
from pgdrag.errors import PgdragError
from pgdrag.findings.plan_nodes import nodes, number_of, scanned, text_of, tidy
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Plan, Recordings, StatementPlan

TIMEOUT_S = 0.5  # of one statement
PLANNING_BUDGET_S = 5.0  # of all statements together
RUNNING_BUDGET_S = 1.0  # of those that are run
_PATIENCE_S = 5.0  # for a server that does not even end a statement

_WRITING = frozenset({"LockRows", "ModifyTable"})
_NAME = "pgdrag_statement"


class Plans(Collector):
    """Generic and custom plans of the workload's statements, and rows against estimates."""

    name: ClassVar[str] = "plans"
    summary: ClassVar[str] = "how the server plans the workload's statements, and rows it expected"
    needs: ClassVar[str] = "a workload that declares its statements"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("sequentially_planned_statements", "statements planned with a sequential scan of a table", "statements", "count", detail="{tables}"),
    )  # fmt: skip

    def __init__(self) -> None:
        self._plans: Sequence[StatementPlan] | Unseen = NO_READING

    def before(self, observer: Observer) -> None:
        """Do nothing: within the window this costs nothing."""

    def after(self, observer: Observer) -> None:
        """Do nothing: what is explained, others would count."""

    def afterwards(self, observer: Observer) -> None:
        self._plans = attempt(lambda: _look(observer))

    def amounts(self, window: Window) -> Amounts:
        plans = known(self._plans)
        tables = [
            {scanned(node) for node in nodes(plan) if text_of(node, "Node Type") == "Seq Scan"}
            for plan in (one.custom or one.generic for one in plans)
            if plan is not None
        ]
        if not tables:
            reasons = (plan.missing for plan in plans if plan.missing)
            raise Unseen(f"could not get a plan: {next(reasons, 'none has a plan')}")
        named = ", ".join(sorted(set().union(*tables)))
        words = f"Of {named}; {len(tables)} statements have plans." if named else ""
        return {"statements": sum(map(bool, tables)), "tables": words}

    def recordings(self, window: Window) -> Recordings:
        plans = self._plans
        if isinstance(plans, Unseen):
            return Recordings(missing={self.name: plans.reason})
        return Recordings(plans)


def _look(observer: Observer) -> Sequence[StatementPlan]:
    examples = planned_examples(observer)
    try:
        with (
            observer.cluster.connect(
                application_name="pgdrag plans", role=probe_role(observer)
            ) as connection,
            abort_after(connection, after_s=PLANNING_BUDGET_S + RUNNING_BUDGET_S + _PATIENCE_S),
        ):
            return _Session(connection).look(examples)
    except (psycopg.Error, PgdragError) as error:
        raise Unseen(f"the statements could not be explained: {refusal(error)}") from error


class _Session:
    """A session with the treatment's settings, which writes nothing."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.prepare_threshold = None  # DEALLOCATE ALL would take them, too
        connection.execute(f"SET statement_timeout = {TIMEOUT_S * 1000:.0f}".encode())
        for statement in (SESSION, QUIET):
            connection.execute(statement.encode())

    def look(self, examples: Sequence[Example]) -> Sequence[StatementPlan]:
        """Explain all, then run those that only read: what takes long comes last."""
        until_s = time.monotonic() + PLANNING_BUDGET_S
        found = [self._explained(example, until_s) for example in examples]
        until_s = time.monotonic() + RUNNING_BUDGET_S
        for at in sorted(range(len(found)), key=lambda at: _cost(found[at])):
            found[at] = self._analyzed(examples[at], found[at], until_s)
        return found

    def _explained(self, example: Example, until_s: float) -> StatementPlan:
        found = StatementPlan(query=example.text, transaction=example.transaction)
        for kind in ("generic", "custom"):
            plan = self._plan(example, kind, "", until_s)
            if isinstance(plan, str):
                return replace(found, missing=f"no {kind} plan: {plan}")
            found = replace(found, **{kind: plan})  # type: ignore[arg-type]
        return found

    def _analyzed(self, example: Example, found: StatementPlan, until_s: float) -> StatementPlan:
        if found.custom is None or any(
            text_of(node, "Node Type") in _WRITING for node in nodes(found.custom)
        ):
            return found
        plan = self._plan(example, "custom", "ANALYZE, BUFFERS, ", until_s)
        if isinstance(plan, str):
            return replace(found, missing=f"not run: {plan}")
        return replace(found, analyzed=plan)

    def _plan(self, example: Example, kind: str, options: str, until_s: float) -> Plan | str:
        """Return a statement's plan, or why there is none."""
        if time.monotonic() >= until_s:
            return "the time limit for all statements was reached"
        try:
            self._connection.execute("BEGIN READ ONLY")
            self._connection.execute(f"SET LOCAL plan_cache_mode = force_{kind}_plan".encode())
            # The extended protocol refuses a text of several statements: a COMMIT of theirs would
            # end the transaction that cannot write.
            self._connection.execute(prepare(_NAME, example), binary=True)
            row = self._connection.execute(explain(_NAME, example.values, options)).fetchone()
            assert row is not None, "EXPLAIN has an answer"
            return tidy(row[0][0])
        except psycopg.errors.QueryCanceled:
            return f"it took more than {TIMEOUT_S:g} s"
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            return refusal(error)
        finally:
            with suppress(psycopg.OperationalError):
                self._connection.execute("ROLLBACK")
                self._connection.execute("DEALLOCATE ALL")


def _cost(found: StatementPlan) -> float:
    return number_of(found.custom or {}, "Total Cost")
