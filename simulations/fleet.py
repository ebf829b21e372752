"""A fleet of 100 hosts and 10,000 trials through the real coordinator, journal and TLS; hosts are simulated.

Trials take three seconds in the place of a minute or more, some ten times as long; hosts fail trials, and vanish and come
back. What the coordinator costs is counted per trial and per host, from its own processor time.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pgdrag
from pgdrag.agenda import Agenda
from pgdrag.fleet.agent import Ticket
from pgdrag.fleet.connection import Connection, ConnectionBroken
from pgdrag.fleet.coordinator import Coordinator
from pgdrag.fleet.messages import (
    PROTOCOL,
    Done,
    End,
    Facts,
    Hello,
    Order,
    Recorded,
    Renew,
    Run,
    Stop,
    Stopped,
    from_coordinator,
)
from pgdrag.fleet.tls import COORDINATOR, Authority
from pgdrag.journal import Journal
from pgdrag.model import Result, Trial
from pgdrag.model.events import Event, TrialStarted, ignore
from pgdrag.testing.simulated import (
    SIMULATED_HOST,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)
from simulations.rows import Row, value_row

HOSTS, TRIALS, TREATMENTS = 100, 10_000, 8
TRUTH = Truth(slowdowns={"a": 1.1, "b": 1.5, "c": 3.0}, noise=0.02, is_observed=True)
LEASE_S, USUAL_LEASE_S = 6.0, 30.0
# Shorter ones would wait for the journal: each result is on disk before the next trial begins.
_TRIAL_S, _STRAGGLERS, _FAILURES, _VANISHING = 3.0, 0.01, 0.005, 0.002
_USUAL_TRIAL_S = 60.0  # of a real one, warm-up, restore and all


def simulate(scale: float) -> list[Row]:
    """Run the fleet, and then let it idle; return what both cost."""
    trials = max(int(TRIALS * scale) // TREATMENTS, 20) * TREATMENTS
    with tempfile.TemporaryDirectory() as directory:
        cpu_s, elapsed_s, found = _run(Path(directory), trials)
        idle_share = asyncio.run(_idle(Path(directory), 20.0))
    # Renewals are counted once, as those of hosts that idle, with the usual lease.
    per_trial_s = (cpu_s - idle_share * USUAL_LEASE_S / LEASE_S * elapsed_s) / trials
    share = per_trial_s * HOSTS / _USUAL_TRIAL_S + idle_share
    of_100 = f"{HOSTS} hosts, {trials:,} trials"
    waits_s = sorted(found["waits_s"])
    return [
        value_row(f"{of_100}: trials without exactly one result", found["wrong"], "<= 0"),
        value_row(f"{of_100}: blocks on more than one host", found["mixed"], "<= 0"),
        value_row(f"{of_100}: attempts beyond one a trial", found["again"]),
        value_row(f"{of_100}: results refused", found["refused"]),
        value_row(f"{of_100}: trials per second", trials / elapsed_s),
        value_row("coordinator: processor time per trial, ms", 1e3 * per_trial_s),
        value_row("coordinator: share of a processor, 100 hosts that idle", idle_share),
        value_row(
            "coordinator: share of a processor, 100 hosts, trials of 1 min", share, "<= 0.01"
        ),
        value_row("host: median wait for the next trial, ms", 1e3 * waits_s[len(waits_s) // 2]),
        value_row("host: 99 % of waits, ms", 1e3 * waits_s[int(len(waits_s) * 0.99)]),
    ]


def _run(directory: Path, trials: int) -> tuple[float, float, dict[str, Any]]:
    study = simulated_ladder("a", "b", "c", replicates=trials // TREATMENTS).with_design("grid")
    journal = Journal(directory / "journal.sqlite")
    run_id = begin_simulated(journal, study, seed=5)
    order = Order(study, None, (), LEASE_S)
    names = [f"host-{at}" for at in range(HOSTS)]
    began: list[tuple[float, float]] = []

    def listen(event: Event) -> None:
        # Certificates and schemas are made once a run.
        if isinstance(event, TrialStarted) and not began:
            began.append((time.process_time(), time.monotonic()))

    agenda = Agenda(journal.run(run_id), journal, listen, hosts=HOSTS)
    coordinator = Coordinator(agenda, names, order, server_version="simulated", listen=listen)
    waits_s = asyncio.run(_lead(coordinator, names))
    (begun_cpu_s, begun_s), *_ = began
    cpu_s, elapsed_s = time.process_time() - begun_cpu_s, time.monotonic() - begun_s
    results = journal.run(run_id).results
    of_trial = Counter(x.trial.number for x in results)
    hosts: dict[int, set[str]] = {}
    for one in results:
        hosts.setdefault(one.trial.block, set()).add(one.host)
    ((attempts,),) = journal._rows("SELECT count(*) FROM attempt")
    return (
        cpu_s,
        elapsed_s,
        {
            "wrong": sum(of_trial[at] != 1 for at in range(1, trials + 1)),
            "mixed": sum(len(x) != 1 for x in hosts.values()),
            "again": attempts - trials,
            "refused": coordinator.refused,
            "waits_s": waits_s,
        },
    )


class _Nobody:
    def gone(self) -> dict[str, str]:
        return {}


async def _lead(coordinator: Coordinator, names: Sequence[str]) -> list[float]:
    """Lead hosts that are tasks of another process, and return how long each waited between trials."""
    authority = Authority.new()
    identity = authority.identity(COORDINATOR, is_coordinator=True)
    async with await coordinator.serve(identity, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        tickets = [Ticket(x, "127.0.0.1", port, authority.identity(x)).written() for x in names]
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_hosts, args=(tickets, theirs), daemon=True)
        process.start()
        await coordinator.run(_Nobody())
        waits_s = await asyncio.to_thread(ours.recv)
        await asyncio.to_thread(process.join)
    return list(waits_s)


async def _idle(directory: Path, for_s: float) -> float:
    """Return the share of a processor that hosts cost which only renew their leases."""
    names = [f"host-{at}" for at in range(HOSTS)]
    order = Order(None, None, (), USUAL_LEASE_S)
    coordinator = Coordinator(None, [*names, "never"], order, listen=ignore)
    leading = asyncio.create_task(_lead(coordinator, names))
    while len(coordinator.clocks_ahead_s) < HOSTS:
        await asyncio.sleep(0.1)
    cpu_s = time.process_time()
    await asyncio.sleep(for_s)
    share = (time.process_time() - cpu_s) / for_s
    leading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leading
    return share


# --- the process of the hosts -------------------------------------------------------------------


def _hosts(tickets: Sequence[str], pipe: Any) -> None:
    async def all_of_them() -> list[float]:
        hosts = [_SimulatedHost(Ticket.read(text)) for text in tickets]
        await asyncio.gather(*(host.run() for host in hosts))
        return [wait_s for host in hosts for wait_s in host.waits_s]

    pipe.send(asyncio.run(all_of_them()))


class _SimulatedHost:
    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.rng = random.Random(ticket.name)
        self.runner = SimulatedTrialRunner(TRUTH, seed=3)
        self.waits_s: list[float] = []
        self.known: dict[str, Result] = {}
        self.is_over = False
        self.renew_s = 1.0

    async def run(self) -> None:
        """Be a host until the run is over; vanish at times."""
        while not self.is_over:
            try:
                await self._session()
            except OSError:  # nobody listens any more
                return
            except ConnectionBroken:
                pass
            await asyncio.sleep(self.rng.uniform(0, 2 * LEASE_S) if not self.is_over else 0)

    async def _session(self) -> None:
        reader, writer = await asyncio.open_connection(
            self.ticket.address,
            self.ticket.port,
            ssl=self.ticket.identity.context(is_coordinator=False),
            server_hostname=COORDINATOR,
        )
        connection = Connection(reader, writer)
        instance = str(self.rng.random())
        await connection.send(Hello(PROTOCOL, instance, pgdrag.__version__, time.time()))
        renewing = asyncio.create_task(self._renew(connection))
        done_s: float | None = None
        try:
            while True:
                match from_coordinator(await connection.receive()):
                    case Order() as order:
                        self.renew_s = order.renew_s
                        await connection.send(Facts(SIMULATED_HOST, "simulated", 1 << 40, False))
                    case Run(lease, trial):
                        if done_s is not None:
                            self.waits_s.append(time.monotonic() - done_s)
                        lot = self.rng.random()
                        slow = 10 if self.rng.random() < _STRAGGLERS else 1
                        await asyncio.sleep(slow * _TRIAL_S * self.rng.uniform(0.5, 1.5))
                        if lot < _VANISHING:
                            return
                        if lot < _VANISHING + _FAILURES:
                            await connection.send(Stopped(lease, "by lot"))
                            done_s = None
                            continue
                        result = self._result(trial)
                        await connection.send(Done(lease, result))
                        done_s = time.monotonic()
                    case Stop(lease):
                        await connection.send(Stopped(lease))
                    case Recorded():
                        pass
                    case End():
                        self.is_over = True
                        return
        finally:
            renewing.cancel()
            connection.close()

    def _result(self, trial: Trial) -> Result:
        """Return a result for a trial, of its treatment, as the hosts of this process have one processor together."""
        name = trial.treatment.name
        if name not in self.known:
            self.known[name] = replace(self.runner.run(trial, ignore), took_s=_TRIAL_S)
        return replace(self.known[name], trial=trial)

    async def _renew(self, connection: Connection) -> None:
        with contextlib.suppress(ConnectionBroken):
            while True:
                await connection.send(Renew(time.monotonic()))
                await asyncio.sleep(self.renew_s)
