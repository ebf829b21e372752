"""Could another user replace a directory after it was checked?

Whoever may write to a directory may rename what is in it, so each directory on the way counts, not the
last one alone.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

# acl(5), linux/posix_acl_xattr.h: a version, then one entry each of a kind, its rights and for whom.
_ACL = "system.posix_acl_access"
_ACL_VERSION_BYTES, _ACL_ENTRY = 4, struct.Struct("<HHI")
_ACL_USER, _ACL_GROUP, _ACL_WRITE = 0x02, 0x08, 0x02
_MOST_LINKS = 40  # as the kernel follows


def who_may_swap(path: Path) -> str | None:
    """Return who else can replace an existing path or a directory above it; None if nobody can.

    Trusted are this user and root; whoever has the root directory, as in a user namespace root may have no
    number of its own; and who became root with sudo, for whoever may run pgdrag as root may do anything.

    Returns:
        A clause: '"/home/ann" belongs to user "ann"'.

    Raises:
        OSError: it does not exist, or cannot be looked at.
    """
    caller = os.environ.get("SUDO_UID", "0") if os.geteuid() == 0 else "0"
    trusted = (os.geteuid(), 0, Path("/").stat().st_uid, int(caller) if caller.isdecimal() else 0)
    way = list(_way(path.absolute()))
    for part in way:
        found = part.lstat()
        if found.st_uid not in trusted:
            return f'"{part}" belongs to user "{user_name(found.st_uid)}"'
        # With an access control list, the group bit says that some entry of the list may write.
        is_groups = bool(found.st_mode & stat.S_IWGRP) and (
            _is_shared(found.st_gid, trusted) or _names_others(part, trusted)
        )
        is_open = bool(found.st_mode & stat.S_IWOTH) or is_groups
        # In a sticky directory, such as /tmp, each user can only rename what is his.
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and part != way[-1]
        if is_open and not is_sticky and not part.is_symlink():
            return f'users other than "{user_name(found.st_uid)}" can write to "{part}"'
    return None


def _is_shared(gid: int, trusted: Collection[int]) -> bool:
    """Whether others are in a group; a user's own group, as "useradd" makes it, has no other members."""
    if gid != os.getegid():
        return True
    try:
        group = grp.getgrgid(gid)
    except KeyError:  # as in a container
        return False
    members = set(group.gr_mem)
    if gid != 0:  # that of root has accounts of the distribution, such as "sync"
        users, own = pwd.getpwall(), user_name(os.geteuid())
        members |= {user.pw_name for user in users if user.pw_gid == gid}
        if own != group.gr_name and all(user.pw_name != own for user in users):
            return True  # a directory service, which does not list its users
    return not members <= {user_name(uid) for uid in trusted}


def _names_others(path: Path, trusted: Collection[int]) -> bool:
    """Whether an access control list lets a user or a group write by name; which groups, does not matter."""
    try:
        found = os.getxattr(path, _ACL, follow_symlinks=False)
    except OSError:  # it has none, or the file system knows none
        return False
    return any(
        rights & _ACL_WRITE and (kind == _ACL_GROUP or (kind == _ACL_USER and who not in trusted))
        for kind, rights, who in _ACL_ENTRY.iter_unpack(found[_ACL_VERSION_BYTES:])
    )


def _way(path: Path) -> Iterator[Path]:
    """Yield each directory and each link on the way to a path, from the root on; the path is the last."""
    left, here = list(path.parts[1:]), Path("/")
    links = 0
    yield here
    while left:
        name = left.pop(0)
        here = here.parent if name == ".." else here / name
        if here.is_symlink():
            if (links := links + 1) > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            yield here
            target = here.readlink()
            left = [x for x in target.parts if x != "/"] + left
            here = Path("/") if target.is_absolute() else here.parent
        else:
            yield here


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
