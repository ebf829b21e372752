"""How is a server observed for hours? One session that only reads, a sample each interval, and no end when the server goes away.

Within each interval the recorder looks about once a second at what processes do; at its end it reads counters once.
Nothing of it is a benchmark's: the server does its own work, and what the recorder adds to that is measured.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

import psutil
import psycopg

from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.collectors.counters import require_sight_of_others
from pgdrag.driver.connection_string import Server
from pgdrag.english import cut, percent_words
from pgdrag.errors import ServerError, ServerLost
from pgdrag.host.clock import SteadyClock
from pgdrag.host.error_words import words_of
from pgdrag.host.interrupts import uninterrupted
from pgdrag.live.databases import hand_in_own
from pgdrag.live.server import ExistingServer, Pauses
from pgdrag.model.observed import (
    BEGAN,
    CLOCK_STEP,
    GAP,
    RESET,
    RESTARTED,
    SETTINGS,
    ObservedServer,
    Quantity,
    Sample,
    Spread,
    Statement,
    StatementTotals,
)
from pgdrag.model.recordings import Event
from pgdrag.observations.reading import all_groups
from pgdrag.observations.sessions import QUANTITIES, Looks
from pgdrag.observations.settings import read_settings
from pgdrag.observations.statements import StatementAccount
from pgdrag.observations.store import ObservationWriter
from pgdrag.passwords import without_passwords
from pgdrag.units import format_duration

LOOK_EVERY_S = 1.0
# Of the time, at most, that looks may take.
_LOOK_SHARE = 2e-3
_MOST_CHANGES = 10  # of settings that one event names
_STATE: LiteralString = """
SELECT extract(epoch FROM pg_postmaster_start_time())::float8,
       extract(epoch FROM pg_conf_load_time())::float8, pg_is_in_recovery(), current_setting('server_version')
"""
_IDENTIFIER: LiteralString = "SELECT system_identifier::text FROM pg_control_system()"


@dataclass(frozen=True)
class RecordingProgress:
    """How far a recording is.

    Attributes:
        samples: written by it.
        latest: the newest sample; None before the first, and while the server is away.
        trouble: why the server is away, or "".
    """

    elapsed_s: float
    samples: int
    latest: Sample | None
    trouble: str = ""


@dataclass
class Cost:
    """What observing took.

    Attributes:
        query_s: from sending queries until they were answered.
        own_cpu_s: processor time of this process.
        server_cpu_s: of the server's processes that answered; None where they run elsewhere.
    """

    elapsed_s: float = 0.0
    queries: int = 0
    query_s: float = 0.0
    own_cpu_s: float = 0.0
    server_cpu_s: float | None = None

    @property
    def words(self) -> str:
        """Say it in a sentence."""
        if not self.elapsed_s:
            return "Nothing was observed."
        share = self.query_s / self.elapsed_s
        words = (
            f"Its own cost: {self.queries:,} queries took {format_duration(self.query_s)}, {percent_words(share, 2)} of the time; "
            f"pgdrag itself {format_duration(self.own_cpu_s)} of a processor ({percent_words(self.own_cpu_s / self.elapsed_s, 2)})"
        )
        if self.server_cpu_s is not None:
            words += (
                f", the server's process for it {format_duration(self.server_cpu_s)} "
                f"({percent_words(self.server_cpu_s / self.elapsed_s, 2)})"
            )
        return f"{words}."


Listener = Callable[[RecordingProgress], None]


class Recorder:
    """Observes one server into one file: `run` it once.

    Attributes:
        cost: so far.
        missing: what cannot be seen of the server, and why, by what it is.
        samples: written so far.
    """

    def __init__(
        self, server: Server, file: ObservationWriter, *, every_s: float, clock: SteadyClock
    ) -> None:
        self.cost = Cost()
        self.missing: dict[str, str] = {}
        self.samples = 0
        self._server, self._file, self._every_s, self._clock = server, file, every_s, clock
        # Where the machine's clock was set back since the file's last sample, this one goes on behind it.
        self._ahead_s = max((file.ended_unix_s or 0.0) - clock.unix_s(), 0.0)
        self._session: _Session | None = None
        self._started_s: float | None = None
        self._stepped_s = clock.unix_s()
        self._trouble = ""
        self._ended_s = self._began_s = self._now()
        self._begun_steady_s = time.monotonic()
        self._rng = random.Random()

    def run(self, for_s: float, listen: Listener) -> None:
        """Take samples until the time is over (it may be infinite); if the server goes away, wait for it.

        Raises:
            KeyboardInterrupt: Ctrl-C; what was written stays.
            ServerError: the file is of another server.
            StorageError: the file cannot be written.
        """
        begin_s, cpu_s = time.monotonic(), time.process_time()
        pauses = Pauses()
        if self._ahead_s:
            words = f"it was {format_duration(self._ahead_s)} behind the file's last sample"
            self._note(CLOCK_STEP, self._now(), text=words)
        try:
            while self._has_time(left_s := for_s - (time.monotonic() - begin_s)):
                latest = None
                try:
                    if self._session is None:
                        self._connect()
                        self._note_gap()
                    latest = self._sampled(left_s)
                    pauses = Pauses()
                except ServerLost as error:
                    self._end_session()
                    self._trouble = without_passwords(error.message)
                elapsed_s = time.monotonic() - begin_s
                listen(RecordingProgress(elapsed_s, self.samples, latest, self._trouble))
                if self._trouble:
                    pauses.wait(for_s - elapsed_s)
        finally:
            with uninterrupted():  # somebody presses Ctrl-C twice
                self._end_session()
                self._note_gap()
                self.cost.elapsed_s = time.monotonic() - begin_s
                self.cost.own_cpu_s = time.process_time() - cpu_s

    def _has_time(self, left_s: float) -> bool:
        """Whether another sample is worth it: the last one may be shorter, but not by more than a half."""
        return left_s > (0.5 * self._every_s if self.samples else 0.0)

    def _now(self) -> float:
        return self._clock.unix_s() + self._ahead_s

    def _note_gap(self) -> None:
        """Note for how long nothing was seen, if the server was away."""
        if self._trouble:
            began_s, self._ended_s = self._ended_s, self._now()
            self._note(GAP, began_s, self._ended_s, text=self._trouble)
        self._trouble = ""

    def _connect(self) -> None:
        existing = ExistingServer.reached(self._server)
        try:
            session = _Session(existing)
            self._note_server(session)
            session.begin()
        except BaseException as error:
            with suppress(psycopg.Error):
                existing.connection.close()
            if isinstance(error, psycopg.Error):
                raise ServerLost(f"lost {self._server.name}: {words_of(error)}") from error
            raise
        self._session = session
        self.missing = session.missing
        self._began_s = self._now()
        self._begun_steady_s = time.monotonic()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            cpu_s = session.server_cpu_s()
            if cpu_s is not None:
                self.cost.server_cpu_s = (self.cost.server_cpu_s or 0.0) + cpu_s
            self.cost.queries += session.observer.queries
            self.cost.query_s += session.observer.query_s
            with suppress(psycopg.Error):
                session.observer.connection.close()

    def _sampled(self, left_s: float) -> Sample:
        """Look until the interval is over, then read; write what both showed."""
        session = self._session
        assert session is not None, "it is connected"
        due_s = min(self._begun_steady_s + self._every_s, time.monotonic() + left_s)
        looks = session.looks_until(due_s, self._rng)
        session.require_life()
        state = session.state()
        ended_s, steady_s = self._now(), time.monotonic()
        observed_s = steady_s - self._begun_steady_s
        values: dict[str, Spread] = dict(session.read_groups())
        if looks is not None:
            values |= looks.values(observed_s)
        statements = session.read_statements()
        session.require_life()
        sample = Sample(
            began_unix_s=self._began_s,
            ended_unix_s=ended_s,
            observed_s=observed_s,
            wall_unix_s=time.time(),
            values=values,
            waits=looks.waits() if looks is not None and looks.count else {},
            statements=statements,
        )
        with uninterrupted():
            self._file.append_sample(sample, session.quantities)
            self.samples += 1
        self._began_s = self._ended_s = ended_s
        self._begun_steady_s = steady_s
        self._note_changes(session, state)
        return sample

    # --- what happens to the server, and to the clock

    def _note_server(self, session: _Session) -> None:
        state = session.state()
        last = self._file.server()
        now = ObservedServer(self._server.name, state.version, session.identifier())
        if last is not None and last.is_other_than(now):
            raise ServerError(
                f"{self._file.path} is of another server: {last.name}",
                hint="Name another file with --out.",
            )
        self._file.append_server(self._now(), now)
        if self._started_s is None:
            self._note(BEGAN, self._now(), text=f"PostgreSQL {state.version}")
        elif state.started_s != self._started_s:
            self._note(RESTARTED, self._now(), text=f"PostgreSQL {state.version}")
        self._started_s = state.started_s
        self._note_settings(session, state)

    def _note_settings(self, session: _Session, state: _State) -> None:
        session.loaded_s = state.loaded_s
        settings = attempt(lambda: read_settings(session.observer))
        if not isinstance(settings, Unseen):
            changed = self._file.append_settings(self._now(), settings)
            if changed:
                more = (
                    f" and {len(changed) - _MOST_CHANGES} more"
                    if len(changed) > _MOST_CHANGES
                    else ""
                )
                self._note(
                    SETTINGS, self._now(), text=f"{'; '.join(changed[:_MOST_CHANGES])}{more}"
                )

    def _note_changes(self, session: _Session, state: _State) -> None:
        if state.loaded_s != session.loaded_s:
            self._note_settings(session, state)
        for what in session.resets():
            self._note(RESET, self._now(), text=what)
        self._clock.look()
        now_s = self._clock.unix_s()
        for step in self._clock.steps(self._stepped_s, now_s):
            way = "forward" if step.by_s > 0 else "back"
            self._note(
                CLOCK_STEP,
                step.at_unix_s + self._ahead_s,
                text=f"the machine's clock was set {way} by {format_duration(abs(step.by_s))}",
            )
        self._stepped_s = now_s

    def _note(self, kind: str, start_s: float, end_s: float | None = None, *, text: str) -> None:
        with uninterrupted():
            self._file.append_event(Event(kind, start_s, end_s, cut(text, 500)))


def server_there(server: Server) -> ObservedServer:
    """Return which server answers.

    Raises:
        ServerLost: none does.
    """
    existing = ExistingServer.reached(server)
    with existing.connection as connection:
        identifier = _identifier(Observer(existing, connection))
    return ObservedServer(server.name, server.version, identifier)


def _identifier(observer: Observer) -> str:
    """Return the cluster's own number; "" where this role may not see it."""
    found = attempt(lambda: observer.query(_IDENTIFIER))
    return "" if isinstance(found, Unseen) else str(found[0][0])


@dataclass(frozen=True)
class _State:
    started_s: float
    loaded_s: float
    is_standby: bool
    version: str


class _Session:
    """What is read over one connection, from its first reading on."""

    def __init__(self, existing: ExistingServer) -> None:
        self.observer = Observer(existing, existing.connection)
        self.loaded_s = 0.0
        self.missing: dict[str, str] = {}
        self._groups = all_groups()
        self._account: StatementAccount | None = None
        self._sees_others = True
        self._backend = _process(existing, self.observer.backend_pid)
        self._look_pause_s = LOOK_EVERY_S
        self.quantities: list[Quantity] = [
            *QUANTITIES,
            *(quantity for group in self._groups for quantity in group.quantities()),
        ]

    def begin(self) -> None:
        """Take the first readings."""
        sight = attempt(lambda: require_sight_of_others(self.observer, "the sessions"))
        self._sees_others = not isinstance(sight, Unseen)
        if isinstance(sight, Unseen):
            self.missing["waits"] = sight.reason
        for _ in self.read_groups():
            pass
        account = attempt(lambda: StatementAccount(self.observer))
        if isinstance(account, Unseen):
            self.missing["statements"] = account.reason
        else:
            self._account = account
            self.read_statements()
        self.require_life()

    def require_life(self) -> None:
        """Refuse to take what a lost connection could not tell for something that is not there.

        Raises:
            ServerLost: the connection is lost.
        """
        if self.observer.connection.closed:
            raise ServerLost("the connection to the server was lost")

    def state(self) -> _State:
        """Return since when the server runs, and with which configuration.

        Raises:
            ServerLost: it does not answer.
        """
        try:
            [row] = self.observer.query(_STATE)
        except Unseen as unseen:
            raise ServerLost(unseen.reason) from unseen
        return _State(*row)

    def identifier(self) -> str:
        """Return the cluster's own number; "" where this role may not see it."""
        return _identifier(self.observer)

    def looks_until(self, due_s: float, rng: random.Random) -> Looks | None:
        """Look about once a second, at moments that no clock of the server's is in step with.

        Raises:
            ServerLost: the connection was lost meanwhile.
        """
        looks = Looks() if self._sees_others else None
        while (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(rng.uniform(0.5, 1.5) * self._look_pause_s, left_s))
            if looks is not None:
                begin_s = time.monotonic()
                found = attempt(lambda: looks.look(self.observer))
                took_s = time.monotonic() - begin_s
                self._look_pause_s = max(LOOK_EVERY_S, took_s / _LOOK_SHARE)
                if isinstance(found, Unseen):
                    self.require_life()
        return looks

    def read_groups(self) -> Iterator[tuple[str, Spread]]:
        """Yield what the time since the last reading showed; note what cannot be read."""
        attempt(lambda: hand_in_own(self.observer))
        now_s = time.monotonic()
        for group in self._groups:
            if not group.is_due(now_s):
                continue
            found = attempt(lambda group=group: list(group.since_last(self.observer)))  # type: ignore[misc]
            if isinstance(found, Unseen):
                self.missing[group.name] = found.reason
                group.forget()
            else:
                yield from found

    def read_statements(self) -> dict[Statement, StatementTotals]:
        """Return what each statement took since the last reading."""
        account = self._account
        if account is None:
            return {}
        found = attempt(lambda: account.since_last(self.observer))
        if isinstance(found, Unseen):
            self.missing["statements"] = found.reason
            return {}
        return found

    def resets(self) -> Iterator[str]:
        """Yield whose statistics were reset between the last two readings."""
        for group in self._groups:
            if group.was_reset:
                group.was_reset = False
                yield group.name
        if self._account is not None and self._account.was_reset:
            self._account.was_reset = False
            yield "statements"

    def server_cpu_s(self) -> float | None:
        """Return the processor time of the server's process for this session; None where it runs elsewhere."""
        if self._backend is None:
            return None
        try:
            times = self._backend.cpu_times()
        except psutil.Error:
            return None
        return float(times.user + times.system)


def _process(existing: ExistingServer, pid: int) -> psutil.Process | None:
    if existing.postmaster_pid is None:
        return None
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None
