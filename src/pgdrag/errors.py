"""Which errors can a user cause, and what message do they see?

All that pgdrag raises::

    PgdragError                    what a user can cause or fix; shown without a traceback
    ├── UsageError                 an invalid option or argument
    ├── FileError                  a file has invalid content: names file, line and key
    │   ├── ConfError              a postgresql.conf, or another file of settings
    │   ├── HoldsError             a captured distribution of holds
    │   ├── ObservationsError      a file of observations: foreign, damaged, newer, or in use
    │   ├── TwinError              a file that is no twin, is torn, or is newer
    │   └── ExperimentError        an experiment file
    ├── LogError                   a server's log that cannot be read, or that nothing can be taken from
    ├── SettingError               a server setting's name, value, unit or bounds
    ├── ServerError                PostgreSQL's programs are missing, or a cluster misbehaves
    │   ├── ServerDidNotStart      the server refused to start (also a trial's outcome)
    │   └── ServerLost             the server went away while in use
    ├── DriverError                the load driver is missing, failed, or broke its contract
    ├── JournalError               the journal is missing, locked, damaged or too new
    ├── PluginError                a package that extends pgdrag cannot be loaded
    ├── StorageError               the disk is full or cannot be written
    │   ├── ScratchDeviceError     a treatment's own device failed (also a trial's outcome)
    │   └── DatasetDamaged         files of a dataset are missing or torn (also a trial's outcome)
    └── Interrupted                Ctrl-C or SIGTERM; what was measured is kept

Bugs in pgdrag are failed assertions, not members of this tree; a command ends with EXIT_INTERNAL then.
Messages follow PostgreSQL's style: one line, lower case, no full stop; detail and hint are sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# docs/reference/command-line.md says what they mean; 70 is EX_SOFTWARE of sysexits.h, and from 128 on they
# are what a shell says of a program that a signal ended.
EXIT_DONE = 0
EXIT_FAILED_CHECK = 1
EXIT_MISUSE = 2
EXIT_INCONCLUSIVE = 3
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_STATUSES = {
    EXIT_DONE: "done",
    EXIT_FAILED_CHECK: "a check or comparison failed",
    EXIT_MISUSE: "misuse or error",
    EXIT_INCONCLUSIVE: "a required verdict was inconclusive",
    EXIT_INTERNAL: "a bug in pgdrag",
    EXIT_INTERRUPTED: "interrupted",
    EXIT_BROKEN_PIPE: "the reader of its output has gone",
}


class PgdragError(Exception):
    """An error that a user can fix.

    Attributes:
        message: what failed, with the values; one line.
        detail: sentences with further facts, or None.
        hint: sentences on what to do, or None.
        exit_status: of the command.
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
    """An invalid option or argument."""


class FileError(PgdragError):
    """A file has invalid content; the message names the file and, if known, line and key."""

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
    """A postgresql.conf, or settings in another format, that cannot be read; or text that the server refuses."""


class HoldsError(FileError):
    """A file that is not a distribution of holds as `pgdrag capture horizon` writes it."""


class ObservationsError(FileError):
    """A file of `pgdrag observe` that is foreign, damaged, newer or in use, or cannot be kept where it is wanted."""


class TwinError(FileError):
    """A file that is not a twin as `pgdrag capture twin` writes it, is torn, or is newer than this pgdrag."""


class ExperimentError(FileError):
    """An experiment file that cannot be run."""


class LogError(PgdragError):
    """A server's log that cannot be read, has no format of PostgreSQL's, or that nothing can be taken from."""


class SettingError(PgdragError):
    """A server setting whose name, value, unit or bounds the server would refuse."""


class ServerError(PgdragError):
    """PostgreSQL's programs are missing, or a cluster misbehaves."""


class ServerDidNotStart(ServerError):
    """The server refused to start; `detail` has the end of its log."""


class ServerLost(ServerError):
    """The server went away while in use; `detail` has the end of its log."""


class DriverError(PgdragError):
    """The load driver is missing, failed, or broke its contract.

    Attributes:
        sqlstate: the driver's code for the error, or None if the driver died.
        phase: what it was doing: "connect", "run"; None where it did not say.
    """

    # The driver's own codes for a protocol violation and for an unexpected dataset. (A run stopped by
    # a signal is not an error, so 57014 is a timeout on the server.)
    _DRIVERS_OWN = frozenset({"08P01", "02000"})

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        phase: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.sqlstate = sqlstate
        self.phase = phase

    @property
    def is_servers(self) -> bool:
        """Whether the server refused the driver or did not answer, and the driver worked."""
        return self.sqlstate is not None and self.sqlstate not in self._DRIVERS_OWN


class JournalError(PgdragError):
    """The journal is missing, locked, damaged or from a newer pgdrag."""


class PluginError(PgdragError):
    """A package that extends pgdrag cannot be loaded."""


class StorageError(PgdragError):
    """The disk is full or cannot be written.

    Attributes:
        path: the file or directory, if known.
        is_full: no space is left.
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
    """The scratch device of a treatment cannot be created, is full, read-only or gone."""


class DatasetDamaged(StorageError):
    """Files of a dataset's snapshot, or of a copy of it, are missing or torn.

    Attributes:
        key: the snapshot's.
    """

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class Interrupted(PgdragError):
    """Ctrl-C or SIGTERM: what was measured is kept, and the hint says how to continue."""

    exit_status = EXIT_INTERRUPTED
