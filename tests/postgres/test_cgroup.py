"""A server may have less of the machine than there is: every process of it, from the first page on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loads import short_trial

from conftest import on_disk
from pgdrag.collectors._cgroups import io_limits
from pgdrag.factors import Here
from pgdrag.factors._devices import disk_under
from pgdrag.factors.cgroup import Cgroup
from pgdrag.host.control_groups import PREFIX, hierarchies, hierarchy_with, members, new_name
from pgdrag.host.process_alive import wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.host.spawn import NOT_STARTED, run, spawn
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.created import ControlGroup
from pgdrag.model import Level, Outcome, Result, WorkloadSpec
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial
from stand_ins import NO_GUARDIAN

MEMORY = hierarchy_with("memory", hierarchies())
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or MEMORY is None, reason="it takes root and control groups"
)


@pytest.fixture(autouse=True)
def leaving_no_group(host_alone: UndoJournal) -> Iterator[None]:
    before = left_over()
    yield
    host_alone.close()
    assert left_over() == before, "no group is left"


def left_over() -> set[Path]:
    return {
        path
        for tree in hierarchies()
        if (own := tree.group_of("self"))
        for path in own.glob(f"{PREFIX}*")
    }


def groups_of(cluster: Cluster) -> set[Path]:
    assert MEMORY is not None
    pids = [x.pid for x in cluster.server_pids()]
    with seeing_as(cluster.user):
        found = {MEMORY.group_of(pid) for pid in pids}
    return {group for group in found if group is not None}


def problems(here: Here, *levels: tuple[str, str]) -> list[str]:
    return [x.message for x in Cgroup().check([Level("cgroup", *x) for x in levels], here)]


def effective(result: Result) -> dict[str, str | None]:
    return {x.level.name: x.effective for x in result.applied}


def test_every_process_of_the_server_is_in_the_group_and_pgdrag_is_not(cluster: Cluster) -> None:
    factor, levels = Cgroup(), {"memory.max": "512MB", "cpuset.cpus": "0"}
    assert MEMORY is not None
    try:
        factor.before_start(cluster, levels)
        cluster.start()
        applied = factor.read_back(cluster, levels)
        assert [(x.level.name, x.effective, x.note) for x in applied] == [
            ("memory.max", "512MB", ""),
            ("cpuset.cpus", "0", ""),
        ]
        # A process that is just ending is in no group any more.
        assert wait_until(lambda: len(groups_of(cluster)) == 1, 10)
        (group,) = groups_of(cluster)
        assert group.name.startswith(PREFIX)
        assert MEMORY.group_of("self") == group.parent
        # Shared memory is counted where it was first touched.
        if MEMORY.version == 1:
            assert int((group / "memory.usage_in_bytes").read_text()) > 8 << 20
        with cluster.connect() as connection:
            (one,) = connection.execute("SELECT 1").fetchone() or (0,)
            assert one == 1
            assert connection.info.backend_pid in members(group)
    finally:
        factor.undo(cluster)
    # The server lives on outside of it.
    assert cluster.control_groups == ()
    assert wait_until(lambda: groups_of(cluster) == {MEMORY.group_of("self")}, 10)


@on_disk
def test_the_disk_under_the_data_is_limited_for_the_server_alone(cluster: Cluster) -> None:
    disk = disk_under(cluster.data_directory)
    tree = hierarchy_with("io", hierarchies())
    if isinstance(disk, str) or tree is None:
        pytest.skip(disk if isinstance(disk, str) else "no control groups of I/O here")
    factor, levels = Cgroup(), {"io.max": "wiops=9000 rbps=900MB"}
    try:
        factor.before_start(cluster, levels)
        cluster.start()
        (applied,) = factor.read_back(cluster, levels)
        assert (applied.effective, applied.note) == ("rbps=900MB wiops=9000", "")
        assert applied.default == "max"
        if tree.version == 1:
            assert applied.how.startswith("through version 1 of control groups (blkio.throttle.")
        number = disk.device.number
        assert cluster.postmaster_pid is not None
        limits = io_limits(cluster.postmaster_pid, number, cluster.user)
        assert limits == {"rbps": 900 << 20, "wiops": 9000}
        assert io_limits(os.getpid(), number) == {}
    finally:
        factor.undo(cluster)


def test_a_trial_of_a_smaller_machine_is_measured(bench: ServerTrialRunner) -> None:
    result = run_trial(short_trial(Level("cgroup", "memory.max", "300MB")), bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert effective(result) == {"memory.max": "300MB"}
    assert result.warnings == ()
    seen = {x.name: x.value for x in result.evidence}
    assert seen["memory_limit_bytes"] == 300 << 20


def test_a_server_that_the_kernel_killed_for_its_memory_has_crashed_and_says_why(
    bench: ServerTrialRunner,
) -> None:
    levels = (
        Level("cgroup", "memory.max", "64MB"),
        Level("setting", "shared_buffers", "16MB"),
        Level("setting", "work_mem", "1GB"),
    )
    hungry_script = {"name": "hungry", "text": "SELECT length(repeat('x', 200000000));"}
    workload = WorkloadSpec("pgbench", {"scripts": [hungry_script]})
    result = run_trial(short_trial(*levels, workload=workload), bench)
    assert result.outcome is Outcome.CRASHED, (result.outcome, result.reason)
    assert result.reason.startswith("the kernel killed process ")
    assert ": its control group's memory.max of 64MB was full" in result.reason


def test_a_server_that_does_not_fit_at_all_did_not_start(bench: ServerTrialRunner) -> None:
    levels = (
        Level("cgroup", "memory.max", "4MB"),
        Level("setting", "shared_buffers", "128MB"),
    )
    result = run_trial(short_trial(*levels), bench)
    assert result.outcome is Outcome.DID_NOT_START, (result.outcome, result.reason)
    assert "memory.max of 4MB was full" in result.reason


def test_what_the_kernel_refuses_is_not_applied_with_its_reason(cluster: Cluster) -> None:
    factor, levels = Cgroup(), {"cpuset.cpus": "4000"}
    try:
        factor.before_start(cluster, levels)
        cluster.start()
        (applied,) = factor.read_back(cluster, levels)
    finally:
        factor.undo(cluster)
    assert applied.effective is None
    assert applied.note.startswith("the kernel refuses 4000: ")


def test_what_this_machine_lacks_is_untestable_and_not_a_mistake(bench: ServerTrialRunner) -> None:
    (problem,) = Cgroup().check([Level("cgroup", "cpuset.cpus", "0,4000")], bench.here)
    assert not problem.is_mistake
    assert "there is no processor 4000" in problem.message
    if MEMORY is not None and MEMORY.version == 1:
        (text,) = problems(bench.here, ("memory.high", "1GB"))
        assert text.endswith("here: version 1 of control groups, which this host uses, has none")


def test_a_program_that_may_not_enter_a_group_says_so(cluster: Cluster, tmp_path: Path) -> None:
    refusing = tmp_path / "refusing"
    refusing.mkdir()
    (refusing / "cgroup.procs").symlink_to("/dev/full")
    cluster.control_groups = (refusing,)
    with pytest.raises(Exception, match=r"did not start: .*ended with status 127") as raised:
        cluster.start()
    assert "it has no processors or memory" in str(getattr(raised.value, "detail", ""))
    assert NOT_STARTED == 127
    assert run(["true"], user=None, timeout_s=10).status == 0
    with pytest.raises(FileNotFoundError):
        spawn(
            ["true"],
            user=None,
            cwd=tmp_path,
            death_signal=signal.SIGKILL,
            output=subprocess.DEVNULL,
            control_groups=[tmp_path / "none"],
        )


ABANDONING = (
    NO_GUARDIAN
    + """
import json, os, signal, sys
from pathlib import Path
from pgdrag.host.control_groups import hierarchies, hierarchy_with, new_name
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo.created import ControlGroup
tree = hierarchy_with("memory", hierarchies())
group = tree.group_of("self") / new_name()
UndoJournal.open().note(ControlGroup(str(group)))
if sys.argv[1] == "made":
    group.mkdir()
print(json.dumps(str(group)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
)


@pytest.mark.parametrize("when", ["made", "noted only"])
def test_a_group_of_a_process_that_was_killed_is_removed_by_the_next(
    when: str, host_alone: UndoJournal
) -> None:
    host_alone.release()  # as if that process were the one before
    ended = subprocess.run(
        [sys.executable, "-c", ABANDONING, when], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    group = Path(json.loads(ended.stdout))
    assert group.exists() == (when == "made")
    (done,) = UndoJournal.open().restore_all()
    assert done.state == ("restored" if when == "made" else "already restored")
    assert not group.exists()
    UndoJournal.open().close()


def test_processes_left_in_a_group_are_moved_out_of_it(tmp_path: Path) -> None:
    assert MEMORY is not None
    own = MEMORY.group_of("self")
    assert own is not None
    group = own / new_name()
    journal = UndoJournal.open()
    noted = journal.note(ControlGroup(str(group)))
    group.mkdir()
    sleeper = spawn(
        ["sleep", "60"],
        user=None,
        cwd=tmp_path,
        death_signal=signal.SIGKILL,
        output=subprocess.DEVNULL,
        control_groups=[group],
    )
    try:
        deadline = time.monotonic() + 10
        while members(group) != [sleeper.pid] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert members(group) == [sleeper.pid]
        assert journal.restore(noted).state == "restored"
        assert not group.exists()
        assert MEMORY.group_of(sleeper.pid) == own
    finally:
        sleeper.kill()
        sleeper.wait()


def test_no_other_group_is_ever_taken_for_one_of_pgdrags() -> None:
    with pytest.raises(ValueError, match=r"is not a control group of pgdrag's"):
        ControlGroup("/sys/fs/cgroup/memory/system.slice")


def test_without_rights_it_is_told_what_root_would_have_done(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    (problem,) = Cgroup().check([Level("cgroup", "memory.max", "1GB")], bench.here)
    assert not problem.is_mistake
    assert problem.message == 'cgroup "memory.max" cannot be set to 1GB here: only root may'
    assert problem.hint.startswith("As root, pgdrag would start the server in a control group")
    assert "1073741824 to memory." in problem.hint


def test_a_container_whose_groups_are_read_only_says_so(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (text,) = problems(bench.here, ("memory.max", "1GB"))
    assert text.endswith(" is read-only")


def test_a_host_without_control_groups_says_what_it_lacks(
    bench: ServerTrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.factors.cgroup.hierarchies", list)
    (text,) = problems(bench.here, ("io.max", "riops=500"))
    assert text.endswith('here: no controller "io" is mounted')
