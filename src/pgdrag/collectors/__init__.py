"""What did the server do in the window? One class for each kind of evidence.

A collector watches the measured window from outside the workload: over its own connection, /proc
and the server's log, never over the workload's connections. It is registered by being a concrete
subclass of `Collector` in a module of this folder.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, LiteralString

from pgdrag import registry
from pgdrag.collectors._metric import Amounts, Metric, Unseen, Window, attempt, detailed, known
from pgdrag.collectors._turns import BLOCK_S, Turns
from pgdrag.driver.abort_connection import abort_after
from pgdrag.driver.process import WATCH_NAME
from pgdrag.host.clock import CLOCK
from pgdrag.host.process_sight import seeing_as
from pgdrag.model import Observation
from pgdrag.model.events import Listener, Sampled, ignore
from pgdrag.model.measurement import Example
from pgdrag.model.recordings import Recordings

if TYPE_CHECKING:
    import psycopg

    from pgdrag.collectors._log import LogReader
    from pgdrag.collectors._observed import ObservedCluster


__all__ = [
    "BLOCK_S",
    "OWN_MARK",
    "Amounts",
    "Collector",
    "Metric",
    "Observer",
    "Turns",
    "Unseen",
    "Window",
    "all_collectors",
    "all_observations",
    "attempt",
    "detailed",
    "known",
    "observation_names",
    "sampling",
]


class Observer:
    """What a collector may use: the server, and a connection that all collectors share.

    The connection is in autocommit mode: a transaction left open would hold the horizon back and
    change what is measured. The first query sets up the session, see `_SESSION`.

    Attributes:
        server_version_num: the server's version, 180006 for 18.6.
        backend_pid: the process that serves the connection, on the server's host.
        log: the server's log, which is read once for all collectors that want something of it.
        examples: tells what the workload sends; raises DriverError where the driver cannot tell.
        as_superuser: whether the workload may send that as a superuser; else nobody may.
        moments: when collectors began and when the window's sessions had ended, by the server's clock, where a
            collector needed it.
        programs: process numbers of the programs that look beside pgdrag's own process, while they do.
        own_sessions: the server's processes that serve collectors' further connections.
        queries: how many were sent.
        refused: how many of them the server did not answer: each of them was rolled back.
        query_s: seconds until they were answered.
    """

    def __init__(
        self,
        cluster: ObservedCluster,
        connection: psycopg.Connection[Any],
        examples: Callable[[], Sequence[Example]] = tuple,
        *,
        as_superuser: bool = False,
    ) -> None:
        assert connection.autocommit, "the collectors' connection must not leave transactions open"
        self.cluster = cluster
        self.connection = connection
        self.examples = examples
        self.as_superuser = as_superuser
        # Now, since a connection that was lost no longer tells.
        self.server_version_num = connection.info.server_version
        self.backend_pid = connection.info.backend_pid
        self.log: LogReader | Unseen | None = None
        self.moments: dict[Literal["began", "ended"], datetime] = {}
        self.programs: set[int] = set()
        self.own_sessions: set[int] = set()
        self.queries = 0
        self.refused = 0
        self.query_s = 0.0
        self._is_prepared = False
        self._postmaster: int | None = None
        self._sessions: frozenset[int] = frozenset()
        self._looks_for_sessions = _LOOKS_FOR_SESSIONS

    def postmaster(self) -> int:
        """Return the server's first process, the same each time: one observer serves one trial.

        Raises:
            Unseen: there is none on this host, or it is another one than the first time.
        """
        running = self.cluster.postmaster_pid
        if running is None:
            raise Unseen("the server does not run on this host, or no longer")
        if self._postmaster is None:
            self._postmaster = running
        if running != self._postmaster:
            raise Unseen("the server was restarted within the window")
        return running

    def seeing(self) -> AbstractContextManager[None]:
        """See the server's processes in /proc, also where root may not look at other users' (CAP_SYS_PTRACE, hidepid).

        Files are opened with the rights of the server's user meanwhile.
        """
        return seeing_as(self.cluster.user)

    def sessions_of_programs(self) -> frozenset[int]:
        """Return the server processes that serve `programs` and have connected by now.

        Raises:
            Unseen: see `query`.
        """
        if self._looks_for_sessions and len(self._sessions) < len(self.programs):
            self._looks_for_sessions -= 1
            self._sessions |= {pid for (pid,) in self.query(_WATCHES, WATCH_NAME)}
        return self._sessions

    def query(
        self, sql: LiteralString, *parameters: object, is_binary: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a read-only query; many bytes come faster in binary form.

        Raises:
            Unseen: the server refused, did not answer within `QUERY_TIMEOUT_S`, or is gone.
        """
        return self._answer(sql, *parameters, is_binary=is_binary)[1]

    def table(self, sql: LiteralString, *parameters: object) -> list[dict[str, Any]]:
        """Return the rows of a read-only query, each by the names of its columns.

        Raises:
            Unseen: see `query`.
        """
        names, rows = self._answer(sql, *parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _prepare(self) -> None:
        import psycopg

        # By itself and first: the treatment's own may be too short for the rest.
        self.connection.execute(_TIMEOUT)
        try:
            self.connection.execute(_marked(_SESSION))
        except psycopg.errors.QueryCanceled:
            # The treatment's own passed as the first statement ended, and the server then ends the next one.
            self.connection.execute(_marked(_SESSION))
        self._is_prepared = True

    def _answer(
        self, sql: LiteralString, *parameters: object, is_binary: bool = False
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        import psycopg

        if not self.cluster.is_throw_away:
            sql = _marked(sql)  # sets them apart from others' in pg_stat_statements
        begin_s = time.perf_counter()
        self.queries += 1
        try:
            with abort_after(self.connection, after_s=QUERY_TIMEOUT_S + _PATIENCE_S) as was_aborted:
                if not self._is_prepared:
                    self._prepare()
                found = self.connection.execute(sql, parameters or None, binary=is_binary)
                names = [column.name for column in found.description or ()]
                return names, found.fetchall() if found.description else []
        except psycopg.Error as error:
            self.refused += 1
            if was_aborted.is_set() or isinstance(error, psycopg.errors.QueryCanceled):
                raise Unseen(f"the server did not answer within {QUERY_TIMEOUT_S} s") from error
            if self.connection.closed:
                raise Unseen("the connection to the server was lost") from error
            message = error.diag.message_primary or type(error).__name__
            raise Unseen(f"the server refused: {message}") from error
        finally:
            self.query_s += time.perf_counter() - begin_s


# They connect when the window begins, at the latest; one that cannot is not waited for.
_LOOKS_FOR_SESSIONS = 10
_WATCHES: LiteralString = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
QUERY_TIMEOUT_S = 15
OWN_MARK: LiteralString = "/* pgdrag */ "
# How much longer the client waits for the server's own statement_timeout to end a query.
_PATIENCE_S = 5

# What a treatment may do to the workload's sessions must not reach this one: the planner gets its
# built-in costs and switches back, nothing here is compiled or run in parallel, no time-out of the
# treatment ends the idle session, and names mean the system's own objects. It cannot write. Its own
# statements are neither tracked nor logged, if it may say so.
_TIMEOUT: LiteralString = f"SET statement_timeout = '{QUERY_TIMEOUT_S}s'"
_SESSION: LiteralString = """
SELECT set_config(name, CASE WHEN name IN ('jit', 'geqo') THEN 'off' ELSE boot_val END, false)
  FROM pg_catalog.pg_settings
 WHERE category LIKE 'Query Tuning%' AND context = 'user'
UNION ALL
SELECT set_config(name, value, false)
  FROM (VALUES ('application_name', 'pgdrag collectors'),
               ('lock_timeout', '0'),
               ('idle_session_timeout', '0'),
               ('transaction_timeout', '0'),
               ('max_parallel_workers_per_gather', '0'),
               ('work_mem', '4MB'),
               ('client_encoding', 'UTF8'),
               ('client_min_messages', 'warning'),
               ('default_transaction_isolation', 'read committed'),
               ('default_transaction_read_only', 'on'),
               ('search_path', 'pg_catalog'),
               ('pg_stat_statements.track', 'none')) AS wanted (name, value)
 WHERE current_setting(name, true) IS NOT NULL
   AND (name NOT LIKE '%.%' OR current_setting('is_superuser') = 'on')
UNION ALL
SELECT set_config(name, value, false)
  FROM (VALUES ('log_statement', 'none'),
               ('log_min_duration_statement', '-1'),
               ('log_duration', 'off')) AS quiet (name, value)
 WHERE current_setting('is_superuser') = 'on'
UNION ALL
SELECT set_config(name, 'warning', false)
  FROM pg_catalog.pg_settings
 WHERE name = 'log_min_messages' AND setting LIKE 'debug%'
   AND current_setting('is_superuser') = 'on'
"""


def _marked(sql: LiteralString) -> LiteralString:
    """Return a statement with pgdrag's mark behind its first word: pg_stat_statements cuts off a comment before it."""
    first, rest = sql.split(None, 1)
    return first + " " + OWN_MARK + rest


class Collector(ABC):
    """One kind of evidence. One instance serves one trial.

    Life cycle: `before(observer)` just before the window, `sample(observer)` about once a second
    within it, `after(observer)` just after it, `afterwards(observer)` when all have taken that
    reading, then `observations(window)` and `recordings(window)`, which do no I/O. What cannot be seen
    here (version, rights, host) is an `Observation` whose `missing` says why: never an exception, never a
    silent absence. Names and units do not depend on what was seen: `observations` without any reading
    lists them all, which is how an experiment file's `expects` is checked.

    A collector declares its numbers as `metrics`, and returns what they are made of from `amounts`. One that
    reads counters with SQL is a query and a table::

        class Deadlocks(CounterCollector):
            name = "deadlocks"
            summary = "deadlocks of the workload's database"
            queries = {0: "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"}
            metrics = (Metric("deadlocks_per_s", "deadlocks per second", "deadlocks", "1/s"),)
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    # What an ordinary server or trial lacks, without which there are reasons in place of values.
    needs: ClassVar[str] = ""
    # Observes only where the study's instrument names it; begins before all others.
    is_optional: ClassVar[bool] = False
    # Its `afterwards` ends the server, so that it comes last; the server runs again after it, if it can.
    ends_server: ClassVar[bool] = False
    # What it sees is of all that runs on the server's machine.
    is_of_machine: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = ()
    # Why an amount is not there, by its name, where it is not the server's version.
    absent: Mapping[str, str] = {}

    @abstractmethod
    def before(self, observer: Observer) -> None:
        """Take the first reading."""

    def sample(self, observer: Observer) -> None:  # noqa: B027 (most have no need of it)
        """Take a reading within the window, on a thread of its own; it must be cheap."""

    def now(self) -> Sampled | None:
        """Return what was seen since the last time, for those who watch the run; it must be cheap."""
        return None

    def pause(self) -> None:  # noqa: B027 (most do nothing but in `sample`)
        """Pause everything that runs besides `sample`, until `resume`."""

    def resume(self) -> None:  # noqa: B027 (see above)
        """Continue after `pause`."""

    @abstractmethod
    def after(self, observer: Observer) -> None:
        """Take the second reading."""

    def afterwards(self, observer: Observer) -> None:  # noqa: B027 (most have no need of it)
        """Read what cannot be read without work that other collectors would count."""

    @abstractmethod
    def amounts(self, window: Window) -> Amounts:
        """Return what the metrics are made of, and words for their details, by name.

        Raises:
            Unseen: nothing is known.
        """

    def seconds(self, window: Window) -> float:
        """Return the seconds over which amounts were counted."""
        return window.length_s

    def observations(self, window: Window) -> Sequence[Observation]:
        """Return an observation for each metric."""
        amounts = attempt(lambda: self.amounts(window))
        return tuple(
            metric.evaluate(
                amounts,
                window,
                seconds=self.seconds(window),
                absent=self.absent,
                is_of_machine=self.is_of_machine,
            )
            for metric in self.metrics
        )

    def recordings(self, window: Window) -> Recordings:
        """Return what there is beside numbers, of any kinds; most collectors have nothing."""
        return Recordings()


SAMPLE_EVERY_S = 1.0


@contextmanager
def sampling(
    collectors: Sequence[Collector],
    observer: Observer,
    turns: Turns | None = None,
    listen: Listener = ignore,
) -> Iterator[None]:
    """Let collectors take readings while the block runs, which must leave the observer alone.

    With `turns` they rest in every other one, together with all that they do beside `sample`.

    Args:
        listen: called with what they have just seen, on a thread of its own.
    """
    has_ended = threading.Event()

    def take() -> None:
        begin_s = time.monotonic()
        is_looking = True
        rounds = 0
        while True:
            looks = turns is None or turns.looks(time.monotonic() - begin_s)
            if looks != is_looking:
                is_looking = looks
                _let_all(collectors, is_looking)
            CLOCK.look()
            if is_looking:
                _let_all_look(collectors, observer, listen)
            rounds = max(rounds, int((time.monotonic() - begin_s) / SAMPLE_EVERY_S)) + 1
            if has_ended.wait(begin_s + rounds * SAMPLE_EVERY_S - time.monotonic()):
                break
        if not is_looking:
            _let_all(collectors, True)

    thread = threading.Thread(target=take, name="pgdrag-sampling", daemon=True)
    if turns is not None:
        turns.begin(CLOCK.unix_s())
    thread.start()
    try:
        yield
    finally:
        if turns is not None:
            turns.end(CLOCK.unix_s())
        has_ended.set()
        # Each query of the observer ends by itself.
        thread.join()


def _let_all_look(collectors: Sequence[Collector], observer: Observer, listen: Listener) -> None:
    for collector in collectors:
        collector.sample(observer)
        if (seen := collector.now()) is not None:
            listen(seen)


def _let_all(collectors: Sequence[Collector], look: bool) -> None:
    for collector in collectors:
        if look:
            collector.resume()
        else:
            collector.pause()


def observation_names() -> frozenset[str]:
    """The names of all observations that registered collectors make."""
    return frozenset(one.name for all_of_one in all_observations().values() for one in all_of_one)


def all_observations() -> dict[str, tuple[Observation, ...]]:
    """Return what each registered collector can observe, by the collector's name; without values."""
    return {name: _observable(collector) for name, collector in all_collectors().items()}


@cache  # an experiment asks for the names at each of its claims
def _observable(collector: type[Collector]) -> tuple[Observation, ...]:
    window = Window(elapsed_s=1.0, committed=1, started_unix_s=0.0, finished_unix_s=1.0)
    return tuple(collector().observations(window))


def all_collectors() -> dict[str, type[Collector]]:
    """Return every registered collector, by name."""
    return registry.registered("pgdrag.collectors", Collector)  # type: ignore[type-abstract]
