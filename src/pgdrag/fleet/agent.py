"""What does a host of a fleet do: run the trials that it has a lease on, and end them when it has none?

The agent holds the connection and the lease; a worker, a process in a session of its own, runs the trials. So a trial
can be ended whatever it does: the worker is killed, and the worker's own guardian undoes what it has changed and
removes what it has made, as after any other kill. What the worker leaves becomes the agent's child, and the agent
waits until nothing of it runs any more.

A lease lasts from the moment when the agent asked for it. Connections break and are made again meanwhile; a lease that
nobody renews ends the trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil
from pydantic import TypeAdapter, ValidationError

import pgdrag
from pgdrag.errors import PgdragError, UsageError
from pgdrag.fleet.connection import LARGEST_BYTES, Connection, ConnectionBroken
from pgdrag.fleet.messages import (
    PROTOCOL,
    Done,
    End,
    Facts,
    FromCoordinator,
    FromHost,
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
    from_coordinator,
    from_host,
    written,
)
from pgdrag.fleet.tls import COORDINATOR, Identity
from pgdrag.host.machine_lock import MACHINE_VARIABLE, lock_name

_CONNECT_TIMEOUT_S, _AGAIN_S = 20.0, 1.0
# Without a coordinator it stays this long: one that is started again has other certificates.
_PATIENCE_S = 600.0
_SOON_S, _LAST_S = 10.0, 60.0  # for a worker that is asked to end, and for what it leaves
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ticket:
    """What a host needs to take part: who it is, and where the coordinator listens.

    Attributes:
        coordinators_lock: the `lock_name` of the coordinator, which holds that lock for the whole run.
    """

    name: str
    address: str
    port: int
    identity: Identity
    coordinators_lock: str = ""

    def written(self) -> str:
        """Return it as one line of text, which is as secret as a key."""
        return TypeAdapter(Ticket).dump_json(self).decode()

    @classmethod
    def read(cls, text: str) -> Ticket:
        """Return what was written.

        Raises:
            UsageError: it is no ticket.
        """
        try:
            return TypeAdapter(Ticket).validate_json(text)
        except ValidationError:
            raise UsageError(
                "that is no ticket of a fleet",
                hint="The coordinator writes them: see docs/how-to/fleet.md.",
            ) from None


class Worker:
    """The process that runs the trials of this host, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.is_ending = False

    @classmethod
    async def start(cls, argv: Sequence[str], environment: Mapping[str, str]) -> Worker:
        """Start it, in a session of its own; it dies with this process."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=_die_with_parent,
            limit=LARGEST_BYTES,
        )
        return cls(process)

    def tell(self, message: FromCoordinator) -> None:
        """Hand it an order; one that is about to end does not take it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            self._process.stdin.write(written(message) + b"\n")

    async def said(self) -> AsyncIterator[FromHost]:
        """Yield what it says, until it has ended."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            yield from_host(line)

    async def end(self, *, at_once: bool = False) -> None:
        """End it, what it runs and what it leaves, and return when nothing of it is there."""
        self.is_ending = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        signals = (signal.SIGKILL,) if at_once else (signal.SIGTERM, signal.SIGKILL)
        for number in signals:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SOON_S):
                    await self._process.wait()
                break
        await self.wait()

    async def finish(self) -> None:
        """Let it give up what it has, and end by itself."""
        self.is_ending = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOON_S):
                await self._process.wait()
        await self.end()

    async def wait(self) -> int:
        """Wait until it has ended, and its guardian has cleared up; return its status."""
        status = await self._process.wait()
        deadline_s = time.monotonic() + _LAST_S
        while _reap() and time.monotonic() < deadline_s:
            await asyncio.sleep(0.02)
        return status


@dataclass
class Agent:
    """This host's part in a run.

    Args:
        ticket: who it is.
        worker_argv: the program that runs trials.
        environment: of that program.
        ends_with_input: the end of standard input is that of the coordinator.
    """

    ticket: Ticket
    worker_argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    instance: str = field(default_factory=lambda: secrets.token_hex(8))
    ends_with_input: bool = False

    def __post_init__(self) -> None:
        self._connection: Connection | None = None
        self._order: Order | None = None
        self._worker: Worker | None = None
        self._listening: asyncio.Task[None] | None = None
        self._facts: FromHost | None = None
        self._lease: Lease | None = None
        self._result: Done | None = None  # until the coordinator says that it is in the journal
        self._renewed_s = self._heard_s = time.monotonic()
        self._end: End | None = None
        self._has_no_input = False

    async def run(self) -> str:
        """Take part until the run is over, and return why it ended for this host; "": it is over.

        Raises:
            PgdragError: the coordinator cannot be reached.
        """
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        watch = asyncio.create_task(self._watch())
        session = asyncio.ensure_future(self._sessions())
        if self.ends_with_input:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_input, session)
        try:
            await session
            assert self._end is not None
            return self._end.reason
        except asyncio.CancelledError:
            if self._has_no_input:
                return "the coordinator has ended"
            raise
        finally:
            watch.cancel()
            session.cancel()
            await self._quit()

    def _read_input(self, session: asyncio.Future[None]) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._has_no_input = True
            # Where the run is over, its last word comes first.
            asyncio.get_running_loop().call_later(_AGAIN_S, session.cancel)

    async def _sessions(self) -> None:
        """Connect, and again whenever the connection is lost, until the coordinator says the last word."""
        while self._end is None:
            try:
                await self._session()
            except (ConnectionBroken, OSError, TimeoutError) as error:
                if time.monotonic() - self._heard_s > _PATIENCE_S:
                    raise PgdragError(
                        f"could not reach the coordinator at {self.ticket.address}:{self.ticket.port}",
                        detail=f"{error}.",
                    ) from None
                await asyncio.sleep(_AGAIN_S)

    async def _session(self) -> None:
        ticket = self.ticket
        # Not wait_for(): before Python 3.12 it forgets a cancellation that comes when its task has just ended.
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                ticket.address,
                ticket.port,
                ssl=ticket.identity.context(is_coordinator=False),
                server_hostname=COORDINATOR,
            )
        connection = Connection(reader, writer)
        renewing: asyncio.Task[None] | None = None
        try:
            hello = Hello(PROTOCOL, self.instance, pgdrag.__version__, time.time(), self._lease)
            await connection.send(hello)
            self._connection = connection
            renewing = asyncio.create_task(self._renew(connection))
            for known in (self._facts, self._result):
                if known is not None and self._order is not None:
                    await connection.send(known)
            while self._end is None:
                message = from_coordinator(await connection.receive())
                self._heard_s = time.monotonic()
                await self._take(message)
        finally:
            if renewing is not None:
                renewing.cancel()
            if self._end is None:
                self._connection = None
                connection.close()

    async def _take(self, message: FromCoordinator) -> None:
        match message:
            case Renewed(at_s):
                self._renewed_s = max(self._renewed_s, at_s)
            case Order():
                await self._obey(message)
            case Run():
                await self._begin(message)
            case Stop(lease):
                if lease == self._lease:
                    await self._end_worker()
                await self._say(Stopped(lease))
            case Recorded(lease):
                if self._result is not None and self._result.lease == lease:
                    self._result = self._lease = None
            case End():
                self._end = message

    async def _obey(self, order: Order) -> None:
        if order == self._order and self._worker is not None:
            return  # it was told before the connection broke
        await self._end_worker()
        self._order, self._renewed_s = order, time.monotonic()
        await self._start_worker()

    async def _begin(self, run: Run) -> None:
        if self._lease is not None or self._order is None:
            await self._say(Stopped(run.lease, "it has another trial"))
            return
        self._lease, self._renewed_s = run.lease, time.monotonic()
        if self._worker is None:
            await self._start_worker()
        assert self._worker is not None
        self._worker.tell(run)

    @property
    def workers_environment(self) -> Mapping[str, str]:
        """The environment, with a lock of the fleet's own where the coordinator, on this machine, has the usual one."""
        if self.ticket.coordinators_lock != lock_name():
            return self.environment
        name = f"{self.environment.get(MACHINE_VARIABLE, '')}fleet"
        return {**self.environment, MACHINE_VARIABLE: name}

    async def _start_worker(self) -> None:
        assert self._order is not None
        self._worker = await Worker.start(self.worker_argv, self.workers_environment)
        self._worker.tell(self._order)
        self._listening = asyncio.create_task(self._listen(self._worker))

    async def _listen(self, worker: Worker) -> None:
        """Pass on what the worker says, and say so when it has died."""
        reason = ""
        try:
            async for message in worker.said():
                if not worker.is_ending:
                    self._note(message)
                    await self._say(message)
        except ValueError:  # pydantic's are
            reason = "its worker said what is no message"
        if worker.is_ending:
            return
        worker.is_ending = True
        status = await worker.wait()
        if self._worker is worker:
            self._worker = None
        how = f"signal {-status}" if status < 0 else f"status {status}"
        reason = reason or f"its worker ended with {how}"
        if self._lease is not None and self._result is None:
            lease, self._lease = self._lease, None
            await self._say(Stopped(lease, reason))
        elif self._facts is None and status:
            await self._say(Unable(reason, is_final=True))

    def _note(self, message: FromHost) -> None:
        match message:
            case Facts():
                self._facts = message
            case Done():
                self._result = message
            case Stopped() | Unable(is_final=True):
                self._lease = None

    async def _end_worker(self, *, at_once: bool = False) -> None:
        """End the worker with its trial; nothing of it is left when this returns."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end(at_once=at_once)
        self._lease = self._result = None

    async def _renew(self, connection: Connection) -> None:
        """Ask for more time; the first answer comes after the order, which says how often."""
        with contextlib.suppress(ConnectionBroken):
            while True:
                await connection.send(Renew(time.monotonic()))
                await asyncio.sleep(1.0 if self._order is None else self._order.renew_s)

    async def _watch(self) -> None:
        """End the trial once the lease has not been renewed for so long."""
        while True:
            await asyncio.sleep(0.1)
            if self._order is None or self._worker is None:
                continue
            if time.monotonic() - self._renewed_s > self._order.lease_s:
                print("pgdrag: the lease has expired: the trial is ended", file=sys.stderr)
                if self._connection is not None:
                    self._connection.close()
                await self._end_worker(at_once=True)
                self._order, self._facts, self.instance = None, None, secrets.token_hex(8)

    async def _say(self, message: FromHost) -> None:
        if self._connection is not None:
            with contextlib.suppress(ConnectionBroken):
                await self._connection.send(message)

    async def _quit(self) -> None:
        """Leave nothing behind; the connection's end tells the coordinator so."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await (worker.finish() if self._lease is None else worker.end())
        if self._listening is not None:
            self._listening.cancel()
        if self._connection is not None:
            await self._connection.finish()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _reap() -> bool:
    """Wait for children that have ended; tell whether any is left that has not."""
    left = False
    for child in psutil.Process().children():
        with contextlib.suppress(ChildProcessError, psutil.NoSuchProcess):
            pid, _ = os.waitpid(child.pid, os.WNOHANG)
            left = left or pid == 0
    return left
