"""Which log is read for a capture? What may be wrong with it is said before the window, and its part of the window after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

from pgdrag.capture.log.files import LocalLog, LogFile, LogMoments, server_log
from pgdrag.capture.log.reading import (
    Listener,
    LogAccount,
    LogReader,
    check_logs,
    check_statements_are_logged,
    log_settings,
    refuse_other_files,
)
from pgdrag.capture.log.texts import KnownStatement
from pgdrag.collectors import Observer
from pgdrag.errors import LogError

# As the log writes it: local time of its zone.
_NOW: LiteralString = "SELECT extract(epoch FROM clock_timestamp() AT TIME ZONE current_setting('log_timezone'))::float8, current_database()::text"

# A role may log, where the server does not.
_OF_ROLES: LiteralString = """
SELECT EXISTS (SELECT FROM pg_db_role_setting, unnest(setconfig) AS one
 WHERE one ~ '^log_(min_duration_(statement|sample)=[0-9]|statement=all|transaction_sample_rate=[0-9.]*[1-9])')
"""


@dataclass(frozen=True)
class LogRequest:
    """The log to read.

    Attributes:
        paths: files, or directories of them.
        is_servers: also the one that the server writes, by SQL.
        is_whole: all of it, and not only what is written in the window.
    """

    paths: tuple[Path, ...] = ()
    is_servers: bool = False
    is_whole: bool = False

    def refuse_other_files(self) -> None:
        """Refuse paths that lead to no log, before a server is asked for anything.

        Raises:
            LogError: there is one.
        """
        refuse_other_files(map(LocalLog, _files(self.paths)))


class LogSource:
    """The log of a server over a window, which begins when this is made."""

    def __init__(self, request: LogRequest, observer: Observer) -> None:
        """Look what is there.

        Raises:
            LogError: it cannot be read, or has no format of PostgreSQL's.
            Unseen: the server refused or did not answer.
        """
        self._request, self._observer = request, observer
        self._settings = log_settings(observer)
        self._servers = server_log(observer, is_whole=request.is_whole) if request.is_servers else None  # fmt: skip
        self._local = {path: LocalLog(path) for path in _files(request.paths)}
        check_logs([*self._local.values(), *([self._servers] if self._servers else [])], self._settings)  # fmt: skip
        if not request.is_whole:
            [(is_of_roles,)] = observer.query(_OF_ROLES)
            if not is_of_roles:
                check_statements_are_logged(self._settings)
            for file in self._local.values():
                file.skip_what_is_there()
        self._begin_s, self._database = self._now()
        self._end_s = self._begin_s

    def end_window(self) -> None:
        """Note that the window ends.

        Raises:
            Unseen: the server refused or did not answer.
        """
        self._end_s, _ = self._now()

    def read(self, known: Sequence[KnownStatement], listen: Listener) -> LogAccount:
        """Return what the log has of the window.

        Raises:
            LogError: it cannot be read, or has no statement.
        """
        files: list[LogFile] = []
        for path in _files(self._request.paths):  # there may be new ones
            files.append(self._local.get(path) or LocalLog(path))
        if self._servers is not None:
            files += [self._servers, *self._servers.rotated()]
        moments = None if self._request.is_whole else LogMoments(self._begin_s, self._end_s)
        reader = LogReader(known, self._database, self._settings, moments, listen)
        return reader.read(files)

    def _now(self) -> tuple[float, str]:
        [(at_s, database)] = self._observer.query(_NOW)
        return float(at_s), str(database)


def _files(paths: Iterable[Path]) -> list[Path]:
    """Return files, those of directories by name.

    Raises:
        LogError: a directory cannot be read, or has none.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        try:
            inner = sorted(x for x in path.iterdir() if x.is_file())
        except OSError as error:
            raise LogError(f'could not read the directory "{path}": {(error.strerror or "").lower()}') from None  # fmt: skip
        if not inner:
            raise LogError(f'the directory "{path}" has no log')
        found += inner
    return found
