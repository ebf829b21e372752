"""How much did the server write to its log, and which errors, lock waits and large temporary files did it report?"""

from __future__ import annotations

import math
import re
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window, detailed
from pgdrag.collectors._log import LogCollector, LogLine, in_groups, is_within
from pgdrag.collectors._metric import NO_READING, most_named
from pgdrag.collectors.counters import Counters, Drawn, attempt
from pgdrag.model.recordings import Event, Recordings
from pgdrag.servers.log_formats import Wanted
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


@dataclass(frozen=True)
class LockWait:
    """A wait for a lock that lasted longer than deadlock_timeout.

    Attributes:
        told_unix_s: when the server first logged it.
        waited_s: until it had the lock; None where it never got it, or the log does not say so.
        lock: its mode and what it is on: "ShareLock on transaction".
    """

    told_unix_s: float | None
    began_unix_s: float | None
    waited_s: float | None
    lock: str


@dataclass
class Errors:
    """All errors of one SQLSTATE: of each only its moment is kept, in 8 bytes; NaN where it is not known."""

    first: str
    moments: array[float] = field(default_factory=lambda: array("d"))

    def within(self, window: Window) -> int:
        """How many were in the window."""
        return sum(1 for moment in self.moments if is_within(_known(moment), window))


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

    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("log_bytes_per_transaction", "bytes written to the server's log per transaction", "bytes", "bytes/transaction", step=_MARK_BYTES),
        Metric("log_lines_per_transaction", "messages written to the server's log per transaction", "messages", detail="{warning}"),
        Metric("errors_per_transaction", "errors in the server's log per transaction", "errors", detail="{states}{warning}"),
        Metric(
            "long_lock_waits_per_transaction", "waits for a lock that outlasted deadlock_timeout per transaction", "waits", detail="{waited}{warning}",
        ),
        *detailed(
            "{files} files of {least} or more.{warning}",
            Metric("large_temp_files_per_transaction", "large temporary files per transaction", "files"),
            Metric("large_temp_file_bytes_per_transaction", "bytes of large temporary files per transaction", "file bytes", "bytes/transaction"),
        ),
    )
    # fmt: on

    def __init__(self) -> None:
        super().__init__()
        self.settings: Settings | Unseen = NO_READING
        self._sizes: list[tuple[float, int]] = []
        self._errors: dict[str, Errors] = {}
        self._waits: list[LockWait] = []
        self._waiting: dict[int, int] = {}  # process → the place of its wait
        self._files: list[tuple[float | None, int]] = []

    def before(self, observer: Observer) -> None:
        """Ask what the server logs at all, and mark the log."""
        self.settings = attempt(lambda: _settings(observer))
        super().before(observer)

    def read(self, observer: Observer) -> Counters:
        """Return the size of the log."""
        try:
            size = observer.cluster.log_bytes()
        except OSError as error:
            raise Unseen(f"the log cannot be read: {error.strerror}") from error
        if not size:
            raise Unseen("there is no log to be seen here")
        self._sizes.append((time.time(), size))
        return {"log_bytes": size}

    def afterwards(self, observer: Observer) -> None:
        """Read the log, which is then known to have come to its end, and look at its size."""
        super().afterwards(observer)
        attempt(lambda: self.read(observer))

    def take(self, line: LogLine) -> None:
        """Keep an error's moment, a wait, or a file's size."""
        if line.severity in _ERRORS:
            state = line.sqlstate or line.severity
            errors = self._errors.setdefault(state, Errors(line.message.partition("\n")[0]))
            errors.moments.append(math.nan if line.unix_s is None else line.unix_s)
        elif found := _WAIT.match(line.message):
            self._take_wait(line.unix_s, found)
        elif found := _FILE.match(line.message):
            self._files.append((line.unix_s, int(found["bytes"])))

    def _take_wait(self, unix_s: float | None, found: re.Match[str]) -> None:
        pid, waited_s = int(found["pid"]), float(found["ms"]) / 1000
        began_unix_s = None if unix_s is None else unix_s - waited_s
        lock = _WHICH.sub("", found["lock"])
        if found["what"] != "acquired":
            self._waiting[pid] = len(self._waits)
            self._waits.append(LockWait(unix_s, began_unix_s, None, lock))
        elif (place := self._waiting.pop(pid, None)) is not None:
            told = self._waits[place]
            self._waits[place] = LockWait(told.told_unix_s, told.began_unix_s, waited_s, told.lock)
        else:  # it was logged before the mark
            self._waits.append(LockWait(unix_s, began_unix_s, waited_s, lock))

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return bytes and messages of the log, errors, lock waits and temporary files."""
        waits, sizes = self._waits_within(window), self._file_sizes(window)
        found: dict[str, float | Unseen] = {
            "errors": sum(self._errors_within(window).values()),
            "waits": len(waits),
            "files": len(sizes),
            "file bytes": sum(sizes),
        }
        for kind in found:
            found[kind] = self._unless(kind) or found[kind]
        messages = self.reading
        if not isinstance(messages, Unseen):
            found["messages"] = self._unless("messages") or messages.messages_within(window)
        else:
            found["messages"] = messages
        return {**found, "bytes": self._bytes(window)}

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return errors by SQLSTATE, how long waits lasted, and which files are counted."""
        warning = "" if isinstance(self.reading, Unseen) else self.reading.warning
        settings = self.settings
        if isinstance(settings, Unseen):
            return {}
        least = format_bytes(settings.least_file_bytes)
        return {
            "warning": warning,
            "states": most_named("By SQLSTATE", self._errors_within(window)),
            "waited": _wait_words(self._waits_within(window), settings),
            "least": least,
        }

    def recordings(self, window: Window) -> Recordings:
        """Return deadlocks, other errors, lock waits and temporary files, in groups where there are many."""
        of_errors = (
            in_groups(_error_events(state, errors, window), window)
            for state, errors in self._errors.items()
        )
        return Recordings(
            (
                *super().recordings(window).series,
                *(event for events in of_errors for event in events),
                *in_groups(_wait_events(self._waits, window), window),
                *in_groups(_file_events(self._files, window), window),
            )
        )

    def _bytes(self, window: Window) -> int | Unseen:
        moved = self.moved()
        if isinstance(moved, Unseen):
            return moved
        # The first look within the window is at its very beginning; the load wrote before it, too.
        *earlier, (_, last) = self._sizes
        _, first = min(earlier, key=lambda size: abs(size[0] - window.started_unix_s))
        return max(0, last - first)

    def _errors_within(self, window: Window) -> dict[str, int]:
        return {state: errors.within(window) for state, errors in self._errors.items()}

    def _waits_within(self, window: Window) -> list[LockWait]:
        return [wait for wait in self._waits if is_within(wait.told_unix_s, window)]

    def _file_sizes(self, window: Window) -> list[int]:
        return [size for moment, size in self._files if is_within(moment, window)]

    def _unless(self, kind: str) -> Unseen | None:
        """Return why messages of a kind are not seen, if they are not."""
        settings = self.settings
        if isinstance(self.reading, Unseen):
            return self.reading
        if isinstance(settings, Unseen):
            return settings
        if kind == "errors" and settings.least_level in _HIDE_ERRORS:
            return Unseen(f"log_min_messages is {settings.least_level}, which hides errors")
        if kind == "waits" and not settings.tells_lock_waits:
            return Unseen("log_lock_waits is off")
        if kind.startswith("file") and settings.least_file_bytes < 0:
            return Unseen("log_temp_files is -1, which logs none")
        return None


def _wait_words(waits: Sequence[LockWait], settings: Settings) -> str:
    words = f"{len(waits)} lasted longer than {settings.deadlock_timeout}"
    ended = [wait.waited_s for wait in waits if wait.waited_s is not None]
    if ended:
        words += f"; the longest that ended took {format_duration(max(ended))}"
    return f"{words}."


def _settings(observer: Observer) -> Settings:
    [(level, lock_waits, file_bytes, timeout)] = observer.query(_SETTINGS)
    return Settings(level, lock_waits == "on", file_bytes, timeout)


def _error_events(state: str, errors: Errors, window: Window) -> Iterator[Event]:
    kind, text = ("deadlock", "") if state == _DEADLOCK else ("error", f"{state}: {errors.first}")
    for moment in errors.moments:
        if window.started_unix_s <= moment <= window.finished_unix_s:
            yield Event(kind, moment - window.started_unix_s, text=text)


def _wait_events(waits: Sequence[LockWait], window: Window) -> Iterator[Event]:
    for wait in waits:
        if wait.began_unix_s is None:
            continue
        start_s = wait.began_unix_s - window.started_unix_s
        end_s = None if wait.waited_s is None else start_s + wait.waited_s
        if start_s <= window.length_s and (end_s is None or end_s >= 0):
            yield Event("lock wait", start_s, end_s, wait.lock)


def _file_events(files: Sequence[tuple[float | None, int]], window: Window) -> Iterator[Event]:
    for moment, size in files:
        if moment is not None and is_within(moment, window):
            yield Event("temporary file", moment - window.started_unix_s, text=format_bytes(size))


def _known(moment: float) -> float | None:
    return None if math.isnan(moment) else moment
