"""What did the server write to its log between two moments? Read once for all collectors of a trial.

On a throw-away cluster the log reaches its file through a pipe and a process of its own, so the two moments are marked in the
log itself, by a line of LOG level that the collectors' session asks for. A mark that does not arrive
shows that the log cannot be trusted to be complete; silence alone would not. On another server nothing is
written: the log is read as it stands.

Nothing is read within the window. After it the log is read in pieces, and each wanted message is
handed to the collectors that asked for it, which keep what they need of it: the log itself is never kept.
"""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pgdrag.collectors import Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors.counters import CounterCollector
from pgdrag.host.clock import CLOCK
from pgdrag.host.foreign_files import foreign_bytes, opened_foreign
from pgdrag.host.process_alive import wait_until
from pgdrag.model.recordings import Event
from pgdrag.servers.log_formats import FORMATS, LogMessage, Wanted, unix_s

_MARK_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 20.0
_PIECE_BYTES = 2**20
_LONGEST_RECORD_BYTES = 2**28
_MOST_EVENTS = 100  # of one kind in one trial; more are merged into groups

# RAISE takes its text from a setting, since DO takes no parameters.
_SET_MARK = "SELECT set_config('pgdrag.mark', %s, false)"
_WRITE_MARK = """
DO $$BEGIN RAISE LOG 'pgdrag has read the log up to here: %', current_setting('pgdrag.mark'); END$$
"""
_SETTINGS = "SELECT current_setting('lc_messages'), current_setting('log_timezone')"
_ENGLISH = ("", "c", "posix", "en")
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal", "UCT", "Etc/UCT")


@dataclass(frozen=True)
class LogReading:
    """What reading the log showed.

    Attributes:
        warning: a sentence to add to a detail when lines may be missing; else "".
        counts: messages of all kinds by their moment, to a hundredth of a second.
    """

    warning: str = ""
    counts: Sequence[tuple[float, int]] = ()

    def messages_within(self, window: Window) -> int:
        """How many messages were written in the window."""
        # The first hundredth of a second may have begun before the window did.
        start_s = int(window.started_unix_s * 100) / 100
        within = (n for at, n in self.counts if start_s <= at <= window.finished_unix_s)
        return sum(within)


def is_within(unix_s: float, window: Window) -> bool:
    """Whether a moment lies in the window."""
    return window.started_unix_s <= unix_s <= window.finished_unix_s


class LogReader:
    """Marks the log's present end when made, and reads from there on, once.

    Raises:
        Unseen: there is no log that can be read here, it lacks LOG messages, or is not in English.
    """

    def __init__(self, observer: Observer) -> None:
        [(language, zone)] = observer.query(_SETTINGS)
        if language.partition("_")[0].partition(".")[0].lower() not in _ENGLISH:
            raise Unseen(f"the server's log is not in English (lc_messages is {language})")
        if zone not in _UTC:
            raise Unseen(f"the times in the server's log are not in UTC (log_timezone is {zone})")
        files = observer.cluster.log_files()
        if not files:
            raise Unseen(f'there is no log to be read in "{observer.cluster.log_directory}"')
        self._path = files[0]  # the server neither rotates nor renames it
        self._format = FORMATS[self._path.suffix]
        self._offset = foreign_bytes(self._path)
        self._collectors: list[LogCollector] = []
        self._stamps: Counter[bytes] = Counter()
        self._reading: LogReading | Unseen | None = None
        self._is_marked = observer.cluster.is_throw_away
        if self._is_marked and not self._stream(_write_mark(observer), _MARK_TIMEOUT_S):
            raise Unseen("a test line did not reach the server's log (log_min_messages?)")
        self._stamps.clear()

    def add(self, collector: LogCollector) -> None:
        """Hand the messages that this collector wants to its `take` when the log is read."""
        assert self._reading is None, "the log has been read already"
        self._collectors.append(collector)

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
        return known(self._reading)

    def _read(self, observer: Observer) -> LogReading:
        warning = ""
        try:
            mark = _write_mark(observer) if self._is_marked else b""
        except Unseen as unseen:
            mark, warning = b"", f" The log was read as it stood, since {unseen.reason}."
        if not self._stream(mark, _READ_TIMEOUT_S, own_pid=observer.backend_pid):
            warning = f" Its end was not found within {_READ_TIMEOUT_S:g} s: lines may be missing."
        return LogReading(warning, tuple(self._counts()))

    def _counts(self) -> Iterator[tuple[float, int]]:
        for stamp, count in self._stamps.items():
            try:
                yield CLOCK.of_wall(unix_s(stamp.decode())), count
            except ValueError:  # of a torn record
                continue

    def _stream(self, mark: bytes, timeout_s: float, *, own_pid: int | None = None) -> bool:
        """Hand out all since the last call up to the mark, which is waited for; was it there?

        Without a mark, all up to the present end. The time is for waiting: what is there is read
        however long that takes.
        """
        wanted = Wanted()
        for collector in self._collectors:
            wanted |= collector.wanted
        finder = self._format.finder(wanted)

        def to_end() -> bool:
            return self._stream_to_end(mark, finder, own_pid)

        return to_end() or not mark or wait_until(to_end, timeout_s)

    def _stream_to_end(self, mark: bytes, finder: re.Pattern[bytes], own_pid: int | None) -> bool:
        """Hand out the whole records up to the mark, or to the file's present end; was the mark there?"""
        for piece, records in self._pieces():
            end = len(records)
            if mark and mark in piece:
                end = next((at for at, record in enumerate(records) if mark in record), end)
            self._stamps.update(record[self._format.stamp] for record in records[:end])
            # Most of a flood has nothing of interest, and is looked through at once.
            if finder.search(piece):
                for record in filter(finder.search, records[:end]):
                    self._hand_out(self._format.parse(record), own_pid)
            self._offset += sum(len(record) for record in records[: end + 1])
            if end < len(records):
                return True
        return False

    def _hand_out(self, message: LogMessage | None, own_pid: int | None) -> None:
        # An error of the collectors' own session is not the workload's.
        if message is not None and (message.pid is None or message.pid != own_pid):
            # The server's clock is the machine's, which may have been set since.
            if correction_s := CLOCK.correction_s(message.unix_s):
                message = replace(message, correction_s=correction_s)
            for collector in self._collectors:
                if collector.wanted.has(message):
                    collector.take(message)

    def _pieces(self) -> Iterator[tuple[bytes, list[bytes]]]:
        """The file from where it was left, in pieces, with the whole records of each."""
        try:
            with opened_foreign(self._path) as file:
                present_end = file.seek(0, 2)
                size = _PIECE_BYTES
                while self._offset < present_end:
                    file.seek(self._offset)
                    piece = file.read(min(size, present_end - self._offset))
                    if records := self._format.records(piece):
                        yield piece, records
                        size = _PIECE_BYTES
                    elif len(piece) < size:
                        return  # a record without its end is left for the next call
                    elif size >= _LONGEST_RECORD_BYTES:
                        raise Unseen(f'a message of "{self._path.name}" is too long to be read')
                    else:
                        size *= 2  # one record is larger than a piece
        except OSError as error:
            raise Unseen(f'the log "{self._path.name}" cannot be read: {error.strerror}') from error


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
    def take(self, message: LogMessage) -> None:
        """Keep what is needed of a wanted message; there may be a million of them."""

    def before(self, observer: Observer) -> None:
        """Mark the log, once for all collectors, and read the counters."""
        shared = observer.log
        if shared is None or (isinstance(shared, LogReader) and shared.is_done):
            shared = observer.log = attempt(lambda: LogReader(observer))
        self._reader = shared
        if isinstance(shared, LogReader):
            shared.add(self)
        super().before(observer)

    def seconds(self, window: Window) -> float:
        """Return the seconds that the log covers, or the time between the counters' readings."""
        return self.observed_s if isinstance(self.reading, Unseen) else window.length_s

    def afterwards(self, observer: Observer) -> None:
        """Read the log since the mark: in a flood that takes a second, which no other reading must see."""
        self.reading = attempt(lambda: known(self._reader).read(observer))


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
    ends = [one.start_s if one.end_s is None else one.end_s for one in (group, event)]
    return replace(
        group,
        start_s=min(group.start_s, event.start_s),
        end_s=max(ends),
        count=group.count + event.count,
    )


def _write_mark(observer: Observer) -> bytes:
    mark = secrets.token_hex(16)
    observer.query(_SET_MARK, mark)
    observer.query(_WRITE_MARK)
    return mark.encode()
