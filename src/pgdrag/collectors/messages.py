"""How much did the server write to its log, and which errors, lock waits and large temporary files did it report?"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, attempt, detailed, known
from pgdrag.collectors._log import LogCollector, in_groups, is_within
from pgdrag.collectors._metric import NO_READING, most_named
from pgdrag.collectors.counters import Counters, Drawn
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import LogMessage, Wanted
from pgdrag.units import format_bytes, format_duration

_SETTINGS = """
SELECT current_setting('log_min_messages'), current_setting('log_lock_waits'),
       (SELECT setting::bigint * 1024 FROM pg_settings WHERE name = 'log_temp_files'),
       current_setting('deadlock_timeout')
"""
_DEADLOCK = "40P01"
_MARK_BYTES = 1000  # about what the instrument itself writes at the end of a window
_ERRORS = ("ERROR", "FATAL", "PANIC")
_HIDE_ERRORS = ("log", "fatal", "panic")
_WAIT = re.compile(
    r"^process (?P<pid>\d+) (?P<what>still waiting for|acquired|avoided deadlock for"
    r"|detected deadlock while waiting for) (?P<lock>.+?)"
    r"(?: by rearranging queue order)? after (?P<ms>[\d.]+) ms"
)
# Numbers that make each wait another one: transactions, rows, tables.
_WHICH = re.compile(r" of database \d+| \(\d+,\d+\)| \d+(?:/\d+)?")
_FILE = re.compile(r'^temporary file: path ".*", size (?P<bytes>\d+)')


@dataclass
class LockWait:
    """A wait for a lock that lasted longer than deadlock_timeout.

    Attributes:
        told_unix_s: when the server first logged it.
        lock: its mode and what it is on: "ShareLock on transaction".
        waited_s: until it had the lock; None where it never got it, or the log does not say so.
    """

    told_unix_s: float
    began_unix_s: float
    lock: str
    waited_s: float | None = None


@dataclass(frozen=True)
class Settings:
    """What the server logs at all."""

    least_level: str
    tells_lock_waits: bool
    least_file_bytes: int
    deadlock_timeout: str


class Messages(LogCollector):
    """The size of the log, and what it reports beside checkpoints and vacuums."""

    name: ClassVar[str] = "messages"
    summary: ClassVar[str] = (
        "size of the server's log; errors, lock waits and large temporary files"
    )
    wanted: ClassVar[Wanted] = Wanted(_ERRORS, ("process ", "temporary file: "))
    drawn: ClassVar[tuple[Drawn, ...]] = (
        Drawn("log_bytes_per_s", "server's log", "bytes/s", ("log_bytes",)),
    )

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("log_bytes_per_transaction", "bytes written to the server's log per transaction", "bytes", "bytes/transaction", step=_MARK_BYTES),
        Metric("log_lines_per_transaction", "messages written to the server's log per transaction", "messages", detail="{warning}"),
        Metric("errors_per_transaction", "errors in the server's log per transaction", "errors", detail="{states}{warning}"),
        Metric(
            "long_lock_waits_per_transaction", "lock waits longer than deadlock_timeout per transaction", "waits", detail="{waited}{warning}",
        ),
        *detailed(
            "{files} files of {least} or more.{warning}",
            Metric("large_temp_files_per_transaction", "large temporary files per transaction", "files"),
            Metric("large_temp_file_bytes_per_transaction", "bytes of large temporary files per transaction", "file bytes", "bytes/transaction"),
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.settings: Settings | Unseen = NO_READING
        self._sizes: list[tuple[float, int]] = []
        # Of all errors of one SQLSTATE only the first text is kept, and each moment, in 8 bytes.
        self._first_errors: dict[str, str] = {}
        self._errors: dict[str, array[float]] = {}
        self._waits: list[LockWait] = []
        self._waiting: dict[int, LockWait] = {}  # by process
        self._files: list[tuple[float, int]] = []

    def before(self, observer: Observer) -> None:
        self.settings = attempt(lambda: _settings(observer))
        super().before(observer)

    def read(self, observer: Observer) -> Counters:
        try:
            size = observer.cluster.log_bytes()
        except OSError as error:
            raise Unseen(f"the log cannot be read: {error.strerror}") from error
        if not size:
            raise Unseen("the server's log cannot be seen from here")
        self._sizes.append((CLOCK.unix_s(), size))
        return {"log_bytes": size}

    def afterwards(self, observer: Observer) -> None:
        """Read the log, which is complete now, and its size."""
        super().afterwards(observer)
        attempt(lambda: self.read(observer))

    def take(self, message: LogMessage) -> None:
        if message.severity in _ERRORS:
            state = message.sqlstate or message.severity
            self._first_errors.setdefault(state, message.message.partition("\n")[0])
            self._errors.setdefault(state, array("d")).append(message.unix_s)
        elif found := _WAIT.match(message.message):
            self._take_wait(message.unix_s, found)
        elif found := _FILE.match(message.message):
            self._files.append((message.unix_s, int(found["bytes"])))

    def _take_wait(self, unix_s: float, found: re.Match[str]) -> None:
        pid, waited_s = int(found["pid"]), float(found["ms"]) / 1000
        has_ended = found["what"] == "acquired"
        wait = self._waiting.pop(pid, None) if has_ended else None
        if wait is None:  # it is new, or was first logged before the mark
            wait = LockWait(unix_s, unix_s - waited_s, _WHICH.sub("", found["lock"]))
            self._waits.append(wait)
        if has_ended:
            wait.waited_s = waited_s
        else:
            self._waiting[pid] = wait

    def amounts(self, window: Window) -> Amounts:
        found = attempt(lambda: self._logged(window))
        logged = dict.fromkeys(_LOGGED, found) if isinstance(found, Unseen) else found
        return {**logged, "bytes": attempt(lambda: self._bytes(window))}

    def _logged(self, window: Window) -> Amounts:
        reading, settings = known(self.reading), known(self.settings)
        errors = {
            state: sum(is_within(moment, window) for moment in moments)
            for state, moments in self._errors.items()
        }
        waits = [wait for wait in self._waits if is_within(wait.told_unix_s, window)]
        waited = f"{len(waits)} lasted longer than {settings.deadlock_timeout}"
        if ended := [wait.waited_s for wait in waits if wait.waited_s is not None]:
            waited += f"; the longest that ended took {format_duration(max(ended))}"
        sizes = [size for moment, size in self._files if is_within(moment, window)]
        return {
            "messages": reading.messages_within(window),
            "errors": sum(errors.values()),
            "waits": len(waits),
            "files": len(sizes),
            "file bytes": sum(sizes),
            "states": most_named("By SQLSTATE", errors),
            "waited": f"{waited}.",
            "least": format_bytes(settings.least_file_bytes),
            "warning": reading.warning,
            **_hidden(settings),
        }

    def recordings(self, window: Window) -> Recordings:
        """Return deadlocks, other errors, lock waits and temporary files, in groups where there are many."""
        kinds = [self._error_events(state, window) for state in self._errors]
        kinds += [self._wait_events(window), self._file_events(window)]
        events = (event for kind in kinds for event in in_groups(kind, window))
        return Recordings((*super().recordings(window).series, *events))

    def _error_events(self, state: str, window: Window) -> Iterator[Event]:
        text = f"{state}: {self._first_errors[state]}"
        kind, text = ("deadlock", "") if state == _DEADLOCK else ("error", text)
        for moment in self._errors[state]:
            if is_within(moment, window):
                yield Event(kind, moment - window.started_unix_s, text=text)

    def _wait_events(self, window: Window) -> Iterator[Event]:
        for wait in self._waits:
            start_s = wait.began_unix_s - window.started_unix_s
            end_s = None if wait.waited_s is None else start_s + wait.waited_s
            if start_s <= window.length_s and (end_s is None or end_s >= 0):
                yield Event("lock wait", start_s, end_s, wait.lock)

    def _file_events(self, window: Window) -> Iterator[Event]:
        for moment, size in self._files:
            if is_within(moment, window):
                text = format_bytes(size)
                yield Event("temporary file", moment - window.started_unix_s, text=text)

    def _bytes(self, window: Window) -> int:
        self.moved()
        # The first look within the window is at its very beginning; the load wrote before it, too.
        *earlier, (_, last) = self._sizes
        _, first = min(earlier, key=lambda size: abs(size[0] - window.started_unix_s))
        return max(0, last - first)


_LOGGED = ("messages", "errors", "waits", "files", "file bytes")


def _settings(observer: Observer) -> Settings:
    [(level, lock_waits, file_bytes, timeout)] = observer.query(_SETTINGS)
    return Settings(level, lock_waits == "on", file_bytes, timeout)


def _hidden(settings: Settings) -> dict[str, Unseen]:
    """Return why messages of a kind are not seen, by the names of amounts."""
    found = {}
    if settings.least_level in _HIDE_ERRORS:
        found["errors"] = Unseen(f"log_min_messages is {settings.least_level}, which hides errors")
    if not settings.tells_lock_waits:
        found["waits"] = Unseen("log_lock_waits is off")
    if settings.least_file_bytes < 0:
        found["files"] = found["file bytes"] = Unseen("log_temp_files is -1, which logs none")
    return found
