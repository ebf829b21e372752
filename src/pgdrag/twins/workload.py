"""Which statements ran in the window of a capture, and what did the sessions do?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pgdrag.twins.fields import STRICT, Ages, Amount, Count


@dataclass(frozen=True)
class Statement:
    """A statement, and what its calls took in the window.

    Attributes:
        number: of this file; 1 took the most time.
        text: with $1, $2 … for constants and parameters; of a utility statement `?`.
        is_plannable: SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES: it has a plan.
        role: whose, "role1".
        is_toplevel: sent by a client, not by a function.
        parameters: types of $1, $2 …, by the server; empty where there are none, or where it could not say.
        parameters_unknown: why it could not say, or "".
        exec_s, plan_s, io_s, temp_io_s, jit_s: seconds; None where the server did not measure.
        min_s, max_s, mean_s, stddev_s: of an execution, since the statement is known, not only in the window.
        parallel_workers: that were launched; None before PostgreSQL 18.
    """

    __pydantic_config__ = STRICT

    number: int
    text: str
    is_plannable: bool
    role: str
    is_toplevel: bool
    calls: Count
    rows: Count
    exec_s: Amount
    plans: Count
    plan_s: Amount | None
    min_s: Amount
    max_s: Amount
    mean_s: Amount
    stddev_s: Amount
    shared_hit: Count
    shared_read: Count
    shared_dirtied: Count
    shared_written: Count
    local_hit: Count
    local_read: Count
    local_dirtied: Count
    local_written: Count
    temp_read: Count
    temp_written: Count
    wal_records: Count
    wal_full_pages: Count
    wal_bytes: Count
    io_s: Amount | None = None
    temp_io_s: Amount | None = None
    jit_s: Amount | None = None
    parallel_workers: Count | None = None

    @property
    def time_s(self) -> float:
        """In execution, and in planning where that is tracked."""
        return self.exec_s + (self.plan_s or 0.0)

    parameters: tuple[str, ...] = ()
    parameters_unknown: str = ""


@dataclass(frozen=True)
class Workload:
    """Statements over the window.

    Attributes:
        window_s: its length.
        evictions: how often the view forgot statements in it, for want of room.
        was_reset: the view was reset meanwhile: calls before that are lost.
        other_calls, other_exec_s: of statements that are not listed: too many, or hidden from this role.
        other_databases_calls: of statements in other databases, which share the server.
    """

    __pydantic_config__ = STRICT

    window_s: Amount
    statements: tuple[Statement, ...] = ()
    evictions: Count = 0
    was_reset: bool = False
    other_calls: Count = 0
    other_exec_s: Amount = 0.0
    other_databases_calls: Count = 0


@dataclass(frozen=True)
class Activity:
    """What sessions did in the window.

    Attributes:
        looks: samples of pg_stat_activity; the means are over them.
        sessions, active, idle, idle_in_transaction, blocked: client sessions of this database, on average.
        most_sessions, most_active: at once.
        other_sessions: of other databases, on average.
        waits: sessions of this database that waited so, on average, by "Type:Event"; "": on a processor, or wanting
            one.
        commits, rollbacks: of this database, in the window, without pgdrag's own.
        counters: what this database's row of pg_stat_database grew by, times in seconds.
        session_s, active_s, idle_in_transaction_s: time of this database's sessions, by the server's own count.
        new_sessions: that began in the window.
        statements_per_transaction: statements of clients for each transaction, BEGIN and COMMIT not counted.
        think_s: mean pause of a session between two transactions.
        idle_ages_s: how long sessions had been idle outside a transaction when a sample saw them: quantiles 0.1,
            0.25, 0.5, 0.75, 0.9 and 0.99; empty where none was seen.
        transaction_ages_s: the same of how long ago open transactions had begun.
    """

    __pydantic_config__ = STRICT

    looks: Count = 0
    sessions: Amount = 0.0
    active: Amount = 0.0
    idle: Amount = 0.0
    idle_in_transaction: Amount = 0.0
    blocked: Amount = 0.0
    most_sessions: Count = 0
    most_active: Count = 0
    other_sessions: Amount = 0.0
    waits: Mapping[str, Amount] = field(default_factory=dict)
    commits: Count | None = None
    rollbacks: Count | None = None
    counters: Mapping[str, Amount] = field(default_factory=dict)
    session_s: Amount | None = None
    active_s: Amount | None = None
    idle_in_transaction_s: Amount | None = None
    new_sessions: Count | None = None
    statements_per_transaction: Amount | None = None
    think_s: Amount | None = None
    idle_ages_s: Ages = ()
    transaction_ages_s: Ages = ()


def long_waiting(
    statements: Sequence[Statement], activity: Activity, *, times: float
) -> list[Statement]:
    """Return those that took so many times as long for each block as is usual, where sessions were seen waiting for locks."""
    if not statements or not any(x.startswith("Lock:") for x in activity.waits):
        return []
    usual_s = median(map(_block_s, statements))
    return [one for one in statements if _block_s(one) > times * usual_s]


def _block_s(one: Statement) -> float:
    """Return how long a statement took for each block, without reading it."""
    return max(one.exec_s - (one.io_s or 0.0), 0.0) / max(one.shared_hit + one.shared_read, 1)
