"""Network namespaces of this machine, each a host of a fleet with an address, a lock and a directory of its own.

    python fleet_networks.py [--rounds N] [--seed N]      run a fleet under faults by lot: `make fleet-faults`

Links can be cut and slowed down. What a host leaves running is found by a mark in its environment. As root only.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import fleet_runs
from fleet_host import FULL, TRIAL_S
from fleet_runs import Place, processes_of, refuse_twice, study_of, without_hosts

NAMES = ("one", "two", "three")
PORT = 7433
LEASE_S = 3.0
HOST = str(Path(__file__).with_name("fleet_host.py"))


def run(*argv: object) -> None:
    subprocess.run([str(x) for x in argv], check=True, capture_output=True)


class Networks:
    """A bridge in a namespace of its own, the coordinator's, and a namespace for each host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tag = f"pgd{os.getpid() % 10_000}"
        self.place = Place(directory)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.clocks: dict[str, float] = {}
        self.leading: subprocess.Popen[bytes] | None = None
        self.twice: set[str] = set()

    def __enter__(self) -> Networks:
        run("ip", "netns", "add", self.tag)
        self._in(None, "ip", "link", "set", "lo", "up")
        self._in(None, "ip", "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        self._in(None, "ip", "addr", "add", "10.77.0.1/24", "dev", "bridge")
        self._in(None, "ip", "link", "set", "bridge", "up")
        for at, name in enumerate(NAMES, start=2):
            run("ip", "netns", "add", f"{self.tag}-{name}")
            self._in(name, "ip", "link", "set", "lo", "up")
            self._in(
                None,
                "ip",
                "link",
                "add",
                name,
                "type",
                "veth",
                "peer",
                "name",
                "wire",
                "netns",
                f"{self.tag}-{name}",
            )
            self._in(None, "ip", "link", "set", name, "master", "bridge", "up")
            self._in(name, "ip", "addr", "add", f"10.77.0.{at}/24", "dev", "wire")
            self._in(name, "ip", "link", "set", "wire", "up")
        names = ", ".join(f'"{name}"' for name in NAMES)
        self.place.write(f'listen = "10.77.0.1:{PORT}"\njoin = [{names}]\nlease = "{LEASE_S:g}s"\n')
        return self

    def __exit__(self, *_: object) -> None:
        for process in processes_of(self.mark):
            with suppress(OSError):
                process.kill()
        for name in ("", *(f"-{name}" for name in NAMES)):
            with suppress(subprocess.CalledProcessError):
                run("ip", "netns", "del", f"{self.tag}{name}")

    @property
    def mark(self) -> str:
        return f"fleet of {self.directory}"

    def cut(self, name: str) -> None:
        self._in(None, "ip", "link", "set", name, "down")

    def mend(self, name: str) -> None:
        self._in(None, "ip", "link", "set", name, "up")

    def slow(self, name: str) -> None:
        # Not every kernel has netem; in this queue packets wait for seconds, and then some are lost.
        slow = ("tbf", "rate", "128kbit", "burst", "8kb", "latency", "2s")
        self._in(None, "tc", "qdisc", "replace", "dev", name, "root", *slow)
        self._in(name, "tc", "qdisc", "replace", "dev", "wire", "root", *slow)

    def fast(self, name: str) -> None:
        for where, device in ((None, name), (name, "wire")):
            with suppress(subprocess.CalledProcessError):
                self._in(where, "tc", "qdisc", "del", "dev", device, "root")

    def lead(self, run_id: str) -> None:
        """Start a coordinator, in the place of a dead one, and all hosts with its tickets."""
        tickets = self.directory / "tickets" / run_id
        for ticket in tickets.glob("*"):
            ticket.unlink()
        said = (self.directory / "said").open("ab")
        argv = [sys.executable, fleet_runs.__file__, str(self.directory), run_id]
        self.leading = self._start(None, argv, {}, said)
        wait_for(lambda: len(list(tickets.glob("*.ticket"))) == len(NAMES))
        for name in NAMES:
            self.join(name, run_id)

    def join(self, name: str, run_id: str) -> None:
        """Start a host's agent; what was there before is killed."""
        before = self.agents.get(name)
        if before is not None:
            before.kill()
            before.wait()
        ticket = self.directory / "tickets" / run_id / f"{name}.ticket"
        home = self.directory / name
        home.mkdir(exist_ok=True)
        more = {
            "PGDRAG_HOME": str(home),
            "PGDRAG_MACHINE": str(home),
            FULL: str(home / "full"),
            "FLEET_CLOCK_AHEAD_S": str(self.clocks.get(name, 0.0)),
            "FLEET_TWICE": "1" if name in self.twice else "",
        }
        said = (home / "said").open("ab")
        self.agents[name] = self._start(
            name, [sys.executable, HOST, "agent", str(ticket)], more, said
        )

    def workers(self, name: str) -> list[int]:
        return [x.pid for x in processes_of(str(self.directory / name)) if "worker" in x.cmdline()]

    def _start(
        self,
        name: str | None,
        argv: Sequence[str],
        more: dict[str, str],
        said: object,
        out: object = None,
    ) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "FLEET_MARK": self.mark, "PGDRAG_MACHINE": self.mark, **more}
        return subprocess.Popen(
            ["ip", "netns", "exec", self._namespace(name), *argv],
            env=environment,
            stdout=out,  # type: ignore[arg-type]
            stderr=said,  # type: ignore[arg-type]
        )

    def _in(self, name: str | None, *argv: str) -> None:
        run("ip", "netns", "exec", self._namespace(name), *argv)

    def _namespace(self, name: str | None) -> str:
        return self.tag if name is None else f"{self.tag}-{name}"


def wait_for(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.05)


class Faults:
    """What happens to a run, by lot; each fault mends itself after a while."""

    def __init__(self, networks: Networks, run_id: str, rng: random.Random) -> None:
        self.networks, self.run_id, self.rng = networks, run_id, rng
        self.mending: list[tuple[float, Callable[[], object]]] = []
        self.kinds: tuple[Callable[[str], str], ...] = (
            self.kill_worker, self.kill_agent, self.stop_agent, self.stop_worker, self.partition, self.slow_link,
            self.full_disk, self.kill_coordinator, self.stop_coordinator,
        )  # fmt: skip

    def happen(self) -> str:
        name = self.rng.choice(NAMES)
        return f"{name}: {self.rng.choice(self.kinds)(name)}"

    def mend(self, *, all_of_them: bool = False) -> None:
        now_s = time.monotonic()
        due = [x for x in self.mending if all_of_them or x[0] <= now_s]
        self.mending = [x for x in self.mending if x not in due]
        for _, mend in due:
            mend()

    def _later(self, mend: Callable[[], object]) -> float:
        after_s = self.rng.choice((0.3, 1.0, 2 * LEASE_S))
        self.mending.append((time.monotonic() + after_s, mend))
        return after_s

    def _signal(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def kill_worker(self, name: str) -> str:
        for pid in self.networks.workers(name):
            self._signal(pid, signal.SIGKILL)
        return "its worker is killed"

    def stop_worker(self, name: str) -> str:
        pids = self.networks.workers(name)
        for pid in pids:
            self._signal(pid, signal.SIGSTOP)
        self._later(lambda: [self._signal(pid, signal.SIGCONT) for pid in pids])
        return "its worker is stopped"

    def kill_agent(self, name: str) -> str:
        self.networks.agents[name].kill()
        self._later(lambda: self.networks.join(name, self.run_id))
        return "its agent is killed"

    def stop_agent(self, name: str) -> str:
        pid = self.networks.agents[name].pid
        self._signal(pid, signal.SIGSTOP)
        return (
            f"its agent is stopped for {self._later(lambda: self._signal(pid, signal.SIGCONT)):g} s"
        )

    def partition(self, name: str) -> str:
        self.networks.cut(name)
        return f"its link is cut for {self._later(lambda: self.networks.mend(name)):g} s"

    def slow_link(self, name: str) -> str:
        self.networks.slow(name)
        self._later(lambda: self.networks.fast(name))
        return "its link is slow"

    def full_disk(self, name: str) -> str:
        full = self.networks.directory / name / "full"
        full.touch()
        # It is set aside then, and comes back as another one.
        self._later(lambda: full.unlink(missing_ok=True))
        return "its disk is full"

    def kill_coordinator(self, name: str) -> str:
        assert self.networks.leading is not None
        self.networks.leading.kill()
        self.networks.leading.wait()
        self.networks.lead(self.run_id)
        return "the coordinator is killed, and the run resumed"

    def stop_coordinator(self, name: str) -> str:
        assert self.networks.leading is not None
        pid = self.networks.leading.pid
        self._signal(pid, signal.SIGSTOP)
        return f"the coordinator is stopped for {self._later(lambda: self._signal(pid, signal.SIGCONT)):g} s"


def one_round(directory: Path, seed: int, *, design: str, faults: int) -> None:
    """Run a study under faults, and fail where it does not end as it does on one machine."""
    rng = random.Random(seed)
    os.environ[TRIAL_S] = "1"  # so long that most faults come in the middle of one
    study = study_of(design, replicates=1 if design == "compare" else 3)
    if design == "compare":
        study = study_of(design, max_pairs=20, precision=1e-9)
    with Networks(directory) as networks:
        expected = networks.place.alone(study)
        networks.clocks = {"two": rng.choice((-86_400.0 * 400, 3600.0))}
        networks.twice = {"three"}
        run_id = networks.place.begin(study)
        networks.lead(run_id)
        happening = Faults(networks, run_id, rng)
        left, next_s = faults, time.monotonic() + 2
        deadline_s = time.monotonic() + 300
        while networks.leading is not None and networks.leading.poll() is None:
            assert time.monotonic() < deadline_s, (directory / "said").read_text()[-3000:]
            happening.mend()
            if left and time.monotonic() > next_s and not happening.mending:
                print(f"  {happening.happen()}", flush=True)
                left, next_s = left - 1, time.monotonic() + rng.uniform(0.5, 3)
            time.sleep(0.05)
            if networks.leading.poll() not in (None, 0):
                # All hosts were set aside: a person looks, and resumes it.
                print("  the run has ended, and is resumed", flush=True)
                happening.mend(all_of_them=True)
                networks.lead(run_id)
        happening.mend(all_of_them=True)
        wait_for(lambda: not [x for x in processes_of(networks.mark) if "sleep" in x.cmdline()])
        for agent in networks.agents.values():
            agent.terminate()
        wait_for(lambda: not processes_of(networks.mark))
        found = networks.place.journal.run(run_id)
        refuse_twice(found)
        assert without_hosts(found) == without_hosts(expected), "another answer than on one machine"
        attempts = len(networks.place.attempts(run_id))
        print(
            f"  {len(found.results)} trials in {attempts} attempts, as on one machine", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(16))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # networks go then, too
    for at in range(options.rounds):
        seed, design = options.seed + at, ("compare", "ablate", "ladder")[at % 3]
        print(f"round {at + 1}, seed {seed}: {design}", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            one_round(Path(directory), seed, design=design, faults=8)


if __name__ == "__main__":
    main()
