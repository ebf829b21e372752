"""The same search for guilty settings on this machine and on three network namespaces, on real servers.

    python fleet_servers.py        as root, three minutes: `make fleet-servers`

Two of its three changes slow all reads, either alone: a fleet must say so, too, with intervals that meet those of one
machine, and leave nothing running.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from fleet_networks import NAMES, PORT, Networks, wait_for
from fleet_runs import processes_of

PLANTED = Path(__file__).with_name("postgres") / "planted.toml"
RUNG = '[[rungs]]\nname = "R1"\nsetting = { jit = "off" }\n'
RUNGS = """[[rungs]]
name = "R1"
setting = { jit = "off", work_mem = "2MB", temp_buffers = "2MB" }
"""
REPLICATES = len(NAMES)
ENOUGH_S = 400.0


def experiment() -> str:
    """Return the planted experiment as a search among its changes."""
    text = PLANTED.read_text()
    assert RUNG in text
    return text.replace(RUNG, RUNGS).replace(
        'kind = "ladder"', 'kind = "ablate"\nshare_precision = 0.4'
    )


class ServerNetworks(Networks):
    """Hosts that run real trials, each in a network of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "planted.toml").write_text(experiment())

    def environment(self, name: str) -> dict[str, str]:
        """Return the places and the lock of one host, or of the coordinator."""
        return {
            "PGDRAG_HOME": str(self.directory / name / "home"),
            "PGDRAG_MACHINE": str(self.directory / name),
            "PGDRAG_SCRATCH": str(self.directory / name / "scratch"),
        }

    def search(self, *options: str) -> dict[str, Any]:
        """Run the search, on the hosts where options name a fleet, and return its report."""
        home = self.directory / "coordinator" / "home"
        argv = [sys.executable, "-m", "pgdrag", "run", str(self.directory / "planted.toml"), "--yes",
                f"--replicates={REPLICATES}", "--json", *options]  # fmt: skip
        with (
            (self.directory / "report").open("w+b") as report,
            (self.directory / "said").open("w+b") as said,
        ):
            leading = self._start(None, argv, self.environment("coordinator"), said, report)
            if options:
                wait_for(lambda: len(list(home.glob("fleet/*/*.ticket"))) == len(NAMES))
                for ticket in home.glob("fleet/*/*.ticket"):
                    joining = [sys.executable, "-m", "pgdrag", "fleet", "join", str(ticket)]
                    self.agents[ticket.stem] = self._start(
                        ticket.stem, joining, self.environment(ticket.stem), said
                    )
            status = leading.wait(ENOUGH_S)
            said.seek(0)
            assert status == 0, said.read().decode()
            report.seek(0)
            found: dict[str, Any] = json.load(report)
        return found


def shown(found: dict[str, Any]) -> str:
    whole = found["found"]["whole"]
    return f"{whole['center']:.3g}× ({whole['low']:.3g} to {whole['high']:.3g})"


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        directory.chmod(0o755)  # servers are another user's
        with ServerNetworks(directory) as networks:
            names = ", ".join(f'"{name}"' for name in NAMES)
            networks.place.write(f'listen = "10.77.0.1:{PORT}"\njoin = [{names}]\n')
            alone = networks.search()
            print(f"on one machine: {shown(alone)}", flush=True)
            fleet = networks.search(f"--fleet={directory / 'fleet.toml'}")
            print(f"on {len(NAMES)} hosts: {shown(fleet)}", flush=True)
            for agent in networks.agents.values():
                assert agent.wait(60) == 0
            wait_for(lambda: not processes_of(networks.mark))
    labels = [
        {one["name"]: (one["label"], one["is_survivor"]) for one in found["found"]["changes"]}
        for found in (alone, fleet)
    ]
    print(*labels, sep="\n")
    assert [x["is_survivor"] for x in alone["found"]["changes"]].count(True) == 2
    for name, (_, is_survivor) in labels[0].items():
        assert labels[1][name][1] == is_survivor, name
    one, three = (found["found"]["whole"] for found in (alone, fleet))
    assert max(one["low"], three["low"]) <= min(one["high"], three["high"]), "they do not meet"
    print("the same answers, and nothing is left")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("error: only root can make network namespaces")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # networks go then, too
    main()
