"""What did the server write to its log between two moments? Read once for all collectors of a trial.

The log reaches its file through a pipe and a process of its own, so the two moments are marked in the
log itself, by a line of LOG level that the collectors' session asks for. A mark that does not arrive
shows that the log cannot be trusted to be complete; silence alone would not.

Nothing is read within the window. After it the log is read in pieces, and each wanted message is
handed to the collectors that asked for it, which keep what they need of it: the log itself is never kept.
"""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import CounterCollector, attempt
from pgdrag.model.recordings import Event
from pgdrag.servers.log_formats import LogFormat, LogMessage, Wanted, format_of, unix_s

_MARK_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 20.0
_POLL_S = 0.02
_PIECE_BYTES = 2**20
_MOST_EVENTS = 100  # of one kind in one trial; more are merged into groups

# RAISE takes its text from a setting, since DO takes no parameters.
_SET_MARK = "SELECT set_config('pgdrag.mark', %s, false)"
_WRITE_MARK = """
DO $$BEGIN RAISE LOG 'pgdrag has read the log up to here: %', current_setting('pgdrag.mark'); END$$
"""
_SETTINGS = """
SELECT current_setting('lc_messages'), current_setting('log_timezone'),
       current_setting('log_line_prefix'), current_setting('log_error_verbosity')
"""
_ENGLISH = ("", "c", "posix", "en")


@dataclass(frozen=True)
class LogLine:
    """A message and its moment; `unix_s` is None when its time, or its time zone, is unknown here."""

    unix_s: float | None
    message: str
    severity: str = "LOG"
    sqlstate: str = ""
    pid: int | None = None


@dataclass(frozen=True)
class LogReading:
    """What reading the log showed.

    Attributes:
        warning: a sentence to add to a detail when lines may be missing; else "".
        counts: messages of all kinds by their moment, to a hundredth of a second.
    """

    warning: str = ""
    counts: Sequence[tuple[float | None, int]] = ()

    def messages_within(self, window: Window) -> int:
        """How many messages were written in the window."""
        # The first hundredth of a second may have begun before the window did.
        start_s = int(window.started_unix_s * 100) / 100
        return sum(
            count
            for moment, count in self.counts
            if moment is None or start_s <= moment <= window.finished_unix_s
        )


def is_within(unix_s: float | None, window: Window) -> bool:
    """Whether a moment lies in the window; one that is not known is taken to."""
    return unix_s is None or window.started_unix_s <= unix_s <= window.finished_unix_s


class LogReader:
    """Marks the log's present end when made, and reads from there on, once.

    Raises:
        Unseen: there is no log that can be read here, it lacks LOG messages, or is not in English.
    """

    def __init__(self, observer: Observer) -> None:
        [(language, zone, prefix, verbosity)] = observer.query(_SETTINGS)
        self._zone = _time_zone(language, zone)
        self._prefix, self._is_verbose = prefix, verbosity == "verbose"
        self._offsets = {path: _size(path) for path in _files(observer)}
        if not self._offsets:
            raise Unseen(f'there is no log to be read in "{observer.cluster.log_directory}"')
        self._readers: list[LogCollector] = []
        self._reading: LogReading | Unseen | None = None
        mark = _write_mark(observer)
        if not self._stream(observer, mark, _MARK_TIMEOUT_S, _Sink(Wanted())):
            raise Unseen("a test line did not reach the server's log (log_min_messages?)")

    def add(self, collector: LogCollector) -> None:
        """Hand the messages that this collector wants to its `take` when the log is read."""
        assert self._reading is None, "the log has been read already"
        self._readers.append(collector)

    @property
    def is_done(self) -> bool:
        """Whether the log has been read."""
        return self._reading is not None

    def read(self, observer: Observer) -> LogReading:
        """Read the log since the mark, the first time that one of the collectors asks.

        A server that no longer answers leaves a log without a second mark: it is read as it stands.

        Raises:
            Unseen: the log cannot be read.
        """
        if self._reading is None:
            self._reading = attempt(lambda: self._read(observer))
        if isinstance(self._reading, Unseen):
            raise self._reading
        return self._reading

    def _read(self, observer: Observer) -> LogReading:
        warning = ""
        try:
            mark = _write_mark(observer)
        except Unseen as unseen:
            mark, warning = b"", f" The log was read as it stood, since {unseen.reason}."
        wanted = Wanted()
        for reader in self._readers:
            wanted |= reader.wanted
        sink = _Sink(wanted, observer.backend_pid, self._zone, self._readers)
        if not self._stream(observer, mark, _READ_TIMEOUT_S, sink):
            warning = f" Its end was not found within {_READ_TIMEOUT_S:g} s: lines may be missing."
        return LogReading(warning, tuple(sink.counts()))

    def _stream(self, observer: Observer, mark: bytes, timeout_s: float, sink: _Sink) -> bool:
        """Give `sink` all since the last call up to the mark, which is waited for; was it there?

        Without a mark, all up to the present end. The time is for waiting: what is there is read
        however long that takes.
        """
        deadline: float | None = None
        while True:
            for path in _files(observer):
                if self._stream_file(path, mark, sink):
                    return True
            if not mark:
                return True
            if deadline is None:
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)

    def _stream_file(self, path: Path, mark: bytes, sink: _Sink) -> bool:
        """Give `sink` the whole records up to the mark, or to the file's present end."""
        form = format_of(path, line_prefix=self._prefix, is_verbose=self._is_verbose)
        sink.look_for(form)
        for piece, records in self._pieces(path, form, mark):
            has_mark = bool(mark) and mark in piece
            end = _index_of(mark, records) if has_mark else len(records)
            sink.take(form, piece, records[:end])
            self._offsets[path] += sum(len(record) for record in records[: end + 1])
            if end < len(records):
                return True
        return False

    def _pieces(
        self, path: Path, form: LogFormat, mark: bytes
    ) -> Iterator[tuple[bytes, list[bytes]]]:
        """The file from where it was left, in pieces, with the whole records of each."""
        try:
            with path.open("rb") as file:
                present_end = file.seek(0, 2)
                size = _PIECE_BYTES
                while (offset := self._offsets.setdefault(path, 0)) < present_end:
                    file.seek(offset)
                    piece = file.read(min(size, present_end - offset))
                    is_end = offset + len(piece) >= present_end and (not mark or mark in piece)
                    if records := form.records(piece, is_end=is_end):
                        yield piece, records
                        size = _PIECE_BYTES
                    elif len(piece) < size:
                        return  # a record without its end is left for the next call
                    else:
                        size *= 2  # one record is larger than a piece
        except OSError as error:
            raise Unseen(f'the log "{path.name}" cannot be read: {error.strerror}') from error


@dataclass
class _Sink:
    """Where records go: counted, and the wanted ones to their collectors."""

    wanted: Wanted
    own_pid: int | None = None
    zone: tzinfo | None = None
    collectors: Sequence[LogCollector] = ()
    _stamps: Counter[bytes] = field(default_factory=Counter)

    def look_for(self, form: LogFormat) -> None:
        self._finder = form.finder(self.wanted)

    def take(self, form: LogFormat, piece: bytes, records: Sequence[bytes]) -> None:
        if not self.collectors:
            return
        self._stamps.update(form.stamps(records))
        # Most of a flood has nothing of interest, and is looked through at once.
        if not self._finder.search(piece):
            return
        for record in filter(self._finder.search, records):
            message = form.parse(record)
            # What the collectors' own session was refused is no error of the workload's.
            if message and (message.pid is None or message.pid != self.own_pid):
                self._hand_out(message)

    def _hand_out(self, message: LogMessage) -> None:
        line = LogLine(
            unix_s(message.timestamp, self.zone),
            message.message,
            message.severity,
            message.sqlstate,
            message.pid,
        )
        for collector in self.collectors:
            if collector.wanted.has(message):
                collector.take(line)

    def counts(self) -> Iterator[tuple[float | None, int]]:
        for stamp, count in self._stamps.items():
            yield unix_s(stamp.decode(errors="replace"), self.zone), count


class LogCollector(CounterCollector):
    """A collector of log messages, with the server's counters beside them, or in their place.

    Attributes:
        wanted: the messages that `take` is given.
        reading: of the log since the first mark, or why there is none.
    """

    wanted: ClassVar[Wanted]

    def __init__(self) -> None:
        super().__init__()
        self._reader: LogReader | Unseen = NO_READING
        self.reading: LogReading | Unseen = NO_READING

    @abstractmethod
    def take(self, line: LogLine) -> None:
        """Keep what is needed of a wanted message; there may be a million of them."""

    def before(self, observer: Observer) -> None:
        """Mark the log and read the counters."""
        self._reader = _reader_of(observer)
        if isinstance(self._reader, LogReader):
            self._reader.add(self)
        super().before(observer)

    def seconds(self, window: Window) -> float:
        """Return the seconds that the log covers, or the time between the counters' readings."""
        return self.observed_s if isinstance(self.reading, Unseen) else window.length_s

    def afterwards(self, observer: Observer) -> None:
        """Read the log since the mark: in a flood that takes a second, which no other reading must see."""
        reader = self._reader
        if isinstance(reader, Unseen):
            self.reading = reader
        else:
            self.reading = attempt(lambda: reader.read(observer))


def in_groups(events: Iterable[Event], window: Window) -> tuple[Event, ...]:
    """Events of one kind; where they are too many, groups of those that began within the same stretch.

    A group has the first one's text, and tells how many there were.
    """
    stretch_s = max(window.length_s / _MOST_EVENTS, 1e-3)
    each: list[Event] = []
    groups: dict[int, Event] = {}
    for event in events:
        if len(each) <= _MOST_EVENTS:
            each.append(event)
        stretch = int(event.start_s // stretch_s)
        groups[stretch] = _together(groups[stretch], event) if stretch in groups else event
    found = each if len(each) <= _MOST_EVENTS else list(groups.values())
    return tuple(sorted(found, key=lambda event: event.start_s))


def _together(group: Event, event: Event) -> Event:
    def end_s(one: Event) -> float:
        return one.start_s if one.end_s is None else one.end_s

    return replace(
        group,
        start_s=min(group.start_s, event.start_s),
        end_s=max(end_s(group), end_s(event)),
        count=group.count + event.count,
    )


def _reader_of(observer: Observer) -> LogReader | Unseen:
    """The reader that the observer's collectors share, or why there is none; it is tried once."""
    shared = observer.log
    if shared is None or (isinstance(shared, LogReader) and shared.is_done):
        shared = observer.log = attempt(lambda: LogReader(observer))
    return shared


def _index_of(mark: bytes, records: Sequence[bytes]) -> int:
    found = (index for index, record in enumerate(records) if mark in record)
    return next(found, len(records))


def _write_mark(observer: Observer) -> bytes:
    mark = secrets.token_hex(16)
    observer.query(_SET_MARK, mark)
    observer.query(_WRITE_MARK)
    return mark.encode()


def _files(observer: Observer) -> list[Path]:
    try:
        return observer.cluster.log_files()
    except OSError as error:
        raise Unseen(f"the log cannot be read: {error.strerror}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Unseen(f'the log "{path.name}" cannot be read: {error.strerror}') from error


def _time_zone(language: str, zone: str) -> tzinfo | None:
    if language.partition("_")[0].partition(".")[0].lower() not in _ENGLISH:
        raise Unseen(f"the server's log is not in English (lc_messages is {language})")
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC if zone in ("GMT", "UTC") else None
