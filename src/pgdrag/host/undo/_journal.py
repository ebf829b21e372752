"""The undo journal: who may change this host now, what was changed, and how it is undone."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import platformdirs

from pgdrag.english import capital, printable, without_controls
from pgdrag.errors import StorageError, UsageError
from pgdrag.host.foreign_files import opened_foreign, read_foreign
from pgdrag.host.guardian import guard
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.kernel_lock import KernelLock
from pgdrag.host.process_alive import lock_holder, open_lock, take_lock, take_over
from pgdrag.host.process_sight import uid_of
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.host.undo._change import Change, Contents, NotedChange, Owner, RestoreResult, line

UNDO_VARIABLE = "PGDRAG_UNDO"
DEFAULT_DIRECTORY = Path("/var/lib/pgdrag")
_FILE = "undo.jsonl"
_LOCK = "lock"

_opened: dict[Path, UndoJournal] = {}


class UndoJournal:
    """The changes to undo on this host, locked by one process at a time.

    `restore_all` also undoes the changes of dead processes, but not of live ones. `open` ensures that this
    process's own changes are undone when it ends.
    """

    def __init__(self, directory: Path, lock_fd: int) -> None:
        self.directory = directory
        self._lock_fd = lock_fd
        self._kernel: KernelLock | None = None
        self._owner = Owner.this_process()
        self._warnings: dict[int, str] = {}
        with _storage_errors("read", directory):
            self._fd = _open(self.path)
            with opened_foreign(self.path, owner=os.geteuid()) as file:
                found = Contents(file.read())
            self._steps = found.open_steps
            self._last_step = found.last_step
            self._unreadable = found.unreadable
            if found.unreadable:
                # Kept for a version that can read it; only an incomplete last line is removed.
                os.ftruncate(self._fd, found.valid_bytes)
                os.fsync(self._fd)
            else:
                self._shorten()

    @classmethod
    def open(cls, directory: Path | None = None) -> UndoJournal:
        """Return this host's journal, locked until this process ends; calling it again returns the same.

        Args:
            directory: default as of `undo_directory`; created if missing.

        Raises:
            UsageError: another pgdrag holds it.
            StorageError: it cannot be created, read or written, or others can write to it.
        """
        place = undo_directory(directory)
        known = _opened.get(place)
        if known is not None and known._owner.pid == os.getpid():
            return known
        with _storage_errors("make", place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            who = who_may_swap(place)
            if who is None and place.stat().st_uid != os.geteuid():
                who = f'directory "{place}" belongs to another user'
            if who is not None:
                # Through it others could make root write any file.
                raise StorageError(
                    f'others could replace the undo journal in "{place}"',
                    detail=f"{capital(who)}.",
                    hint=f"Set {UNDO_VARIABLE} to a directory that is yours alone, as are those above it.",
                )
            lock_fd = open_lock(place / _LOCK)
            is_locked = take_lock(lock_fd)
        if not is_locked:
            pid = lock_holder(lock_fd) or "unknown"
            os.close(lock_fd)
            raise _changed_by_another(f"process {pid}", f'It holds the undo journal in "{place}".')
        journal = _opened[place] = cls(place, lock_fd)
        atexit.register(journal._close_at_exit)
        return journal

    @classmethod
    def with_leftovers(cls, directory: Path | None = None) -> UndoJournal | None:
        """Return the journal if a dead process left changes in it; None if none, or if it is another user's.

        Creates no directory and takes no lock when there is nothing to do.

        Raises:
            StorageError: it cannot be read or written.
        """
        # Another user's journal is not ours to undo, and a live holder undoes its own changes.
        with contextlib.suppress(PermissionError, UsageError):
            return cls.open(directory) if cls.has_leftovers(directory) else None
        return None

    @staticmethod
    def has_leftovers(directory: Path | None = None) -> bool:
        """Whether the journal has any entry, of a live or dead process; takes no lock.

        Raises:
            PermissionError: the journal is another user's.
            StorageError: it cannot be read, because it is not a file.
        """
        place = undo_directory(directory)
        try:
            return bool(read_foreign(place / _FILE, 1, owner=os.geteuid()))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError:
            raise
        except OSError:
            with _storage_errors("read", place):
                raise

    @property
    def path(self) -> Path:
        """The file, one JSON object a line."""
        return self.directory / _FILE

    def note(self, change: Change) -> NotedChange:
        """Write a change that is about to be made to disk.

        Raises:
            StorageError: it cannot be written; the change must not be made.
            UsageError: it is a change of the kernel's, which another pgdrag is changing; likewise.
        """
        if change.is_kernel_wide():
            self.hold_kernel()
        guard("undo", self.directory)
        self._last_step += 1
        noted = NotedChange(self._last_step, change, self._owner)
        self._append(noted.lines())
        self._steps[noted.step] = noted
        return noted

    def hold_kernel(self) -> None:
        """Keep all other pgdrags, in any container, from changing this kernel, until this is closed.

        Only root can change it: a lock held by another user does not count.

        Raises:
            UsageError: another one does.
        """
        if self._kernel is not None or os.geteuid() != 0:
            return
        kernel = KernelLock("user")
        if not take_over(kernel.take, kernel.holder_pid):
            pid = kernel.holder_pid()
            if pid is None or uid_of(pid) in (None, 0):
                kernel.close()
                raise _changed_by_another(
                    "in another container" if pid is None else f"process {pid}",
                    "It holds the lock on /proc/self/ns/user, of which this kernel has one.",
                )
        self._kernel = kernel

    def settle(self, noted: NotedChange, change: Change) -> NotedChange:
        """Record what is now known of a change that was made, such as the value read back.

        Raises:
            StorageError: it cannot be written.
        """
        settled = replace(noted, change=change)
        self._append(settled.lines())
        self._steps[noted.step] = settled
        return settled

    def restore(self, noted: NotedChange, *, overwrite: bool = False) -> RestoreResult:
        """Undo one change, with signals held back; failures are returned, not raised.

        A change that could not be undone stays in the journal, and `take_warnings` returns it.
        """
        with uninterrupted():
            current = self._steps.get(noted.step)
            try:
                result = _restored(noted, current, overwrite=overwrite)
            except Exception as error:  # whatever is wrong with one change, the others are undone
                result = RestoreResult(
                    "failed", f"{_words(noted)}, could not be restored: {error}."
                )
            if current is None:
                return result
            if result.is_settled:
                self._drop(noted.step, result.state)
            elif not current.was_reported:
                self._warnings[noted.step] = printable(result.sentence)
            return result

    def forget(self, noted: NotedChange) -> None:
        """Never undo a change: the caller knows that nothing is left to undo."""
        with uninterrupted():
            self._drop(noted.step, "forgotten")

    def _drop(self, step: int, why: str) -> None:
        self._append_if_possible(line(step=step, done=why))
        del self._steps[step]
        self._warnings.pop(step, None)
        if not self._steps and not self._unreadable:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)

    def restore_all(
        self, *, overwrite: bool = False, own_only: bool = False
    ) -> list[RestoreResult]:
        """Undo the changes of this process and of dead ones, newest first.

        Args:
            overwrite: restore also what someone else has changed since.
            own_only: leave those of dead processes.
        """
        with uninterrupted():
            steps = [x for x in self.steps() if x.owner == self._owner or not own_only]
            return [self.restore(step, overwrite=overwrite) for step in reversed(steps)]

    def steps(self) -> list[NotedChange]:
        """Return the changes to undo, oldest first, without those of other live processes."""
        steps = self._steps.values()
        return [x for x in steps if x.owner == self._owner or not x.owner.is_alive()]

    def take_warnings(self) -> list[str]:
        """Return a sentence for each change that could not be undone, once per change.

        Whoever takes them tells the user: no later process does.
        """
        warnings, self._warnings = self._warnings, {}
        for step in warnings.keys() & self._steps.keys():
            self._append_if_possible(line(step=step, told=True))
            self._steps[step] = replace(self._steps[step], was_reported=True)
        return list(warnings.values())

    def unreadable(self) -> list[str]:
        """Return a sentence for each line that this version cannot read."""
        return [
            f'Line {number} of "{self.path}" cannot be read ({why}), so its change was not undone. '
            "Undo it yourself, then delete the line."
            for number, why in self._unreadable
        ]

    def close(self) -> None:
        """Undo this process's changes and release the lock; safe to repeat."""
        if self._fd < 0 or self._owner.pid != os.getpid():
            return  # a child that was forked has nothing of its own
        with uninterrupted():
            self.restore_all(own_only=True)
            # Standard error may be closed: then the next process prints them.
            with contextlib.suppress(OSError):
                for sentence in self._warnings.values():
                    os.write(2, f"{without_controls(sentence)}\n".encode())
                self.take_warnings()
            self.release()

    def release(self) -> None:
        """Release the lock but keep the entries, as the end of the process would."""
        if self._fd < 0:
            return
        os.close(self._fd)
        os.close(self._lock_fd)
        self._fd = self._lock_fd = -1
        if self._kernel is not None:
            self._kernel.close()
        _opened.pop(self.directory, None)
        atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        # A signal may arrive before it is held back; the process is ending anyway.
        while self._fd >= 0 and self._owner.pid == os.getpid():
            with contextlib.suppress(KeyboardInterrupt):
                self.close()

    def _shorten(self) -> None:
        """Replace the file atomically by the shortest with the same contents."""
        new = self.directory / f"{_FILE}.new"
        new.unlink(missing_ok=True)
        new_fd = _open(new)
        _write_all(new_fd, b"".join(x.lines() for x in self._steps.values()))
        os.fsync(new_fd)
        new.replace(self.path)
        os.close(self._fd)
        self._fd = new_fd
        directory_fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory_fd)
        finally:
            os.close(directory_fd)

    def _append(self, lines: bytes) -> None:
        assert self._fd >= 0, "the undo journal is closed"
        with _storage_errors("write", self.directory):
            size = os.fstat(self._fd).st_size
            try:
                _write_all(self._fd, lines)
                os.fsync(self._fd)
            except OSError:
                # Remove the incomplete line.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, size)
                raise

    def _append_if_possible(self, lines: bytes) -> None:
        # Restoring twice is harmless, so failing to record it must not stop the rest.
        with contextlib.suppress(StorageError):
            self._append(lines)


def undo_directory(directory: Path | None = None) -> Path:
    """Return the journal's directory: `directory`, else $PGDRAG_UNDO, else /var/lib/pgdrag.

    An ordinary user, who changes servers and no operating system, has one of their own.
    """
    asked = os.environ.get(UNDO_VARIABLE)
    if directory is None and not asked:
        is_root = os.geteuid() == 0
        return DEFAULT_DIRECTORY if is_root else platformdirs.user_state_path("pgdrag") / "undo"
    return (directory or Path(asked or "")).absolute()


def take_warnings() -> list[str]:
    """Return a sentence for each change that this process could not undo since the last call."""
    return [sentence for journal in _opened.values() for sentence in journal.take_warnings()]


def close_journals() -> None:
    """Undo this process's changes, and print failures that were not reported before."""
    for journal in list(_opened.values()):
        journal.close()


def _changed_by_another(who: str, detail: str) -> UsageError:
    return UsageError(
        f"another pgdrag ({who}) is changing this machine's operating system or a server",
        detail=detail,
        hint="Wait until it ends, or stop it.",
    )


def _restored(noted: NotedChange, current: NotedChange | None, *, overwrite: bool) -> RestoreResult:
    """Undo a change that may have been undone before, or by a reboot."""
    if current is None:
        return RestoreResult("already restored", f"{_words(noted)}: it was restored before.")
    if not current.change.survives_boot and not current.owner.is_of_this_boot():
        return RestoreResult("gone", f"{_words(noted)}: undone by the reboot since.")
    return current.change.restore(overwrite=overwrite)


def _words(noted: NotedChange) -> str:
    try:
        words = noted.change.words()
    except Exception:  # of a plug-in's
        words = f"change {noted.step}, of kind {noted.change.name}"
    return capital(words)


@contextlib.contextmanager
def _storage_errors(verb: str, directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f'could not {verb} the undo journal in "{directory}": {reason}',
            hint=f"Repair it, or set {UNDO_VARIABLE} to another directory on a disk.",
        ) from error


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]
