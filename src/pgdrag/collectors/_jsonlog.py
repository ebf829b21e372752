"""What did the server write to its log between two moments?

The log reaches its file through a pipe and a process of its own, so the two moments are marked in the
log itself, by a line of LOG level that the collectors' session asks for. A mark that does not arrive
shows that the log cannot be trusted to be complete; silence alone would not.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._counters import CounterCollector, attempt

_MARK_TIMEOUT_S = 3.0
_READ_TIMEOUT_S = 20.0
_POLL_S = 0.02

# RAISE takes its text from a setting, since DO takes no parameters.
_SET_MARK = "SELECT set_config('pgdrag.mark', %s, false)"
_WRITE_MARK = """
DO $$BEGIN RAISE LOG 'pgdrag has read the log up to here: %', current_setting('pgdrag.mark'); END$$
"""
_LANGUAGE = "SELECT current_setting('lc_messages'), current_setting('log_timezone')"
_ENGLISH = ("", "c", "posix", "en")


@dataclass(frozen=True)
class LogLine:
    """One message of the server; `unix_s` is None when its time zone is unknown here."""

    unix_s: float | None
    message: str


@dataclass(frozen=True)
class LogExcerpt:
    """The wanted lines between the two marks.

    Attributes:
        lines: oldest first.
        doubt: a sentence to add to a detail when lines may be missing; else "".
    """

    lines: tuple[LogLine, ...]
    doubt: str = ""

    def within(self, window: Window) -> tuple[LogLine, ...]:
        """The lines of the window itself; those without a time are taken to be."""
        return tuple(
            line
            for line in self.lines
            if line.unix_s is None or window.started_unix_s <= line.unix_s <= window.finished_unix_s
        )


class LogReader:
    """Marks the log's present end when made, and reads from there on.

    Raises:
        Unseen: there is no jsonlog, it lacks LOG messages, or is not in English.
    """

    def __init__(self, observer: Observer) -> None:
        self._directory = observer.cluster.log_directory
        self._zone = _time_zone(observer)
        self._sizes = {path: _size(path) for path in _files(observer)}
        if not self._sizes:
            raise Unseen(f'there is no log in JSON in "{self._directory}"')
        mark = _write_mark(observer)
        lines = self._raw_lines(observer, mark, _MARK_TIMEOUT_S)
        if not [line for line in lines if mark in line]:
            raise Unseen("a test line did not reach the server's log (log_min_messages?)")

    def read(self, observer: Observer, wanted: Sequence[str]) -> LogExcerpt:
        """Return the lines since then that contain one of the wanted texts.

        A server that no longer answers leaves a log without a second mark: it is read as it stands.

        Raises:
            Unseen: the log cannot be read.
        """
        needles = [text.encode() for text in wanted]
        doubt = ""
        try:
            mark = _write_mark(observer)
        except Unseen as unseen:
            mark, doubt = b"", f" The log was read as it stood, since {unseen.reason}."
        lines: list[LogLine] = []
        has_mark = not mark
        for raw in self._raw_lines(observer, mark, _READ_TIMEOUT_S):
            if mark and mark in raw:
                has_mark = True
            elif any(needle in raw for needle in needles):
                lines.extend(self._parse(raw))
        if not has_mark:
            doubt = f" Its end was not found within {_READ_TIMEOUT_S:g} s: lines may be missing."
        return LogExcerpt(tuple(lines), doubt)

    def _raw_lines(self, observer: Observer, mark: bytes, timeout_s: float) -> Iterator[bytes]:
        """The whole lines since the last call, up to and with the mark, which is waited for.

        Without a mark, up to the present end; a line without its end is left for the next call.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            for path in _files(observer):
                with closing(self._new_lines(path)) as lines:
                    for raw in lines:
                        yield raw
                        if (mark and mark in raw) or time.monotonic() > deadline:
                            return
            if not mark or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    def _new_lines(self, path: Path) -> Generator[bytes, None, None]:
        offset = self._sizes.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        return
                    offset += len(raw)
                    yield raw
        except OSError as error:
            raise Unseen(f'the log "{path.name}" cannot be read: {error.strerror}') from error
        finally:
            # Also when the reader has its mark and stops in the middle.
            self._sizes[path] = offset

    def _parse(self, raw: bytes) -> Iterator[LogLine]:
        try:
            line = json.loads(raw)
        except ValueError:  # torn by a crash of the server
            return
        message = line.get("message") if isinstance(line, dict) else None
        if isinstance(message, str):
            yield LogLine(_unix_s(line.get("timestamp"), self._zone), message)


class LogCollector(CounterCollector):
    """A collector of log lines, with the server's counters beside them, or in their place.

    Attributes:
        wanted: texts of which a line of interest contains at least one.
    """

    wanted: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self._reader: LogReader | Unseen = Unseen("no reading was taken")
        self.excerpt: LogExcerpt | Unseen = Unseen("no reading was taken")

    def before(self, observer: Observer) -> None:
        """Read the counters and mark the log."""
        super().before(observer)
        self._reader = attempt(lambda: LogReader(observer))

    def after(self, observer: Observer) -> None:
        """Read the counters again, and the log since the first mark."""
        super().after(observer)
        reader = self._reader
        if isinstance(reader, Unseen):
            self.excerpt = reader
        else:
            self.excerpt = attempt(lambda: reader.read(observer, self.wanted))


def _write_mark(observer: Observer) -> bytes:
    mark = secrets.token_hex(16)
    observer.query(_SET_MARK, mark)
    observer.query(_WRITE_MARK)
    return mark.encode()


def _files(observer: Observer) -> list[Path]:
    try:
        return observer.cluster.jsonlog_files()
    except OSError as error:
        raise Unseen(f"the log cannot be read: {error.strerror}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Unseen(f'the log "{path.name}" cannot be read: {error.strerror}') from error


def _time_zone(observer: Observer) -> tzinfo | None:
    [(language, zone)] = observer.query(_LANGUAGE)
    if language.partition("_")[0].partition(".")[0].lower() not in _ENGLISH:
        raise Unseen(f"the server's log is not in English (lc_messages is {language})")
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC if zone in ("GMT", "UTC") else None


def _unix_s(timestamp: object, zone: tzinfo | None) -> float | None:
    """The moment of "2026-11-21 11:06:37.775 UTC", whose abbreviation is ambiguous: zone decides."""
    if zone is None or not isinstance(timestamp, str):
        return None
    try:
        local = datetime.strptime(timestamp.rpartition(" ")[0], "%Y-%m-%d %H:%M:%S.%f")
    except ValueError:
        return None
    return local.replace(tzinfo=zone).timestamp()
