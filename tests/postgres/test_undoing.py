"""What is put back when a run that changes the operating system ends otherwise than it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loads import PACED

from pgdrag.errors import UsageError
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.written_value import shown_value, write_value
from pgdrag.model import (
    Level,
    LoadProfile,
    Outcome,
    Rung,
    Source,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.events import Event, PhaseStarted, ignore
from pgdrag.servers.scratch import Scratch
from pgdrag.trial import ServerTrialRunner
from stand_ins import kill_with_guardian

THRESHOLD = Path("/proc/sys/vm/extfrag_threshold")
# Not what the kernel has: tests that were killed may have left one of them.
VALUE, OTHER_VALUE = [x for x in ("493", "494", "495") if x != shown_value(THRESHOLD)][:2]
LEVEL = Level("sysctl", "vm.extfrag_threshold", VALUE)
EXPERIMENT = f"""
pgdrag = 1
name = "fragmented"
workload = {{ kind = "pgbench", scripts = ["select-only"] }}
[baseline.sysctl]
"vm.extfrag_threshold" = {VALUE}
[[rungs]]
name = "more"  # whichever comes first, the kernel's value is the same
setting = {{ work_mem = "8MB" }}
[scales.demo]
load = {{ connections = 1, warm_up_s = 0, measure_s = 60 }}
"""
START_TIMEOUT_S = 120
# It takes about a second; the machine may be busy with other tests.
GUARDIAN_TIMEOUT_S = 30


@pytest.fixture
def running(
    host_alone: UndoJournal, scratch: Scratch, tmp_path: Path
) -> Iterator[subprocess.Popen[str]]:
    """A run in its first trial, with the kernel's value changed."""
    host_alone.release()
    file = tmp_path / "fragmented.toml"
    file.write_text(EXPERIMENT)
    environment = {
        **os.environ,
        "PGDRAG_HOME": str(tmp_path / "home"),
        "PGDRAG_SCRATCH": str(scratch.root),
        "PGDRAG_MACHINE": f"undoing-{os.getpid()}",
    }
    process = _begun(file, environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        left = UndoJournal.open()
        left.restore_all()
        left.release()


def _begun(file: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Return a run that has changed the kernel's value; begun again where an earlier test's guardian is still at work."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "pgdrag", "run", str(file)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

        def has_begun(process: subprocess.Popen[str] = process) -> bool:
            return shown_value(THRESHOLD) == VALUE or process.poll() is not None

        if not wait_until(has_begun, START_TIMEOUT_S):
            process.kill()
            pytest.fail(f"the run did not begin: {process.communicate()[1]}")
        if process.poll() is None:
            return process
        _, said = process.communicate()
        assert "is changing this machine's operating system" in said, said
        assert time.monotonic() < deadline, said
        time.sleep(0.5)


@pytest.fixture
def before() -> str:
    return shown_value(THRESHOLD)


@pytest.mark.parametrize(
    ("number", "again"),
    [
        (signal.SIGINT, False),
        (signal.SIGTERM, False),
        (signal.SIGHUP, False),
        (signal.SIGTERM, True),
    ],
)
def test_a_signal_ends_the_run_and_further_ones_do_not_disturb_the_undoing(
    before, running, number, again
):
    running.send_signal(number)
    while again and running.poll() is None:
        running.send_signal(number)
        wait_until(lambda: running.poll() is not None, 0.02)
    said = running.communicate()[1]
    # Whom further signals hit is ended by them, but not before all is put back.
    assert again or (running.returncode == 130 and "was interrupted" in said), said
    assert shown_value(THRESHOLD) == before
    assert (Path(os.environ["PGDRAG_UNDO"]) / "undo.jsonl").read_bytes() == b""


def test_after_kill_9_its_guardian_puts_it_back_though_nobody_starts_pgdrag(before, running):
    """Fault 12."""
    running.kill()
    assert wait_until(lambda: shown_value(THRESHOLD) == before, GUARDIAN_TIMEOUT_S)
    said = running.communicate()[1]  # it ends, too
    assert f"{THRESHOLD} was restored from {VALUE} to {before}" in said
    assert (Path(os.environ["PGDRAG_UNDO"]) / "undo.jsonl").read_bytes() == b""


def test_after_the_end_of_both_restore_puts_it_back(before, running):
    kill_with_guardian(running)
    running.wait()
    assert shown_value(THRESHOLD) == VALUE
    command = [sys.executable, "-m", "pgdrag", "restore"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        f"{THRESHOLD} was restored from {VALUE} to {before}.\n",
    )
    assert shown_value(THRESHOLD) == before


def test_a_second_run_that_changes_the_machine_is_refused_and_others_are_not(
    running, bench: ServerTrialRunner
):
    with pytest.raises(UsageError, match=rf"another pgdrag \(process {running.pid}\) is changing"):
        bench.prepare(study(LEVEL), ignore)
    bench.prepare(study(), ignore)


def test_what_somebody_changes_during_a_trial_is_a_warning_of_it(
    host_alone: UndoJournal, bench: ServerTrialRunner, before: str
):
    def meddle(event: Event) -> None:
        if event == PhaseStarted("measure", 1.0):
            write_value(THRESHOLD, OTHER_VALUE)

    trial = Trial(1, 1, 1, study(LEVEL).rungs[0].treatment, SPEC, LOAD, seed=1)
    result = bench.run(trial, meddle)
    assert result.outcome is Outcome.MEASURED, result.reason
    (warning,) = [x for x in result.warnings if "someone else" in x]
    assert warning.startswith(
        f"{THRESHOLD} is {OTHER_VALUE}: someone else has changed it since pgdrag set it"
    )
    assert shown_value(THRESHOLD) == OTHER_VALUE
    host_alone.restore_all(overwrite=True)
    assert shown_value(THRESHOLD) == before


SPEC = WorkloadSpec("pgbench", {"scale": 1, "scripts": ["select-only"]})
LOAD = LoadProfile(connections=1, warm_up_s=0, measure_s=1.0, budget_s=1.0, pacing=PACED)


def study(*levels: Level) -> Study:
    """Return a study of one rung."""
    rung = Rung("only", "", Treatment("only", levels), levels)
    return Study("s", "s", "", "demo", "ladder", (rung,), Source(), SPEC, LOAD, 1)
