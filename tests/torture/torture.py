"""Does kill -9 at any moment leave a machine that is put back as it was, by the guardian or the next start?

    python tests/torture/torture.py --rounds 20 --seed 1

Each round starts an experiment with every factor of the operating system on a disk of its own, kills
it at a moment drawn by lot, lets its guardian act or, where that is killed, too, another pgdrag start, and
compares every sysctl, every attribute of every block device, mounts, loop devices, control groups and files
with what was there before.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from machine import Machine

sys.path.append(str(Path(__file__).parents[1]))
from stand_ins import kill_with_guardian

EXPERIMENT = Path(__file__).with_name("torture.toml")
DISK_BYTES = 4 << 30
RUN_TIMEOUT_S = 300
SETTLE_S = 20.0
HOST_LOCK = Path("/var/tmp/pgdrag-test-host.lock")
_GROUP = re.compile(r"/sys/fs/cgroup/[^\"]*")
# What starts after a kill, in turn; nothing: the guardian lives, and is left to it.
NEXT_STARTS = ((), ("restore",), ("check", str(EXPERIMENT)), ("resume", "last"), ("clean",))


class Failed(Exception):
    """A round did not end as it must."""


@dataclass(frozen=True)
class Place:
    """Where the tortured pgdrag lives: all of it below one directory, on a disk of its own.

    Attributes:
        control_groups: that its runs made.
    """

    directory: Path
    disk: Path
    control_groups: set[str] = field(default_factory=set)

    def note_control_groups(self) -> None:
        """Remember which control groups a killed run had noted: their names do not say whose they are."""
        if self.journal.exists():
            self.control_groups.update(_GROUP.findall(self.journal.read_text()))

    @property
    def scratch(self) -> Path:
        """Its scratch directory, on the disk."""
        return self.directory / "disk" / "scratch"

    @property
    def journal(self) -> Path:
        """Its undo journal's file."""
        return self.directory / "undo" / "undo.jsonl"

    @property
    def environment(self) -> dict[str, str]:
        """What tells pgdrag to live there."""
        return {
            **os.environ,
            "PGDRAG_HOME": str(self.directory / "home"),
            "PGDRAG_SCRATCH": str(self.scratch),
            "PGDRAG_UNDO": str(self.journal.parent),
            "PGDRAG_MACHINE": self.directory.name,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start pgdrag; what it says goes to a file."""
        with (self.directory / "output").open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "pgdrag", *arguments],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
            )

    def run(self, *arguments: str) -> None:
        """Run pgdrag to its end, which must be a good one."""
        process = self.start(*arguments)
        try:
            status = process.wait(RUN_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        if status != 0:
            output = (self.directory / "output").read_text()
            raise Failed(f"pgdrag {' '.join(arguments)} ended with {status}:\n{output}")

    @property
    def running(self) -> tuple[str, ...]:
        """The experiment to run."""
        return ("run", str(EXPERIMENT), "--seed", "1", "--allow-change", str(self.disk))


@contextmanager
def place() -> Iterator[Place]:
    """Make a disk for the experiment, and take it away."""
    directory = Path(tempfile.mkdtemp(prefix="pgdrag-torture-", dir="/var/tmp"))
    directory.chmod(0o711)
    (directory / "disk").mkdir()
    backing = directory / "backing"
    with backing.open("wb") as file:
        file.truncate(DISK_BYTES)
    try:
        with _loop_device(backing) as disk:
            _command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(disk))
            _command("mount", "-t", "ext4", str(disk), str(directory / "disk"))
            (directory / "disk").chmod(0o711)
            try:
                yield Place(directory, disk)
            finally:
                _command("umount", "--recursive", str(directory / "disk"))
    finally:
        shutil.rmtree(directory)


def torture(
    rounds: int, seed: int, say: Callable[[str], None], *, whole_s: float | None = None
) -> list[str]:
    """Return what was otherwise after any round than before the first; nothing, if all is well.

    Args:
        whole_s: how long a run takes about; by default one is let run to its end first.
    """
    draw = random.Random(seed)
    with place() as here:
        before = Machine.look(here.scratch)
        found = []
        if whole_s is None:
            started_s = time.monotonic()
            here.run(*here.running)
            whole_s = time.monotonic() - started_s
            say(f"an undisturbed run takes {whole_s:.1f} s; seed {seed}")
            found += _compared("undisturbed", before, here, say)
        for number in range(1, rounds + 1):
            after = NEXT_STARTS[(number - 1) % len(NEXT_STARTS)]
            moment = _kill_at_random(here, draw, whole_s, with_guardian=bool(after))
            if after:
                here.run(*after)
            who = f"then {after[0]}" if after else "left to its guardian"
            found += _compared(f"round {number}, killed {moment}, {who}", before, here, say)
    return found


def _kill_at_random(
    here: Place, draw: random.Random, whole_s: float, *, with_guardian: bool
) -> str:
    """Kill a run at any moment of its time, or soon after a line of its undo journal; return when."""
    while True:
        process = here.start(*here.running)
        moment = _wait_for_moment(here, process, draw, whole_s)
        is_killed = process.poll() is None
        if with_guardian:
            kill_with_guardian(process)
        process.kill()
        if process.wait() != 0 and not is_killed:
            raise Failed(f"a run ended by itself:\n{(here.directory / 'output').read_text()}")
        if is_killed:
            here.note_control_groups()
            return moment


def _wait_for_moment(
    here: Place, process: subprocess.Popen[str], draw: random.Random, whole_s: float
) -> str:
    """Wait for a moment drawn by lot, or the process's end; return what moment it was."""
    if draw.random() < 0.5:
        wait_s = draw.uniform(0, whole_s)
        _wait(wait_s, lambda: process.poll() is not None)
        return f"after {wait_s:.2f} s"
    changes, wait_s = draw.randint(1, 40), draw.uniform(0, 0.02)
    _wait(whole_s, _Changes(here.journal, changes, process).have_come)
    time.sleep(wait_s)
    return f"{1000 * wait_s:.0f} ms after change {changes} of the undo journal"


class _Changes:
    """Counts how often a file was seen to have another size."""

    def __init__(self, path: Path, wanted: int, process: subprocess.Popen[str]) -> None:
        self._path, self._left, self._process = path, wanted, process
        self._size = -1

    def have_come(self) -> bool:
        """Tell whether it was often enough, or the process has ended."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            size = -1
        if size != self._size:
            self._size, self._left = size, self._left - 1
        return self._left < 0 or self._process.poll() is not None


def _compared(moment: str, before: Machine, here: Place, say: Callable[[str], None]) -> list[str]:
    """Compare, in the end: servers of a killed process need a moment to end."""
    own = (str(here.directory), str(here.disk), *sorted(here.control_groups))
    differences: list[str] = []

    def are_none() -> bool:
        differences[:] = before.differences(Machine.look(here.scratch), own)
        return not differences

    if _wait(SETTLE_S, are_none, poll_s=0.5):
        say(f"{moment}: as before")
        return []
    say(f"{moment}: {'; '.join(differences)}")
    output = (here.directory / "output").read_text()
    return [f"{moment}: {each}" for each in differences] + [f"pgdrag said:\n{output}"]


def _wait(timeout_s: float, condition: Callable[[], bool], poll_s: float = 0.001) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True


@contextmanager
def _loop_device(backing: Path) -> Iterator[Path]:
    disk = Path(_command("losetup", "--find", "--show", str(backing)).strip())
    try:
        yield disk
    finally:
        _command("losetup", "--detach", str(disk))


def _command(*arguments: str) -> str:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    """Run as many rounds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often to kill (default: 20)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments (default: drawn)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("torture: only root may change the operating system", file=sys.stderr)
        return 2
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    # The disk is taken away whatever ends this.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Which tests that change the operating system hold, too.
        with HOST_LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = torture(options.rounds, seed, lambda text: print(text, flush=True))
    except Failed as failure:
        found = [str(failure)]
    print("\n".join(found) if found else f"{options.rounds} rounds: all as before")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
