"""A host whose trial was forgotten, as the design asked for something else, is stopped, and answers in vain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the extra fleet is not installed")

import pgdrag
from pgdrag.agenda import Agenda
from pgdrag.fleet.connection import Connection
from pgdrag.fleet.coordinator import Coordinator
from pgdrag.fleet.messages import (
    PROTOCOL,
    Done,
    End,
    Facts,
    FromCoordinator,
    Hello,
    Order,
    Recorded,
    Run,
    Stop,
    Stopped,
    from_coordinator,
)
from pgdrag.fleet.tls import COORDINATOR, Authority
from pgdrag.journal import Journal
from pgdrag.model import Block, Forecast, Result
from pgdrag.model.design import Design
from pgdrag.model.events import ignore
from pgdrag.testing.simulated import (
    SIMULATED_HOST,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

STUDY = simulated_ladder("a", "b", "c")
ORDER = Order(STUDY, None, (), 30.0)
FIRST, EXPECTED, ASKED = (Block((rung.treatment,)) for rung in STUDY.rungs[1:])


class Surprising(Design):
    """Asks for another block than it said it would."""

    def __init__(self) -> None:
        self.told = 0

    def ask(self) -> Block:
        return (FIRST, ASKED, Block())[self.told]

    def ask_ahead(self, most: int) -> Sequence[Block]:
        return [EXPECTED] if not self.told else []

    def tell(self, results: Sequence[Result]) -> None:
        self.told += 1

    def forecast(self) -> Forecast:
        return Forecast(2, 2)

    def trials_left(self) -> Forecast:
        return Forecast(2 - self.told, 2 - self.told)

    def so_far(self, results: Sequence[Result]) -> str:
        return ""


class Nobody:
    def gone(self) -> dict[str, str]:
        return {}


class Host:
    """A host that does what the test says."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.runner = SimulatedTrialRunner(Truth())

    @classmethod
    async def connected(cls, name: str, port: int, authority: Authority) -> Host:
        context = authority.identity(name).context(is_coordinator=False)
        streams = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=COORDINATOR
        )
        host = cls(Connection(*streams))
        await host.connection.send(Hello(PROTOCOL, name, pgdrag.__version__, time.time()))
        assert isinstance(await host.heard(), Order)
        await host.connection.send(Facts(SIMULATED_HOST, "simulated", 1 << 40, is_root=False))
        return host

    async def heard(self) -> FromCoordinator:
        async with asyncio.timeout(60):
            return from_coordinator(await self.connection.receive())

    async def told_to_run(self) -> Run:
        message = await self.heard()
        assert isinstance(message, Run), message
        return message

    async def answer(self, run: Run) -> FromCoordinator:
        await self.connection.send(Done(run.lease, self.runner.run(run.trial, ignore)))
        return await self.heard()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_host_whose_trial_was_forgotten_is_stopped_and_its_late_result_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    design = Surprising()
    monkeypatch.setattr("pgdrag.agenda.make_design", lambda study: design)
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, STUDY, seed=5)
    agenda = Agenda(journal.run(run_id), journal, hosts=2)
    coordinator = Coordinator(agenda, ["one", "two"], ORDER, listen=ignore)

    async def lead() -> None:
        authority = Authority.new()
        identity = authority.identity(COORDINATOR, is_coordinator=True)
        async with await coordinator.serve(identity, "127.0.0.1") as server:
            leading = asyncio.create_task(coordinator.run(Nobody()))
            port = server.sockets[0].getsockname()[1]
            one = await Host.connected("one", port, authority)
            asked = await one.told_to_run()
            two = await Host.connected("two", port, authority)
            ahead = await two.told_to_run()
            assert (asked.trial.treatment, ahead.trial.treatment) == (
                FIRST.treatments[0],
                EXPECTED.treatments[0],
            )
            assert await one.answer(asked) == Recorded(asked.lease, counts=True)
            anew = await one.told_to_run()
            # The number is given again, and so is that of the attempt.
            assert anew.trial.treatment == ASKED.treatments[0]
            assert anew.lease == ahead.lease
            assert await two.heard() == Stop(ahead.lease)
            if is_late:
                assert await two.answer(ahead) == Recorded(ahead.lease, counts=False)
            else:
                await two.connection.send(Stopped(ahead.lease))
            assert await one.answer(anew) == Recorded(anew.lease, counts=True)
            assert (await one.heard(), await two.heard()) == (End(), End())
            for host in (one, two):
                host.connection.close()
            await leading

    asyncio.run(lead())
    assert [x.trial.treatment for x in journal.run(run_id).results] == [
        *FIRST.treatments,
        *ASKED.treatments,
    ]
    assert coordinator.refused == is_late
