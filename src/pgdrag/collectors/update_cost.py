"""What does one of the workload's updates cost, from the beginning of the window to its end?

Each sample runs one of the workload's own updates with EXPLAIN (ANALYZE, BUFFERS), in a transaction that is
rolled back: begun, run and rolled back with one message, so that the row is locked no longer than the
update runs. It waits a few milliseconds for another session's lock. Each sample leaves a row version that was
never committed, which the next access may prune.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from pgdrag.collectors import (
    Amounts,
    Collector,
    Metric,
    Observer,
    Unseen,
    Window,
    attempt,
    detailed,
    known,
)
from pgdrag.collectors._metric import NO_READING, series_of
from pgdrag.collectors._session import (
    QUIET,
    SESSION,
    close_session,
    evenly,
    explain,
    first_word,
    is_due,
    open_session,
    planned_examples,
    prepare,
    probe_role,
    refusal,
)
from pgdrag.driver.abort_connection import abort_after
from pgdrag.findings.plan_nodes import (
    children,
    is_scan,
    node_words,
    nodes,
    number_of,
    text_of,
    tidy,
)
from pgdrag.host.clock import CLOCK
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Plan, Recordings, UpdateSample

MOST_UPDATES = 3  # statements
MOST_SHOWN = 8  # samples of each, as recordings
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
# Whatever the treatment makes the default: no other level finds another session's row where it was, and
# none but this leaves serializable transactions of the workload's alone.
_BEGIN, _ROLLBACK = "BEGIN ISOLATION LEVEL READ COMMITTED; ", "; ROLLBACK"
# A lock that outlasts its transaction would not go with the rollback.
_LOCKING = "advisory"
_UPDATE = re.compile(r"\bupdate\b", re.IGNORECASE)
_BUFFERS = ("buffers_per_update", "blocks of tables and indexes that an update accesses")


class UpdateCost(Collector):
    """Buffers of the workload's updates through the window, and how they find their rows."""

    name: ClassVar[str] = "update_cost"
    summary: ClassVar[str] = (
        "buffers of the workload's own updates, run and rolled back; on request"
    )
    needs: ClassVar[str] = "a workload that declares its statements and updates rows"
    is_optional: ClassVar[bool] = True
    # Means over all samples, from the first to the last.
    metrics: ClassVar[tuple[Metric, ...]] = detailed(
        "{sampled}",
        Metric(*_BUFFERS, "buffers", "count", "samples"),
        Metric("update_s", "time that an update takes, measured by the server", "took_s", "s", step=1e-6),
    )  # fmt: skip

    def __init__(self) -> None:
        self._session: _Session | Unseen = NO_READING
        # Of each round a moment by the clock, what it took, and what it showed of each update.
        self._rounds: list[tuple[float, float, list[UpdateSample]]] = []
        self._unseen = NO_READING
        self._began_s = -math.inf  # the last sample

    def before(self, observer: Observer) -> None:
        self._session = attempt(lambda: _session(observer))
        self._sample()

    def sample(self, observer: Observer) -> None:
        if is_due(time.monotonic() - self._began_s, samples=len(self._rounds)):
            self._sample()

    def after(self, observer: Observer) -> None:
        self._sample()
        if isinstance(self._session, _Session):
            close_session(observer, self._session.connection)

    def _sample(self) -> None:
        session = self._session
        if isinstance(session, Unseen):
            self._unseen = session
            return
        self._began_s, at_unix_s = time.monotonic(), CLOCK.unix_s()
        found = [attempt(partial(session.sample, at)) for at in range(len(session.updates))]
        took_s = time.monotonic() - self._began_s
        if samples := [one for one in found if isinstance(one, UpdateSample)]:
            self._rounds.append((at_unix_s, took_s, samples))
        self._unseen = next((one for one in found if isinstance(one, Unseen)), self._unseen)

    def amounts(self, window: Window) -> Amounts:
        samples = [sample for *_, of_round in self._rounds for sample in of_round]
        if not samples:
            raise Unseen(self._unseen.reason)
        session = known(self._session)
        kinds = len(session.updates)
        times_ms = [1000 * took_s for _, took_s, _ in self._rounds]
        mean_ms, most_ms = sum(times_ms) / len(times_ms), max(times_ms)
        parts = (
            f"{len(samples)} updates{f' of {kinds} statements' if kinds > 1 else ''} run and rolled back",
            f"a round took {mean_ms:.1f} ms on average, at most {most_ms:.1f} ms",
            f"{session.missed} more met a lock, or took too long" if session.missed else "",
            f"{samples[0].buffers:,} buffers at the first, {samples[-1].buffers:,} at the last",
        )
        return {
            "buffers": sum(sample.buffers for sample in samples),
            "samples": len(samples),
            "took_s": sum(sample.took_s for sample in samples) / len(samples),
            "sampled": f"{'; '.join(part for part in parts if part)}.",
        }

    def recordings(self, window: Window) -> Recordings:
        """Return buffers over time, and some of the samples with their plans.

        The series has the mean over the statements of each round; one that lacks some would not compare.
        """
        if not self._rounds:
            return Recordings(missing={self.name: self._unseen.reason})
        most = max(len(samples) for *_, samples in self._rounds)
        means: list[tuple[float, float]] = []
        by_query: dict[str, list[UpdateSample]] = {}
        for at_unix_s, _, samples in self._rounds:
            if len(samples) == most:
                means.append((at_unix_s, sum(sample.buffers for sample in samples) / most))
            for sample in samples:
                at_s = round(at_unix_s - window.started_unix_s, 3)
                by_query.setdefault(sample.query, []).append(replace(sample, at_s=at_s))
        shown = [one for samples in by_query.values() for one in some_of(samples)]
        return Recordings((*series_of(*_BUFFERS, "count", means, window), *shown))


def some_of(samples: Sequence[UpdateSample]) -> list[UpdateSample]:
    """Return at most `MOST_SHOWN` samples, evenly spread, each with a plan where it found its rows another way."""
    chosen = evenly(samples, MOST_SHOWN)
    return [
        one
        if at in (0, len(chosen) - 1) or one.way != chosen[at - 1].way
        else replace(one, plan=None)
        for at, one in enumerate(chosen)
    ]


def _session(observer: Observer) -> _Session:
    examples = []
    for one in planned_examples(observer):
        word = first_word(one.text)
        if word == "update" or (word == "with" and _UPDATE.search(one.text)):
            examples.append(one)
    return open_session(
        observer, "pgdrag updates", lambda mine: _Session(mine, examples), role=probe_role(observer)
    )


class _Session:
    """A session with the treatment's settings that runs updates and rolls each back.

    Attributes:
        updates: those of the workload's statements that can be run here.
        missed: samples that the server refused, or that would have had to wait.
    """

    def __init__(self, connection: psycopg.Connection[Any], examples: Sequence[Example]) -> None:
        """Prepare the updates.

        Raises:
            Unseen: none can be run here.
        """
        self.connection = connection
        connection.prepare_threshold = None  # several statements in one message cannot be prepared
        self.missed = 0
        self.updates: list[Example] = []
        for statement in (SESSION, QUIET, _LIMITS):
            connection.execute(statement.encode())
        reasons = [self._prepare(one) for one in examples]
        if not self.updates:
            raise Unseen(next((x for x in reasons if x), "the workload sends no update"))

    def sample(self, at: int) -> UpdateSample:
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
                self.connection.execute("ROLLBACK")
            raise Unseen(f"the update could not be run: {refusal(error)}") from error
        plan = tidy(found)
        return UpdateSample(
            transaction=example.transaction,
            query=example.text,
            at_s=0.0,
            buffers_hit=int(number_of(plan, "Shared Hit Blocks")),
            buffers_read=int(number_of(plan, "Shared Read Blocks")),
            rows=sum(number_of(x, "Actual Rows") for x in children(plan)[-1:]),
            took_s=number_of(found, "Execution Time") / 1000,
            way=way_of(plan),
            plan=plan,
        )

    def _prepare(self, example: Example) -> str:
        """Add an update that can be run, or return why it cannot."""
        if len(self.updates) >= MOST_UPDATES:
            return ""
        if None in example.values:
            return "the updates' values come from earlier answers, which are unknown here"
        if _LOCKING in example.text.lower():
            return "the updates take advisory locks, which a rollback would not release"
        name = _NAME.format(len(self.updates))
        reason = ""
        try:
            self.connection.execute(prepare(name, example), binary=True)
            plan = tidy(self._explained(len(self.updates), example, ""))
            if text_of(plan, "Operation") == "Update":
                self.updates.append(example)
                return ""
        except psycopg.Error as error:
            reason = refusal(error)
        with suppress(psycopg.Error):
            self.connection.execute("ROLLBACK")
            self.connection.execute(f"DEALLOCATE {name}".encode())
        return reason

    def _explained(self, at: int, example: Example, options: str) -> dict[str, Any]:
        words = explain(_NAME.format(at), example.values, options)
        message = sql.SQL("").join((sql.SQL(_BEGIN), words, sql.SQL(_ROLLBACK)))
        with abort_after(self.connection, after_s=TIMEOUT_MS / 1000 + _PATIENCE_S):
            answers = self.connection.execute(message)
            answers.nextset()  # behind BEGIN's
            row = answers.fetchone()
        assert row is not None, "EXPLAIN has an answer"
        return dict(row[0][0])


def way_of(plan: Plan) -> str:
    """Return how an update's rows are found: its scans, from the outermost in."""
    return ", ".join(dict.fromkeys(node_words(node) for node in nodes(plan) if is_scan(node)))
