"""How old is the horizon each second, and is it as old as the holds in force must make it?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import WATCHER_NAME, HoldPlace
from pgdrag.horizon.holders.session import open_session, words_of
from pgdrag.horizon.sampling import read_oldest
from pgdrag.servers.abort_connection import abort_connection

EVERY_S = 1.0
_TIMEOUT_MS = 10_000
_END_TIMEOUT_S = 5.0


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
            self._connection.execute(f"SET statement_timeout = {_TIMEOUT_MS}")
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
        """Take a sample; None if a hold was made or released meanwhile, or the server does not answer."""
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
        return Age(time.time(), oldest, wanted)

    def end(self) -> None:
        """End the thread and its session, even if the server does not answer; safe to repeat."""
        self._has_ended.set()
        if self._connection is None:
            return
        if self._thread.ident is not None:
            self._thread.join(_END_TIMEOUT_S)
            if self._thread.is_alive():
                abort_connection(self._connection)
                self._thread.join(_END_TIMEOUT_S)
        self._connection.close()

    def _watch(self) -> None:
        begin_s = time.monotonic()
        rounds = 0
        while not self._has_ended.is_set() and not self.broken:
            self.sample()
            rounds = max(rounds, int((time.monotonic() - begin_s) / EVERY_S)) + 1
            self._has_ended.wait(max(begin_s + rounds * EVERY_S - time.monotonic(), 0.0))


# A snapshot's xmax is behind it where transactions are under way: the one after the last that has ended. An
# age is counted from the next number, without the epoch, to a transaction's; 3 is the first that one had.
_NEXT_XID = "SELECT (age('3'::xid)::bigint + 3) & 4294967295"
