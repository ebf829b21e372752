"""One pgdrag measures on a machine at a time; another can wait for it, and says for whom."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from pgdrag.cli import load_command
from pgdrag.cli.options import LONGEST_WAIT_S
from pgdrag.errors import UsageError
from pgdrag.host import machine_lock
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.units import format_duration

# As `pgdrag compare …` would look, with a connection string that is nobody's business.
HOLDER = """
import sys
from pgdrag.host.machine_lock import measuring_alone
with measuring_alone():
    print("held", flush=True)
    sys.stdin.read()
"""
ARGUMENTS = ("pgdrag", "bench", "a.conf", "postgresql://me:secret@db1/shop", "later")


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that measures until its standard input is closed."""
    monkeypatch.setenv(MACHINE_VARIABLE, f"waiting-{os.getpid()}")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *ARGUMENTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_who_waits_is_told_for_whom_once_and_goes_on_when_that_one_ends(
    holder: subprocess.Popen[str],
) -> None:
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        assert holder.stdin is not None
        holder.stdin.close()

    with measuring_alone(60, tell):
        assert holder.wait(60) == 0
    assert told == [f"Waiting up to 1 min for process {holder.pid}, pgdrag bench a.conf."]


def test_it_waits_no_longer_than_it_was_told(holder: subprocess.Popen[str]) -> None:
    began_s = time.monotonic()
    with (
        pytest.raises(UsageError, match=rf"after waiting for 300 ms \(process {holder.pid}, "),
        measuring_alone(0.3),
    ):
        pass
    assert time.monotonic() - began_s >= 0.3


def test_who_does_not_wait_is_told_how_to(holder: subprocess.Popen[str]) -> None:
    with pytest.raises(UsageError) as refused, measuring_alone():
        pass
    assert re.search(rf"on this machine \(process {holder.pid}, pgdrag", refused.value.message)
    assert "--wait" in refused.value.hint
    assert "secret" not in refused.value.message


def test_waiting_ends_with_an_interrupt(holder: subprocess.Popen[str]) -> None:
    def interrupt(_: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), measuring_alone(60, interrupt):
        pass
    assert machine_lock.measuring_pid() == holder.pid


@pytest.mark.parametrize(
    ("arguments", "wait"),
    [
        ([], None),
        (["--wait"], 3600),
        (["--wait", "10min"], 600),
        (["--wait=90s"], 90),
        (["--wait", "15 s"], 15),
    ],
)
@pytest.mark.parametrize("rest", [["15", "18"], ["-c", "4", "15", "18"]])
def test_a_time_may_follow_wait(arguments: list[str], rest: list[str], wait: float | None) -> None:
    command = load_command("compare")
    for given in ([*arguments, *rest], [*rest, *arguments]):
        parsed = command.make_context("compare", given).params
        assert (parsed["wait"], parsed["a"], parsed["b"]) == (wait, "15", "18")


def test_a_time_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError, match="out of range") as refused:
        load_command("run").make_context("run", ["slow-42k", "--wait", "900d"])
    assert format_duration(LONGEST_WAIT_S) in refused.value.hint


@pytest.mark.parametrize(
    ("group", "name"),
    [
        *(("", x) for x in ("run", "resume", "compare", "calibrate", "ablate", "bisect")),
        *(("", x) for x in ("screen", "boundary", "bench", "clean")),
        ("tpcc", "run"),
    ],
)
def test_every_command_that_measures_can_wait(group: str, name: str) -> None:
    command = load_command(group).commands[name] if group else load_command(name)
    (option,) = (one for one in command.params if one.name == "wait")
    assert option.opts == ["--wait"]
