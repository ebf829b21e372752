"""Which file system is mounted where, and with which options? How are options changed, and read?

What is in force is what /proc/self/mountinfo says, and, of ext4, /proc/fs/ext4 with all its defaults.
Source and target are both named to mount(8), so that /etc/fstab plays no part.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pgdrag.host.programs import run_program

_MOUNTINFO = Path("/proc/self/mountinfo")
_EXT4 = Path("/proc/fs/ext4")
_BY_NUMBER = Path("/sys/dev/block")
_KERNEL_LOG = Path("/dev/kmsg")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_ROUTINE = re.compile("re-mounted|mounted filesystem|Mounting V|Ending clean mount")
# Those that other machines, or the one that runs this one, write to as well, without this kernel's knowing at once.
_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs", "pvfs2"),
        *("9p", "virtiofs", "fuse.gcsfuse", "fuse.juicefs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.mfs", "fuse.nfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.davfs2", "davfs"),
    }
)  # fmt: skip
_BUSY_TRIES, _BUSY_PAUSE_S = 20, 0.1

# What the kernel keeps of a mount, whatever its file system (mount(2), MS_…): choice → what says that
# nothing was chosen.
MOUNT_CHOICES: Mapping[str, str] = {
    "write": "rw",
    "atime": "strictatime",
    "diratime": "diratime",
    "suid": "suid",
    "dev": "dev",
    "exec": "exec",
    "symfollow": "symfollow",
}
# What it keeps of a file system of any type; a remount that does not name them takes them away.
SUPER_CHOICES: Mapping[str, str] = {
    "lazytime": "nolazytime",
    "sync": "async",
    "dirsync": "nodirsync",
}


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Attributes:
        source: what is mounted: a device, or a word where there is none.
        device: the number by which the kernel knows it, "7:0".
        options: of this mount alone.
        super_options: of the file system, wherever it is mounted.
    """

    mount_point: Path
    source: str
    file_system: str
    device: str
    options: tuple[str, ...]
    super_options: tuple[str, ...]

    @property
    def _kernel_name(self) -> str:
        """The kernel's name of the device: "dm-0" of "/dev/mapper/vg-data"."""
        with suppress(OSError):
            return (_BY_NUMBER / self.device).resolve(strict=True).name
        return Path(self.source).resolve().name

    @property
    def in_force(self) -> dict[str, str]:
        """The options that the kernel shows, in its spelling, by choice."""
        found = {**MOUNT_CHOICES, **SUPER_CHOICES}
        if self.file_system == "ext4":
            with suppress(OSError):
                options = (_EXT4 / self._kernel_name / "options").read_text().split()
                found.update(_by_choice(options))
        # "rw" of the file system says nothing of a mount that is read-only all the same.
        found.update(_by_choice(x for x in self.super_options if x != "rw"))
        found.update(_by_choice(self.options))
        return found

    def state_of(self, asked: str) -> str | None:
        """Return the option in force of the same choice as `asked`; None if it is not shown."""
        found = self.in_force.get(choice_of(asked))
        if found is None and asked.startswith("no"):
            return asked.removeprefix("no")  # what is not the default is always shown
        return found

    def has_option(self, asked: str) -> bool:
        """Whether an option is in force, in whichever spelling; False if the kernel does not show it."""
        shown = self.state_of(asked)
        if shown is None:
            return False
        # btrfs adds the level that it chose: "compress=zstd:3".
        return _plain(shown) == _plain(asked) or ("=" in asked and shown.startswith(f"{asked}:"))


@dataclass(frozen=True)
class RemountResult:
    """Whether the kernel accepted a remount, which does not mean that it applied every option, and its messages."""

    is_accepted: bool
    message: str


def choice_of(option: str) -> str:
    """Return what an option is a choice of: two of one choice replace each other."""
    name = option.partition("=")[0]
    if name in ("ro", "rw"):
        return "write"
    if name == "async":
        return "sync"
    if name in ("relatime", "noatime", "strictatime"):
        return "atime"
    return name.removeprefix("no")


def is_of_mount(option: str) -> bool:
    """Whether an option belongs to a mount of any file system, so that a remount can always change it."""
    return choice_of(option) in {**MOUNT_CHOICES, **SUPER_CHOICES}


def merged(options: Iterable[str], changes: Iterable[str]) -> list[str]:
    """Return options with some replaced by others of the same choice, or added."""
    found = _by_choice(options)
    for change in changes:
        found[choice_of(change)] = change
    return list(found.values())


def mounts() -> list[Mount]:
    """Return all that is mounted, in the order of mounting.

    Raises:
        OSError: /proc/self/mountinfo cannot be read.
    """
    found = []
    # A name may be no UTF-8, and have in it what Python takes for a line's end.
    for line in filter(None, os.fsdecode(_MOUNTINFO.read_bytes()).split("\n")):
        # proc_pid_mountinfo(5): optional fields end with a hyphen of their own.
        before, _, after = line.partition(" - ")
        _, _, device, _, mount_point, options = before.split(" ")[:6]
        file_system, source, super_options = after.split(" ")[:3]
        found.append(
            Mount(
                Path(unescaped(mount_point)),
                unescaped(source),
                file_system,
                device,
                tuple(options.split(",")),
                tuple(super_options.split(",")),
            )
        )
    return found


def mount_at(mount_point: Path) -> Mount | None:
    """Return the mount at exactly this mount point, the topmost; None if there is none."""
    found = [each for each in mounts() if each.mount_point == mount_point]
    return found[-1] if found else None


def mount_holding(path: Path) -> Mount | None:
    """Return the mount that `path` is on; None if unknown."""
    here = path.resolve()
    holding = [each for each in mounts() if here.is_relative_to(each.mount_point)]
    # Of mounts on one place the last hides the others, and of equals `max` has the first.
    return max(reversed(holding), key=lambda x: len(x.mount_point.parts), default=None)


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that `path` is on; None if it is local or unknown."""
    with suppress(OSError):
        found = mount_holding(path)
        if found is not None and found.file_system in _NETWORK:
            return found.file_system
    return None


def mount(source: Path, mount_point: Path, file_system: str, options: Sequence[str]) -> str | None:
    """Mount a device.

    Returns:
        Why it could not be; None: it is mounted.
    """
    listed = ("-o", ",".join(options)) if options else ()
    with kernel_messages(file_system, source) as said:
        ran = run_program("mount", "-t", file_system, *listed, source, mount_point)
    return None if ran.succeeded else "; ".join(said) or ran.output.strip().splitlines()[0]


def remount(found: Mount, options: Iterable[str]) -> RemountResult:
    """Change options of a mount and its file system; all others stay as they are."""
    kept = [x for x in found.super_options if choice_of(x) in SUPER_CHOICES]
    before = [*found.options, *kept]
    if "atime" not in _by_choice(found.options):
        before.append(MOUNT_CHOICES["atime"])
    listed = ",".join(["remount", *merged(before, options)])
    with kernel_messages(found.file_system, Path(found.source)) as said:
        ran = run_program("mount", "-o", listed, found.source, found.mount_point)
    return RemountResult(ran.succeeded, "; ".join(said) or ran.output.strip().partition("\n")[0])


def unmount(mount_point: Path, *, or_hide: bool = True) -> str | None:
    """Unmount what is mounted there.

    Args:
        or_hide: detach it lazily if it is in use; it is unmounted when its last user ends.

    Returns:
        Why it is still mounted or in use; None once it is unmounted.
    """
    for _ in range(_BUSY_TRIES):
        ran = run_program("umount", mount_point)
        if ran.succeeded or mount_at(mount_point) is None:
            return None
        if "busy" not in ran.output:
            break
        time.sleep(_BUSY_PAUSE_S)
    if or_hide and run_program("umount", "--lazy", mount_point).succeeded:
        return (
            f'"{mount_point}" is in use; it was detached and is unmounted when its last user ends'
        )
    return ran.last_line


@contextmanager
def kernel_messages(file_system: str, source: Path) -> Iterator[list[str]]:
    """Collect what the kernel says of a file system during the block: the reason of a failure, which mount(8) hides.

    The list is filled at the end of the block, and stays empty if the kernel's log cannot be read.
    """
    names = {source.name, source.resolve().name}  # of /dev/mapper/vg-data it is dm-0
    marks = (f"{file_system}-fs".lower(), f"{file_system}:".lower(), *(f"({x})" for x in names))
    messages: list[str] = []
    try:
        fd = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        yield messages
        return
    try:
        os.lseek(fd, 0, os.SEEK_END)
        yield messages
        while True:
            try:
                record = os.read(fd, 8192).decode(errors="replace")
            except BrokenPipeError:  # the log went on too fast: what is left is still to be read
                continue
            except OSError:
                break
            said = record.partition(";")[2].splitlines()[0]
            if any(mark in said.lower() for mark in marks) and not _ROUTINE.search(said):
                messages.append(said)
    finally:
        os.close(fd)


def _plain(option: str) -> str:
    """Return one of the two spellings of a flag: "barrier=0" for "nobarrier"."""
    name, equals, value = option.partition("=")
    if value in ("", "1") and not name.startswith("no"):
        return f"{name}=1"
    return f"{choice_of(option)}=0" if not equals else option


def _by_choice(options: Iterable[str]) -> dict[str, str]:
    return {choice_of(option): option for option in options}


def unescaped(text: str) -> str:
    """Return a word of mountinfo with its octal escapes, such as \\040 for a blank, resolved."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
