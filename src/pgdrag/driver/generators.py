"""Where can a load driver be started that puts a part of the load on the server? Here, or through another program.

A `Generator` starts a driver with a job, and what it gives, a `Talk`, passes lines on in both directions. Whatever
runs `pgdrag-driver` somewhere, with the ends of the conversation as its standard streams, is one: `ssh`, `ip netns
exec`, or a relay over a connection that pgdrag already has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

from pgdrag.driver.contract import Line
from pgdrag.driver.conversation import Confined, conversation, ignore
from pgdrag.errors import UsageError

# It never asks, and does not wait for ever for a host that is off.
SSH = ("ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=20")
# A shell that is not a login shell does not look where pip and `pgdrag fleet check --install` put programs of the user.
WITH_USERS_PROGRAMS = 'env PATH="$HOME/.local/bin:$PATH"'


class Talk(Protocol):
    """A driver that has been started: what is said to it, and what it says."""

    heard_s: float  # by this process's monotonic clock: when what was read last had come

    def say(self, line: Mapping[str, Any]) -> None:
        """Write a line to the driver; a driver that is gone is not reported here."""
        ...

    def next_line(self, deadline: float) -> Line:
        """Return the next line; a thread of its own asks for them.

        Args:
            deadline: by the monotonic clock.

        Raises:
            TimeoutError: it is too late for one.
            DriverError: the driver ended without a last word, or broke the contract.
        """
        ...

    def end(self) -> None:
        """Ask the driver to cancel what it has begun, and to end, without waiting for it."""
        ...

    def kill(self) -> None:
        """End the driver, or at least the connection to it, which ends it as well."""
        ...


class Generator(Protocol):
    """A place where a load driver can be started."""

    @property
    def host(self) -> str:
        """The host that it is on; "": this one."""
        ...

    def started(
        self, job: Mapping[str, Any], confined: Confined | None, *, starts_programs: bool
    ) -> AbstractContextManager[Talk]:
        """Start a driver there and give it its job; leaving the block ends it in any state.

        Args:
            confined, starts_programs: as for `conversation`.

        Raises:
            DriverError: it cannot be started.
            UsageError: this job cannot be done there.
        """
        ...


@dataclass(frozen=True)
class LocalGenerator:
    """A driver on this machine."""

    binary: Path
    host: str = ""

    def started(
        self, job: Mapping[str, Any], confined: Confined | None, *, starts_programs: bool
    ) -> AbstractContextManager[Talk]:
        """Start it."""
        return conversation(
            [self.binary], job, ignore, confined=confined, starts_programs=starts_programs
        )


@dataclass(frozen=True)
class CommandGenerator:
    """A driver that a command of this machine starts elsewhere, and that ends when the command does.

    Attributes:
        command: its arguments; the driver's standard streams are its own.
    """

    host: str
    command: tuple[str, ...]

    def started(
        self, job: Mapping[str, Any], confined: Confined | None, *, starts_programs: bool
    ) -> AbstractContextManager[Talk]:
        """Start it."""
        del confined  # it is a client of this machine's
        server = job["server"]
        if _is_here(str(server.get("address") or server["host"])):
            raise UsageError(
                f'load generator "{self.host}" cannot reach a server that this machine knows as "{server["host"]}"',
                hint="Name the server by its host name, or use generators on this machine: --generators 2.",
            )
        if starts_programs:
            raise UsageError(
                f'scripts that run programs cannot run on another host, "{self.host}"',
                hint="Use generators of this machine: --generators 2.",
            )
        return conversation(self.command, job, ignore)


def _is_here(host: str) -> bool:
    """Tell whether a host is a Unix socket or a loopback address, which mean another server on another machine."""
    try:
        return host.startswith("/") or host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def by_ssh(place: str) -> CommandGenerator:
    """Return a generator on a host that SSH reaches without asking.

    Args:
        place: "load-a" that has pgdrag-driver on its path, or with where it is there:
            "me@load-a:~/venv/bin/pgdrag-driver".
    """
    host, _, program = place.rpartition(":") if "/" in place else (place, "", "pgdrag-driver")
    # A host whose name begins with a dash is not an option.
    return CommandGenerator(host, (*SSH, "--", host, f"{WITH_USERS_PROGRAMS} {program}"))


def names_of(generators: Sequence[Generator]) -> list[str]:
    """Return what people call them: "generator 1", "generator 2 (load-b)"."""
    return [
        f"generator {number}" + (f" ({one.host})" if one.host else "")
        for number, one in enumerate(generators, 1)
    ]
