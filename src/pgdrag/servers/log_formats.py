"""What does one message of the server's log say? A parser for each of the two formats that pgdrag's servers write.

A format cuts bytes into records, one a message, and reads a record. Cutting is cheap, since a log
may have gigabytes; parsing is for the few wanted records, which `finder` finds first.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar

LOG = "LOG"
_LEVELS = ("DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", LOG, "FATAL", "PANIC")
# A message may have a whole statement of the client in it; the module's own limit is 128 kB.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class LogMessage:
    """One message of the server.

    Attributes:
        timestamp: as written, with the time zone's abbreviation.
        severity: "LOG", "ERROR" …
        sqlstate: "" where the log has none.
        pid: None where the log does not say whose it is.
        correction_s: what to add to the timestamp, where the machine's clock was set since.
    """

    timestamp: str
    severity: str
    message: str
    sqlstate: str = ""
    pid: int | None = None
    detail: str = ""
    hint: str = ""
    context: str = ""
    correction_s: float = field(default=0.0, kw_only=True)

    @cached_property
    def unix_s(self) -> float:
        """When it was written."""
        return unix_s(self.timestamp) + self.correction_s


@dataclass(frozen=True)
class Wanted:
    """The messages to look for.

    Attributes:
        severities: every message of these levels.
        beginnings: of messages of level LOG; plain ASCII without quotes.
    """

    severities: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def has(self, message: LogMessage) -> bool:
        """Whether this is one of the messages."""
        return message.severity in self.severities or (
            message.severity == LOG and message.message.startswith(self.beginnings)
        )

    def __or__(self, other: Wanted) -> Wanted:
        return Wanted(self.severities + other.severities, self.beginnings + other.beginnings)


class LogFormat(ABC):
    """The format of messages in a file.

    Attributes:
        stamp: where in a record its time stands, to a hundredth of a second.
    """

    stamp: ClassVar[slice]

    @abstractmethod
    def records(self, buffer: bytes) -> list[bytes]:
        """The whole records at the start of `buffer`, which begins with one; together they are its first bytes."""

    @abstractmethod
    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """What is found in each record of a wanted message, and in few others."""

    @abstractmethod
    def parse(self, record: bytes) -> LogMessage | None:
        """Read a record; None: it is torn, or no message of its own."""


class JsonLog(LogFormat):
    """jsonlog, since PostgreSQL 15: each message is one line."""

    stamp: ClassVar[slice] = slice(14, 36)  # behind {"timestamp":"

    def records(self, buffer: bytes) -> list[bytes]:
        """Return the whole lines."""
        return [line + b"\n" for line in buffer.split(b"\n")[:-1]]

    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """Return a pattern of keys with their values: within a text their quotes are escaped."""
        # One literal beginning for all, which the regular expression engine looks for by itself.
        begun = rf'{LOG}",(?:"state_code":"\w+",)?"message":"(?:{_any(wanted.beginnings)})'
        levels = rf'(?:{_any(wanted.severities)})"'
        return re.compile(rf'"error_severity":"(?:{levels}|{begun})'.encode())

    def parse(self, record: bytes) -> LogMessage | None:
        """Read one object."""
        try:
            found = json.loads(record.decode(errors="replace"))
            timestamp, severity = found["timestamp"], found["error_severity"]
            unix_s(timestamp)
        except (ValueError, KeyError, TypeError):  # torn by a crash of the server
            return None
        keys = ("message", "state_code", "detail", "hint", "context")
        message, sqlstate, *rest = (str(found.get(key, "")) for key in keys)
        pid = found.get("pid")
        pid = pid if isinstance(pid, int) else None
        return LogMessage(timestamp, str(severity), message, sqlstate, pid, *rest)


_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_QUOTED = r'(?:"(?:[^"\n]|"")*")?'


class CsvLog(LogFormat):
    """csvlog: fields within quotes may hold line ends, and their own quotes are doubled."""

    stamp: ClassVar[slice] = slice(22)
    # The columns up to the message, and this in quotes: within a field they would all be doubled.
    _START = re.compile(
        (
            rf"{_MOMENT}\.\d{{3}} [^,\n]*,{_QUOTED},{_QUOTED},\d*,{_QUOTED},[0-9a-f.]*,\d*,{_QUOTED},"
            rf"{_MOMENT} [^,\n]*,[^,\n]*,\d*,(?:{'|'.join(_LEVELS)}),\w{{5}},"
            r'"(?:[^"\n]|"")*(?:",|\n)'
        ).encode()
    )

    def records(self, buffer: bytes) -> list[bytes]:
        """Return lines put together until all quotes are closed.

        A record that a crash tore would take all that follows for its own text: a line that can only
        be the beginning of a record ends it.
        """
        found: list[bytes] = []
        start = position = 0
        is_open = False
        while (end := buffer.find(b"\n", position) + 1) > 0:
            if is_open and self._START.match(buffer, position, end):
                found.append(buffer[start:position])
                start, is_open = position, False
            is_open ^= bool(buffer.count(b'"', position, end) % 2)
            if not is_open:
                found.append(buffer[start:end])
                start = end
            position = end
        return found

    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """Return a pattern of three columns; a text may hold the same, which parsing shows."""
        begun = rf'{LOG},\w{{5}},"(?:{_any(wanted.beginnings)})'
        levels = rf"(?:{_any(wanted.severities)}),\w{{5}},"
        return re.compile(rf",(?:{levels}|{begun})".encode())

    def parse(self, record: bytes) -> LogMessage | None:
        """Read one row, of 23 columns or more."""
        try:
            [row] = csv.reader([record.decode(errors="replace")], strict=True)
            timestamp, pid, context = row[0], row[3], row[18]
            severity, sqlstate, message, detail, hint = row[11:16]
            unix_s(timestamp)
        except (csv.Error, ValueError, IndexError):
            return None
        if len(row) < 23 or severity not in _LEVELS:
            return None
        number = int(pid) if pid.isdecimal() else None
        return LogMessage(timestamp, severity, message, sqlstate, number, detail, hint, context)


# What servers write and collectors read, by the file's ending; the better one first.
FORMATS: dict[str, LogFormat] = {".json": JsonLog(), ".csv": CsvLog()}


def unix_s(timestamp: str) -> float:
    """The moment of "2026-11-21 11:06:37.775 UTC"; trailing digits and the zone, always UTC, may be left out.

    Raises:
        ValueError: it is none.
    """
    return datetime.fromisoformat(timestamp[:23]).replace(tzinfo=UTC).timestamp()


def _any(texts: Sequence[str]) -> str:
    # Nothing matches the empty negative look-ahead, as nothing is wanted.
    return "|".join(re.escape(text) for text in texts) or "(?!)"
