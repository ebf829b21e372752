"""What does one message of the server's log say? One parser for each of the three formats it is written in.

A format cuts bytes into records, one a message, and reads a record. Cutting is cheap, since a log
may have gigabytes; reading is for the few records that somebody wants, which `finder` finds before.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import ClassVar

LOG = "LOG"
_LEVELS = ("DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", LOG, "FATAL", "PANIC")
# A message may have a whole statement of the client in it; the module's own limit is 128 kB.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True)
class LogMessage:
    """One message of the server.

    Attributes:
        timestamp: as written, with the time zone's abbreviation; "" where the log has none.
        severity: "LOG", "ERROR" …
        sqlstate: "" where the log has none.
        pid: None where the log does not say whose it is.
    """

    timestamp: str
    severity: str
    message: str
    sqlstate: str = ""
    pid: int | None = None
    detail: str = ""
    hint: str = ""
    context: str = ""


@dataclass(frozen=True)
class Wanted:
    """Which messages somebody wants.

    Attributes:
        severities: every message of these levels.
        beginnings: of messages of level LOG; plain ASCII without quotes.
    """

    severities: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()

    def has(self, message: LogMessage) -> bool:
        """Whether this is such a message."""
        return message.severity in self.severities or (
            message.severity == LOG and message.message.startswith(self.beginnings)
        )

    def __or__(self, other: Wanted) -> Wanted:
        return Wanted(self.severities + other.severities, self.beginnings + other.beginnings)


class LogFormat(ABC):
    """How messages stand in a file."""

    @abstractmethod
    def records(self, buffer: bytes, *, is_end: bool) -> list[bytes]:
        """The whole records at the start of `buffer`; together they are its first bytes.

        Args:
            buffer: from the beginning of a record.
            is_end: nothing will follow, so that a record whose end only the next one shows is whole.
        """

    @abstractmethod
    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """What is found in each record of a wanted message, and in few others."""

    @abstractmethod
    def stamps(self, records: Sequence[bytes]) -> Iterable[bytes]:
        """The times of records to a hundredth of a second at most; b"" where one has none."""

    @abstractmethod
    def parse(self, record: bytes) -> LogMessage | None:
        """Read a record; None: it is torn, or no message of its own."""


class JsonLog(LogFormat):
    """jsonlog, since PostgreSQL 15: each message is one line."""

    def records(self, buffer: bytes, *, is_end: bool) -> list[bytes]:
        """Return the whole lines."""
        return _lines(buffer)

    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """Return a pattern of keys with their values: within a text their quotes are escaped."""
        # One literal beginning for all, which the regular expression engine looks for by itself.
        begun = rf'{LOG}",(?:"state_code":"\w+",)?"message":"(?:{_any(wanted.beginnings)})'
        levels = rf'(?:{_any(wanted.severities)})"'
        return re.compile(rf'"error_severity":"(?:{levels}|{begun})'.encode())

    def stamps(self, records: Sequence[bytes]) -> Iterable[bytes]:
        """Return them from where they always stand: behind {"timestamp":" ."""
        return [record[14:36] for record in records]

    def parse(self, record: bytes) -> LogMessage | None:
        """Read one object."""
        try:
            found = json.loads(record.decode(errors="replace"))
            timestamp, severity = found["timestamp"], found["error_severity"]
        except (ValueError, KeyError, TypeError):  # torn by a crash of the server
            return None

        def text(key: str) -> str:
            return str(found.get(key, ""))

        pid = found.get("pid")
        return LogMessage(
            timestamp=str(timestamp),
            severity=str(severity),
            message=text("message"),
            sqlstate=text("state_code"),
            pid=pid if isinstance(pid, int) else None,
            detail=text("detail"),
            hint=text("hint"),
            context=text("context"),
        )


_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_QUOTED = r'(?:"(?:[^"\n]|"")*")?'


class CsvLog(LogFormat):
    """csvlog: fields within quotes may hold line ends, and their own quotes are doubled."""

    # The columns up to the message, and this in quotes: within a field they would all be doubled.
    _START = re.compile(
        (
            rf"{_MOMENT}\.\d{{3}} [^,\n]*,{_QUOTED},{_QUOTED},\d*,{_QUOTED},[0-9a-f.]*,\d*,{_QUOTED},"
            rf"{_MOMENT} [^,\n]*,[^,\n]*,\d*,(?:{'|'.join(_LEVELS)}),\w{{5}},"
            r'"(?:[^"\n]|"")*(?:",|\n)'
        ).encode()
    )
    _COLUMNS: ClassVar[dict[str, int]] = {
        "timestamp": 0,
        "pid": 3,
        "severity": 11,
        "sqlstate": 12,
        "message": 13,
        "detail": 14,
        "hint": 15,
        "context": 18,
    }

    def records(self, buffer: bytes, *, is_end: bool) -> list[bytes]:
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

    def stamps(self, records: Sequence[bytes]) -> Iterable[bytes]:
        """Return the beginnings."""
        return [record[:22] for record in records]

    def parse(self, record: bytes) -> LogMessage | None:
        """Read one row, of 23 columns or more."""
        try:
            [row] = csv.reader([record.decode(errors="replace")], strict=True)
        except (csv.Error, ValueError):
            return None
        if len(row) < 23 or row[self._COLUMNS["severity"]] not in _LEVELS:
            return None
        texts = {name: row[column] for name, column in self._COLUMNS.items()}
        pid = texts.pop("pid")
        return LogMessage(**texts, pid=int(pid) if pid.isdecimal() else None)


# What log_line_prefix can hold (PostgreSQL 14 to 18), where something is known of its form.
_ESCAPES = {
    "m": rf"(?P<time>{_MOMENT}\.\d{{3}} \S+)",
    "t": rf"(?P<time>{_MOMENT} \S+)",
    "n": r"(?P<time>\d+\.\d{3})",
    "p": r"(?P<pid>\d+)",
    "e": r"(?P<sqlstate>\w{5})",
    "s": rf"{_MOMENT} \S+",
    "P": r"\d*",
    "l": r"\d+",
    "x": r"\d+",
    "Q": r"-?\d+",
    "c": r"[0-9a-f]+\.[0-9a-f]+",
}
_ANYTHING = r"[^\n]*?"
_ESCAPE = re.compile(r"%(?P<pad>-?\d+)?(?P<letter>.)", re.DOTALL)


class StderrLog(LogFormat):
    """The plain log, as log_line_prefix forms it; line ends within a message are followed by a tab."""

    def __init__(self, line_prefix: str, *, is_verbose: bool = False) -> None:
        """Compile the prefix.

        Args:
            line_prefix: the setting log_line_prefix.
            is_verbose: log_error_verbosity is verbose: the SQLSTATE stands before each message.
        """
        state = r"(?:(?P<state>\w{5}): )?" if is_verbose else ""
        self._state = r"(?:\w{5}: )?" if is_verbose else ""
        self._record = re.compile(
            rf"{_prefix_pattern(line_prefix)}(?P<severity>{'|'.join(_LEVELS)}):  {state}(?P<message>.*)\n?",
            re.DOTALL,
        )

    def records(self, buffer: bytes, *, is_end: bool) -> list[bytes]:
        """Return lines, each with those behind it that begin with a tab.

        Whether the last is whole only the next one shows, or the end.
        """
        found: list[bytes] = []
        for line in _lines(buffer):
            if found and line.startswith(b"\t"):
                found[-1] += line
            else:
                found.append(line)
        begun = buffer[buffer.rfind(b"\n") + 1 :]
        is_whole = not begun.startswith(b"\t") if begun else is_end
        return found if is_whole else found[:-1]

    def finder(self, wanted: Wanted) -> re.Pattern[bytes]:
        """Return a pattern of the level and what follows it."""
        begun = rf"{LOG}:  {self._state}(?:{_any(wanted.beginnings)})"
        levels = rf"(?:{_any(wanted.severities)}):  "
        return re.compile(rf"{levels}|{begun}".encode())

    def stamps(self, records: Sequence[bytes]) -> Iterable[bytes]:
        """Return the times, to the second where the prefix has no more."""
        if "time" not in self._record.groupindex:
            return [b""] * len(records)
        return [self._stamp(record) for record in records]

    def _stamp(self, record: bytes) -> bytes:
        found = self._record.match(record.decode(errors="replace"))
        moment = (found["time"] or "") if found else ""
        return _without_zone(moment)[:22].encode()

    def parse(self, record: bytes) -> LogMessage | None:
        """Read one message; its detail, hint and so on are records of their own, and none of them is one."""
        found = self._record.match(record.decode(errors="replace").replace("\n\t", "\n"))
        if not found:
            return None
        parts = found.groupdict()
        message = parts["message"].removesuffix("\n")
        return LogMessage(
            timestamp=parts.get("time") or "",
            severity=parts["severity"],
            message=message,
            sqlstate=parts.get("sqlstate") or parts.get("state") or "",
            pid=int(parts["pid"]) if parts.get("pid") else None,
        )


def format_of(path: Path, *, line_prefix: str = "", is_verbose: bool = False) -> LogFormat:
    """The format of a log file, by its name, as the logging collector names them."""
    if path.suffix == ".json":
        return JsonLog()
    if path.suffix == ".csv":
        return CsvLog()
    return StderrLog(line_prefix, is_verbose=is_verbose)


def unix_s(timestamp: str, zone: tzinfo | None) -> float | None:
    """The moment of "2026-11-21 11:06:37.775 UTC", whose abbreviation is ambiguous: `zone` decides.

    The zone may be left out, and so may trailing digits. "1795262797.775" (%n) needs none.
    """
    try:
        if timestamp[4:5] != "-":
            return float(timestamp)
        if zone is None:
            return None
        return datetime.fromisoformat(_without_zone(timestamp)).replace(tzinfo=zone).timestamp()
    except ValueError:
        return None


def _without_zone(timestamp: str) -> str:
    return " ".join(timestamp.split(" ")[:2])


def _lines(buffer: bytes) -> list[bytes]:
    """The whole lines of `buffer`, with their ends."""
    parts = buffer.split(b"\n")
    return [part + b"\n" for part in parts[:-1]]


def _any(texts: Sequence[str]) -> str:
    # Nothing matches the empty negative look-ahead, as nothing is wanted.
    return "|".join(re.escape(text) for text in texts) or "(?!)"


def _prefix_pattern(prefix: str) -> str:
    """A regular expression for what the server makes of log_line_prefix; "%q" ends it for some processes."""
    pattern, position, named, optional = "", 0, set[str](), 0
    for found in _ESCAPE.finditer(prefix):
        pattern += re.escape(prefix[position : found.start()])
        position = found.end()
        letter = found["letter"]
        if letter == "q":
            pattern += "(?:"
            optional += 1
        elif letter == "%":
            pattern += "%"
        else:
            escape = _ESCAPES.get(letter, _ANYTHING)
            group = re.match(r"\(\?P<(\w+)>", escape)
            if group and group[1] in named:  # a name may stand but once
                escape = _ANYTHING
            named |= {group[1]} if group else set()
            pattern += rf" *{escape} *" if found["pad"] else escape
    return pattern + re.escape(prefix[position:]) + ")?" * optional
