"""A process takes the machine's memory but for so much, and gives it back whatever happens."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loads import short_trial

from pgdrag.factors import Here, Problem
from pgdrag.factors._balloon import available_bytes
from pgdrag.factors.memory_balloon import (
    LEAVE,
    Balloon,
    MemoryBalloon,
    unlockable,
)
from pgdrag.host.process_alive import has_ended, wait_until
from pgdrag.host.undo import UndoJournal
from pgdrag.model import Level, Outcome
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial

MB = 1 << 20
HELD = 512 * MB  # more than the tests beside take or give back meanwhile


def needs_memory() -> None:
    may_lock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if os.geteuid() != 0 and may_lock not in (resource.RLIM_INFINITY,):
        pytest.skip("this user may not lock that much memory")
    if available_bytes() < 4 * HELD:
        pytest.skip("too little memory is available")


def level(value: str, name: str = LEAVE) -> Level:
    return Level("memory_balloon", name, value)


def problem(here: Here, *levels: Level) -> Problem:
    (found,) = MemoryBalloon().check(levels, here)
    return found


def test_memory_is_locked_and_given_back() -> None:
    needs_memory()
    balloon = Balloon(available_bytes() - HELD)
    try:
        assert balloon.fill() == ""
        status = Path(f"/proc/{balloon.pid}/status").read_text()
        (locked_kb,) = (int(x.split()[1]) for x in status.splitlines() if x.startswith("VmLck:"))
        assert locked_kb * 1024 >= balloon.held_bytes > HELD / 2
        assert Path(f"/proc/{balloon.pid}/oom_score_adj").read_text().strip() == "1000"
        pid = balloon.pid
    finally:
        balloon.deflate()
    assert pid is not None
    assert has_ended(pid)
    assert not balloon.is_full()


def test_one_that_takes_too_long_is_given_up_and_ends() -> None:
    needs_memory()
    balloon = Balloon(available_bytes() - HELD)
    assert balloon.fill(timeout_s=0) == "memory was not filled within 0 s"
    assert balloon.pid is None


PARENT = """
import json, os, signal, sys
from pgdrag.factors.memory_balloon import Balloon
from pgdrag.factors._balloon import available_bytes
balloon = Balloon(available_bytes() - 64 * 2**20)
assert balloon.fill() == ""
print(json.dumps(balloon.pid), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_a_pgdrag_that_is_killed() -> None:
    needs_memory()
    ended = subprocess.run(
        [sys.executable, "-c", PARENT], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    pid = json.loads(ended.stdout)
    assert wait_until(lambda: has_ended(pid), 10)


def test_what_is_available_is_read_back(cluster: Cluster, host_alone: UndoJournal) -> None:
    needs_memory()
    factor = MemoryBalloon()
    leave = available_bytes() - HELD
    try:
        factor.before_start(cluster, {LEAVE: f"{leave}B"})
        cluster.start()
        (applied,) = factor.read_back(cluster, {LEAVE: f"{leave}B"})
        assert factor.failure(cluster) == ""
        assert factor._balloon is not None
        pid = factor._balloon.pid
        assert pid is not None
        assert applied.effective is not None
        assert applied.how.startswith("a process holds ")
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: factor.failure(cluster) != "", 10)
    finally:
        factor.undo(cluster)
    (without,) = MemoryBalloon().read_back(cluster, {LEAVE: f"{leave}B"})
    assert without.effective == without.default


def test_a_trial_whose_balloon_burst_is_invalid(
    bench: ServerTrialRunner, host_alone: UndoJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_memory()
    fill = Balloon.fill

    def fill_and_burst(balloon: Balloon, **how: float) -> str:
        refused = fill(balloon, **how)
        assert refused == ""
        assert balloon.pid is not None
        os.kill(balloon.pid, signal.SIGKILL)
        return refused

    monkeypatch.setattr(Balloon, "fill", fill_and_burst)
    result = run_trial(short_trial(level(f"{available_bytes() - HELD}B")), bench)
    assert result.outcome is Outcome.INVALID, result.reason
    assert result.reason.startswith("the memory balloon was killed in the trial")
    assert result.measurement is not None


def test_what_cannot_be_left_is_told_before_the_run(bench: ServerTrialRunner) -> None:
    here = bench.here
    assert problem(here, level("2GB", "keep")).is_mistake
    assert problem(here, level("plenty")).is_mistake
    assert "no server starts with less memory" in problem(here, level("1MB")).message
    too_much = problem(here, level("999TB"))
    assert not too_much.is_mistake
    assert too_much.message.endswith(" are available")
    assert MemoryBalloon().check([], here) == []


@pytest.mark.parametrize(
    ("limit", "may_lock_all", "is_refused"),
    [
        (8 * MB, False, True),  # what a user usually has
        (64 * MB, False, False),
        (resource.RLIM_INFINITY, False, False),
        (8 * MB, True, False),  # root
    ],
)
def test_who_may_not_lock_memory_is_told_his_limit(
    limit: int, may_lock_all: bool, is_refused: bool
) -> None:
    found = unlockable(64 * MB, limit, may_lock_all=may_lock_all)
    expected = "this user may lock 8 MB of memory (RLIMIT_MEMLOCK), not 64 MB"
    assert found == (expected if is_refused else "")
