"""What does one of the workload's updates cost, from the beginning of the window to its end?

Each look runs one of the workload's own updates with EXPLAIN (ANALYZE, BUFFERS), in a transaction that is
rolled back: begun, run and rolled back with one message, so that the row is locked no longer than the
update runs. It waits a few milliseconds for another session's lock. Each look leaves a row version that was
never committed, which the next access may prune.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, detailed
from pgdrag.collectors._explaining import (
    QUIET,
    SESSION,
    explain,
    first_word,
    planned_examples,
    prepare,
    refusal,
    tidy,
)
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._pace import Pace
from pgdrag.collectors.counters import attempt
from pgdrag.errors import PgdragError
from pgdrag.findings.plan_nodes import children, is_scan, node_words, nodes, number_of, text_of
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Plan, Recordings, Series, UpdateLook
from pgdrag.servers.abort_connection import abort_after

MOST_UPDATES = 3  # statements
MOST_SHOWN = 8  # looks at each, as recordings
LOCK_WAIT_MS = 5
TIMEOUT_MS = 250
_PATIENCE_S = 5.0  # for a server that does not even end a statement
_NAME = "pgdrag_update_{}"
_LIMITS = f"""
SET lock_timeout = '{LOCK_WAIT_MS}ms';
SET statement_timeout = '{TIMEOUT_MS}ms';
SET default_transaction_read_only = off;
SET plan_cache_mode = force_custom_plan
"""
# Whatever the treatment makes the default: no other level finds somebody else's row where it was, and
# none but this leaves serializable transactions of the workload's alone.
_BEGIN, _ROLLBACK = "BEGIN ISOLATION LEVEL READ COMMITTED; ", "; ROLLBACK"
# A lock that outlasts its transaction would not go with the rollback.
_LOCKING = "advisory"
_UPDATE = re.compile(r"\bupdate\b", re.IGNORECASE)
_BUFFERS = ("buffers_per_update", "blocks of tables and indexes that an update looks at")


@dataclass(frozen=True)
class _Round:
    """A look at each of the updates that could be looked at: at one moment by the clock, and what all took."""

    at_unix_s: float
    took_s: float
    looks: tuple[UpdateLook, ...]


class UpdateCost(Collector):
    """Buffers of the workload's updates through the window, and how they find their rows."""

    name: ClassVar[str] = "update_cost"
    summary: ClassVar[str] = (
        "buffers of the workload's own updates, run and rolled back; if asked for"
    )
    needs: ClassVar[str] = "a workload that says what it sends, and sends updates"
    is_optional: ClassVar[bool] = True
    # Means over all looks, from the first to the last.
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{looked}",
        Metric(*_BUFFERS, "buffers", "count", "looks"),
        Metric("update_s", "time that an update takes, measured by the server", "took_s", "s", step=1e-6),
    )
    # fmt: on

    def __init__(self) -> None:
        self._session: _Session | Unseen = NO_READING
        self._rounds: list[_Round] = []
        self._unseen = NO_READING
        self._pace = Pace()

    def before(self, observer: Observer) -> None:
        """Open a session, find the updates, and look."""
        self._session = attempt(lambda: _session(observer))
        self._look()

    def sample(self, observer: Observer) -> None:
        """Look, where the last look is long enough ago."""
        if self._pace.is_due(time.monotonic(), looks=len(self._rounds)):
            self._look()

    def after(self, observer: Observer) -> None:
        """Look for the last time."""
        self._look()
        if isinstance(self._session, _Session):
            observer.own_sessions.discard(self._session.backend_pid)
            self._session.close()

    def _look(self) -> None:
        session = self._session
        if isinstance(session, Unseen):
            self._unseen = session
            return
        began_s, at_unix_s = time.monotonic(), time.time()
        self._pace.begin(began_s)
        found = [attempt(partial(session.look, at)) for at in range(len(session.updates))]
        took_s = time.monotonic() - began_s
        looks = tuple(one for one in found if isinstance(one, UpdateLook))
        if looks:
            self._rounds.append(_Round(at_unix_s, took_s, looks))
        self._unseen = next((one for one in found if isinstance(one, Unseen)), self._unseen)

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return the buffers of all looks, and the mean time of one."""
        looks = [look for one in self._rounds for look in one.looks]
        if not looks:
            return self._unseen
        return {
            "buffers": sum(look.buffers for look in looks),
            "looks": len(looks),
            "took_s": sum(look.took_s for look in looks) / len(looks),
        }

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return how often was looked, and what that took."""
        return {"looked": self._looked()}

    def recordings(self, window: Window) -> Recordings:
        """Return buffers over time, and some of the looks with their plans."""
        if not self._rounds:
            return Recordings(missing={self.name: self._unseen.reason})
        by_query: dict[str, list[UpdateLook]] = {}
        for one in self._rounds:
            at_s = round(one.at_unix_s - window.started_unix_s, 3)
            for look in one.looks:
                by_query.setdefault(look.query, []).append(replace(look, at_s=at_s))
        shown = [one for looks in by_query.values() for one in some_of(looks)]
        return Recordings((self._series(window), *shown))

    def _series(self, window: Window) -> Series:
        """Return the mean over the statements of each round; a round that lacks one would not compare."""
        most = max(len(one.looks) for one in self._rounds)
        whole = [one for one in self._rounds if len(one.looks) == most]
        return Series(
            *_BUFFERS,
            "count",
            tuple(round(one.at_unix_s - window.started_unix_s, 3) for one in whole),
            tuple(sum(look.buffers for look in one.looks) / most for one in whole),
        )

    def _looked(self) -> str:
        session = self._session
        assert isinstance(session, _Session), "looks are of a session"
        looks = [look for one in self._rounds for look in one.looks]
        kinds = len(session.updates)
        times_ms = [1000 * one.took_s for one in self._rounds]
        mean_ms, most_ms = sum(times_ms) / len(times_ms), max(times_ms)
        parts = (
            f"{len(looks)} updates{f' of {kinds} statements' if kinds > 1 else ''} run and rolled back",
            f"together {mean_ms:.1f} ms a look on average, at most {most_ms:.1f} ms",
            f"{session.missed} more found a lock, or took too long" if session.missed else "",
            f"{looks[0].buffers:,} buffers at the first, {looks[-1].buffers:,} at the last",
        )
        return f"{'; '.join(part for part in parts if part)}."


def some_of(looks: Sequence[UpdateLook]) -> list[UpdateLook]:
    """Return at most `MOST_SHOWN` looks, evenly spread, each with a plan where it found its rows another way."""
    step = max((len(looks) - 1) / (MOST_SHOWN - 1), 1.0)
    places = dict.fromkeys(round(at * step) for at in range(min(len(looks), MOST_SHOWN)))
    chosen = [looks[at] for at in places]
    return [
        one
        if at in (0, len(chosen) - 1) or one.way != chosen[at - 1].way
        else replace(one, plan=None)
        for at, one in enumerate(chosen)
    ]


def _may_update(text: str) -> bool:
    word = first_word(text)
    return word == "update" or (word == "with" and _UPDATE.search(text) is not None)


def _session(observer: Observer) -> _Session:
    examples = [one for one in planned_examples(observer) if _may_update(one.text)]
    if not examples:
        raise Unseen("the workload sends no update")
    try:
        connection = observer.cluster.connect(application_name="pgdrag updates")
    except (PgdragError, psycopg.Error) as error:
        raise Unseen(f"no session could be had to run updates: {refusal(error)}") from error
    try:
        session = _Session(connection, examples)
    except (Unseen, psycopg.Error) as error:
        with suppress(psycopg.Error):
            connection.close()
        if isinstance(error, Unseen):
            raise
        raise Unseen(f"the updates could not be explained: {refusal(error)}") from error
    observer.own_sessions.add(session.backend_pid)
    return session


class _Session:
    """A session with the treatment's settings that runs updates and rolls each back.

    Attributes:
        updates: those of the workload's statements that can be run here.
        missed: looks that the server refused, or that would have had to wait.
    """

    def __init__(self, connection: psycopg.Connection, examples: Sequence[Example]) -> None:
        """Prepare the updates.

        Raises:
            Unseen: none can be run here.
        """
        self._connection = connection
        connection.prepare_threshold = None  # several statements in one message cannot be prepared
        self.backend_pid = connection.info.backend_pid
        self.missed = 0
        self.updates: list[Example] = []
        connection.execute(SESSION.encode())
        connection.execute(QUIET.encode())
        connection.execute(_LIMITS.encode())
        reasons = [self._prepare(one) for one in examples]
        if not self.updates:
            raise Unseen(next((x for x in reasons if x), "the workload sends no update"))

    def close(self) -> None:
        """End the session."""
        with suppress(psycopg.Error):
            self._connection.close()

    def look(self, at: int) -> UpdateLook:
        """Run one of the updates and roll it back; its time is not set.

        Raises:
            Unseen: it was refused, or would have had to wait.
        """
        example = self.updates[at]
        try:
            found = self._explained(at, example, "ANALYZE, BUFFERS, TIMING off, ")
        except psycopg.Error as error:
            self.missed += 1
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
            raise Unseen(f"the update could not be run: {refusal(error)}") from error
        plan = tidy(found)
        execution_ms = found.get("Execution Time", 0.0)
        assert isinstance(execution_ms, int | float), execution_ms
        return UpdateLook(
            transaction=example.transaction,
            query=example.text,
            at_s=0.0,
            buffers_hit=int(number_of(plan, "Shared Hit Blocks")),
            buffers_read=int(number_of(plan, "Shared Read Blocks")),
            rows=sum(number_of(x, "Actual Rows") for x in children(plan)[-1:]),
            took_s=execution_ms / 1000,
            way=way_of(plan),
            plan=plan,
        )

    def _prepare(self, example: Example) -> str:
        """Add an update that can be run, or return why it cannot."""
        if len(self.updates) >= MOST_UPDATES:
            return ""
        if None in example.values:
            return "the updates' values come from answers, which are not known beforehand"
        if _LOCKING in example.text.lower():
            return "the updates take advisory locks, which a rollback would not give back"
        name = _NAME.format(len(self.updates))
        try:
            self._connection.execute(prepare(name, example), binary=True)
            plan = tidy(self._explained(len(self.updates), example, ""))
        except psycopg.Error as error:
            with suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
                self._connection.execute(f"DEALLOCATE {name}".encode())
            return refusal(error)
        if text_of(plan, "Operation") == "Update":
            self.updates.append(example)
        else:
            self._connection.execute(f"DEALLOCATE {name}".encode())
        return ""

    def _explained(self, at: int, example: Example, options: str) -> dict[str, object]:
        words = explain(_NAME.format(at), example.values, options)
        message = sql.SQL("").join((sql.SQL(_BEGIN), words, sql.SQL(_ROLLBACK)))
        with abort_after(self._connection, after_s=TIMEOUT_MS / 1000 + _PATIENCE_S):
            answers = self._connection.execute(message)
            answers.nextset()  # behind BEGIN's
            row = answers.fetchone()
        assert row is not None, "EXPLAIN has an answer"
        return dict(row[0][0])


def way_of(plan: Plan) -> str:
    """Return how an update's rows are found: its scans, from the outermost in."""
    return ", ".join(dict.fromkeys(node_words(node) for node in nodes(plan) if is_scan(node)))
