"""Where does a trial's cluster lie, and is that still fit to measure on?

Without more, in the scratch directory. A treatment with `storage` levels has a file system of its own,
so that no trial touches anybody else's disk::

    <scratch>/storage/device-RANDOM/    an owned directory
        device                          the file that becomes a loop device
        mount/                          its file system: a scratch directory with snapshots and clusters

Every step is in the undo journal before it is made, and taken back from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from pgdrag.errors import ScratchDeviceError, StorageError
from pgdrag.host.loop_devices import attach, devices_on, uses_direct_io
from pgdrag.host.mounts import mount, mount_at, mount_holding, unmount
from pgdrag.host.process_alive import wait_until
from pgdrag.host.programs import run_program
from pgdrag.host.undo import Change, NotedChange, UndoJournal
from pgdrag.host.undo.created import LoopDevice, MadeFile, Mounted
from pgdrag.servers.processes import pids_within, send_signal
from pgdrag.servers.real_device import refuse_taken_device
from pgdrag.servers.scratch import DEVICE_PREFIX, OwnedDirectory, Scratch, full_disk, storage_errors
from pgdrag.servers.storage_spec import StorageSpec
from pgdrag.units import format_bytes

_BACKING_FILE = "device"
_MOUNT_POINT = "mount"
_KILL_TIMEOUT_S = 10.0
_MKFS_TIMEOUT_S = 3600.0
_LEAST_FREE_BYTES = 2**20
# Ways in which file systems say that they have given up writing.
_GIVEN_UP = frozenset({"ro", "emergency_ro", "shutdown"})
# What must be left on the disk that a device's file lies on.
_SPARE_BYTES = 64 * 2**20
# All else as the file system has it by default. btrfs would give blocks of the file back to the disk
# below, in the background of a trial, and get them again when they are written next.
_ALWAYS_MOUNTED_WITH = {"btrfs": ("nodiscard",)}
# Last, so that they take precedence: nothing on the file system is a way to become root.
_DECIDING_OPTIONS = ("nosuid", "nodev")
_libc = ctypes.CDLL(None, use_errno=True)


class Storage:
    """The scratch directory itself, on a disk that also serves others.

    Attributes:
        scratch: where the clusters and snapshots of its trials are.
        notes: sentences on what is not as it was asked for.
    """

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self.notes: tuple[str, ...] = ()

    def refuse_spoilt(self) -> None:
        """Raise `ScratchDeviceError` if no trial can be measured on it; only a scratch device is checked."""


class ScratchDevice(Storage):
    """A file system of a treatment's own, mounted from `make` until `remove`."""

    def __init__(self, spec: StorageSpec, base: Scratch, journal: UndoJournal) -> None:
        self.spec = spec
        self.notes = ()
        self._base = base
        self._journal = journal
        self._noted: list[NotedChange] = []
        self._owned: OwnedDirectory = base.own_directory(base.storage, DEVICE_PREFIX)
        self._file = self._owned.path / _BACKING_FILE
        self.mount_point = self._owned.path / _MOUNT_POINT
        self.block_device = spec.device or self._file
        self._asked_options: tuple[str, ...] = ()
        # As it was when it was mounted: mount(8) may know the device by another name than the kernel.
        self._source = ""
        self._number = 0  # `st_dev` of its files; 0: it was never mounted
        self._is_sparse = False

    @classmethod
    def make(
        cls,
        spec: StorageSpec,
        base: Scratch,
        journal: UndoJournal,
        *,
        allowed: frozenset[str] = frozenset(),
    ) -> ScratchDevice:
        """Make the device and its file system, and mount it; this takes root.

        Args:
            base: the scratch directory below which it is mounted.
            journal: where every step is noted before it is made.
            allowed: what `--allow-change` names: a real device must be among it.

        Raises:
            StorageError: the disk is full, or no loop device is free.
            ScratchDeviceError: the file system cannot be made or mounted as it was asked for.
            UsageError: a real device is in use, is not empty, or was not allowed.
        """
        if spec.device is not None:
            refuse_taken_device(spec.device, allowed=allowed, overwrite=spec.overwrite)
        device = cls(spec, base, journal)
        try:
            if spec.device is None:
                device.block_device = device._loop_device()
            device._make_file_system()
            device.mount_point.mkdir()
            device._note(Mounted(str(device.mount_point)))
            device._mount(())
            device.scratch = Scratch.open(device.mount_point)
        except BaseException:
            device.remove()
            raise
        return device

    def is_mounted_with(self, options: Sequence[str]) -> bool:
        """Whether it is mounted with these options of its file system's own, as far as they are taken."""
        return tuple(options) == self._asked_options

    def mount_with(self, options: Sequence[str]) -> None:
        """Mount it afresh, with these options of its file system's own.

        Options that the kernel refuses are left out; the caller sees that in what is in
        force. Nobody may use it meanwhile.

        Raises:
            ScratchDeviceError: it is in use, or it cannot be mounted any more.
        """
        self._unmount()
        asked = tuple(options)
        taken: tuple[str, ...] = ()
        for tried in (asked, *((option,) for option in asked)):
            if taken != asked and self._is_mountable_with((*taken, *tried)):
                taken = (*taken, *tried)
        self._mount(taken)
        self._asked_options = asked

    def refuse_spoilt(self) -> None:
        """Raise `ScratchDeviceError` if it is gone, read-only or full.

        Raises:
            StorageError: the disk below is full, which is no treatment's doing.
        """
        words = self._trouble()
        if words is not None:
            raise self._error(words)

    def spoilt(self, error: Exception) -> ScratchDeviceError | None:
        """Return what is wrong with the device where that is behind an error; None: it is sound.

        Raises:
            StorageError: the disk below is full.
        """
        if isinstance(error, ScratchDeviceError):
            return error
        if not isinstance(error, StorageError):
            words = self._trouble()
            return None if words is None else self._error(words)
        if error.path is None or not error.path.is_relative_to(self.mount_point):
            return None
        words = self._trouble(is_full=error.is_full) or f"cannot be used: {error.message}"
        return self._error(words, error.detail)

    def remove(self) -> None:
        """Take it away: mount, loop device and file, in this order; again is fine.

        What cannot be taken away stays in the undo journal, which tells of it.
        """
        self._end_servers()
        while self._noted:
            self._journal.restore(self._noted.pop())
        if self.spec.device is not None and self._number:
            # As it was found: empty. wipefs leaves alone what is still in use.
            run_program("wipefs", "--all", "--quiet", self.block_device)
        if mount_at(self.mount_point) is None and not devices_on(self._file):
            with contextlib.suppress(OSError):
                self._owned.remove()
        self._owned.release()

    def _trouble(self, *, is_full: bool = False) -> str | None:
        """Return what is wrong with it, to complete "the scratch device …"; None: nothing."""
        words = self._trouble_of_mount() or self._trouble_of_writing(is_full)
        if words and self._is_sparse and self._base.free_bytes() < _LEAST_FREE_BYTES:
            raise full_disk("write to the scratch device", self._file)
        return words

    def _trouble_of_mount(self) -> str | None:
        found = mount_at(self.mount_point)
        if found is None or found.source != self._source:
            return f'has vanished: nothing of it is mounted at "{self.mount_point}" any more'
        if self.spec.device is None:
            if self.block_device not in devices_on(self._file):
                return f"has vanished: {self.block_device} is not attached to its file any more"
            try:
                size, asked = self._file.stat().st_size, self.spec.size_bytes
            except OSError:
                return "has vanished: its file was deleted"
            if size < asked:
                shrunk = f"{format_bytes(size)} of {format_bytes(asked)}"
                return f"has vanished: its file was truncated to {shrunk}"
        given_up = _GIVEN_UP & {*found.options, *found.super_options}
        if given_up == {"ro"}:
            return "is read-only: it was remounted so"
        if given_up:
            said = ", ".join(sorted(given_up))
            return f"is read-only: {found.file_system} has given up writing ({said})"
        return None

    def _trouble_of_writing(self, is_full: bool) -> str | None:
        """Write a small file to find out."""
        try:
            _write_and_delete(self.mount_point / "probe")
            seen = os.statvfs(self.mount_point)
        except OSError as error:
            if error.errno == errno.EROFS:
                return f"is read-only: {self.spec.file_system} does not write any more"
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                return f"does not answer: {(error.strerror or str(error)).lower()}"
            is_full, seen = True, os.statvfs(self.mount_point)
        # What the server's user may take: some of it is kept for root.
        free, size = seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize
        if is_full or free < _LEAST_FREE_BYTES:
            return f"is full: {format_bytes(free)} of {format_bytes(size)} free"
        return None

    def _error(self, words: str, detail: str | None = None) -> ScratchDeviceError:
        message = f"the scratch device {words}"
        return ScratchDeviceError(message, path=self.mount_point, detail=detail)

    def _note(self, change: Change) -> None:
        self._noted.append(self._journal.note(change))

    def _loop_device(self) -> Path:
        self._base.require_free(
            self.spec.size_bytes + _SPARE_BYTES, f"make {self.spec.words} in the scratch directory"
        )
        self._note(MadeFile(str(self._file)))
        with storage_errors("make a scratch device", self._file):
            self._is_sparse = not _allocate(self._file, self.spec.size_bytes)
        self._note(LoopDevice(str(self._file)))
        device = attach(self._file, direct_io=self.spec.direct_io)
        below = mount_holding(self._file)
        kind = "the file system" if below is None else below.file_system
        if self._is_sparse:
            self.notes += (
                f"{kind} cannot reserve room for the scratch device beforehand: it allocates blocks "
                "while trials run",
            )
        if self.spec.direct_io and not uses_direct_io(device):
            self.notes += (
                f"{kind} takes no direct I/O: the page cache holds the scratch device's blocks a "
                "second time, and answers reads that should have gone to the disk",
            )
        return device

    def _make_file_system(self) -> None:
        """Make an empty file system; what was on the device is lost."""
        program, *options = _mkfs_command(self.spec)
        ran = run_program(program, *options, self.block_device, timeout_s=_MKFS_TIMEOUT_S)
        if not ran.succeeded:
            # Its reason; what follows says how to use it.
            reason = next(iter(ran.output.strip().splitlines()), f"it ended with {ran.status}")
            raise ScratchDeviceError(
                f"could not make {self.spec.words}: {reason}",
                detail=f"The command was: {program} {' '.join(options)} {self.block_device}.",
            )

    def _mount(self, options: tuple[str, ...]) -> None:
        kind = self.spec.file_system
        every = (*_ALWAYS_MOUNTED_WITH.get(kind, ()), *options, *_DECIDING_OPTIONS)
        refusal = mount(self.block_device, self.mount_point, kind, every)
        if refusal is not None:
            raise ScratchDeviceError(
                f"could not mount {self.spec.words}: {refusal}", path=self.mount_point
            )
        found = mount_at(self.mount_point)
        assert found is not None, "mount(8) said that it is mounted"
        if not {*_DECIDING_OPTIONS} <= {*found.options}:
            self._unmount()
            raise ScratchDeviceError(
                f"could not mount {self.spec.words}: it is mounted without {','.join(_DECIDING_OPTIONS)}",
                path=self.mount_point,
            )
        self._source, self._number = found.source, self.mount_point.stat().st_dev
        # Nobody but root lists it, and the server's user passes through.
        self.mount_point.chmod(0o711)

    def _unmount(self) -> None:
        left = unmount(self.mount_point, or_hide=False)
        if left is not None:
            raise self._error(f"could not be mounted afresh: {left}")

    def _is_mountable_with(self, options: tuple[str, ...]) -> bool:
        try:
            self._mount(options)
        except ScratchDeviceError:
            return False
        self._unmount()
        return True

    def _end_servers(self) -> None:
        """End what servers still run there, also where the directory by which they are known is gone."""
        user = self._base.user
        if user is None or not self._number:
            return

        def all_gone() -> bool:
            left = pids_within(self._number, user)
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            return not left

        wait_until(all_gone, _KILL_TIMEOUT_S)


def is_scratch_device(mount_point: Path) -> bool:
    """Whether what is mounted there is pgdrag's own, and goes with the run."""
    return mount_point.name == _MOUNT_POINT and mount_point.parent.name.startswith(DEVICE_PREFIX)


def remove_abandoned_device(owned: OwnedDirectory) -> None:
    """Take away what the undo journal left of the device of a process that died.

    Raises:
        StorageError: it is still mounted or attached.
    """
    mount_point, file = owned.path / _MOUNT_POINT, owned.path / _BACKING_FILE
    for change in (Mounted(str(mount_point)), LoopDevice(str(file))):
        result = change.restore(overwrite=False)
        if not result.is_settled:
            raise StorageError(result.sentence.rstrip("."), path=owned.path)
    owned.remove()


def clusters_on_abandoned(owned: OwnedDirectory) -> list[Path]:
    """Return the directories of clusters on the device of a process that died, as far as it is readable."""
    with contextlib.suppress(OSError):
        return list((owned.path / _MOUNT_POINT / "clusters").iterdir())
    return []


def _allocate(file: Path, size_bytes: int) -> bool:
    """Make a file of that size; whether the disk has reserved all of it.

    A file with holes would be allocated block by block while a trial writes, and the disk below could
    run full under it.
    """
    with file.open("xb") as opened:
        file.chmod(0o600)
        if _libc.fallocate(opened.fileno(), 0, ctypes.c_long(0), ctypes.c_long(size_bytes)) == 0:
            return True
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number), str(file))
        opened.truncate(size_bytes)
        return False


def _mkfs_command(spec: StorageSpec) -> list[str]:
    """Return mkfs with what keeps the kernel from writing, or giving blocks back, in the background."""
    own = list(spec.mkfs_options)
    match spec.file_system:
        case "ext4":
            extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
            # Only the last -E counts.
            while "-E" in own[:-1]:
                at = own.index("-E")
                extended = f"{extended},{own[at + 1]}"
                del own[at : at + 2]
            return ["mkfs.ext4", "-q", "-F", "-E", extended, *own]
        case "xfs":
            reflink = [] if any("reflink=" in word for word in own) else ["-m", "reflink=1"]
            return ["mkfs.xfs", "-q", "-f", "-K", *reflink, *own]
        case _:
            return ["mkfs.btrfs", "-q", "-f", "-K", *own]


def _write_and_delete(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"\0" * 4096)
        os.fsync(fd)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            path.unlink()
