"""How is a run brought to its end on a fleet, or a fleet looked at before?"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdrag.agenda import Agenda
from pgdrag.errors import ServerError
from pgdrag.fleet.agent import Ticket
from pgdrag.fleet.coordinator import Coordinator
from pgdrag.fleet.file import FleetFile
from pgdrag.fleet.messages import Facts, Order
from pgdrag.fleet.starting import Started
from pgdrag.fleet.tls import COORDINATOR, Authority
from pgdrag.host.interrupts import INTERRUPTS
from pgdrag.host.machine_lock import lock_name
from pgdrag.journal import Journal
from pgdrag.lab import running
from pgdrag.model import RunRecord, Study
from pgdrag.model.events import Listener


@dataclass(frozen=True)
class Fleet:
    """Hosts that run trials.

    Attributes:
        directory: where tickets are written, for the time of a run.
        join_options: of the agents' command line, such as --allow-run.
        tell: called with what a person must do.
        join_argv: the program of an agent on this machine; None: this pgdrag.
    """

    file: FleetFile
    directory: Path
    join_options: tuple[str, ...] = ()
    tell: Callable[[str], object] = print
    join_argv: tuple[str, ...] | None = None

    def run(
        self,
        run_id: str,
        journal: Journal,
        listen: Listener,
        *,
        server_wanted: str | None,
        allowed: Sequence[str],
    ) -> RunRecord:
        """Run, or continue, a run that the journal knows, and return it with all its results.

        Raises:
            Interrupted: Ctrl-C or SIGTERM; what was measured is in the journal.
            PgdragError: something that stops all trials; what was measured is in the journal.
        """
        authority = Authority.new()
        with running(run_id, journal):
            record = journal.run(run_id)
            agenda = Agenda(record, journal, listen, hosts=len(self.file.names))
            order = self._order(record.study, server_wanted, allowed)
            coordinator = Coordinator(
                agenda,
                self.file.names,
                order,
                server_version=record.server_version,
                patience_s=self.file.wait_s,
                listen=listen,
            )
            _interruptible(self._lead(coordinator, authority, run_id))
        return journal.run(run_id)

    def facts(
        self, listen: Listener, *, server_wanted: str | None, clocks: dict[str, float]
    ) -> dict[str, Facts | str]:
        """Return what each host is, or why that is not known; nothing is run there.

        Args:
            clocks: gets how far each host's clock is ahead of this machine's, in seconds.

        Raises:
            UsageError: the extra is not installed.
        """
        coordinator = Coordinator(
            None,
            self.file.names,
            self._order(None, server_wanted, ()),
            patience_s=self.file.wait_s,
            listen=listen,
        )
        found = _interruptible(self._lead(coordinator, Authority.new(), "check"))
        clocks.update(coordinator.clocks_ahead_s)
        return found

    def _order(self, study: Study | None, wanted: str | None, allowed: Sequence[str]) -> Order:
        return Order(study, wanted, tuple(allowed), self.file.lease_s)

    async def _lead(
        self, coordinator: Coordinator, authority: Authority, run_id: str
    ) -> dict[str, Facts | str]:
        address, port = self.file.address
        identity = authority.identity(COORDINATOR, is_coordinator=True)
        try:
            server = await coordinator.serve(identity, address, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ServerError(
                f"could not listen on {self.file.listen}: {reason.rpartition(': ')[2].lower()}",
                hint='Give "listen" in the fleet file an address of this machine, and a port that is free.',
            ) from None
        async with server:
            port = server.sockets[0].getsockname()[1]
            reach = self.file.reach or address

            def ticket_for(name: str) -> Ticket:
                return Ticket(name, reach, port, authority.identity(name), lock_name())

            started = Started(
                self.file,
                ticket_for,
                run_id=run_id,
                tickets=self.directory / run_id,
                join_options=self.join_options,
                **({} if self.join_argv is None else {"join_argv": self.join_argv}),
            )
            try:
                for line in started.lines:
                    self.tell(line)
                return await coordinator.run(started)
            finally:
                started.end()

    def sweep(self) -> None:
        """Remove tickets that a killed coordinator left; they have led nowhere since."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _interruptible(lead: Coroutine[Any, Any, dict[str, Facts | str]]) -> dict[str, Facts | str]:
    """Run a coroutine to its end; an interrupt cancels it, so that it never comes in the middle of a transaction."""
    is_interrupted = False

    async def main() -> dict[str, Facts | str]:
        task = asyncio.create_task(lead)

        def interrupt() -> None:
            nonlocal is_interrupted
            is_interrupted = True
            task.cancel()

        with _handling(interrupt):
            return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        assert is_interrupted
        raise KeyboardInterrupt from None


@contextmanager
def _handling(interrupt: Callable[[], None]) -> Iterator[None]:
    loop, handlers = asyncio.get_running_loop(), {}
    for number in INTERRUPTS:
        handler = signal.getsignal(number)
        if handler is not None and handler is not signal.SIG_IGN:
            handlers[number] = handler
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
