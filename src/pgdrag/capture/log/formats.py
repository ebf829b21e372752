"""What are the messages of a server's log? Three formats, as servers of PostgreSQL 14 to 18 write them.

A format reads a text that begins anywhere and ends with a line. What is no message (lines of other programs, records that
a crash tore) is left out and counted.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal, NamedTuple

FormatName = Literal["csvlog", "jsonlog", "stderr"]

LOG = "LOG"
ERRORS = frozenset({"ERROR", "FATAL", "PANIC"})
_LEVELS = r"DEBUG[1-5]?|INFO|NOTICE|WARNING|ERROR|LOG|FATAL|PANIC"
# Of level LOG these beginnings are of use; parsing and binding are of none.
_WANTED = r"duration: [\d.]+ ms(?!  (?:parse|bind|fastpath) )|statement: |execute "
_is_wanted = re.compile(_WANTED).match


class Entry(NamedTuple):
    """A message of the log.

    Attributes:
        at_s: when it was written, in seconds; as if the log's time zone were UTC.
        session: what sets the session apart from others in this log.
        user, database, application: "" where the log does not tell.
        transaction: the virtual transaction's number in its session; "" where there was none, None where the log does
            not tell.
        statement: that an error is of.
        query_id: 0 where the log does not tell.
    """

    at_s: float
    session: str
    user: str
    database: str
    application: str
    transaction: str | None
    severity: str
    sqlstate: str
    message: str
    detail: str
    statement: str
    query_id: int


class LogFormat(ABC):
    """The format of messages in a text.

    Attributes:
        name: as log_destination has it.
        has_milliseconds: its times have them.
        skipped: lines that were no messages.
    """

    name: ClassVar[FormatName]
    has_milliseconds = True

    def __init__(self) -> None:
        self.skipped = 0
        self._second = ""
        self._second_s = 0.0

    @abstractmethod
    def entries(self, text: str, *, is_last: bool = False) -> tuple[list[Entry], int]:
        """Return the messages of use, and where what follows the last whole one begins.

        Args:
            text: whole lines.
            is_last: nothing follows.
        """

    @abstractmethod
    def messages_of(self, text: str) -> int:
        """Return how many messages of this format a text has."""

    def _at_s(self, stamp: str) -> float | None:
        """Return the time of "2026-11-21 11:06:37.775", usually in the same second as the one before; None if invalid."""
        if stamp[:19] != self._second:
            try:
                moment = datetime.fromisoformat(stamp[:19])
            except ValueError:
                return None
            self._second = stamp[:19]
            self._second_s = moment.replace(tzinfo=UTC).timestamp()
        return self._second_s + (int(stamp[20:23]) / 1000 if len(stamp) > 19 else 0.0)

    def _skip(self, text: str) -> None:
        self.skipped += text.count("\n") if text.strip() else 0


_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_TEXT = r'(?:"([^"]*(?:""[^"]*)*)")?'
_OTHER = r'(?:"[^"]*(?:""[^"]*)*")?'


class CsvLog(LogFormat):
    """csvlog: 23 columns, since PostgreSQL 13 up to 26."""

    name = "csvlog"
    _RECORD = re.compile(
        rf'^({_MOMENT}\.\d{{3}}) [^,\n"]*,{_TEXT},{_TEXT},(\d*),{_OTHER},([0-9a-f.]*),\d*,{_OTHER},[^,\n"]*,([^,\n"]*),\d*,'
        rf"({_LEVELS}),(\w{{5}}),{_TEXT},{_TEXT},{_OTHER},{_OTHER},\d*,{_OTHER},{_TEXT},\d*,{_OTHER},{_TEXT}"
        rf"(?:,{_OTHER}(?:,\d*(?:,(-?\d+)?)?)?)?\r?\n",
        re.MULTILINE,
    )

    def messages_of(self, text: str) -> int:
        """Count rows."""
        return sum(1 for _ in self._RECORD.finditer(text))

    def entries(self, text: str, *, is_last: bool = False) -> tuple[list[Entry], int]:
        """Return the rows."""
        found = []
        end = 0
        for match in self._RECORD.finditer(text):
            if match.start() > end:
                self._skip(text[end : match.start()])
            end = match.end()
            message = match[9] or ""
            if not _is_useful(match[7], message):
                continue
            stamp, user, database, pid, session, virtual, severity, sqlstate, _, detail, query, application, query_id = match.groups()  # fmt: skip
            at_s = self._at_s(stamp)
            if at_s is None:
                self.skipped += 1
                continue
            found.append(
                Entry(
                    at_s, session or pid, _undoubled(user), _undoubled(database),
                    _undoubled(application), _local(virtual), severity, sqlstate, _undoubled(message),
                    _undoubled(detail), _undoubled(query), int(query_id or 0),
                )
            )  # fmt: skip
        return found, end


def _is_useful(severity: str, message: str) -> bool:
    return _is_wanted(message) is not None if severity == LOG else severity in ERRORS


def _undoubled(text: str | None) -> str:
    return text.replace('""', '"') if text and '"' in text else text or ""


def _local(virtual: str) -> str:
    """Return the local part of "3/1234": "" where no transaction runs."""
    number = virtual.rpartition("/")[2]
    return "" if number == "0" else number


_KEYS = ("session_id", "pid", "user", "dbname", "application_name", "vxid", "error_severity", "state_code", "message", "detail", "statement")  # fmt: skip


class JsonLog(LogFormat):
    """jsonlog, since PostgreSQL 15: each message is one line."""

    name = "jsonlog"
    _USEFUL = re.compile(rf'"error_severity":"(?:ERROR|FATAL|PANIC)"|"message":"(?:{_WANTED})')

    def messages_of(self, text: str) -> int:
        """Count lines that begin as an object of the log."""
        return len(re.findall(r'^\{"timestamp":"', text, re.MULTILINE))

    def entries(self, text: str, *, is_last: bool = False) -> tuple[list[Entry], int]:
        """Return the objects."""
        found = []
        for line in text.split("\n"):
            if not line.startswith("{"):
                self.skipped += bool(line.strip())
            elif self._USEFUL.search(line):
                entry = self._entry(line)
                self.skipped += entry is None
                if entry is not None:
                    found.append(entry)
        return found, len(text)

    def _entry(self, line: str) -> Entry | None:
        try:
            found = json.loads(line)
            at_s = self._at_s(found["timestamp"][:23])
            texts = [str(found.get(key, "")) for key in _KEYS]
            session, pid, user, database, application, virtual, *rest = texts
            query_id = int(str(found.get("query_id", 0)))
        except (
            ValueError,
            TypeError,
            LookupError,
            RecursionError,
        ):  # torn by a crash of the server
            return None
        if at_s is None:
            return None
        severity, sqlstate, message, detail, statement = rest
        return Entry(
            at_s, session or pid, user, database, application, _local(virtual), severity, sqlstate, message, detail,
            statement, query_id,
        )  # fmt: skip


# What the letters of log_line_prefix become; those that are of use have a name.
_ESCAPES = {
    "a": "(?P<a>.*?)", "u": "(?P<u>.*?)", "d": "(?P<d>.*?)", "r": ".*?", "h": ".*?", "L": ".*?", "b": ".*?",
    "p": r"(?P<p>\d+)", "P": r"\d*", "t": rf"(?P<t>{_MOMENT}) [\w:+-]+", "m": rf"(?P<m>{_MOMENT}\.\d{{3}}) [\w:+-]+",
    "n": r"(?P<n>\d+\.\d{3})", "i": ".*?", "e": r"(?P<e>\w{5})", "c": r"(?P<c>[0-9a-f]+\.[0-9a-f]+)", "l": r"\d+",
    "s": rf"{_MOMENT} [\w:+-]+", "v": r"(?P<v>\d*(?:/\d+)?)", "x": r"\d*", "Q": r"(?P<Q>(?:-?\d+)?)", "q": "", "%": "%",
}  # fmt: skip
_ESCAPE = re.compile(r"%(-?\d*)(.)", re.DOTALL)
_FURTHER = frozenset({"DETAIL", "HINT", "STATEMENT", "CONTEXT", "QUERY", "LOCATION", "BACKTRACE"})
_PARTS = "|".join(sorted(_FURTHER))
# Of services and of tools' documentation, the more telling ones first.
_USUAL_PREFIXES = (
    "%m [%p] ",
    "%m [%p] %q%u@%d ",
    "%m [%p] %q%u@%d/%a ",
    "%t [%p]: user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m [%p]: [%l-1] db=%d,user=%u ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%t-%c-",
    "%m %c ",
    "%t [%p] ",
    "%t [%p]: ",
    "%m [%p]: ",
    "%n [%p] ",
    "%m %p ",
    "%t %p ",
    "[%m] [%p] ",
    "[%p] %m ",
    "%p %m ",
)


class StderrLog(LogFormat):
    """Lines with a log_line_prefix; further lines of a message begin with a tab."""

    name = "stderr"

    def __init__(self, prefix: str) -> None:
        """Read a prefix.

        Raises:
            ValueError: it lacks the time or the process; with a sentence.
        """
        super().__init__()
        pattern = prefix_pattern(prefix)
        self._line = re.compile(rf"^{pattern}({_LEVELS}|{_PARTS}):  ((?:.*)(?:\n\t.*)*)\n", re.MULTILINE)  # fmt: skip
        names = self._line.groupindex
        if not names.keys() & {"m", "t", "n"}:
            raise ValueError("it has no time: %m")
        if not names.keys() & {"p", "c"}:
            raise ValueError("it does not tell sessions apart: %p or %c")
        self.has_milliseconds = not names.keys().isdisjoint({"m", "n"})
        self._level = len(names) + 1
        self._names = {name: names.get(name, 0) for name in "adeucpvQmtn"}

    def tells(self, letter: str) -> bool:
        """Whether the prefix has this part: `d` is the database."""
        return self._names[letter] > 0

    def messages_of(self, text: str) -> int:
        """Count lines with the prefix."""
        return sum(1 for _ in self._line.finditer(text))

    def entries(self, text: str, *, is_last: bool = False) -> tuple[list[Entry], int]:
        """Return the messages, each with its further parts; the last one may still get some."""
        found: list[Entry] = []
        entry: Entry | None = None
        end = begin = 0
        for match in self._line.finditer(text):
            if match.start() > end:
                self._skip(text[end : match.start()])
            end = match.end()
            level, words = match[self._level], match[self._level + 1]
            if "\n" in words:
                words = words.replace("\n\t", "\n")
            if level in _FURTHER:
                if entry is not None and level == "DETAIL":
                    entry = entry._replace(detail=words)
                elif entry is not None and level == "STATEMENT":
                    entry = entry._replace(statement=words)
                continue
            if entry is not None:
                found.append(entry)
            begin = match.start()
            entry = self._entry(match, level, words) if _is_useful(level, words) else None
        if not is_last:
            return found, begin
        if entry is not None:
            found.append(entry)
        return found, end

    def _entry(self, match: re.Match[str], level: str, words: str) -> Entry | None:
        names = self._names

        def part(name: str) -> str:
            at = names[name]
            return (match[at] or "") if at else ""

        stamp = part("m") or part("t")
        at_s = self._at_s(stamp) if stamp else float(part("n"))
        if at_s is None:
            self.skipped += 1
            return None
        return Entry(
            at_s, part("c") or part("p"), part("u"), part("d"),
            part("a"), _local(part("v")) if names["v"] else None, level, part("e"), words, "", "",
            int(part("Q") or 0),
        )  # fmt: skip


def prefix_mistake(prefix: str) -> str:
    """Return what a log_line_prefix lacks; "" if nothing."""
    try:
        StderrLog(prefix)
    except ValueError as error:
        return str(error)
    return ""


def prefix_pattern(prefix: str) -> str:
    """Return a regular expression for what a log_line_prefix makes; parts of use are named by their letter."""
    pieces: list[str] = []
    at = 0
    seen: set[str] = set()
    is_optional = False
    for match in _ESCAPE.finditer(prefix):
        pieces.append(re.escape(prefix[at : match.start()]))
        at = match.end()
        width, letter = match.groups()
        if letter == "q":
            pieces.append("(?:")
            is_optional = True
            continue
        pattern = _ESCAPES.get(letter, "")
        if letter in seen:
            pattern = pattern.replace(f"?P<{letter}>", "?:", 1)
        seen.add(letter)
        blanks = " *" if width else ""
        pieces.append(f"{'' if width.startswith('-') else blanks}{pattern}{blanks if width.startswith('-') else ''}")  # fmt: skip
    pieces.append(re.escape(prefix[at:]))
    return "".join(pieces) + (")?" if is_optional else "")


def recognised(text: str, prefixes: Sequence[str]) -> LogFormat | None:
    """Return the format that most lines of a log's beginning have; None: no format at all.

    Args:
        prefixes: values of log_line_prefix to try before the usual ones.
    """
    best: LogFormat | None = None
    most = 0
    for one in _candidates(prefixes):
        count = one.messages_of(text)
        if count > most:
            best, most = one, count
    return best


def _candidates(prefixes: Sequence[str]) -> Iterator[LogFormat]:
    yield CsvLog()
    yield JsonLog()
    for prefix in dict.fromkeys((*prefixes, *_USUAL_PREFIXES)):
        try:
            yield StderrLog(prefix)
        except (ValueError, re.error):
            continue
