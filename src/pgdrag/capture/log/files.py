"""Where are the pieces of a log? Files on this machine, also compressed ones, or files that the server gives by SQL."""

from __future__ import annotations

import gzip
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.errors import LogError
from pgdrag.host.foreign_files import opened_named

PIECE_BYTES = 1 << 20
_SERVER_PIECE_BYTES = 4 << 20
HEAD_BYTES = 1 << 18
_GZIP = b"\x1f\x8b"


class LogFile(ABC):
    """A file of a log.

    Attributes:
        name: as a message has it.
        size: bytes that are to be read, compressed ones as they are; known once `pieces` has begun.
        warning: what is wrong with it, in a sentence; "" if nothing.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self.warning = ""

    @abstractmethod
    def head(self) -> bytes:
        """Return its beginning; of what is to be read if there is that much.

        Raises:
            LogError: it cannot be read.
        """

    @abstractmethod
    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield its bytes in pieces, each with how much of `size` has been read.

        Raises:
            LogError: it cannot be read.
        """


class LocalLog(LogFile):
    """A file on this machine, whole or from where it now ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._begin = 0
        self._inode = 0

    def skip_what_is_there(self) -> None:
        """Read only what is written from now on; of a file that is replaced meanwhile all."""
        try:
            found = self.path.stat()
        except OSError:
            return
        self._begin, self._inode = found.st_size, found.st_ino

    def head(self) -> bytes:
        """Return its beginning."""
        try:
            with opened_named(self.path) as file:
                content = file.read(HEAD_BYTES)
        except OSError as error:
            raise _unreadable(self.name, error) from None
        if content.startswith(_GZIP):
            try:
                return zlib.decompressobj(wbits=31).decompress(content, HEAD_BYTES)
            except zlib.error as error:
                raise LogError(f'could not unpack "{self.name}": {error}') from None
        return content

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield its bytes, unpacked."""
        try:
            with opened_named(self.path) as file:
                found = os.fstat(file.fileno())
                is_packed = file.read(2) == _GZIP
                is_same = found.st_ino == self._inode and found.st_size >= self._begin
                begin = self._begin if is_same and not is_packed else 0
                self.size = found.st_size - begin
                file.seek(begin)
                if not is_packed:
                    # What is written while it is read is after the window.
                    while (done := file.tell() - begin) < self.size:
                        piece = file.read(min(PIECE_BYTES, self.size - done))
                        if not piece:
                            return
                        yield piece, done + len(piece)
                    return
                unpacked = gzip.GzipFile(fileobj=file)
                # Up to where it is torn, if it is.
                while piece := unpacked.read1(PIECE_BYTES):
                    yield piece, file.tell()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.warning = "A file of the log is torn or damaged: it was read up to there."
        except OSError as error:
            raise _unreadable(self.name, error) from None


def _unreadable(name: str, error: OSError) -> LogError:
    return LogError(f'could not read the log "{name}": {(error.strerror or str(error)).lower()}')


_SIZE: LiteralString = "SELECT size FROM pg_ls_logdir() WHERE name = %s"
_NEWER: LiteralString = """
SELECT name, size FROM pg_ls_logdir()
 WHERE name LIKE '%%' || %s AND modification >= (SELECT modification FROM pg_ls_logdir() WHERE name = %s) AND name <> %s
 ORDER BY modification, name
"""
_READ: LiteralString = "SELECT pg_read_binary_file(%s, %s, %s, true)"
_MAY: LiteralString = """
SELECT has_function_privilege('pg_read_binary_file(text, bigint, bigint, boolean)', 'EXECUTE'),
       has_function_privilege('pg_current_logfile(text)', 'EXECUTE'), has_function_privilege('pg_ls_logdir()', 'EXECUTE'),
       current_setting('logging_collector'), current_setting('log_destination')
"""
_GRANT = "GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO {role}"


class ServerLogFile(LogFile):
    """A file that the server reads; it has to be asked while the session is there."""

    def __init__(self, observer: Observer, path: str, begin: int = 0) -> None:
        super().__init__(path.rpartition("/")[2])
        self._observer, self._path, self._begin = observer, path, begin
        self._end = begin

    def head(self) -> bytes:
        """Return its beginning."""
        return self._read(0, HEAD_BYTES)

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """Yield its bytes up to its present end."""
        rows = self._asked(_SIZE, self.name)
        self.size = max(int(rows[0][0]) - self._begin, 0) if rows else 0
        done = 0
        while done < self.size:
            piece = self._read(self._begin + done, min(_SERVER_PIECE_BYTES, self.size - done))
            if not piece:
                return
            done += len(piece)
            yield piece, done

    def rotated(self) -> list[ServerLogFile]:
        """Return the files that the server has begun since."""
        directory, slash, _ = self._path.rpartition("/")
        suffix = "." + self.name.rpartition(".")[2]
        rows = self._asked(_NEWER, suffix, self.name, self.name)
        return [ServerLogFile(self._observer, f"{directory}{slash}{name}") for name, _ in rows]

    def _read(self, begin: int, length: int) -> bytes:
        [(content,)] = self._asked(_READ, self._path, begin, length, is_binary=True)
        return bytes(content or b"")

    def _asked(
        self, sql: LiteralString, *parameters: object, is_binary: bool = False
    ) -> list[tuple[Any, ...]]:
        rows = attempt(lambda: self._observer.query(sql, *parameters, is_binary=is_binary))
        if isinstance(rows, Unseen):
            raise LogError(f'could not read the log "{self.name}" of the server: {rows.reason}')
        return rows


def server_log(observer: Observer, *, is_whole: bool = False) -> ServerLogFile:
    """Return the file that the server writes to now, from its present end on or whole.

    Raises:
        LogError: it writes none, or this role may not read it.
    """
    rows = attempt(lambda: observer.query(_MAY))
    if isinstance(rows, Unseen):
        raise LogError(f"could not ask the server for its log: {rows.reason}")
    [(may_read, may_ask, may_list, collector, destination)] = rows
    if collector != "on":
        raise LogError(
            "the server keeps no log of its own",
            detail=f"logging_collector is {collector}: its messages go to what started it, or to syslog.",
            hint="Name the file that they end in: --log FILE",
        )
    if not (may_ask and may_list and may_read):
        need = ["GRANT pg_monitor TO {role}"] if not (may_ask and may_list) else []
        need += [_GRANT] if not may_read else []
        [(role,)] = observer.query("SELECT quote_ident(current_user)")
        raise LogError(
            "this role may not read the server's log",
            hint=f"{'; '.join(need).format(role=role)}. Or name a copy of the log: --log FILE",
        )
    for kind in ("csvlog", "jsonlog", "stderr"):
        if kind not in destination:
            continue
        [(path,)] = observer.query("SELECT pg_current_logfile(%s)", kind)
        if path is not None:
            [(size,)] = observer.query(_SIZE, path.rpartition("/")[2]) or [(0,)]
            return ServerLogFile(observer, path, 0 if is_whole else int(size))
    raise LogError(
        "the server keeps no log of its own", detail=f"log_destination is {destination}."
    )


@dataclass(frozen=True)
class LogMoments:
    """From when to when messages are taken, in seconds as if the log's time zone were UTC."""

    begin_s: float
    end_s: float
