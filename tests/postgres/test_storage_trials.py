"""Trials on a scratch device: the file system is a factor, and a device that fails spoils its trial alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from commands import outcome, start
from devices import (
    detach_under_lazy_unmount,
    fill_device,
    left_of_devices,
    mounts_of,
    needs_devices,
    needs_mkfs,
    shut_down,
    stop_writing,
)
from loads import SHORT

from pgdrag.host.loop_devices import attach, detach
from pgdrag.host.machine import this_host
from pgdrag.host.mounts import mount, mount_at, unmount
from pgdrag.host.process_alive import wait_until
from pgdrag.host.programs import find_program, run_program
from pgdrag.host.undo import UndoJournal
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Level, Outcome, Result, Rung, Source, Study, Treatment, WorkloadSpec
from pgdrag.model.events import Event, PhaseStarted, Throughput, TrialStarted, ignore
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.scratch import Scratch
from pgdrag.trial import ServerTrialRunner
from stand_ins import kill_with_guardian

pytestmark = needs_devices

NOATIME = Level("mount", "options", "noatime,nodiratime")


@pytest.fixture
def own(new_scratch: Callable[[str], Scratch]) -> Iterator[Scratch]:
    """A scratch directory for devices; its dataset serves all tests."""
    own = new_scratch("storage-trials")
    yield own
    assert left_of_devices(own) == []
    assert not list(own.clusters.iterdir())


@pytest.fixture
def bench(
    own: Scratch, binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerTrialRunner]:
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    bench = ServerTrialRunner.open(own, binaries)
    yield bench
    bench.close()
    undo = UndoJournal.open()
    assert undo.steps() == []
    undo.close()


def storage(file_system: str = "ext4", **levels: str) -> tuple[Level, ...]:
    needs_mkfs(file_system)
    every = {"size": "320MB", "file_system": file_system, **levels}
    return tuple(Level("storage", name, value) for name, value in every.items())


def study(baseline: tuple[Level, ...], *added: tuple[Level, ...]) -> Study:
    """Return a ladder, each of whose rungs adds levels to the one before; datasets are not checked after trials."""
    treatment = Treatment("R0", baseline)
    rungs = [Rung("R0", "", treatment)]
    for number, levels in enumerate(added, 1):
        treatment = treatment.with_levels(f"R{number}", levels)
        rungs.append(Rung(f"R{number}", "", treatment, levels))
    return Study(
        name="on-a-device",
        title="",
        question="",
        scale="test",
        design="ladder",
        rungs=tuple(rungs),
        source=Source(),
        workload=WorkloadSpec("pgbench", {"scripts": ["tpcb-like"]}),
        load=SHORT,
        replicates=1,
        is_checked=False,
    )


def results(
    study: Study,
    bench: ServerTrialRunner,
    directory: Path,
    listen: Callable[[Event], None] = ignore,
) -> dict[str, Result]:
    """Run a study, and return what came of each rung."""
    journal = Journal(directory / "journal.sqlite")
    run_id = journal.begin_run(
        study,
        this_host(bench.scratch.root),
        server_wanted=None,
        server_version=bench.binaries.version,
        pgdrag_version="0",
        seed=1,
    )
    record = run_experiment(run_id, bench, journal, listen)
    assert record.status == "done"
    return {result.trial.treatment.name: result for result in record.results}


def in_windows(faults: Sequence[Callable[[], None]]) -> Callable[[Event], None]:
    """Return a listener that has the first trials go wrong, each in its own way, under load."""
    left, phase, pending = list(faults), "", False

    def listen(event: Event) -> None:
        nonlocal phase, pending
        if isinstance(event, TrialStarted):
            pending = bool(left)
        elif isinstance(event, PhaseStarted):
            phase = event.name
        elif isinstance(event, Throughput) and phase == "measure" and pending:
            pending = False
            left.pop(0)()

    return listen


def applied(result: Result) -> dict[str, tuple[str | None, str]]:
    assert result.outcome is Outcome.MEASURED, result.reason
    return {x.level.name: (x.effective, x.note) for x in result.applied}


def test_each_file_system_is_a_level_and_says_how_the_dataset_got_there(
    bench: ServerTrialRunner, tmp_path: Path
) -> None:
    others = [kind for kind in ("xfs", "btrfs") if find_program(f"mkfs.{kind}") is not None]
    rungs = [(Level("storage", "file_system", kind),) for kind in others]
    plan = replace(study((), storage("ext4"), (NOATIME,), *rungs), is_checked=True)
    seen: list[int] = []
    found = results(plan, bench, tmp_path, lambda _: seen.append(len(mounts_of(bench.scratch))))
    assert max(seen) == 1 + len(others)
    assert bench.host(plan).file_system.split(", ")[1:] == [
        f"{kind} on a loop device" for kind in ("ext4", *others)
    ]
    assert applied(found["R0"]) == {}
    assert applied(found["R1"]) == {"size": ("320 MB", ""), "file_system": ("ext4", "")}
    kinds = {name: applied(result).get("file_system") for name, result in found.items()}
    assert [kinds[f"R{number}"] for number in range(3, 3 + len(others))] == [
        (kind, "") for kind in others
    ]
    for number in range(2, 3 + len(others)):
        result = found[f"R{number}"]
        (options,) = (x for x in result.applied if x.level == NOATIME)
        assert (options.effective, options.note) == ("noatime,nodiratime", "")
        assert options.default == "relatime,diratime"
    for name, result in found.items():
        assert result.restored is not None
        can_share = kinds[name] in (("xfs", ""), ("btrfs", ""))
        assert (result.restored.method == "reflink") == can_share or name == "R0"


def test_options_of_the_file_system_itself_are_given_at_mount(
    bench: ServerTrialRunner, tmp_path: Path
) -> None:
    asked = Level("mount", "options", "noatime,data=writeback,barrier=0,nobh,no_such")
    found = results(study((*storage(), asked), (NOATIME,)), bench, tmp_path)
    effective, note = applied(found["R0"])["options"]
    assert effective == "noatime,data=writeback,nobarrier"
    assert note.startswith("nobh is not in force: ")
    assert "; no_such is not in force: " in note
    (options,) = (x for x in found["R0"].applied if x.level == asked)
    assert options.default is None, "not inert: nobody knows what it would be without"
    assert applied(found["R1"])["options"] == ("noatime,nodiratime", "")


@pytest.mark.parametrize(
    ("file_system", "faults"),
    [
        (
            "ext4",
            {
                fill_device: "is full: ",
                detach_under_lazy_unmount: "has vanished: nothing of it is mounted",
                stop_writing: "is read-only: ext4 has given up writing",
            },
        ),
        ("xfs", {shut_down: ""}),
        ("btrfs", {fill_device: "is full: "}),
    ],
)
def test_a_device_that_fails_in_mid_trial_spoils_that_trial_and_the_run_goes_on(
    bench: ServerTrialRunner,
    tmp_path: Path,
    file_system: str,
    faults: dict[Callable[[Path], None], str],
) -> None:
    """Each way to be full, gone or read-only; what else leads there is tested on the device alone."""

    def on_device(spoil: Callable[[Path], None]) -> None:
        (found,) = mounts_of(bench.scratch)
        spoil(found.mount_point)

    rungs = [(Level("setting", "work_mem", f"{number}MB"),) for number in range(1, len(faults) + 1)]
    listen = in_windows([partial(on_device, spoil) for spoil in faults])
    found = results(study(storage(file_system), *rungs), bench, tmp_path, listen)
    *spoilt, sound = sorted(found.values(), key=lambda result: result.trial.number)
    for result, words in zip(spoilt, faults.values(), strict=True):
        assert result.outcome is Outcome.INVALID, result.reason
        assert result.reason.startswith(f"the scratch device {words}")
    assert applied(sound)["file_system"] == (file_system, "")


def test_trials_on_a_device_that_cannot_be_made_are_invalid_with_the_reason(
    bench: ServerTrialRunner, tmp_path: Path
) -> None:
    refused = (Level("storage", "size", "320MB"), Level("storage", "mkfs_options", "-O nonsense"))
    taken = Level("storage", "mkfs_options", "-m 0")
    found = results(study(storage(size="128MB"), refused, (taken,)), bench, tmp_path)
    assert found["R0"].outcome is Outcome.INVALID
    assert found["R0"].reason.startswith("the scratch device is full: ")
    assert found["R1"].outcome is Outcome.INVALID
    assert found["R1"].reason.startswith("could not make 320 MB of ext4 on a loop device: ")
    assert found["R2"].outcome is Outcome.MEASURED, found["R2"].reason


@pytest.fixture
def somebodys_disk(open_directory: Path) -> Iterator[Path]:
    """The mount point of a file system that is not pgdrag's own."""
    file, place = open_directory / "a-disk", open_directory / "somebodys"
    with file.open("wb") as opened:
        opened.truncate(2**29)
    place.mkdir()
    device = attach(file, direct_io=False)
    assert run_program("mkfs.ext4", "-q", "-F", device).succeeded
    assert mount(device, place, "ext4", ("nodev",)) is None
    yield place
    assert unmount(place, or_hide=False) is None
    assert detach(device) is None
    file.unlink()
    place.rmdir()


@pytest.mark.parametrize("is_allowed", [True, False])
def test_somebodys_disk_is_remounted_by_consent_and_put_back_exactly(
    somebodys_disk: Path,
    binaries: Binaries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_allowed: bool,
) -> None:
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "undo"))
    before = mount_at(somebodys_disk)
    place = Scratch.open(somebodys_disk / "scratch")
    allowed = [str(somebodys_disk)] if is_allowed else []
    bench = ServerTrialRunner.open(place, binaries, allowed=allowed)
    asked = Level("mount", "options", "noatime,commit=60,data=journal")
    found = results(study((), (asked,)), bench, tmp_path)
    assert mount_at(somebodys_disk) == before
    UndoJournal.open().close()
    if is_allowed:
        effective, note = applied(found["R1"])["options"]
        assert effective == "noatime,commit=60"
        assert note.startswith("data=journal is not in force: ")
    else:
        assert found["R1"].outcome is Outcome.UNTESTABLE
        assert "is not pgdrag's to remount" in found["R1"].reason


@pytest.mark.parametrize("kill", [subprocess.Popen.kill, kill_with_guardian])
def test_a_run_that_is_killed_leaves_nothing_to_the_next_start(
    own: Scratch, tmp_path: Path, kill: Callable[[subprocess.Popen[str]], None]
) -> None:
    file = tmp_path / "on-a-device.toml"
    file.write_text(EXPERIMENT)
    places = {
        "PGDRAG_SCRATCH": str(own.root),
        "PGDRAG_UNDO": str(tmp_path / "undo"),
        "PGDRAG_HOME": str(tmp_path / "home"),
    }
    run = start("run", file, **places)
    servers = own.storage.glob
    assert wait_until(lambda: bool(list(servers("*/mount/clusters/*/data/postmaster.pid"))), 120)
    kill(run)
    run.wait()
    said = run.communicate()[1]  # its guardian's last words, too
    if kill is kill_with_guardian:
        assert left_of_devices(own)
        status, said, err = outcome(start("clean", **places))
        assert status == 0, err
    assert "Removed scratch device" in said
    assert left_of_devices(own) == []


EXPERIMENT = """
pgdrag = 1
name = "on-a-device"
workload = { kind = "pgbench", scripts = ["tpcb-like"] }

[baseline]
storage = { size = "320MB", file_system = "ext4" }

[[rungs]]
name = "noatime"
mount = { options = "noatime" }

[scales.test]
load = { connections = 2, warm_up_s = 0, measure_s = 60 }
"""
