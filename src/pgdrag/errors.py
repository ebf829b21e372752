"""Which mistakes can a person make, and what are they told?

The whole tree of what pgdrag raises::

    PgdragError                    what a person can cause or mend; shown without a traceback
    ├── UsageError                 an option or argument that cannot be
    ├── FileError                  a file's content is wrong: names file, line and key
    │   ├── ConfError              postgresql.conf syntax
    │   ├── HoldsError             a captured distribution of holds
    │   └── ExperimentError        an experiment file
    ├── SettingError               a server setting's name, value, unit or bounds
    ├── ServerError                PostgreSQL's programs are missing, or a cluster misbehaves
    │   ├── ServerDidNotStart      the server refused to start (a trial's outcome, too)
    │   └── ServerLost             the server went away while it was needed
    ├── DriverError                the load driver is missing, failed, or broke its contract
    ├── JournalError               the journal is missing, locked, damaged or too new
    ├── StorageError               the disk is full or cannot be written
    │   └── ScratchDeviceError     a treatment's own device is spoilt (a trial's outcome, too)
    └── Interrupted                Ctrl-C or SIGTERM; what was measured is kept

Mistakes of pgdrag itself are failed assertions, not members of this tree.
Messages follow PostgreSQL's style: one line, lower case, no full stop; detail and hint are sentences.
"""

from __future__ import annotations

from pathlib import Path

EXIT_DONE = 0
EXIT_FAILED_CHECK = 1
EXIT_MISUSE = 2
EXIT_INCONCLUSIVE = 3
EXIT_INTERRUPTED = 130


class PgdragError(Exception):
    """Something that a person can mend.

    Attributes:
        message: what failed, with the values; one line.
        detail: sentences with more of what is known, or None.
        hint: sentences that say what to do, or None.
        exit_status: what the command ends with.
    """

    exit_status = EXIT_MISUSE

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(PgdragError):
    """An option or argument that cannot be."""


class FileError(PgdragError):
    """A file's content is wrong; the message names the file and, where known, line and key."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message, detail=detail, hint=hint)
        self.path = path
        self.line = line


class ConfError(FileError):
    """Text that the server would not accept as postgresql.conf."""


class HoldsError(FileError):
    """A file that is no distribution of holds, as `pgdrag capture horizon` writes it."""


class ExperimentError(FileError):
    """An experiment file that cannot be run."""


class SettingError(PgdragError):
    """A server setting whose name, value, unit or bounds the server would refuse."""


class ServerError(PgdragError):
    """PostgreSQL's programs are missing, or a cluster misbehaves."""


class ServerDidNotStart(ServerError):
    """The server refused to start; `detail` carries the end of its log."""


class ServerLost(ServerError):
    """The server went away while it was needed; `detail` carries the end of its log."""


class DriverError(PgdragError):
    """The load driver is missing, failed, or broke its contract.

    Attributes:
        sqlstate: the code that the driver counts the error under, or None where it died.
    """

    # What the driver itself calls a breach of the protocol, and a dataset that is not as it should
    # be. (A run that a signal stops is no error, so 57014 is a time-out of the server's.)
    _DRIVERS_OWN = frozenset({"08P01", "02000"})

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.sqlstate = sqlstate

    @property
    def is_servers(self) -> bool:
        """The server refused the driver, or did not answer: the driver itself did its work."""
        return self.sqlstate is not None and self.sqlstate not in self._DRIVERS_OWN


class JournalError(PgdragError):
    """The journal is missing, locked, damaged or from a newer pgdrag."""


class StorageError(PgdragError):
    """The disk is full or cannot be written.

    Attributes:
        path: where it was tried, where that is known.
        is_full: it was for want of room.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        is_full: bool = False,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.path = path
        self.is_full = is_full


class ScratchDeviceError(StorageError):
    """The scratch device of a treatment cannot be made, is full, read-only or gone; others are not touched."""


class Interrupted(PgdragError):
    """Ctrl-C or SIGTERM: what was measured is kept, and the hint says how to go on."""

    exit_status = EXIT_INTERRUPTED
