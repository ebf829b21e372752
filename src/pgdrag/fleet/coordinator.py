"""How do the hosts of a fleet run the trials of one run, each trial once, even if hosts die?

The coordinator gives each host that is ready a lease on one trial: its number, and which attempt at it this is. Before
a lease ends its result is in the journal; the journal takes one result of the newest attempt and refuses all others, so
that what comes late, or twice, changes nothing. Time is counted by steady clocks alone:

* A host asks for more time again and again. What it counts from is the moment when it asked, the coordinator from when
  that came, which is later: so the host has ended its trial before the coordinator gives it to another one.
* A host that has not asked for so long is lost: its trial's attempt is over, and other hosts begin its block again.

The coordinator has no memory of its own. After its end, hosts end their trials by themselves, and what resumes the run
reads the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pydantic import ValidationError

import pgdrag
from pgdrag.agenda import Agenda, Turn
from pgdrag.english import counted, listed
from pgdrag.errors import ServerError
from pgdrag.fleet.connection import Connection, ConnectionBroken
from pgdrag.fleet.messages import (
    PROTOCOL,
    Done,
    End,
    Facts,
    FromCoordinator,
    Happened,
    Hello,
    Lease,
    Order,
    Recorded,
    Renew,
    Renewed,
    Run,
    Stop,
    Stopped,
    Unable,
    from_host,
)
from pgdrag.fleet.tls import Identity, name_of
from pgdrag.model.events import HostChanged, Listener, OnHost
from pgdrag.units import format_duration

# A host whose trials fail so often in a row is left alone.
MOST_FAILURES = 3
_END_TIMEOUT_S = 20.0
_HELLO_TIMEOUT_S = 20.0
_CLOCK_S = 5.0  # more than a slow connection takes


class NoHosts(ServerError):
    """No host of the fleet can run trials."""


class Starting(Protocol):
    """What has started hosts, and sees that some of them will not come."""

    def gone(self) -> dict[str, str]:
        """Return hosts whose start has failed, or which have ended, each with the reason."""
        ...


@dataclass
class _Host:
    """What the coordinator knows of one host.

    Attributes:
        turn: the trial that it has.
        is_stopping: that trial is not wanted any more, and has not ended yet.
        unable: why it has no trials, for good.
        offset_s: how far its clock is ahead of the coordinator's.
    """

    name: str
    heard_s: float
    connection: Connection | None = None
    instance: str = ""
    facts: Facts | None = None
    turn: Turn | None = None
    is_stopping: bool = False
    unable: str = ""
    failures: int = 0
    trials: int = 0
    offset_s: float = 0.0

    @property
    def lease(self) -> Lease | None:
        return None if self.turn is None else Lease(self.turn.trial.number, self.turn.attempt)

    @property
    def is_free(self) -> bool:
        is_there = self.connection is not None and self.facts is not None
        return is_there and self.turn is None and not self.unable


class Coordinator:
    """Leads the hosts of one run; see the module.

    Args:
        agenda: what is to be run; None: hosts only say what they are.
        names: of the hosts that may take part.
        order: what each of them is told first.
        server_version: that their servers must have; "": whichever they have.
        patience_s: how long it waits where no host can run anything.
        now_s: the steady clock.

    Attributes:
        refused: how many results came late, twice or unasked, and were not taken.
    """

    def __init__(
        self,
        agenda: Agenda | None,
        names: Sequence[str],
        order: Order,
        *,
        server_version: str = "",
        patience_s: float = 600.0,
        listen: Listener,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agenda, self._order, self._listen, self._now_s = agenda, order, listen, now_s
        self._server_version, self._patience_s = server_version, patience_s
        self._hosts = {name: _Host(name, now_s()) for name in names}
        self._changed = asyncio.Event()
        self._useless_since_s = now_s()
        self._error: BaseException | None = None
        self._is_ending = False
        self.refused = 0

    # --- the run -------------------------------------------------------------------------------

    async def serve(self, identity: Identity, address: str, port: int = 0) -> asyncio.Server:
        """Listen for hosts, and return the server; its socket says which port it has."""
        context = identity.context(is_coordinator=True)
        return await asyncio.start_server(
            self._connected, address, port, ssl=context, ssl_handshake_timeout=_HELLO_TIMEOUT_S
        )

    async def run(self, starting: Starting) -> dict[str, Facts | str]:
        """Lead the hosts until the run is over, and return what each host is, or why it is not known.

        Raises:
            NoHosts: none can run trials.
        """
        tick_s = min(self._order.renew_s, 1.0)
        try:
            while not self._is_over():
                self._look(starting.gone())
                self._dispatch()
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(tick_s):
                        await self._changed.wait()
                if self._error is not None:
                    raise self._error
        finally:
            await self._end_hosts()
        return {x.name: x.facts or x.unable or "it has not connected" for x in self._hosts.values()}

    @property
    def clocks_ahead_s(self) -> dict[str, float]:
        """How far the clocks of hosts are ahead of this machine's, in seconds, within what a connection can tell."""
        return {x.name: x.offset_s for x in self._hosts.values() if x.facts is not None}

    def _is_over(self) -> bool:
        if self._agenda is None:
            return all(one.facts is not None or one.unable for one in self._hosts.values())
        if not self._agenda.is_over:
            return False
        # Where a budget has ended the run, trials that have begun are measured to their end.
        return not self._agenda.under_way

    def _dispatch(self) -> None:
        """Give each free host its next trial, and stop trials that are no longer wanted."""
        agenda = self._agenda
        if agenda is None:
            return
        for is_its_own in (True, False):
            for host in self._hosts.values():
                if not host.is_free:
                    continue
                turn = agenda.next(host.name, is_its_own=is_its_own)
                if turn is not None:
                    host.turn = turn
                    self._send(host, Run(Lease(turn.trial.number, turn.attempt), turn.trial))
        wanted = set(agenda.under_way)
        for host in self._hosts.values():
            if host.turn and not host.is_stopping and host.turn not in wanted:
                self._stop(host)

    def _look(self, gone: dict[str, str]) -> None:
        """Let go of hosts that have not been heard of for too long, or whose start has failed."""
        for host in self._hosts.values():
            silent_s = self._now_s() - host.heard_s
            if host.connection is None and host.name in gone and not host.unable:
                self._lose(host, gone[host.name])
                self._set_aside(host, gone[host.name])
            elif silent_s > self._order.lease_s and (host.turn or host.connection):
                self._lose(host, f"nothing was heard of it for {format_duration(silent_s)}")
        for name in self._agenda.hosts_with_work if self._agenda is not None else ():
            known = self._hosts.get(name)  # None: of the run before it was resumed
            if known is None or known.unable or self._is_long_gone(known):
                self._release(name)
        self._give_up()

    def _give_up(self) -> None:
        """Wait for hosts, but not for ever.

        Raises:
            NoHosts: none can run trials.
        """
        is_ready = any(x.connection is not None and x.facts is not None for x in self._able())
        if is_ready and self._agenda is not None:
            self._useless_since_s = self._now_s()
        waited_s = self._now_s() - self._useless_since_s
        if self._agenda is not None:
            if not self._able() or waited_s > self._patience_s:
                raise self._no_hosts(waited_s)
        elif waited_s > self._patience_s:
            for host in self._able():
                host.unable = "" if host.facts else "it has not connected"

    def _able(self) -> list[_Host]:
        return [host for host in self._hosts.values() if not host.unable]

    def _no_hosts(self, waited_s: float) -> NoHosts:
        reasons = [
            f"{x.name}: {x.unable or f'it has not been ready for {format_duration(waited_s)}'}"
            for x in self._hosts.values()
        ]
        return NoHosts(
            "no host of the fleet can run trials",
            detail="\n".join(reasons),
            hint='Run "pgdrag fleet check" on the fleet file. Every finished trial is in the journal: '
            '"pgdrag resume" with --fleet goes on.',
        )

    async def _end_hosts(self) -> None:
        """Have all hosts end what they do, and wait until they have, but not for long."""
        self._is_ending = True
        for host in self._hosts.values():
            if host.connection is not None:
                self._send(host, End())
        deadline_s = time.monotonic() + _END_TIMEOUT_S
        while time.monotonic() < deadline_s and any(x.connection for x in self._hosts.values()):
            await asyncio.sleep(0.05)
        for host in self._hosts.values():
            if host.connection is not None:
                host.connection.close()

    # --- one host ------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        name = name_of(writer.get_extra_info("ssl_object"))
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                hello = from_host(await connection.receive())
            host = self._hosts.get(name)
            refusal = self._refusal(host, hello)
            if host is None or refusal:
                await connection.send(End(refusal))
                await connection.finish()
                return
            assert isinstance(hello, Hello)
            self._welcome(host, hello, connection)
            while host.connection is connection:
                message = from_host(await connection.receive())
                if host.connection is connection:  # not an older one, read to its end
                    host.heard_s = self._now_s()
                    self._take(host, message)
        except (ConnectionBroken, TimeoutError):
            pass
        except asyncio.CancelledError:
            pass  # the run is over; Python 3.11 would take a cancelled handler for an error
        except ValidationError:
            if (host := self._hosts.get(name)) and host.connection in (None, connection):
                self._lose(host, "it sent what is no message")
                self._set_aside(host, "it sent what is no message")
        except Exception as error:  # of the journal, or a bug: nothing can go on
            self._error = error
        finally:
            connection.close()
            if (host := self._hosts.get(name)) is not None and host.connection is connection:
                host.connection = None  # its lease goes on for a while
                self._listen(HostChanged(host.name, "away"))
            self._changed.set()

    def _refusal(self, host: _Host | None, hello: object) -> str:
        if host is None:
            return "the fleet has no host of that name"
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL:
            return "it speaks another version of the protocol"
        if hello.pgdrag_version != pgdrag.__version__:
            reason = f"pgdrag there is {hello.pgdrag_version}, not {pgdrag.__version__}"
            self._set_aside(host, reason)
            return reason
        is_alive = self._now_s() - host.heard_s < self._order.lease_s
        if host.instance not in ("", hello.instance) and host.connection is not None and is_alive:
            # Perhaps its predecessor, whose death was not noticed yet: it tries again.
            raise ConnectionBroken("another process has the certificate of this host")
        return "the run is over" if self._is_ending else host.unable

    def _welcome(self, host: _Host, hello: Hello, connection: Connection) -> None:
        if host.connection is not None:
            host.connection.close()
        is_new = host.instance != hello.instance
        host.connection, host.instance = connection, hello.instance
        host.heard_s, host.offset_s = self._now_s(), hello.unix_s - time.time()
        if host.turn is not None and hello.lease != host.lease:
            self._lose(host, "it began anew and has lost its trial", is_gone=False)
        if is_new:
            host.facts = None
        if host.facts is None:
            self._send(host, self._order)
        elif hello.lease is not None and hello.lease != host.lease:
            self._send(host, Stop(hello.lease))
        self._listen(HostChanged(host.name, "ready" if host.facts else "preparing"))

    def _take(self, host: _Host, message: object) -> None:
        match message:
            case Renew(at_s):
                self._send(host, Renewed(at_s))
                return
            case Happened(event):
                self._listen(OnHost(host.name, event))
                return
            case Facts():
                self._ready(host, message)
            case Done():
                self._done(host, message)
            case Stopped(lease, reason, is_hosts):
                self._stopped(host, lease, reason, is_hosts=is_hosts)
            case Unable(reason, is_final):
                if is_final:
                    self._lose(host, reason, is_gone=False)
                    self._set_aside(host, reason)
                else:
                    self._listen(HostChanged(host.name, "waiting", reason))
            case Hello():
                self._lose(host, "it began anew", is_gone=False)
        self._changed.set()

    def _ready(self, host: _Host, facts: Facts) -> None:
        host.facts = facts
        if self._server_version and facts.server_version != self._server_version:
            self._set_aside(
                host,
                f"its PostgreSQL is {facts.server_version}, that of the run {self._server_version}",
            )
            return
        self._listen(HostChanged(host.name, "ready"))

    def _done(self, host: _Host, done: Done) -> None:
        """Journal a result, and only then end its lease."""
        counts, turn, lease = False, host.turn, done.lease
        if turn is not None and lease == host.lease:
            assert self._agenda is not None
            if done.result.trial == turn.trial:
                machine = host.facts.machine if host.facts else None
                result = replace(done.result, host=host.name, machine=machine)
                counts = self._agenda.record(turn, result)
            else:
                self._agenda.lost(turn, "the host answered for another trial")
            host.turn, host.is_stopping = None, False
            host.failures, host.trials = 0, host.trials + 1
        self.refused += not counts
        self._send(host, Recorded(lease, counts))

    def _stopped(self, host: _Host, lease: Lease | None, reason: str, *, is_hosts: bool) -> None:
        if host.turn is not None and lease == host.lease:
            turn, was_asked = host.turn, host.is_stopping
            host.turn, host.is_stopping = None, False
            if not was_asked:
                assert self._agenda is not None
                self._agenda.lost(turn, f"on {host.name}: {reason}")
                host.failures += 1
        if is_hosts or host.failures >= MOST_FAILURES:
            self._set_aside(host, reason)

    def _stop(self, host: _Host) -> None:
        host.is_stopping = True
        assert host.lease is not None
        self._send(host, Stop(host.lease))

    def _lose(self, host: _Host, reason: str, *, is_gone: bool = True) -> None:
        """Give up the trial that a host has; if it is gone, its connection, too."""
        if is_gone:
            if host.connection is not None:
                host.connection.close()
                host.connection = None
            host.facts, host.instance = None, ""
            self._listen(HostChanged(host.name, "lost", reason))
        if host.turn is not None and self._agenda is not None:
            turn, was_stopping = host.turn, host.is_stopping
            host.turn, host.is_stopping = None, False
            if not was_stopping:
                self._agenda.lost(turn, f"{host.name} was lost: {reason}")

    def _set_aside(self, host: _Host, reason: str) -> None:
        if host.unable:
            return
        host.unable = reason
        self._listen(HostChanged(host.name, "set aside", reason))
        if host.connection is not None:
            self._send(host, End(reason))

    def _is_long_gone(self, host: _Host) -> bool:
        silent_s = self._now_s() - host.heard_s
        return host.connection is None and silent_s > self._order.lease_s

    def _release(self, name: str) -> None:
        host = self._hosts.get(name)
        if self._agenda is not None and (host is None or host.turn is None):
            self._agenda.release(name)

    def _send(self, host: _Host, message: FromCoordinator) -> None:
        if host.connection is not None:
            host.connection.send_soon(message)


def differences(facts: Mapping[str, Facts], clocks_ahead_s: Mapping[str, float]) -> list[str]:
    """Return a sentence for each property that should be the same on all hosts and is not, naming the hosts."""
    found = [
        f"The clock of {name} is {format_duration(abs(ahead_s))} {'ahead' if ahead_s > 0 else 'behind'}; trials "
        "do not depend on it, but their times in reports do."
        for name, ahead_s in clocks_ahead_s.items()
        if abs(ahead_s) > _CLOCK_S
    ]
    found += [
        f"{listed(names)} are one machine, which runs one trial at a time: leave only one of them in the fleet file."
        for lock, names in _names_by(lambda x: x.lock, facts).items()
        if lock and len(names) > 1
    ]
    for label, of in (
        ("processor", lambda x: x.machine.cpu_model),
        ("number of processors", lambda x: str(x.machine.cpu_count)),
        ("memory", lambda x: f"{x.machine.memory_bytes / 2**30:.0f} GB"),
        ("kernel", lambda x: x.machine.kernel),
        ("file system", lambda x: x.machine.file_system),
        ("user", lambda x: "root" if x.is_root else "not root"),
    ):
        by_value = _names_by(of, facts)
        if len(by_value) > 1:
            usual = max(by_value, key=lambda value: len(by_value[value]))
            others = [
                f"{value} on {listed(names)}" for value, names in by_value.items() if value != usual
            ]
            found.append(
                f"Hosts differ in their {label}: {usual} on {counted(len(by_value[usual]), 'host')}, "
                f"{listed(others)}."
            )
    return found


def _names_by(of: Callable[[Facts], str], facts: Mapping[str, Facts]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, one in facts.items():
        found.setdefault(of(one), []).append(name)
    return found
