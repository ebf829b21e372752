"""How is a twin captured? A first reading, looks over the window, a second reading, and tokens for what was read.

Over one read-only session. Nothing is created on the server, and the session ends with pgdrag.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, LiteralString, TypeVar

import psycopg

from pgdrag import __version__
from pgdrag.capture.activity import ActivityLooks
from pgdrag.capture.classes import ValueClasses
from pgdrag.capture.log.columns import ParameterColumns
from pgdrag.capture.log.reading import LogAccount, LogProgress
from pgdrag.capture.log.source import LogRequest, LogSource
from pgdrag.capture.log.texts import KnownStatement
from pgdrag.capture.privacy import Privacy
from pgdrag.capture.schema import needed_functions, read_schema
from pgdrag.capture.source import read_source, search_paths
from pgdrag.capture.statements import (
    SeenStatement,
    StatementAccount,
    parameter_types,
    told_as,
    workload,
)
from pgdrag.capture.statistics import (
    FoundStatistics,
    may_read_ranges,
    read_counters,
    read_extended,
    read_relations,
    read_sizes,
    read_statistics,
    unreadable_tables,
)
from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.driver.connection_string import Server
from pgdrag.english import counted
from pgdrag.errors import LogError, ServerError, ServerLost
from pgdrag.findings.holds.distribution import Capture, HoldDistribution
from pgdrag.horizon.sampling import sample_holders
from pgdrag.horizon.tracking import HoldTracker
from pgdrag.live.server import ExistingServer
from pgdrag.twins.model import Schema, Twin, Workload
from pgdrag.twins.tokens import ANCHOR
from pgdrag.units import significant

APPLICATION_NAME = "pgdrag capture twin"
T = TypeVar("T")

WATCHING = "Watching"
READING_LOG = "Reading the log"

LOOK_EVERY_S = 1.0
STATEMENTS_EVERY_S = 60.0
_TRIES = 5
_HANDED_IN_S = 1.1
_PATIENCE: dict[str, str | int] = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
# Of an object that is locked the definition or the size is not waited for.
_SESSION: LiteralString = """
SELECT set_config(name, value, false)
  FROM (VALUES ('lock_timeout', '2s'), ('DateStyle', 'ISO, YMD'), ('IntervalStyle', 'postgres'), ('TimeZone', 'UTC'),
               ('bytea_output', 'hex'), ('extra_float_digits', '1'), ('xmlbinary', 'base64'),
               ('application_name', 'pgdrag capture twin')) AS wanted (name, value)
"""


@dataclass(frozen=True)
class CaptureProgress:
    """Progress of a capture.

    Attributes:
        step: what is done now: "look", "Reading the schema" …
        elapsed_s: of the window.
        log: of the log, while it is read.
    """

    step: str
    elapsed_s: float
    log: LogProgress | None = None


Listener = Callable[[CaptureProgress], None]


@dataclass(frozen=True)
class Cost:
    """What the capture took of the server.

    Attributes:
        queries: how many were sent.
        query_s: seconds until they were answered.
        server_cpu_s: processor time of the server's process for the session; None where it runs elsewhere.
        elapsed_s: from the first query to the last.
    """

    queries: int
    query_s: float
    server_cpu_s: float | None
    elapsed_s: float


class TwinCapture:
    """One capture; `run` makes the twin.

    Attributes:
        was_ended_early: by Ctrl-C.
        log_error: why no transactions were captured, though a log was named.
        cost: once it has run.
    """

    def __init__(
        self, server: Server, *, log: LogRequest | None = None, rng: random.Random | None = None
    ) -> None:
        self._server, self._log = server, log
        # What it draws must not be guessed: tokens could be turned back.
        self._rng = rng or random.SystemRandom()
        self.was_ended_early = False
        self.log_error: LogError | None = None
        self.cost = Cost(0, 0.0, None, 0.0)
        self._not_seen: list[str] = []
        self._tracker = HoldTracker(LOOK_EVERY_S)
        self._sees_all = False

    def run(
        self,
        for_s: float,
        listen: Listener = lambda _: None,
        *,
        is_enough: Callable[[], bool] = lambda: True,
    ) -> Twin:
        """Look for a time, then return the twin; Ctrl-C ends the looking, and a second one the capture.

        Args:
            for_s: how long at least.
            is_enough: whether the window may end then; it is asked about once a second.

        Raises:
            ServerLost: the server does not answer, or was lost: nothing is captured.
            ServerError: it refuses to tell its schema.
            LogError: the log that is wanted cannot be read: that is known before the window.
            KeyboardInterrupt: Ctrl-C while the schema was read.
        """
        connection = self._server.connect(application_name=APPLICATION_NAME, **_PATIENCE)
        began_s = time.monotonic()
        try:
            existing = ExistingServer(self._server, connection)
            observer = Observer(existing, connection)
            with _refusals(self._server.name):
                # The first query prepares the session, and would undo this one.
                [(self._sees_all,)] = observer.query(
                    "SELECT pg_has_role('pg_read_all_stats', 'USAGE')"
                )
                observer.query(_SESSION)
                cpu_s = _cpu_s(existing, observer)
                twin = self._captured(observer, for_s, listen, is_enough)
                ended_cpu_s = _cpu_s(existing, observer)
        except psycopg.Error as error:
            words = error.diag.message_primary or str(error).partition("\n")[0]
            raise ServerLost(f"lost {self._server.name}: {words}") from error
        finally:
            connection.close()
        spent_s = None if cpu_s is None or ended_cpu_s is None else ended_cpu_s - cpu_s
        self.cost = Cost(observer.queries, observer.query_s, spent_s, time.monotonic() - began_s)
        return twin

    def _captured(
        self, observer: Observer, for_s: float, listen: Listener, is_enough: Callable[[], bool]
    ) -> Twin:
        now = datetime.now(UTC)
        listen(CaptureProgress("Reading the schema", 0.0))
        # Before the window, so that what cannot be read costs no wait.
        found = _patiently(lambda: read_schema(observer))
        # What this session has counted so far, it hands in at its first statement after a second.
        time.sleep(_HANDED_IN_S)
        observer.query("SELECT 1")
        log = LogSource(self._log, observer) if self._log is not None else None
        # Seen first and last, so that the window of all counters is nearly the same.
        account = self._statements(observer)
        counters, sizes = read_counters(observer), read_sizes(observer)
        began_s = time.monotonic()
        looks = ActivityLooks(observer)
        self._look(observer, looks, account, began_s, for_s, listen, is_enough)
        window_s = time.monotonic() - began_s
        if log is not None:
            log.end_window()
        if account is not None:
            last = attempt(lambda: _patiently(partial(account.read, observer, is_last=True)))
            if isinstance(last, Unseen):
                self._not_seen.append(f"The last reading of pg_stat_statements failed: {last.reason}. Statements are incomplete.")  # fmt: skip
        later = read_counters(observer)
        looks.end(observer)
        listen(CaptureProgress("Reading statistics", window_s))
        statistics, extended = read_statistics(observer), read_extended(observer)
        relations = read_relations(observer, counters, later, sizes)
        self._note_unreadable(observer)
        self._note_hidden(found.schema, extended)
        listen(CaptureProgress("Asking for types of parameters", window_s))
        seen = list(account.seen()) if account is not None else []
        roles = {role: f"role{at}" for at, role in enumerate(dict.fromkeys(one.role for one in seen), start=1)}  # fmt: skip
        types = parameter_types(observer.connection, seen, search_paths(observer))
        load = workload(account, window_s, roles, types)
        source = read_source(observer, self._server.version, roles)
        account_of_log = None
        if log is not None:
            account_of_log = self._read_log(
                log, self._known(observer, seen, roles, load), window_s, listen
            )
        listen(CaptureProgress("Making tokens", window_s))
        classes = ValueClasses(found, rng=self._rng, now=now, sort=_sorter(observer))
        for one in seen:
            classes.join_compared(one.text)
        columns = ParameterColumns(classes, statistics)
        if account_of_log is not None:
            classes.join_references(account_of_log.equal_columns(columns))
        self._note_ranges(observer, classes, statistics)
        privacy = Privacy(found, classes)
        privacy.gather(statistics, extended)
        needed = needed_functions(found, [one.text for one in seen])
        schema = privacy.schema(found.schema, needed)
        told = privacy.statistics(statistics)
        transactions = account_of_log.transactions(columns) if account_of_log is not None else None
        hidden = sum(one.has_hidden_values for one in told)
        if hidden:
            self._not_seen.append(f"{counted(hidden, 'column')} {'has' if hidden == 1 else 'have'} a type without tokens: only shares and widths are captured.")  # fmt: skip
        return Twin(
            captured_by=f"pgdrag {__version__}",
            captured_on=now.date().isoformat(),
            source=source,
            schema=_with_extended(schema, privacy, extended),
            relations=relations,
            statistics=told,
            workload=load,
            activity=looks.activity(load, window_s),
            horizon=self._horizon(now),
            transactions=transactions,
            now=f"{ANCHOR:%Y-%m-%d} {now:%H:%M:%S}+00",
            not_seen=(*self._not_seen, *found.left_out, *dict.fromkeys(privacy.left_out)),
            kept=tuple(dict.fromkeys(privacy.kept)),
        )

    def _statements(self, observer: Observer) -> StatementAccount | None:
        account = attempt(lambda: StatementAccount(observer))
        if isinstance(account, Unseen):
            self._not_seen.append(f"There are no statements: {account.reason}.")
            return None
        if not account.sees_all:
            self._not_seen.append("Statements and sessions of other roles are hidden from this role: it takes pg_read_all_stats (or pg_monitor).")  # fmt: skip
        return account

    def _known(self, observer: Observer, seen: Sequence[SeenStatement], roles: Mapping[int, str], load: Workload) -> list[KnownStatement]:  # fmt: skip
        """Return the statements that the log may have, those of each role."""
        names = dict(observer.query("SELECT oid::bigint, rolname::text FROM pg_roles"))
        by_words = {(x.text, x.role, x.is_toplevel): x for x in load.statements}
        found = []
        for one in seen:
            told = by_words.get(told_as(one, roles))
            if told is not None and told.is_toplevel:
                user = names.get(one.role, "")
                found.append(KnownStatement(told.number, one.text, user, one.identifier, told.parameters))  # fmt: skip
        return found

    def _read_log(self, log: LogSource, known: Sequence[KnownStatement], window_s: float, listen: Listener) -> LogAccount | None:  # fmt: skip
        """Return what the log has; what was captured until now is not lost with it."""
        try:
            return log.read(known, lambda x: listen(CaptureProgress(READING_LOG, window_s, x)))
        except LogError as error:
            self.log_error = error
            # Names of files may tell of the place.
            self._not_seen.append("There are no transactions: the log could not be read, or had no statements of the window.")  # fmt: skip
            return None

    def _look(
        self,
        observer: Observer,
        looks: ActivityLooks,
        account: StatementAccount | None,
        began_s: float,
        for_s: float,
        listen: Listener,
        is_enough: Callable[[], bool],
    ) -> None:
        """Look about once a second; the statements a little less often."""
        read_s = began_s
        try:
            while True:
                looks.look(observer)
                self._look_at_holders(observer)
                if observer.connection.closed:
                    raise ServerLost(f"lost {self._server.name} within the window")
                if account is not None and time.monotonic() - read_s > STATEMENTS_EVERY_S:
                    read_s = time.monotonic()
                    skipped = attempt(partial(account.read, observer))
                    if isinstance(skipped, Unseen):
                        self._note_skipped(skipped)
                listen(CaptureProgress(WATCHING, time.monotonic() - began_s))
                left_s = began_s + for_s - time.monotonic()
                if left_s <= 0 and is_enough():
                    break
                pause_s = self._rng.uniform(0.5, 1.5) * LOOK_EVERY_S
                time.sleep(min(pause_s, left_s) if left_s > 0 else pause_s)
        except KeyboardInterrupt:
            if observer.connection.closed:
                raise
            self.was_ended_early = True

    def _note_skipped(self, skipped: Unseen) -> None:
        note = f"Readings of pg_stat_statements were skipped: {skipped.reason}."
        if note not in self._not_seen:
            self._not_seen.append(note)

    def _look_at_holders(self, observer: Observer) -> None:
        if not self._sees_all:
            return
        seen = sample_holders(observer.connection, self._tracker.pids)
        observer.queries += 1
        database = self._server.target.database
        at_s = seen[0].at_s if seen else time.time()
        self._tracker.add(at_s, [x for x in seen if x.age is None or x.concerns(database)])

    def _horizon(self, now: datetime) -> HoldDistribution | None:
        tracker = self._tracker
        if tracker.samples < 2 or tracker.captured_s <= 0:
            return None
        capture = Capture(
            server="the original",
            postgres=self._server.version,
            began=f"{now:%Y-%m-%d}",
            captured_s=significant(tracker.captured_s),
            every_s=significant(tracker.interval_s),
            looks=tracker.samples,
            shortest_s=significant(tracker.shortest_s),
            blind_s=significant(tracker.blind_s),
        )
        return HoldDistribution(
            capture, tracker.kinds(), gaps=tracker.gaps(), at_once=tracker.at_once()
        )

    def _note_hidden(self, schema: Schema, seen: Collection[tuple[str, str]]) -> None:
        hidden = sum((one.schema, one.name) not in seen for one in schema.statistics)
        if hidden:
            found = counted(hidden, "object")
            self._not_seen.append(f"Extended statistics of {found} are missing: only the table's owner can read them.")  # fmt: skip

    def _note_ranges(self, observer: Observer, classes: ValueClasses, statistics: Sequence[FoundStatistics]) -> None:  # fmt: skip
        ranges = sum(classes.is_of_ranges((x.schema, x.relation, x.column)) for x in statistics)
        if ranges and not may_read_ranges(observer):
            self._not_seen.append(f"Bounds and lengths of {counted(ranges, 'column')} of ranges are hidden from this role: before version 17 it takes pg_read_all_data.")  # fmt: skip

    def _note_unreadable(self, observer: Observer) -> None:
        tables = unreadable_tables(observer)
        if tables:
            named = f'"{tables[0]}"' + (" and others" if len(tables) > 1 else "")
            self._not_seen.append(f"Statistics of {counted(len(tables), 'table')} ({named}) are hidden from this role: it takes SELECT on them (or pg_read_all_data, which bypasses no row security).")  # fmt: skip


def _with_extended(schema: Schema, privacy: Privacy, extended: dict[tuple[str, str], Any]) -> Schema:  # fmt: skip
    return replace(
        schema,
        statistics=tuple(
            privacy.extended(one, extended.get((one.schema, one.name))) for one in schema.statistics
        ),
    )


def _sorter(observer: Observer) -> Callable[[Sequence[str], str], Sequence[str]]:
    """Return what sorts texts as the server does; where it refuses, by their characters."""

    def sort(values: Sequence[str], collation: str) -> Sequence[str]:
        # Its name is from the catalogs, and quoted there.
        collate: LiteralString = f" COLLATE {collation}" if collation else ""
        sql = "SELECT value FROM unnest(%s::text[]) AS value ORDER BY value" + collate
        rows = attempt(lambda: observer.query(sql, list(values)))
        return sorted(values) if isinstance(rows, Unseen) else [value for (value,) in rows]

    return sort


def _patiently(read: Callable[[], T]) -> T:
    """Return what is read, tried again for some seconds: a definition may be locked for a moment.

    Raises:
        Unseen: it cannot be read.
    """
    for _ in range(_TRIES):
        found = attempt(read)
        if not isinstance(found, Unseen):
            return found
        time.sleep(1.0)
    return read()


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Turn what could not be seen of what a twin cannot do without into an error.

    Raises:
        ServerError: there was such a thing.
    """
    try:
        yield
    except Unseen as unseen:
        hint = "A table is locked, by ALTER TABLE for instance: try again when that has ended."
        is_locked = "lock timeout" in unseen.reason
        raise ServerError(
            f"could not capture {name}: {unseen.reason}", hint=hint if is_locked else None
        ) from unseen


def _cpu_s(existing: ExistingServer, observer: Observer) -> float | None:
    """Return the processor time of the server's process for this session; None where it runs elsewhere."""
    import psutil

    if existing.postmaster_pid is None:
        return None
    try:
        times = psutil.Process(observer.backend_pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
