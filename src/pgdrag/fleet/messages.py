"""What do the coordinator and a host say to each other?

JSON of these values, and nothing else: whoever reads a message validates it, and runs nothing of it. A host's name is
in no message, as its certificate says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from pgdrag.adapters import adapter_of
from pgdrag.model import Host, Result, Study, Trial
from pgdrag.model.events import PhaseStarted, Throughput

PROTOCOL = 1


@dataclass(frozen=True)
class Lease:
    """The one trial that a host has, by its number and the attempt at it."""

    number: int
    attempt: int


# --- from a host ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """A host is here, for the first time or again.

    Attributes:
        instance: of the process; it distinguishes two with the same certificate.
        unix_s: its clock.
        lease: the trial that it still runs, or whose result it has.
    """

    protocol: int
    instance: str
    pgdrag_version: str
    unix_s: float
    lease: Lease | None = None
    kind: Literal["hello"] = "hello"


@dataclass(frozen=True)
class Facts:
    """What a host is, and what trials there have at hand.

    Attributes:
        free_bytes: in its scratch directory.
        is_root: trials may change its operating system, if consent is given.
        problems: why something cannot be run there, in words.
        lock: the name of its lock: two hosts with the same one are one machine; "": not known.
    """

    machine: Host
    server_version: str
    free_bytes: int
    is_root: bool
    problems: tuple[str, ...] = ()
    lock: str = ""
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True)
class Renew:
    """A host asks for more time; `at_s` is its own steady clock, which comes back with the answer."""

    at_s: float
    kind: Literal["renew"] = "renew"


@dataclass(frozen=True)
class Happened:
    """An event of a host's trial, or from before its first one."""

    event: Annotated[PhaseStarted | Throughput, Field(union_mode="left_to_right")]
    kind: Literal["happened"] = "happened"


@dataclass(frozen=True)
class Done:
    """What came of a trial."""

    lease: Lease
    result: Result
    kind: Literal["done"] = "done"


@dataclass(frozen=True)
class Stopped:
    """A trial has ended without a result, and nothing of it is left running.

    Attributes:
        reason: why, where the coordinator did not ask for it.
        is_hosts: no other trial would fare better there: its disk is full, for example.
    """

    lease: Lease | None
    reason: str = ""
    is_hosts: bool = False
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True)
class Unable:
    """Nothing can be run there, now (it waits for something) or at all."""

    reason: str
    is_final: bool
    kind: Literal["unable"] = "unable"


# --- from the coordinator ------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What to run.

    Attributes:
        study: None: only say what the host is.
        server_wanted: as `--postgres` names it.
        allowed: what the person at the coordinator allows; the host's own command line has a say, too.
        lease_s: a host that gets no answer for this long ends its trial.
    """

    study: Study | None
    server_wanted: str | None
    allowed: tuple[str, ...]
    lease_s: float
    kind: Literal["order"] = "order"

    @property
    def renew_s(self) -> float:
        """How often a host asks for more time, in seconds: three answers may be lost before its lease ends."""
        return self.lease_s / 4


@dataclass(frozen=True)
class Run:
    """Run a trial."""

    lease: Lease
    trial: Trial
    kind: Literal["run"] = "run"


@dataclass(frozen=True)
class Stop:
    """End a trial whose result is no longer wanted."""

    lease: Lease
    kind: Literal["stop"] = "stop"


@dataclass(frozen=True)
class Renewed:
    """The answer to `Renew`."""

    at_s: float
    kind: Literal["renewed"] = "renewed"


@dataclass(frozen=True)
class Recorded:
    """A result is in the journal, or was refused: the host can forget it."""

    lease: Lease
    counts: bool
    kind: Literal["recorded"] = "recorded"


@dataclass(frozen=True)
class End:
    """The run is over, or this host is not wanted: leave nothing behind, and go.

    Attributes:
        reason: "" where all is well.
    """

    reason: str = ""
    kind: Literal["end"] = "end"


FromHost: TypeAlias = Hello | Facts | Renew | Happened | Done | Stopped | Unable
FromCoordinator: TypeAlias = Order | Run | Stop | Renewed | Recorded | End


def written(message: FromHost | FromCoordinator) -> bytes:
    """Return a message as JSON."""
    return adapter_of(message.__class__).dump_json(message)


def from_host(text: bytes) -> FromHost:
    """Return what a host said.

    Raises:
        ValidationError: it is none of these messages.
    """
    return _of_hosts().validate_json(text)


def from_coordinator(text: bytes) -> FromCoordinator:
    """Return what the coordinator said.

    Raises:
        ValidationError: it is none of these messages.
    """
    return _of_coordinator().validate_json(text)


@cache
def _of_hosts() -> TypeAdapter[FromHost]:
    return TypeAdapter(Annotated[FromHost, Field(discriminator="kind")])


@cache
def _of_coordinator() -> TypeAdapter[FromCoordinator]:
    return TypeAdapter(Annotated[FromCoordinator, Field(discriminator="kind")])
