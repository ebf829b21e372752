"""Who may change this host now, what have they changed, and how is it put back?"""

from __future__ import annotations

import atexit
import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pgdrag.errors import PgdragError, StorageError, UsageError
from pgdrag.host.process_alive import lock_holder, take_lock
from pgdrag.host.undo._change import Change, PutBack
from pgdrag.host.undo._file import (
    Noted,
    Owner,
    done_line,
    note_line,
    read_contents,
    told_line,
    whole_file,
)
from pgdrag.host.undo._signals import uninterrupted

UNDO_VARIABLE = "PGDRAG_UNDO"
DEFAULT_DIRECTORY = Path("/var/lib/pgdrag")
_FILE = "undo.jsonl"
_LOCK = "lock"

_opened: dict[Path, UndoJournal] = {}


class UndoJournal:
    """The journal of what is to be put back on this host, held by one process at a time.

    Changes of a dead process are put back like one's own, by `put_back_all`; those of one that lives
    are left alone. `open` makes sure that what this process noted is put back when it ends.
    """

    def __init__(self, directory: Path, lock_fd: int) -> None:
        self.directory = directory
        self._lock_fd = lock_fd
        self._owner = Owner.this_process()
        self._steps: dict[int, Noted] = {}
        self._doubts: list[PutBack] = []
        self._unreadable: tuple[tuple[int, str], ...] = ()
        self._last_step = 0
        with self._storage_errors("read"):
            self._fd = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self._read()

    @classmethod
    def open(
        cls, directory: Path | None = None, *, environment: Mapping[str, str] = os.environ
    ) -> UndoJournal:
        """Return this host's journal, locked for this process until it ends; again is fine.

        Args:
            directory: by default $PGDRAG_UNDO, else /var/lib/pgdrag; it is made when missing.

        Raises:
            UsageError: another pgdrag holds it.
            StorageError: it cannot be made, read or written, or others can write it.
        """
        place = undo_directory(directory, environment)
        known = _opened.get(place)
        if known is not None and known._owner.pid == os.getpid():
            return known
        with _storage_errors("make", place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_others(place)
            lock_fd = _lock(place)
        journal = _opened[place] = cls(place, lock_fd)
        atexit.register(journal._close_at_exit)
        return journal

    @classmethod
    def with_leftovers(
        cls, directory: Path | None = None, *, environment: Mapping[str, str] = os.environ
    ) -> UndoJournal | None:
        """Return the journal where a dead process left something; None: nothing, or it is not ours.

        No directory is made and no lock taken where there is nothing to do.

        Raises:
            StorageError: it cannot be read or written.
        """
        place = undo_directory(directory, environment)
        # Without root, another's journal is none of our business; whoever holds it puts its own back.
        with contextlib.suppress(PermissionError, UsageError):
            return cls.open(place) if cls.has_leftovers(place) else None
        return None

    @staticmethod
    def has_leftovers(directory: Path | None = None) -> bool:
        """Tell whether anything is noted, by a process that lives or is dead; no lock is taken.

        Raises:
            PermissionError: the journal is another user's.
        """
        try:
            return bool((undo_directory(directory) / _FILE).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return False

    @property
    def path(self) -> Path:
        """The file, one JSON object a line."""
        return self.directory / _FILE

    def note(self, change: Change) -> Noted:
        """Note a change that is about to be made; when this returns, it is on the disk.

        Raises:
            StorageError: it cannot be written; the change must not be made.
        """
        self._last_step += 1
        noted = Noted(self._last_step, change, self._owner)
        self._append(note_line(noted))
        self._steps[noted.step] = noted
        return noted

    def settle(self, noted: Noted, change: Change) -> Noted:
        """Note what is now known of a change that was made, such as the value that reads back.

        Raises:
            StorageError: it cannot be written.
        """
        settled = replace(noted, change=change)
        self._append(note_line(settled))
        self._steps[noted.step] = settled
        return settled

    def put_back(self, noted: Noted, *, overwrite: bool = False) -> PutBack:
        """Put one change back, in one piece: signals wait; whatever goes wrong is told, not raised.

        What is left stays in the journal; `take_warnings` tells of it.
        """
        with uninterrupted():
            current = self._steps.get(noted.step)
            if current is None:
                return PutBack("was so", f"{_sentence(noted.change)}: that was put back before.")
            return self._put_back(current, overwrite=overwrite)

    def put_back_all(self, *, overwrite: bool = False, own_only: bool = False) -> list[PutBack]:
        """Put back, newest first, what this process noted and what dead ones left.

        Args:
            overwrite: also what somebody else changed meanwhile.
            own_only: nothing of dead processes.
        """
        with uninterrupted():
            steps = [x for x in self.steps() if x.owner == self._owner or not own_only]
            return [self._put_back(step, overwrite=overwrite) for step in reversed(steps)]

    def steps(self) -> list[Noted]:
        """Return what is not put back, oldest first, without that of other processes that live."""
        return [
            x
            for _, x in sorted(self._steps.items())
            if x.owner == self._owner or not x.owner.is_alive()
        ]

    def take_warnings(self) -> list[str]:
        """Return a sentence for each change that could not be put back; of one change only once."""
        sentences = [doubt.sentence for doubt in self._doubts]
        self._doubts.clear()
        return sentences

    def unreadable(self) -> list[str]:
        """Return a sentence for each line that this pgdrag cannot read, and so cannot put back."""
        return [
            f'Line {number} of "{self.path}" cannot be read ({why}): what it notes is not put back. '
            "Delete the line once it has been."
            for number, why in self._unreadable
        ]

    def close(self) -> None:
        """Put back what this process noted, and give up the lock; again is fine."""
        if self._fd < 0 or self._owner.pid != os.getpid():
            return  # a child that was forked has nothing of its own
        with uninterrupted():
            self.put_back_all(own_only=True)
            for sentence in self.take_warnings():
                _tell(sentence)
            self.release()

    def release(self) -> None:
        """Give up the lock as the end of the process would: what is noted stays."""
        if self._fd < 0:
            return
        os.close(self._fd)
        os.close(self._lock_fd)
        self._fd = self._lock_fd = -1
        _opened.pop(self.directory, None)
        atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        # A signal may come before it can be held back; nobody is left whom it should interrupt.
        while self._fd >= 0 and self._owner.pid == os.getpid():
            with contextlib.suppress(KeyboardInterrupt):
                self.close()

    def _put_back(self, noted: Noted, *, overwrite: bool) -> PutBack:
        change = noted.change
        if not change.survives_boot and not noted.owner.is_of_this_boot():
            result = PutBack("gone", f"{_sentence(change)}: gone since this machine was booted.")
        else:
            try:
                result = change.put_back(overwrite=overwrite)
            except (OSError, PgdragError) as error:
                result = PutBack("failed", f"{_sentence(change)}, could not be put back: {error}.")
        if result.is_settled:
            self._append_in_the_end(done_line(noted.step, result.state))
            del self._steps[noted.step]
            if not self._steps and not self._unreadable:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, 0)
        elif not noted.was_told:
            self._doubts.append(result)
            self._append_in_the_end(told_line(noted.step))
            self._steps[noted.step] = replace(noted, was_told=True)
        return result

    def _read(self) -> None:
        content = self.path.read_bytes()
        found = read_contents(content)
        self._unreadable = found.unreadable
        self._steps = {x.step: x for x in found.open_steps}
        self._last_step = found.last_step
        if found.unreadable:
            # It stays as it is, for whoever can read it; only a line that was cut off goes.
            os.ftruncate(self._fd, found.valid_bytes)
        else:
            self._replace(whole_file(found.open_steps))
        os.fsync(self._fd)

    def _replace(self, content: bytes) -> None:
        """Give the file another content: all of it or nothing."""
        new = self.directory / f"{_FILE}.new"
        new_fd = os.open(
            new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        _write_all(new_fd, content)
        os.fsync(new_fd)
        new.replace(self.path)
        os.close(self._fd)
        self._fd = new_fd
        _sync_directory(self.directory)

    def _append(self, line: bytes) -> None:
        assert self._fd >= 0, "the undo journal is closed"
        with self._storage_errors("write"):
            size = os.fstat(self._fd).st_size
            try:
                _write_all(self._fd, line)
                os.fsync(self._fd)
            except OSError:
                # Half a line must not stand before the next one.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, size)
                raise

    def _append_in_the_end(self, line: bytes) -> None:
        # What is put back may be put back again; that this cannot be noted must not stop the rest.
        with contextlib.suppress(StorageError):
            self._append(line)

    def _storage_errors(self, verb: str) -> contextlib.AbstractContextManager[None]:
        return _storage_errors(verb, self.directory)


def undo_directory(
    directory: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Path:
    """Return where the journal is: what is asked for, else $PGDRAG_UNDO, else /var/lib/pgdrag."""
    asked = environment.get(UNDO_VARIABLE)
    return (directory or (Path(asked) if asked else DEFAULT_DIRECTORY)).absolute()


def take_warnings() -> list[str]:
    """Return a sentence for each change that this process could not put back since last asked."""
    return [sentence for journal in _opened.values() for sentence in journal.take_warnings()]


def _refuse_others(directory: Path) -> None:
    """Refuse a journal that others can write: root would write what they say wherever they say."""
    found = directory.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_own or found.st_mode & 0o022:
        raise StorageError(
            f'others than user {os.geteuid()} can write the undo journal in "{directory}"',
            hint=f"Make the directory your own (chmod 0700), or set {UNDO_VARIABLE} to another one.",
        )


def _lock(directory: Path) -> int:
    """Return the lock, held: the kernel gives it up even after kill -9."""
    fd = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    if not take_lock(fd):
        pid = lock_holder(fd) or "unknown"
        os.close(fd)
        raise UsageError(
            f"another pgdrag (process {pid}) changes this machine's operating system",
            detail=f'It holds the undo journal in "{directory}".',
            hint="Wait until it has ended, or stop it.",
        )
    return fd


@contextlib.contextmanager
def _storage_errors(verb: str, directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f'could not {verb} the undo journal in "{directory}": {reason}',
            hint=f"Mend it, or set {UNDO_VARIABLE} to another directory on a disk.",
        ) from error


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sentence(change: Change) -> str:
    words = change.words()
    return words[:1].upper() + words[1:]


def _tell(sentence: str) -> None:
    # At the very end of a process there may be nobody left to tell.
    with contextlib.suppress(OSError, ValueError):
        os.write(2, f"{sentence}\n".encode())
