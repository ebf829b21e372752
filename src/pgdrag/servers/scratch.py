"""Where does everything throw-away live, who may reach it, and who still needs it?

::

    <root>/                 0711: the server's user passes through, no one else lists it
        lock                held for a moment while an owned directory is made or judged
        clusters/NAME/      an owned directory: its `lock` is held while its process lives
        snapshots/KEY/      finished datasets; half-made-NAME/ are owned directories
        binaries/IDENTITY/  copies for a user who cannot read the originals
        settings/           what each server version says of its settings

Ownership is a kernel lock (flock), so it ends with its process, even after kill -9, and a process
number that is used again means nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from pgdrag.english import capital
from pgdrag.errors import StorageError
from pgdrag.host.guardian import guard
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.mounts import network_file_system
from pgdrag.host.process_alive import locked, open_lock, take_lock
from pgdrag.host.server_user import ServerUser, own_user, server_user
from pgdrag.host.trusted_path import who_may_swap
from pgdrag.units import format_bytes

SCRATCH_VARIABLE = "PGDRAG_SCRATCH"
HALF_MADE_PREFIX = "half-made-"
DEVICE_PREFIX = "device-"
CLUSTER_PREFIX = "cluster-"
# For scratch paths too long or too odd for the address of a socket.
SHORT_SOCKET_ROOT = Path("/tmp")
SHORT_SOCKET_PREFIX = "pgdrag-socket-"
_ROOTS_CACHE, _AGED = Path("/var/cache"), Path("/var/tmp")
_OWNER = "owner.json"
_LOCK = "lock"
# linux/fs.h, as on all processors with 64 bits; the flag is that of chattr +T.
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602
_FS_TOPDIR_FL = 0x00020000
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def spread_directories(directory: Path) -> None:
    """Let ext4 place each directory made in this one away from the others; elsewhere nothing happens.

    A cluster is made where another was removed a moment ago, and ext4 does not use an inode again for some
    seconds: near them it looks at each one anew for each file, 0.9 s of a processor for 1,500 files instead
    of 0.03 s.
    """
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = bytearray(8)
            fcntl.ioctl(fd, _FS_IOC_GETFLAGS, flags)
            known = int.from_bytes(flags[:4], sys.byteorder)
            if not known & _FS_TOPDIR_FL:
                flags[:4] = (known | _FS_TOPDIR_FL).to_bytes(4, sys.byteorder)
                fcntl.ioctl(fd, _FS_IOC_SETFLAGS, flags)
        finally:
            os.close(fd)


def default_root(uid: int) -> Path:
    """Where a user's scratch directory is by default: where no cleaner removes files one by one as they age.

    Programs like systemd-tmpfiles do that below /var/tmp, and a dataset's files are read seldom. It is the
    former place all the same for a user whose cache cannot be written, or is on a network file system,
    which is not to be measured.
    """
    if uid == 0:
        return _ROOTS_CACHE / "pgdrag"
    root = platformdirs.user_cache_path("pgdrag") / "scratch"
    # A home that this user may not read is not an error.
    nearest = next(each for each in root.parents if os.access(each, os.F_OK))
    is_usable = os.access(nearest, os.W_OK | os.X_OK) and network_file_system(nearest) is None
    return root if is_usable else former_root(uid)


def former_root(uid: int) -> Path:
    """Where a user's scratch directory was by default."""
    return _AGED / f"pgdrag-{uid}"


@dataclass
class OwnedDirectory:
    """A directory that this process owns until `release` or its death."""

    path: Path
    lock_fd: int

    def release(self) -> None:
        """Give it up; what is left in it will be swept."""
        with uninterrupted():
            if self.lock_fd >= 0:
                os.close(self.lock_fd)
                self.lock_fd = -1
            _owned[:] = [(scratch, owned) for scratch, owned in _owned if owned is not self]

    def remove(self) -> None:
        """Delete it with all it contains, then give it up; one that was renamed is only given up.

        The lock goes last: whatever is left, if this is interrupted, still looks abandoned.
        """
        with contextlib.suppress(FileNotFoundError):
            for path in list(self.path.iterdir()):
                if path.is_dir() and not path.is_symlink():
                    remove_tree(path)
                elif path.name != _LOCK:
                    path.unlink(missing_ok=True)
            (self.path / _LOCK).unlink(missing_ok=True)
            self.path.rmdir()
        self.release()


# What this process has made and not yet given up.
_owned: list[tuple[Scratch, OwnedDirectory]] = []


@dataclass(frozen=True)
class OwnerFile:
    """What a later pgdrag must know to clear away the cluster of a dead one, in the cluster's directory.

    Only the owner writes to that directory, not the server's user: a sweep by root deletes what the
    file names.
    """

    pid: int
    postgres: Path
    socket_directory: Path
    user: ServerUser | None = None

    def write(self, directory: Path) -> None:
        """Put the file into a cluster's directory."""
        content = {name: str(value) for name, value in vars(self).items() if name != "user"}
        if self.user is not None and self.user.is_own:
            content["own_user"] = str(self.user.uid)
        (directory / _OWNER).write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> OwnerFile | None:
        """The file of a cluster's directory; None when its owner died before writing it."""
        try:
            content = json.loads((directory / _OWNER).read_text(encoding="utf-8"))
            return cls(
                int(content["pid"]),
                Path(content["postgres"]),
                Path(content["socket_directory"]),
                own_user(int(content["own_user"])) if "own_user" in content else None,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def removable_socket_directory(self) -> Path | None:
        """The socket directory if it is one of the short ones, which lie apart from the cluster."""
        path = self.socket_directory
        is_short = path.parent == SHORT_SOCKET_ROOT and path.name.startswith(SHORT_SOCKET_PREFIX)
        return path if is_short else None


@dataclass(frozen=True)
class Scratch:
    """The root directory of everything throw-away, and the user that servers run as."""

    root: Path
    user: ServerUser | None

    @classmethod
    def open(cls, root: Path | None = None) -> Scratch:
        """Use `root`, else $PGDRAG_SCRATCH, else `default_root`; it is made when missing.

        Raises:
            StorageError: it cannot be created, belongs to another user, or the server's user cannot
                pass through to it.
        """
        asked = os.environ.get(SCRATCH_VARIABLE)
        root = root or (Path(asked) if asked else default_root(os.geteuid()))
        # Without links, because the kernel names a server's directory without them.
        scratch = cls(root.parent.resolve() / root.name, server_user())
        with storage_errors("make the scratch directory", scratch.root):
            scratch.root.parent.mkdir(parents=True, exist_ok=True)
            scratch._make(scratch.root)
            scratch._check_owner()
            for each in (scratch.clusters, scratch.snapshots, scratch.binaries, scratch.storage):
                scratch._make(each)
            spread_directories(scratch.clusters)
            scratch.settings.mkdir(mode=0o700, exist_ok=True)
        scratch._check_reach()
        return scratch

    @classmethod
    def former(cls) -> Scratch | None:
        """The default place of older pgdrags, if it still exists and is no longer used; files in it may have been removed as they aged."""
        uid = os.geteuid()
        root = former_root(uid)
        if os.environ.get(SCRATCH_VARIABLE) or root == default_root(uid):
            return None
        with contextlib.suppress(OSError):
            found = root.lstat()
            is_own = found.st_uid == uid and not found.st_mode & 0o022
            if stat.S_ISDIR(found.st_mode) and is_own:
                return cls(root, server_user())
        return None

    @property
    def clusters(self) -> Path:
        """The directory of all clusters, of this and other pgdrag processes."""
        return self.root / "clusters"

    @property
    def snapshots(self) -> Path:
        """The directory of dataset snapshots."""
        return self.root / "snapshots"

    @property
    def binaries(self) -> Path:
        """The directory of programs copied for the server's user."""
        return self.root / "binaries"

    @property
    def storage(self) -> Path:
        """The directory below which treatments' own file systems are mounted."""
        return self.root / "storage"

    @property
    def settings(self) -> Path:
        """The directory of cached settings catalogues."""
        return self.root / "settings"

    def free_bytes(self) -> int:
        """Bytes that can still be written on the scratch file system."""
        return shutil.disk_usage(self.root).free

    def require_free(self, wanted_bytes: int, purpose: str) -> None:
        """Raise StorageError unless `wanted_bytes` are free; `purpose` completes "cannot …"."""
        if self.free_bytes() < wanted_bytes:
            raise full_disk(purpose, self.root, wanted_bytes=wanted_bytes)

    def own_directory(self, parent: Path, prefix: str) -> OwnedDirectory:
        """Make a directory `parent`/`prefix`RANDOM that this process owns; its guardian clears it up, if need be."""
        guard("scratch", self.root)
        with uninterrupted(), storage_errors("make a directory", parent), self._judging():
            path = parent / f"{prefix}{secrets.token_hex(4)}"
            self._make(path)
            owned = OwnedDirectory(path, -1)
            try:
                owned.lock_fd = open_lock(path / _LOCK)
                is_locked = take_lock(owned.lock_fd)
            except OSError:  # there is no room for it
                owned.remove()
                raise
            assert is_locked, "nobody else can see it yet"
            _owned.append((self, owned))
            return owned

    def abandoned_directories(self, parent: Path, prefix: str) -> list[OwnedDirectory]:
        """Take over those directories whose owner has died."""
        found = []
        with self._judging():
            for path in sorted(parent.glob(f"{prefix}*")):
                try:
                    lock_fd = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
                    found.append(OwnedDirectory(path, lock_fd))
                except OSError:
                    # It is being removed, or its remover died one step before the end.
                    with contextlib.suppress(OSError):
                        path.rmdir()
        # Their owners locked them before they could be seen here, so this may wait without `_judging`.
        taken = []
        for owned in found:
            if take_lock(owned.lock_fd) and os.fstat(owned.lock_fd).st_nlink > 0:
                taken.append(owned)
            else:  # its owner lives, or another process has just removed it
                owned.release()
        return taken

    def hand_over(self, directory: Path, before: ServerUser) -> None:
        """Make the server's user the owner of what belongs to another one in a directory, and of that."""
        user = self.user
        if user is None or user == before:
            return
        for _, directories, files, fd in os.fwalk(directory):
            for name in (*directories, *files):
                # A link to another user's file is left alone.
                if os.stat(name, dir_fd=fd, follow_symlinks=False).st_uid == before.uid:
                    os.chown(name, user.uid, user.gid, dir_fd=fd, follow_symlinks=False)
        self.give(directory)

    def make_private(self, path: Path) -> None:
        """Make a directory (0700) that belongs to the server's user."""
        path.mkdir(mode=0o700)
        self.give(path)

    def give(self, path: Path | str) -> None:
        """Make the server's user the owner of one file or directory."""
        if self.user is not None:
            os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)

    def write_private(self, path: Path, text: str) -> None:
        """Write a file (0600) for the server's user, whole or not at all.

        Root writes into a directory of a lesser user here, so an existing file, which may be a
        link to anywhere, is replaced and never opened.
        """
        with storage_errors(f'write "{path.name}"', path.parent):
            write_whole(path, text, owner=self.user)

    def _make(self, path: Path) -> None:
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            path.chmod(0o700 if self.user is None else 0o711)

    def _check_owner(self) -> None:
        # The default lies in a directory where anybody may have made it first.
        found = self.root.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StorageError(
                f'scratch directory "{self.root}" is not a directory',
                hint=f"Set {SCRATCH_VARIABLE} to a directory of your own.",
            )
        if found.st_uid != os.geteuid():
            raise StorageError(
                f'scratch directory "{self.root}" belongs to user {found.st_uid}, not {os.geteuid()}',
                hint=f"Set {SCRATCH_VARIABLE} to a directory of your own.",
            )
        if found.st_mode & 0o022:
            raise StorageError(
                f'scratch directory "{self.root}" can be written by others',
                hint=f'Run chmod go-w "{self.root}".',
            )
        if who := who_may_swap(self.root):
            raise StorageError(
                f'others could replace scratch directory "{self.root}"',
                detail=f"{capital(who)}.",
                hint=f"Set {SCRATCH_VARIABLE} to a directory that lies in nobody else's.",
            )

    def _check_reach(self) -> None:
        if self.user is None:
            return
        for part in [*reversed(self.clusters.parents), self.clusters]:
            if not self.user.may_enter(part.stat()):
                raise StorageError(
                    f'user "{self.user.name}", who runs the server, cannot pass through "{part}"',
                    hint=f'Run chmod o+x "{part}", or set {SCRATCH_VARIABLE} to another directory.',
                )

    def _judging(self) -> contextlib.AbstractContextManager[None]:
        # Without it a directory could be judged abandoned between its making and its locking.
        return locked(self.root / _LOCK)


def release_all() -> list[Scratch]:
    """Give up all that this process owns, as its end would, and return where that was.

    Nothing is owned any more when a command ends, unless an interruption cut its clearing away short:
    wherever that came, a sweep then removes what is left.
    """
    left = list(_owned)
    for _, owned in left:
        owned.release()
    return list(dict.fromkeys(scratch for scratch, _ in left))


def remove_tree(path: Path) -> None:
    """Delete a directory and all it contains; one that is already gone is fine."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def write_whole(
    path: Path, content: str | bytes, *, owner: ServerUser | None = None, is_kept: bool = False
) -> None:
    """Write a file (0600): its name appears with the whole content or not at all.

    What had the name before, even a link, is replaced and never opened.

    Args:
        is_kept: it must also survive a power failure: a disk takes some milliseconds for it.
    """
    fd, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            if owner is not None:
                os.fchown(fd, owner.uid, owner.gid)
            file.write(content.encode() if isinstance(content, str) else content)
            if is_kept:
                file.flush()
                os.fsync(fd)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def storage_errors(purpose: str, path: Path, *, hint: str | None = None) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError.

    Args:
        purpose: completes "could not …".
        path: where it was tried; it need not exist.
        hint: what to do, where that is not to name another scratch directory.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, shutil.Error):  # a whole tree's: one tuple a file, its reason as text
            reason = str(error.args[0][0][2])
        if error.errno in _FULL or any(f"[Errno {code}]" in reason for code in _FULL):
            raise full_disk(purpose, path, hint=hint) from error
        raise StorageError(
            f'could not {purpose} in "{path}": {reason.lower()}',
            hint=hint or f"Fix it, or set {SCRATCH_VARIABLE} to another directory.",
            path=path,
        ) from error


def full_disk(
    purpose: str, path: Path, *, wanted_bytes: int | None = None, hint: str | None = None
) -> StorageError:
    """The error for a file system without room, naming it and what it still has.

    Args:
        purpose: completes "could not …".
        path: where there is no room; it need not exist (any more).
        wanted_bytes: how much room it would have taken, where that is known.
        hint: what to do, where that is not to name another scratch directory.
    """
    here = next(part for part in [path, *path.parents, Path()] if part.exists()).resolve()
    mount_point = next(part for part in [here, *here.parents] if part.is_mount())
    free = format_bytes(shutil.disk_usage(here).free)
    why = f'the file system of "{path}" is full'
    if wanted_bytes is not None:
        wanted = format_bytes(wanted_bytes)
        why = f'it needs {wanted}, and the file system of "{path}" has {free} free'
    return StorageError(
        f"could not {purpose}: {why}",
        detail=f'It is mounted at "{mount_point}" and has {free} free.',
        hint=hint
        or f"Make room there, or set {SCRATCH_VARIABLE} to a directory on a larger file system.",
        path=path,
        is_full=True,
    )
