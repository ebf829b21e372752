"""Makes and releases the planned holds of one trial on time, watches the horizon's age, and cleans up after the last.

Once a second: is the horizon as old as the holds in force must make it? After the last hold: VACUUM, and
optionally REINDEX, of all user tables.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg import sql

from pgdrag.driver.abort_connection import abort_connection
from pgdrag.errors import PgdragError, ServerError
from pgdrag.horizon.holders import CLEANUP_NAME, WATCHER_NAME, Held, Holder, HoldPlace, all_holders
from pgdrag.horizon.holders.session import open_session
from pgdrag.horizon.sampling import read_oldest
from pgdrag.horizon.schedule import SHORTEST_S, Hold
from pgdrag.host.clock import CLOCK
from pgdrag.host.error_words import words_of
from pgdrag.units import format_duration

AfterRelease = Literal["nothing", "vacuum", "vacuum and reindex"]
AFTER_RELEASE: tuple[AfterRelease, ...] = ("nothing", "vacuum", "vacuum and reindex")
AGE_EVERY_S = 1.0
_AGE_TIMEOUT_MS = 10_000
_AGE_END_TIMEOUT_S = 5.0
_CANCEL_TIMEOUT_S = 5.0
_CHECK_EVERY_S = 0.5  # whether the holds in force are still there
_FREE_TIMEOUT_S = 5.0  # a standby's feedback comes every second
_POLL_S = 0.02
_SAME_S = 1e-3  # moments of a plan that are the same but for their last digits
_DIGITS = 3
_END_TIMEOUT_S = 20.0
# A snapshot's xmax is behind it where transactions are under way: the one after the last that has ended. An
# age is counted from the next number, without the epoch, to a transaction's; 3 is the first that one had.
_NEXT_XID = "SELECT (age('3'::xid)::bigint + 3) & 4294967295"
# Tables with rows of their own, of whoever but the server.
_TABLES = """
SELECT n.nspname, c.relname
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
   AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 ORDER BY 1, 2
"""
_COMMANDS = {"vacuum": sql.SQL("VACUUM {}"), "reindex": sql.SQL("REINDEX TABLE CONCURRENTLY {}")}


@dataclass
class MadeHold:
    """A hold that was made.

    Attributes:
        xid: the next transaction's number when it was made: what it keeps is no younger;
            without the epoch.
        release_s: when it is due to be released, in seconds from the window's begin.
        ended_unix_s: None: it is in force.
        lost: why it ended before it was released; "": it did not.
    """

    planned: Hold
    held: Held
    xid: int
    began_unix_s: float
    release_s: float
    ended_unix_s: float | None = None
    lost: str = ""


class HoldRunner:
    """Makes and releases holds on its own thread.

    Attributes:
        watch: what the horizon's age was meanwhile.
        made: every hold that was made, in the order of their begins.
        failed: why holds were not made, or not released: clauses.
        making: the hold that is being made; None: none is.
        cleanup: what is run after the last hold; None: nothing.
    """

    def __init__(
        self, place: HoldPlace, holds: Sequence[Hold], cleanup: Cleanup | None = None
    ) -> None:
        self.made: list[MadeHold] = []
        self.failed: list[str] = []
        self.making: Hold | None = None
        self.cleanup = cleanup
        self.watch = AgeWatch(place, self._claimed)
        self._place = place
        self._waiting = deque(holds)
        self._begins = frozenset(round(hold.begin_s, _DIGITS) for hold in holds)
        self._holders: dict[str, Holder] = {}
        self._in_force: list[MadeHold] = []
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._origin_s = 0.0
        self._thread = threading.Thread(target=self._run, name="pgdrag-holder", daemon=True)

    def prepare(self) -> None:
        """Make what takes time and holds nothing yet.

        Raises:
            ServerError: it cannot be made here; `end` removes the rest.
            StorageError: the disk is full.
        """
        for name in sorted({hold.holder for hold in self._waiting}):
            self._holders[name] = all_holders()[name]()
            self._holders[name].prepare(self._place)
        self.watch.begin()

    def begin(self, *, window_in_s: float = 0.0) -> None:
        """Start the holds and return at once; the window begins in `window_in_s` seconds."""
        self._origin_s = time.monotonic() + window_in_s
        self._thread.start()

    def wait_for_first(self, timeout_s: float) -> None:
        """Wait until all holds that are due were made or failed, at most `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self._due_in_s() <= 0 and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def end(self) -> list[str]:
        """Release all, remove what was prepared, and return the failures as clauses; safe to repeat.

        Bounded in time, also where the server does not answer.
        """
        self._has_ended.set()
        if self.cleanup is not None:
            self.cleanup.stop()
        troubles = []
        if self._thread.ident is not None:
            self._thread.join(_END_TIMEOUT_S)
            if self._thread.is_alive():
                troubles.append(f"holds were not released within {_END_TIMEOUT_S:g} s")
        self.watch.end()
        for holder in self._holders.values():
            try:
                holder.close()
            except PgdragError as error:
                troubles.append(error.message)
        return troubles

    def _claimed(self) -> int | None:
        with self._lock:
            return min((one.xid for one in self._in_force), default=None)

    def _run(self) -> None:
        try:
            while not self._has_ended.is_set() and (self._waiting or self._in_force):
                self._do_due()
                for one in list(self._in_force):
                    one.lost = one.held.lost()
                    if one.lost:
                        self._release(one)
                self._has_ended.wait(min(max(self._due_in_s(), 0.0), _CHECK_EVERY_S))
        finally:
            is_all_done = not self._waiting and not self._in_force
            for one in list(self._in_force):
                self._release(one)
        if is_all_done and self.cleanup is not None and self.made:
            # Until the server keeps nothing more for any of them.
            deadline = time.monotonic() + _FREE_TIMEOUT_S
            xid = max(one.xid for one in self.made)
            while self.watch.is_kept_since(xid) and time.monotonic() < deadline:
                if self._has_ended.wait(_POLL_S):
                    break
            if not self._has_ended.is_set():
                self.cleanup.run()

    def _now_s(self) -> float:
        return time.monotonic() - self._origin_s

    def _due_in_s(self) -> float:
        """Return the seconds until the next action; inf: none."""
        begin_s = self._waiting[0].begin_s if self._waiting else math.inf
        with self._lock:
            release_s = min((one.release_s for one in self._in_force), default=math.inf)
        return min(begin_s, release_s) - self._now_s()

    def _do_due(self) -> None:
        while not self._has_ended.is_set() and self._due_in_s() <= 0:
            first = min(self._in_force, key=lambda one: one.release_s, default=None)
            # Release before making: between two adjacent holds the horizon is free for a moment.
            if first is not None and (
                not self._waiting or first.release_s <= self._waiting[0].begin_s + _SAME_S
            ):
                self._release(first)
            else:
                self.making = self._waiting[0]
                self._hold(self.making)
                self._waiting.popleft()
                self.making = None

    def _hold(self, planned: Hold) -> None:
        try:
            held = self._holders[planned.holder].hold(self._place)
        except PgdragError as error:
            self.failed.append(error.message)
            return
        now_s = self._now_s()
        # Making it took a moment; it must still not overlap a hold planned for its end.
        is_followed = round(planned.end_s, _DIGITS) in self._begins
        end_s = planned.end_s if is_followed else now_s + planned.length_s
        release_s = max(end_s, now_s + SHORTEST_S)
        made = MadeHold(planned, held, 0, CLOCK.unix_s(), release_s)
        try:
            made.xid = self.watch.next_xid()
        except PgdragError as error:
            self.failed.append(error.message)
        self.made.append(made)
        with self._lock:
            self._in_force.append(made)

    def _release(self, one: MadeHold) -> None:
        # Stop claiming it before it is released.
        with self._lock:
            self._in_force.remove(one)
        try:
            one.held.release()
        except PgdragError as error:
            self.failed.append(error.message)
        one.ended_unix_s = CLOCK.unix_s()


@dataclass(frozen=True)
class Age:
    """One sample.

    Attributes:
        at_unix_s: when, by this machine's clock.
        oldest: age of the horizon in transactions.
        wanted: transactions begun since the oldest hold in force was made; while that holds, `oldest` is at
            least this. None: none was in force.
    """

    at_unix_s: float
    oldest: int
    wanted: int | None

    @property
    def is_held(self) -> bool:
        """Whether the horizon was as far back as a hold in force must keep it."""
        return self.wanted is None or self.oldest >= self.wanted


class AgeWatch:
    """Samples the server's horizon about once a second, on its own thread and session.

    Attributes:
        ages: all samples so far.
        broken: why it stopped, or "".
    """

    def __init__(self, place: HoldPlace, claimed: Callable[[], int | None]) -> None:
        """Watch a place.

        Args:
            claimed: returns the next xid at the time the oldest hold in force was made; None if there is none.
                Called before and after each sample, which counts only if they agree.
        """
        self.ages: list[Age] = []
        self.broken = ""
        self._place = place
        self._claimed = claimed
        self._has_ended = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._thread = threading.Thread(target=self._watch, name="pgdrag-horizon", daemon=True)

    def begin(self) -> None:
        """Open the session and start sampling.

        Raises:
            ServerError: the server does not answer.
        """
        self._connection = open_session(self._place, application_name=WATCHER_NAME)
        try:
            self._connection.execute(f"SET statement_timeout = {_AGE_TIMEOUT_MS}")
        except psycopg.Error as error:
            raise ServerError(f"could not watch the horizon: {words_of(error)}") from error
        self._thread.start()

    def next_xid(self) -> int:
        """Return the next xid, without its epoch.

        Raises:
            ServerError: the query fails.
        """
        assert self._connection is not None
        try:
            (found,) = self._connection.execute(_NEXT_XID).fetchone() or (None,)
        except psycopg.Error as error:
            raise ServerError(f"could not ask for the horizon: {words_of(error)}") from error
        assert found is not None
        return int(found)

    def is_kept_since(self, xid: int) -> bool:
        """Whether the horizon is at or before `xid`; False also if that is unknown."""
        found = self._read(xid)
        return found is not None and found.wanted != 0 and found.is_held

    def sample(self) -> Age | None:
        """Take a sample; None if a hold began or ended during it, or the server does not answer."""
        claimed = self._claimed()
        found = self._read(claimed)
        if found is None or self._claimed() != claimed:
            return None
        self.ages.append(found)
        return found

    def _read(self, since: int | None) -> Age | None:
        connection = self._connection
        assert connection is not None, "begun"
        try:
            oldest, wanted = read_oldest(
                lambda sql: connection.execute(sql).fetchall(), since=since
            )
        except psycopg.errors.QueryCanceled:
            return None  # the server is busy, and may not be at the next sample
        except psycopg.Error as error:
            self.broken = self.broken or words_of(error)
            return None
        return Age(CLOCK.unix_s(), oldest, wanted)

    def end(self) -> None:
        """End the thread and its session, even if the server does not answer; safe to repeat."""
        self._has_ended.set()
        if self._connection is None:
            return
        if self._thread.ident is not None:
            self._thread.join(_AGE_END_TIMEOUT_S)
            if self._thread.is_alive():
                abort_connection(self._connection)
                self._thread.join(_AGE_END_TIMEOUT_S)
        self._connection.close()

    def _watch(self) -> None:
        begin_s = time.monotonic()
        rounds = 0
        while not self._has_ended.is_set() and not self.broken:
            self.sample()
            rounds = max(rounds, int((time.monotonic() - begin_s) / AGE_EVERY_S)) + 1
            self._has_ended.wait(max(begin_s + rounds * AGE_EVERY_S - time.monotonic(), 0.0))


class Cleanup:
    """One cleanup, on a session of its own.

    Attributes:
        began_unix_s: None: it has not begun.
        ended_unix_s: None: it has not ended, or was cut short.
        failed: why it failed, or "".
    """

    def __init__(self, place: HoldPlace, what: AfterRelease) -> None:
        self.began_unix_s: float | None = None
        self.ended_unix_s: float | None = None
        self.failed = ""
        self._place = place
        self._commands = what.split(" and ")
        self._tables = 0
        self._steps_s: dict[str, float] = {}
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None
        self._is_stopped = False

    @property
    def is_cut_short(self) -> bool:
        """Whether it started and did not finish: an index may be incomplete."""
        return self.began_unix_s is not None and self.ended_unix_s is None

    @property
    def words(self) -> str:
        """Return what was done, and what was not: "vacuum of 4 tables in 1.2 s, reindex of 4 tables in 3 s"."""
        of = f" of {self._tables} table{'' if self._tables == 1 else 's'}"
        done = [f"{name}{of} in {format_duration(s)}" for name, s in self._steps_s.items()]
        if self.failed:
            done.append(f"failed: {self.failed}")
        elif self.began_unix_s is None:
            done.append("nothing: the trial was over")
        elif self.is_cut_short:
            done.append("cut short by the trial's end")
        return ", ".join(done)

    def run(self) -> None:
        """Vacuum and, if asked, reindex each table; records a failure."""
        assert self.began_unix_s is None, "once"
        self.began_unix_s = CLOCK.unix_s()
        try:
            with open_session(self._place, application_name=CLEANUP_NAME) as connection:
                with self._lock:
                    self._connection = connection
                self._clean(connection)
        except psycopg.errors.QueryCanceled as error:
            self.failed = "" if self._is_stopped else words_of(error)
        except psycopg.Error as error:
            self.failed = words_of(error)
        except ServerError as error:
            self.failed = error.message
        finally:
            with self._lock:
                self._connection = None

    def stop(self) -> None:
        """Stop it from another thread, cancelling its statement."""
        with self._lock, suppress(psycopg.Error):
            self._is_stopped = True
            if self._connection is not None:
                self._connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)

    def _clean(self, connection: psycopg.Connection) -> None:
        tables = connection.execute(_TABLES).fetchall()
        self._tables = len(tables)
        for name in self._commands:
            begin_s = time.monotonic()
            for table in tables:
                if self._is_stopped:
                    return
                connection.execute(_COMMANDS[name].format(sql.Identifier(*table)))
            self._steps_s[name] = time.monotonic() - begin_s
        self.ended_unix_s = CLOCK.unix_s()
