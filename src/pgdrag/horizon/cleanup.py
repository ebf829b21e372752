"""VACUUM, and optionally REINDEX, all user tables after the last hold."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Literal

import psycopg
from psycopg import sql

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import CLEANUP_NAME, HoldPlace
from pgdrag.horizon.holders.session import open_session, words_of
from pgdrag.units import format_duration

AfterRelease = Literal["nothing", "vacuum", "vacuum and reindex"]
AFTER_RELEASE: tuple[AfterRelease, ...] = ("nothing", "vacuum", "vacuum and reindex")
_CANCEL_TIMEOUT_S = 5.0
# Tables with rows of their own, of whoever but the server.
_TABLES = """
SELECT n.nspname, c.relname
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
   AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 ORDER BY 1, 2
"""


_COMMANDS = {
    "vacuum": sql.SQL("VACUUM {}"),
    "reindex": sql.SQL("REINDEX TABLE CONCURRENTLY {}"),
}


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
        self.began_unix_s = time.time()
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
        self.ended_unix_s = time.time()
