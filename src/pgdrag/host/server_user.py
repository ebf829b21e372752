"""As which user do servers, and programs that an experiment names, run for root?

As one that nobody else has: a number without a name, taken at random by each pgdrag process. Whatever runs as that
user is pgdrag's, and is ended as a whole, in sight or not.
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import ServerError
from pgdrag.host.process_sight import pids_of

SERVER_USER_VARIABLE = "PGDRAG_SERVER_USER"
# Numbers of users and groups that are not allocated otherwise. The first lie above the ranges of systemd, shadow and SSSD. A
# container may not have those: there, numbers that systemd takes for services for as long as these run.
OWN_NUMBERS = (range(2_100_000_000, 2_140_000_000), range(61_184, 65_520))
# Who makes a cluster, as initdb asks for its user's name. Nothing of an experiment runs as that user.
_NAMED = "nobody"
_TRIES = 100
_CREDENTIALS = struct.Struct("3i")  # of a socket's other end: process, user, group


@dataclass(frozen=True)
class ServerUser:
    """The unprivileged user that runs servers for root.

    Attributes:
        is_own: no one else uses it, and it has no name.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    is_own: bool = False

    def may_enter(self, found: os.stat_result) -> bool:
        """Whether a directory's mode lets this user pass through it."""
        is_of_group = found.st_gid in (self.gid, *self.groups)
        shift = 6 if found.st_uid == self.uid else 3 if is_of_group else 0
        return bool(found.st_mode >> shift & 0o1)

    def with_name(self) -> ServerUser:
        """Return the user itself, or the one that stands in where a program asks for a user's name.

        Raises:
            ServerError: this machine has no such user.
        """
        return _named(_NAMED) if self.is_own else self


# This process's own user, and the socket whose name keeps it from others.
_taken: tuple[int, ServerUser, socket.socket] | None = None


def server_user() -> ServerUser | None:
    """The user that servers run as; None: the user who runs pgdrag.

    PostgreSQL refuses to run as root. For root: $PGDRAG_SERVER_USER, else one of pgdrag's own, the same for the
    life of this process. If a container has no number to spare, `nobody`.

    Raises:
        ServerError: the user does not exist, or is root itself.
    """
    global _taken
    if os.geteuid() != 0:
        return None
    if asked := os.environ.get(SERVER_USER_VARIABLE):
        return _named(asked)
    # A forked copy of this process takes another.
    if _taken is None or _taken[0] != os.getpid():
        for number in _candidates():
            if (held := _take(number)) is not None:
                _taken = os.getpid(), own_user(number), held
                return _taken[1]
        return _named(_NAMED)
    return _taken[1]


def own_user(number: int) -> ServerUser:
    """The user of pgdrag's own with this number.

    Raises:
        ValueError: it is not one of pgdrag's own.
    """
    if not any(number in numbers for numbers in OWN_NUMBERS):
        raise ValueError(f"{number} is not the number of a user of pgdrag's own")
    return ServerUser(str(number), number, number, is_own=True)


def _named(name: str) -> ServerUser:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ServerError(
            f'there is no user "{name}" to run the server as',
            detail="PostgreSQL refuses to run as root.",
            hint=f"Set {SERVER_USER_VARIABLE} to an unprivileged user, or run pgdrag as one.",
        ) from None
    if entry.pw_uid == 0:
        raise ServerError(
            f'PostgreSQL cannot run as user "{name}", who is root',
            hint=f"Set {SERVER_USER_VARIABLE} to an unprivileged user.",
        )
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return ServerUser(name, entry.pw_uid, entry.pw_gid, groups)


def _candidates() -> Iterator[int]:
    for numbers in OWN_NUMBERS:
        if all(_are_mapped(numbers, Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid")):
            for _ in range(_TRIES):
                yield secrets.choice(numbers)


def _are_mapped(numbers: range, numbers_map: Path) -> bool:
    """Whether this user namespace has these numbers: user_namespaces(7)."""
    try:
        lines = numbers_map.read_text().splitlines()
    except OSError:  # a kernel without such namespaces has all
        return True
    mapped = ((int(first), int(count)) for first, _, count in map(str.split, lines))
    return any(first <= numbers[0] and numbers[-1] < first + count for first, count in mapped)


def _take(number: int) -> socket.socket | None:
    """Reserve a number for the life of this process; None if another pgdrag process has it."""
    if _is_named(number) or pids_of(own_user(number)):
        return None
    return _held(number)


def is_taken(user: ServerUser) -> bool:
    """Whether a pgdrag process that lives, such as this one, has taken a user of pgdrag's own.

    Root alone takes them: what a dead one's server forked may have the name now.
    """
    with socket.socket(socket.AF_UNIX) as asked:
        asked.setblocking(False)
        try:
            asked.connect(_name(user.uid))
            found = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return False
        _, uid, _ = _CREDENTIALS.unpack(found)
        return bool(uid == 0)


def _name(number: int) -> str:
    # In Linux's abstract namespace: the name ends with its process, even after kill -9.
    return f"\0pgdrag-user-{number}"


def _held(number: int) -> socket.socket | None:
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(_name(number))
        held.listen(socket.SOMAXCONN)  # nobody answers: the kernel says who does not
    except OSError:
        held.close()
        return None
    return held


def _is_named(number: int) -> bool:
    for find in (pwd.getpwuid, grp.getgrgid):
        try:
            find(number)
        except KeyError:
            continue
        return True
    return False
