"""What factors of the operating system say before anything is changed; on files that look like the kernel's."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pgdrag.factors import Here, Problem, all_factors
from pgdrag.factors.sysctl import HARMLESS, name_of, path_of
from pgdrag.host.undo import UNDO_VARIABLE, UndoJournal, take_warnings
from pgdrag.host.undo.written_value import write_value
from pgdrag.model import Level
from pgdrag.servers.settings import SettingsCatalog

pytestmark = pytest.mark.usefixtures("any_value")
NOTHING = SettingsCatalog(180000, {})
HERE = Here(NOTHING, NOTHING)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel of files that anybody may write, with an undo journal beside it."""
    monkeypatch.setattr("pgdrag.factors.sysctl.ROOT", tmp_path / "sys")
    monkeypatch.setattr("pgdrag.factors.transparent_hugepage.ROOT", tmp_path / "thp")
    monkeypatch.setattr("pgdrag.factors.transparent_hugepage.RESERVE", tmp_path / "reserve")
    monkeypatch.setattr("pgdrag.factors.huge_pages.ROOT", tmp_path / "huge")
    monkeypatch.setattr("pgdrag.factors.cpu_governor.ROOT", tmp_path / "cpufreq")
    monkeypatch.setenv(UNDO_VARIABLE, str(tmp_path / "undo"))
    for name, text in {
        "sys/vm/dirty_ratio": "20\n",
        "sys/vm/dirty_bytes": "0\n",
        "sys/vm/vfs_cache_pressure": "100\n",
        "sys/vm/overcommit_memory": "0\n",
        "sys/vm/drop_caches": "0\n",
        "sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "sys/net/ipv4/conf/eth0.1/forwarding": "0\n",
        "thp/enabled": "always [madvise] never\n",
        "thp/khugepaged/defrag": "1\n",
        "huge/hugepages-2048kB/nr_hugepages": "0\n",
        "cpufreq/policy0/scaling_governor": "powersave\n",
        "cpufreq/policy0/scaling_available_governors": "performance powersave\n",
        "cpufreq/policy0/energy_performance_preference": "balance_power\n",
        "cpufreq/policy1/scaling_governor": "performance\n",
        "reserve": "45056\n",
        "cpufreq/policy1/scaling_available_governors": "performance powersave\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may write nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda path, mode: False)


def problem_of(kind: str, name: str, value: str, here: Here = HERE) -> Problem | None:
    found = all_factors()[kind]().check([Level(kind, name, value)], here)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("kind", "name", "value", "said"),
    [
        ("sysctl", "dirty_ratio", "10", "is not the name of a kernel parameter"),
        ("sysctl", "vm..dirty_ratio", "10", "is not the name of a kernel parameter"),
        ("sysctl", "vm/../kernel/panic", "1", "is not the name of a kernel parameter"),
        ("sysctl", "/vm/dirty_ratio", "1", "is not the name of a kernel parameter"),
        ("sysctl", "vm.drop_caches", "3", "is an action, not a value"),
        ("sysctl", "vm.dirty_ration", "10", "is not in this kernel"),
        ("sysctl", "vm.dirty_ratio", "10%", 'cannot be "10%", which is not a number'),
        ("sysctl", "vm.dirty_ratio", "", "cannot be"),
        ("sysctl", "vm.dirty_ratio", "10\n20", "cannot be"),
        ("transparent_hugepage", "enabled", "allways", 'cannot be "allways"'),
        ("transparent_hugepage", "../enabled", "always", "is not the name of a switch"),
        ("huge_pages", "2MB", "300", "is not a size of huge pages"),
        ("huge_pages", "hugepages-2048kB", "600MB", "not a number of pages"),
        ("cpu_governor", "governor", "performance", "is not one of its levels"),
        ("block_device", "../nr_requests", "1", "is not the name of an attribute"),
        ("block_device", "scheduler", "dead-line", "is not a scheduler"),
    ],
)
def test_what_can_be_had_nowhere_is_a_mistake(kernel, kind, name, value, said):
    problem = problem_of(kind, name, value)
    assert problem is not None
    assert problem.is_mistake
    assert said in problem.message
    assert not problem.message.endswith(".")


@pytest.mark.parametrize(
    ("kind", "name", "value", "said"),
    [
        ("sysctl", "vm.swappiness", "10", "is not in this kernel"),
        ("sysctl", "vm.brand_new", "10", "is not in this kernel"),
        ("sysctl", "vm.overcommit_memory", "2", "is not changed without consent"),
        ("transparent_hugepage", "enabled", "defer", 'cannot be "defer"'),
        ("transparent_hugepage", "shmem_enabled", "always", "is not in this kernel"),
        ("huge_pages", "hugepages-1048576kB", "1", "is not on this machine"),
        ("cpu_governor", "scaling_governor", "schedutil", 'cannot be "schedutil" here'),
        ("cpu_governor", "scaling_max_freq", "2000000", "is not available on this machine"),
    ],
)
def test_what_only_this_machine_lacks_is_untestable_here(kernel, kind, name, value, said):
    problem = problem_of(kind, name, value)
    assert problem is not None
    assert not problem.is_mistake
    assert said in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("sysctl", "vm.dirty_ratio", "10"),
        ("sysctl", "vm/dirty_ratio", "10"),
        ("transparent_hugepage", "enabled", "always"),
        ("transparent_hugepage", "khugepaged/defrag", "0"),
        ("huge_pages", "hugepages-2048kB", "300"),
        ("cpu_governor", "scaling_governor", "performance"),
    ],
)
def test_what_can_be_had_is_no_problem(kernel, kind, name, value):
    assert problem_of(kind, name, value) is None


def test_without_root_it_is_told_what_would_be_done(kernel, nobody):
    problem = problem_of("sysctl", "vm.dirty_ratio", "10")
    assert problem is not None
    assert not problem.is_mistake
    assert problem.message == 'sysctl "vm.dirty_ratio" cannot be set to 10 here: only root may'
    path = kernel / "sys/vm/dirty_ratio"
    assert problem.hint == f"As root, pgdrag would write 10 to {path}, which is 20 now."


@pytest.mark.parametrize("written", ["vm.overcommit_memory", "vm/overcommit_memory"])
def test_consent_names_a_parameter_either_way(kernel, written):
    here = Here(NOTHING, NOTHING, allowed=frozenset({written}))
    assert problem_of("sysctl", "vm.overcommit_memory", "2", here) is None


def test_a_typo_names_what_may_have_been_meant(kernel):
    problem = problem_of("sysctl", "vm.vfs_cache_presure", "50")
    assert problem is not None
    assert problem.hint == 'Did you mean "vm.vfs_cache_pressure"?'


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vm.dirty_ratio", "vm/dirty_ratio"),
        ("vm/dirty_ratio", "vm/dirty_ratio"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
    ],
)
def test_points_and_slashes_mean_what_they_mean_to_sysctl(kernel, name, path):
    found = path_of(name)
    assert found == kernel / "sys" / path
    assert path_of(name_of(found)) == found


def test_every_harmless_parameter_has_its_reason_and_is_documented():
    page = (Path(__file__).parents[2] / "docs/how-to/operating-system.md").read_text()
    for name, reason in HARMLESS.items():
        assert name.split(".")[0] in ("vm", "kernel")
        assert reason
        assert f"`{name}`" in page


class Cluster:
    """What these factors know of a cluster: where its data are."""

    data_directory = Path("/")


def test_several_values_and_several_files_are_written_and_put_back(kernel):
    """sysctls of three numbers; a governor for every processor, of which one has it already."""
    rmem = kernel / "sys/net/ipv4/tcp_rmem"
    levels = {
        "sysctl": {"net.ipv4.tcp_rmem": "4096 65536 1048576"},
        "cpu_governor": {"scaling_governor": "performance"},
    }
    factors = {kind: all_factors()[kind]() for kind in levels}
    for kind, factor in factors.items():
        factor.before_start(Cluster(), levels[kind])
        (found,) = factor.read_back(Cluster(), levels[kind])
        assert (found.effective, found.note) == (next(iter(levels[kind].values())), "")
    assert rmem.read_text() == "4096 65536 1048576\n"
    for factor in factors.values():
        factor.undo(Cluster())
    assert rmem.read_text().split() == ["4096", "131072", "6291456"]
    governors = [
        (kernel / f"cpufreq/policy{n}/scaling_governor").read_text().strip() for n in range(2)
    ]
    assert governors == ["powersave", "performance"]
    journal = UndoJournal.open()
    assert journal.steps() == []
    journal.release()


def test_what_a_switch_changes_beside_itself_is_put_back_with_it(kernel, monkeypatch):
    """The kernel reserves memory for huge pages; a governor changes the processors' preferences."""
    beside = {
        kernel / "thp/enabled": (kernel / "reserve", "67584"),
        kernel / "cpufreq/policy0/scaling_governor": (
            kernel / "cpufreq/policy0/energy_performance_preference",
            "performance",
        ),
    }

    def write(path: Path, value: str) -> None:
        write_value(path, value)
        if path in beside:
            write_value(*beside[path])

    monkeypatch.setattr("pgdrag.factors.kernel_files.write_value", write)
    before = [path.read_text() for path, _ in beside.values()]
    levels = {
        "transparent_hugepage": {"enabled": "always"},
        "cpu_governor": {"scaling_governor": "performance"},
    }
    factors = {kind: all_factors()[kind]() for kind in levels}
    for kind, factor in factors.items():
        factor.before_start(Cluster(), levels[kind])
    assert [path.read_text() for path, _ in beside.values()] == ["67584\n", "performance\n"]
    for factor in factors.values():
        factor.undo(Cluster())
    assert [path.read_text() for path, _ in beside.values()] == before
    assert take_warnings() == []
    UndoJournal.open().release()


def test_of_two_that_exclude_each_other_the_one_in_force_is_named(kernel, monkeypatch):
    def write(path: Path, value: str) -> None:
        write_value(path, value)
        if path.name == "dirty_ratio":
            write_value(path.with_name("dirty_bytes"), "0")

    monkeypatch.setattr("pgdrag.factors.kernel_files.write_value", write)
    factor, levels = all_factors()["sysctl"](), {"vm.dirty_bytes": "9999", "vm.dirty_ratio": "10"}
    factor.before_start(Cluster(), levels)
    found = {x.level.name: x for x in factor.read_back(Cluster(), levels)}
    assert (found["vm.dirty_ratio"].effective, found["vm.dirty_ratio"].note) == ("10", "")
    assert found["vm.dirty_bytes"].effective == "0"
    assert found["vm.dirty_bytes"].note == "vm.dirty_ratio is in force and takes precedence"
    factor.undo(Cluster())
    assert (kernel / "sys/vm/dirty_ratio").read_text() == "20\n"
    UndoJournal.open().release()


def test_what_was_refused_is_not_watched_any_longer(kernel, monkeypatch):
    """Nothing of it is pgdrag's, so that another's change of it is nothing to tell."""

    def refuse(path: Path, value: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("pgdrag.factors.kernel_files.write_value", refuse)
    factor, levels = all_factors()["sysctl"](), {"vm.vfs_cache_pressure": "93"}
    factor.before_start(Cluster(), levels)
    (found,) = factor.read_back(Cluster(), levels)
    assert (found.effective, found.note) == (None, "the kernel refuses it: invalid argument")
    assert UndoJournal.open().steps() == []
    write_value(kernel / "sys/vm/vfs_cache_pressure", "95")
    factor.undo(Cluster())
    assert take_warnings() == []
    UndoJournal.open().release()


def test_a_level_that_is_in_force_already_is_not_written(kernel):
    """A queue's scheduler would forget what was tuned, and nothing would be different."""
    path = kernel / "sys/vm/vfs_cache_pressure"
    before = path.stat().st_mtime_ns
    factor = all_factors()["sysctl"]()
    factor.before_start(Cluster(), {"vm.vfs_cache_pressure": "100"})
    (found,) = factor.read_back(Cluster(), {"vm.vfs_cache_pressure": "100"})
    assert (found.effective, found.default) == ("100", "100")
    assert path.stat().st_mtime_ns == before
    UndoJournal.open().release()
