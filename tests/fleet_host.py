"""A host of a fleet with the simulated laboratory in the place of servers: its agent, and its worker.

    python fleet_host.py agent -      an agent, with its ticket on standard input
    python fleet_host.py worker       what it starts

The environment says what is planted, and how long a trial takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from analysis_runs import refused
from pgdrag.errors import StorageError
from pgdrag.fleet.agent import Agent, Ticket
from pgdrag.fleet.messages import Done, Facts, FromHost, Order
from pgdrag.fleet.worker import standard_streams, work
from pgdrag.model import Result, Trial
from pgdrag.model.events import Listener
from pgdrag.station import TrialRunner
from pgdrag.testing.simulated import SIMULATED_HOST, SimulatedTrialRunner, Truth

TRUTH, TRIAL_S, MARKS, FULL = "FLEET_TRUTH", "FLEET_TRIAL_S", "FLEET_MARKS", "FLEET_FULL"
REFUSED = "FLEET_REFUSED"


class SlowRunner(SimulatedTrialRunner):
    """Takes real time for each trial, and leaves a process and a file while it does, as a server would."""

    def run(self, trial: Trial, listen: Listener) -> Result:
        if "FLEET_DIES_AT" in os.environ and str(trial.number) in os.environ["FLEET_DIES_AT"].split(
            ","
        ):
            os._exit(9)
        if Path(os.environ.get(FULL, "/nowhere")).exists():
            raise StorageError("no space left on device", is_full=True)
        child = subprocess.Popen(["sleep", "600"])
        try:
            time.sleep(float(os.environ.get(TRIAL_S, "0")))
            if MARKS in os.environ:
                with Path(os.environ[MARKS]).open("a") as file:
                    file.write(f"{trial.number}\n")
            result = super().run(trial, listen)
            return refused(result, os.environ[REFUSED]) if REFUSED in os.environ else result
        finally:
            child.kill()
            child.wait()


def open_bench(order: Order) -> tuple[TrialRunner, Facts]:
    truth = Truth(**json.loads(os.environ.get(TRUTH, "{}")))
    return SlowRunner(truth, seed=3), Facts(SIMULATED_HOST, "simulated", 1 << 40, is_root=False)


class TwiceAgent(Agent):
    """Says every result twice, and its last one again with the next."""

    async def _say(self, message: FromHost) -> None:
        await super()._say(message)
        if isinstance(message, Done):
            await super()._say(message)
            if (before := getattr(self, "before", None)) is not None:
                await super()._say(before)
            self.before = message


def agent(ticket: str) -> Agent:
    text = sys.stdin.readline() if ticket == "-" else Path(ticket).read_text()
    argv = [sys.executable, __file__, "worker"]
    kind = TwiceAgent if os.environ.get("FLEET_TWICE") else Agent
    return kind(Ticket.read(text), argv, ends_with_input=ticket == "-")


def set_clock() -> None:
    """Let this process believe in another time; the steady clock is right everywhere."""
    ahead_s = float(os.environ.get("FLEET_CLOCK_AHEAD_S", "0"))
    if ahead_s:
        right = time.time
        time.time = lambda: right() + ahead_s


def main(arguments: Sequence[str]) -> None:
    set_clock()
    if arguments[0] == "agent":
        reason = asyncio.run(agent(arguments[1]).run())
        sys.exit(f"error: {reason}" if reason else 0)
    work(open_bench, *standard_streams())


if __name__ == "__main__":
    main(sys.argv[1:])
