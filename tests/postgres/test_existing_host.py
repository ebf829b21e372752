"""The operating system under a server that exists: what may change there, what is refused, and how it is undone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from commands import dsn, heard, start

from in_process import pgdrag
from pgdrag.driver.connection_string import reach
from pgdrag.existing.operating_system import host_in_force
from pgdrag.existing.permission import OS, Permission, level_problems
from pgdrag.existing.standing import Standing, look_at
from pgdrag.factors import Here
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo.written_value import shown_value
from pgdrag.model import Level
from pgdrag.servers.cluster import Cluster

PRESSURE = Path("/proc/sys/vm/vfs_cache_pressure")
# Not what the kernel has: tests that were killed may have left one of them.
PRESSED = next(x for x in ("93", "94") if x != shown_value(PRESSURE))
TIMEOUT_S = 60
LEVEL = Level("sysctl", "vm.vfs_cache_pressure", PRESSED)
EXPERIMENT = f"""
pgdrag = 1
name = "pressure"
workload = {{ kind = "pgbench", scripts = [{{ name = "look", text = "SELECT count(*) FROM pg_class;" }}] }}
design = {{ kind = "one-at-a-time" }}
[baseline]
[[rungs]]
name = "more"
sysctl = {{ "vm.vfs_cache_pressure" = {PRESSED} }}
[[rungs]]
name = "pages"
huge_pages = {{ "hugepages-2048kB" = 3 }}
[scales.demo]
load = {{ connections = 1, warm_up_s = 0, measure_s = SECONDS }}
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGDRAG_SCRATCH", str(open_directory / "existing-host"))


@pytest.fixture(scope="module")
def server(scratch: object, empty_snapshot: object, binaries: object) -> Iterator[Cluster]:
    with empty_snapshot.restore(scratch, binaries).cluster as cluster:  # type: ignore[attr-defined]
        cluster.start()
        yield cluster


@pytest.fixture
def standing(server: Cluster) -> Standing:
    return look_at(reach(dsn(server)))


def experiment(tmp_path: Path, seconds: int = 1) -> Path:
    file = tmp_path / "pressure.toml"
    file.write_text(EXPERIMENT.replace("SECONDS", str(seconds)))
    return file


def why(level: Level, standing: Standing, *allowed: str) -> str:
    here = Here(
        standing.settings, standing.settings, Path(standing.data_directory), frozenset(allowed)
    )
    found = level_problems([level], here, standing, Permission(frozenset(allowed)))
    return found[0].message + " " + found[0].hint if found else ""


def test_a_kernel_parameter_is_set_for_a_trial_and_put_back(host_alone, server, tmp_path):
    before = shown_value(PRESSURE)
    run = ("run", experiment(tmp_path), "--dsn", dsn(server), "--yes", "--json")
    out, err = _ran(*run, "--allow-change", OS)
    found = json.loads(out)
    applied = {x["level"]["name"]: x for one in found["rungs"] for x in one["applied"]}
    assert applied["vm.vfs_cache_pressure"]["effective"] == PRESSED
    assert applied["vm.vfs_cache_pressure"]["default"] == before
    assert applied["hugepages-2048kB"]["effective"] is None
    assert "a server takes them at its start" in err
    outcomes = {one["treatment"]: one["outcome"] for one in found["trials"]}
    assert outcomes["more"] == "measured"
    assert any(
        "Values of the operating system are changed while the server runs" in x
        for x in found["study"]["notes"]
    )
    assert shown_value(PRESSURE) == before


def test_a_dry_run_says_what_would_be_set_and_without_consent_nothing_would(server, tmp_path):
    run = ("run", experiment(tmp_path), "--dsn", dsn(server), "--dry-run")
    out, err = _ran(*run)
    assert "that needs consent. To allow it, add --allow-change os" in " ".join(err.split())
    assert "Set on the server" not in out
    out, _ = _ran(*run, "--allow-change", OS)
    assert (
        f"sysctl vm.vfs_cache_pressure: {shown_value(PRESSURE)} (of this machine) -> {PRESSED}"
        in out
    )


def test_after_kill_9_the_guardian_puts_the_kernel_parameter_back(host_alone, server, tmp_path):
    before = shown_value(PRESSURE)
    process = start(
        *("run", experiment(tmp_path, seconds=4), "--only", "more", "--dsn", dsn(server)),
        *("--allow-change", OS, "--yes"),
        PGDRAG_UNDO=str(tmp_path / "its-undo"),
    )
    try:
        heard(process, "Run pressure")
        assert wait_until(lambda: shown_value(PRESSURE) == PRESSED, TIMEOUT_S)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
    assert wait_until(lambda: shown_value(PRESSURE) == before, TIMEOUT_S)


def test_values_are_put_back_when_a_trial_is_broken_off(host_alone, standing):
    before = shown_value(PRESSURE)
    stack = ExitStack()
    shown = stack.enter_context(host_in_force(standing.data_directory, [LEVEL]))
    assert [x.effective for x in shown] == [PRESSED]
    with pytest.raises(KeyboardInterrupt), stack:
        raise KeyboardInterrupt
    assert shown_value(PRESSURE) == before


def test_what_needs_a_server_of_its_own_or_is_on_another_machine_is_refused_with_the_reason(
    standing,
):
    elsewhere = replace(standing, server=replace(standing.server, is_local=False))
    assert "that needs consent" in why(LEVEL, standing)
    assert "the server is on another machine" in why(LEVEL, elsewhere, OS)
    container = replace(standing, data_directory="")
    assert "data directory cannot be reached from here" in why(LEVEL, container, OS)
    pages = Level("huge_pages", "hugepages-2048kB", "3")
    assert "is not changed" in why(pages, standing, OS)
    for level in (
        Level("mount", "options", "noatime"),
        Level("storage", "size", "1GB"),
        Level("cgroup", "memory.max", "1GB"),
    ):
        assert "is changed only on throw-away servers" in why(level, standing, OS)


def test_a_disk_and_a_parameter_that_is_not_harmless_are_named_besides(host_alone, standing):
    backlog = Level("sysctl", "net.core.somaxconn", "4000")
    assert "--allow-change net.core.somaxconn" in why(backlog, standing, OS)
    assert why(backlog, standing, OS, "net.core.somaxconn") == ""


def test_an_allowance_that_allows_nothing_is_refused(server, tmp_path):
    status, _, err = pgdrag("run", experiment(tmp_path), "--allow-change", OS, "--dry-run")
    assert (status, "--allow-change os requires --dsn" in err) == (2, True)
    run = ("run", experiment(tmp_path), "--dsn", dsn(server), "--dry-run")
    status, _, err = pgdrag(*run, "--allow-change", "setings")
    assert status == 2
    assert '"setings" names nothing that can change' in err
    assert 'Did you mean "settings"?' in err


def _ran(*arguments: str | Path) -> tuple[str, str]:
    status, out, err = pgdrag(*arguments)
    assert status == 0, err
    return out, err
