"""What does a log show? Its files are read once; the transactions of a database become shapes."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import LiteralString

from pgdrag.capture.log.columns import ParameterColumns
from pgdrag.capture.log.files import LogFile, LogMoments
from pgdrag.capture.log.formats import Entry, LogFormat, StderrLog, prefix_mistake, recognised
from pgdrag.capture.log.sessions import Sessions
from pgdrag.capture.log.shapes import SameColumn, Shapes
from pgdrag.capture.log.texts import KnownStatement, SeenStatement, StatementTexts
from pgdrag.capture.log.values import ValueAccount, kind_of
from pgdrag.capture.names import Key
from pgdrag.capture.statements import OWN
from pgdrag.collectors import Observer
from pgdrag.english import counted, listed
from pgdrag.errors import LogError
from pgdrag.twins.transactions import (
    LoggedSessions,
    LoggedStatement,
    LoggedTransactions,
    Parameter,
    equal_places,
)
from pgdrag.units import significant

_LONGEST_MESSAGE = 1 << 26
_PAST_END_S = 60.0
_MOST_STRETCHES = 900
_MOST_CUT = 0.05
_LEAST_CONSTANT = 5  # calls in which a constant was always the same
_BETTER_FIRST = ("csvlog", "jsonlog", "stderr")
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?")
_SEVERITY = re.compile(rb"\b(?:LOG|PANIC|FATAL|ERROR|WARNING|NOTICE|INFO|STATEMENT|DETAIL|HINT|CONTEXT):  ")  # fmt: skip
_ENGLISH = ("", "c", "posix", "en")
_SETTINGS: LiteralString = (
    "SELECT name, reset_val FROM pg_settings WHERE name LIKE 'log\\_%%' OR name = 'lc_messages'"
)


@dataclass(frozen=True)
class LogProgress:
    """Progress of reading.

    Attributes:
        done, total: bytes.
    """

    done: int
    total: int
    elapsed_s: float


Listener = Callable[[LogProgress], None]


@dataclass
class _Source:
    file: LogFile
    format: LogFormat
    first: bytes


@dataclass
class LogReader:
    """Reads logs.

    Attributes:
        known: the statements of pg_stat_statements.
        database: of which the messages are taken, where the log tells.
        settings: of the server, as pg_settings has them; empty: unknown.
        moments: from when to when; None: all.
    """

    known: Sequence[KnownStatement]
    database: str
    settings: Mapping[str, str] = field(default_factory=dict)
    moments: LogMoments | None = None
    listen: Listener = lambda _: None

    def __post_init__(self) -> None:
        self._texts = StatementTexts(self.known)
        self._messages = 0
        self._first_s, self._last_s = math.inf, -math.inf
        self._notes: list[str] = []

    def read(self, files: Iterable[LogFile]) -> LogAccount:
        """Read files, one after the other.

        Raises:
            LogError: one cannot be read, has no format of PostgreSQL's, or there is no statement in them.
        """
        sources = self._of_one_format(
            [_Source(x, *_opened(x, self.settings)) for x in files if x.head()]
        )
        if not sources:
            raise LogError("the log is empty", hint=_HINT)
        shapes = Shapes(has_pauses=all(x.format.has_milliseconds for x in sources))
        sessions = Sessions(self._texts, shapes.add, own=_is_own)
        begun_s = time.monotonic()
        done_before = 0
        for source in sources:
            for entries, done in _entries(source):
                total = max(done_before + sum(x.file.size for x in sources), 1)
                self.listen(LogProgress(done_before + done, total, time.monotonic() - begun_s))
                if not self._take(entries, sessions):
                    break
            done_before += source.file.size
            source.file.size = 0
        sessions.end()
        self._notes += [x.file.warning for x in sources if x.file.warning]
        skipped = sum(x.skipped for x in {id(x.format): x.format for x in sources}.values())
        if skipped:
            self._notes.append(f"{counted(skipped, 'line')} of the log {'is' if skipped == 1 else 'are'} no message of the server.")  # fmt: skip
        if not self._messages:
            raise LogError(
                "the log has no statements" if self.moments is None else "the log has no statements of the window",
                detail=" ".join(self._notes) or None,
                hint=_HINT,
            )  # fmt: skip
        return LogAccount(
            sources[0].format, shapes, sessions, self.known, self.settings, self._messages, self._first_s, self._last_s, self._notes,
        )  # fmt: skip

    def _of_one_format(self, sources: list[_Source]) -> list[_Source]:
        """Return those of the format that tells the most: a server may write the same messages in several."""
        names = {x.format.name for x in sources}
        best = next((x for x in _BETTER_FIRST if x in names), None)
        left_out = dict.fromkeys(x.format.name for x in sources if x.format.name != best)
        if left_out:
            self._notes.append(f"What the log has in {listed(tuple(left_out))} was not read: {best} tells more.")  # fmt: skip
        return sorted((x for x in sources if x.format.name == best), key=lambda x: x.first)

    def _take(self, entries: Sequence[Entry], sessions: Sessions) -> bool:
        """Take those of the database and the window; is there more to come?"""
        begin_s, end_s = -math.inf, math.inf
        if self.moments is not None:
            begin_s, end_s = self.moments.begin_s, self.moments.end_s
        read, database = sessions.read, self.database
        taken = 0
        for entry in entries:
            if begin_s <= entry.at_s <= end_s and (not entry.database or entry.database == database):  # fmt: skip
                if not taken:
                    self._first_s = min(self._first_s, entry.at_s)
                taken += 1
                last_s = entry.at_s
                read(entry)
        if taken:
            self._last_s = max(self._last_s, last_s)
            self._messages += taken
        return not entries or entries[-1].at_s <= end_s + _PAST_END_S


@dataclass
class LogAccount:
    """What was read of a log.

    Attributes:
        messages: how many, of the database and the window.
        first_s, last_s: when the first and the last one were written.
        notes: sentences on what could not be read, or is missing.
    """

    format: LogFormat
    shapes: Shapes
    sessions: Sessions
    known: Sequence[KnownStatement]
    settings: Mapping[str, str]
    messages: int
    first_s: float
    last_s: float
    notes: list[str]

    def transactions(self, columns: ParameterColumns | None = None) -> LoggedTransactions:
        """Return the shapes of the transactions, and what the log tells of their statements.

        Args:
            columns: what tells more of the values of parameters whose column is known.
        """
        found, other, other_s = self.shapes.found(self._numbers, _same_column(columns))
        every_s, rate = self._rate(self.shapes.begun)
        is_complete = self._note_what_is_missing()
        rates = self.settings.get("log_transaction_sample_rate", "0")
        sampled = float(rates) if 0 < float(rates) < 1 and self.settings.get("log_min_duration_statement") == "-1" else None  # fmt: skip
        return LoggedTransactions(
            self.format.name,
            significant(max(self.last_s - self.first_s, 0.0)),
            self.messages,
            self.shapes.transactions,
            sampled_share=sampled,
            is_complete=is_complete,
            statements=tuple(
                _statement(x, number, columns) for number, x in sorted(self._statements.items())
            ),
            shapes=found,
            other_transactions=other,
            other_s=significant(max(other_s, 0.0)),
            cut_transactions=self.sessions.cut,
            sessions=LoggedSessions(
                self.sessions.sessions,
                self.sessions.transactions.spread(),
                self.sessions.at_once.spread(),
            ),
            prepared_share=significant(
                self.sessions.named / max(self.sessions.named + self.sessions.unnamed, 1)
            ),
            errors=dict(self.sessions.errors.most_common(50)),
            rate_every_s=every_s,
            rate=rate,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def equal_columns(self, columns: ParameterColumns) -> Iterator[tuple[Key, Key]]:
        """Yield columns that parameters belong to which are always equal, and have many values."""
        shapes = self.shapes.found(self._numbers, _same_column(columns))[0]
        for pair in equal_places(shapes, lambda number, n: self._statements[number].values[n].distinct):  # fmt: skip
            one, other = (columns.key(_text_of(self._statements[x.statement]), x.parameter) for x in pair)  # fmt: skip
            if one is not None and other is not None:
                yield one, other

    @cached_property
    def _statements(self) -> dict[int, SeenStatement]:
        """Those that are kept, by their number in the file."""
        following = itertools.count(max((x.number for x in self.known), default=0) + 1)
        return {
            next(following) if x.known is None else x.known.number: x
            for x in self.shapes.kept_statements()
        }

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """Their numbers in the file, by those of this reading."""
        return {x.number: number for number, x in self._statements.items()}

    def _rate(self, begun: Counter[int]) -> tuple[float, tuple[int, ...]]:
        if not begun:
            return 1.0, ()
        first = min(begun)
        seconds = max(begun) - first + 1
        every = -(-seconds // _MOST_STRETCHES)
        stretches = [0] * -(-seconds // every)
        for second, count in begun.items():
            stretches[(second - first) // every] += count
        return float(every), tuple(stretches)

    def _note_what_is_missing(self) -> bool:
        """Note which settings would tell more; does the log have all statements of its transactions?"""
        note, log, sessions = self.notes.append, self.format, self.sessions
        setting = self.settings.get
        if sessions.untimed > sessions.timed:
            note("Most statements have no duration: set log_min_duration_statement = 0, or log_duration = on.")  # fmt: skip
        if not log.has_milliseconds:
            note("Times are whole seconds, so that there are no pauses: write %m instead of %t in log_line_prefix.")  # fmt: skip
        if isinstance(log, StderrLog) and not log.tells("d"):
            note("The log does not tell databases apart: add %d to log_line_prefix if the server has several that are in use.")  # fmt: skip
        if isinstance(log, StderrLog) and not log.tells("v"):
            note("Statements without BEGIN are taken for transactions of their own: %v in log_line_prefix tells.")  # fmt: skip
        if setting("log_parameter_max_length", "-1") not in ("-1",):
            note("Values of parameters are missing or cut short: set log_parameter_max_length = -1.")  # fmt: skip
        least, sample = setting("log_min_duration_statement"), setting("log_statement_sample_rate", "1")  # fmt: skip
        is_single = setting("log_min_duration_sample", "-1") != "-1" and least != "0" and float(sample) < 1  # fmt: skip
        is_long = least not in (None, "0", "-1") and setting("log_statement") != "all" and setting("log_duration") != "on"  # fmt: skip
        if is_single or is_long:
            note("Only some statements were logged, long ones or single ones by lot: for whole transactions set log_min_duration_statement = 0, or log_transaction_sample_rate above 0 and the others to -1.")  # fmt: skip
            return False
        # Of each session one may have begun before the log, and one end after it.
        cut = sessions.cut - 2 * sessions.sessions
        if cut > _MOST_CUT * (sessions.whole_blocks + cut):
            note("Many transactions have no beginning or no end in the log: statements are missing.")  # fmt: skip
            return False
        return True


_HINT = "Set log_min_duration_statement = 0 for some minutes, see docs/how-to/twin.md."


def log_settings(observer: Observer) -> dict[str, str]:
    """Return the server's logging settings that this role may see; pgdrag's own session has others.

    Raises:
        Unseen: the server refused or did not answer.
    """
    return {str(name): str(setting) for name, setting in observer.query(_SETTINGS.replace("%%", "%"))}  # fmt: skip


def refuse_other_files(files: Iterable[LogFile]) -> None:
    """Refuse files that are not logs with any log_line_prefix; an empty file is accepted, since it may become one.

    Raises:
        LogError: one is none, or cannot be read.
    """
    for file in files:
        head = file.head()
        if head and (b"\0" in head or _SEVERITY.search(head) is None):
            _opened(file, {})


def check_logs(files: Iterable[LogFile], settings: Mapping[str, str]) -> None:
    """Refuse what cannot be read, before it is waited for; what is empty so far may have a beginning later.

    Raises:
        LogError: it has no format of PostgreSQL's, or cannot be read.
    """
    language = settings.get("lc_messages", "")
    if language.partition("_")[0].partition(".")[0].lower() not in _ENGLISH:
        raise LogError(
            f"the server's log is not in English: lc_messages is {language}",
            hint="Set lc_messages = 'C' while statements are logged.",
        )
    prefix = settings.get("log_line_prefix", "")
    for file in files:
        if file.head():
            _opened(file, settings)
        elif settings.get("log_destination") == "stderr" and (mistake := prefix_mistake(prefix)):
            raise LogError(f'log_line_prefix "{prefix}" will not do: {mistake}', hint=_PREFIX)


_PREFIX = (
    "For instance: ALTER SYSTEM SET log_line_prefix = '%m [%p] %q%v %Q %u@%d '; or write csvlog."
)


def check_statements_are_logged(settings: Mapping[str, str]) -> None:
    """Refuse to wait for a log in which there will be no statements.

    Raises:
        LogError: the server logs none.
    """
    least, sample = settings.get("log_min_duration_statement"), settings.get("log_min_duration_sample")  # fmt: skip
    is_silent = least == "-1" and sample == "-1" and settings.get("log_statement") != "all"
    if is_silent and float(settings.get("log_transaction_sample_rate", "0")) == 0:
        raise LogError(
            "the server does not log statements: log_min_duration_statement is -1",
            hint="ALTER SYSTEM SET log_min_duration_statement = 0; SELECT pg_reload_conf(); and reset it afterwards. Of an older log all is read with --whole-log.",
        )


def _opened(file: LogFile, settings: Mapping[str, str]) -> tuple[LogFormat, bytes]:
    """Return a file's format, and its first time."""
    head = file.head()
    prefix = settings.get("log_line_prefix", "")
    found = recognised(head.decode(errors="replace") + "\n", [prefix] if prefix else [])
    stamp = _STAMP.search(head)
    if found is not None:
        return found, stamp[0] if stamp else b""
    mistake = prefix_mistake(prefix) if prefix else ""
    if b"\0" in head:
        raise LogError(f'"{file.name}" is no log of PostgreSQL: it is binary')
    if mistake and b"LOG:  " in head:
        raise LogError(f'cannot read "{file.name}": log_line_prefix is "{prefix}", and {mistake}', hint=_PREFIX)  # fmt: skip
    raise LogError(
        f'"{file.name}" is no log of PostgreSQL that pgdrag reads',
        detail="It is neither csvlog, nor jsonlog, nor lines with a log_line_prefix that has a time and %p or %c, in English.",
        hint=_PREFIX,
    )


def _entries(source: _Source) -> Iterator[tuple[list[Entry], int]]:
    """Yield messages piece by piece, each time with how much has been read."""
    log, rest, tail = source.format, b"", ""
    wanted = done = 0
    for piece, done in source.file.pieces():
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if cut < wanted and len(rest) < _LONGEST_MESSAGE:
            continue
        text = tail + _text(rest[:cut])
        rest = rest[cut:]
        entries, used = log.entries(text)
        yield entries, done
        tail = text[used:]
        # One message may be longer than a piece: twice as much next time.
        wanted = len(tail)
        if len(tail) + len(rest) > _LONGEST_MESSAGE:
            log.skipped += 1
            tail, rest, wanted = "", b"", 0
    entries, _ = log.entries(tail + _text(rest) + "\n", is_last=True)
    yield entries, done


def _text(content: bytes) -> str:
    text = content.decode(errors="replace")
    return text.replace("\r\n", "\n") if "\r" in text else text


def _is_own(entry: Entry) -> bool:
    return entry.application.startswith("pgdrag ") or any(x in entry.message for x in OWN)


def _same_column(columns: ParameterColumns | None) -> SameColumn:
    def are_same(left: SeenStatement, one: int, right: SeenStatement, other: int) -> bool:
        return columns is not None and columns.are_one(_text_of(left), one, _text_of(right), other)

    return are_same


def _text_of(one: SeenStatement) -> str:
    return one.known.text if one.known is not None else one.text


def _statement(one: SeenStatement, number: int, columns: ParameterColumns | None) -> LoggedStatement:  # fmt: skip
    types = one.known.types if one.known is not None else ()
    parameters = tuple(
        _parameter(one, at, account, types[at - 1] if at <= len(types) else "", columns)
        for at, account in sorted(one.values.items())
    )
    return LoggedStatement(number, one.calls, parameters, one.text)


def _parameter(one: SeenStatement, number: int, account: ValueAccount, type_: str, columns: ParameterColumns | None) -> Parameter:  # fmt: skip
    kind = kind_of(type_, account.sample)
    column = columns.of(_text_of(one), number) if columns is not None else None
    common = column.common(account) if column is not None else ()
    is_constant = account.distinct == 1 and account.given >= _LEAST_CONSTANT and number not in one.sent  # fmt: skip
    if not common and kind == "number" and (column is None or is_constant):
        common = account.small_numbers()
    return Parameter(
        number,
        kind,
        account.seen,
        significant(account.nulls / account.seen),
        account.distinct,
        account.top_shares,
        account.ascending_share,
        lengths=one.lists[number].spread() if number in one.lists else account.lengths(kind),
        common=common,
        positions=column.positions(account.sample) if column is not None else (),
        ages=account.ages,
        is_constant=is_constant and not account.nulls and bool(common),
        is_sent=number in one.sent,
    )
