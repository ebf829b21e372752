"""Two readings of counters make rates, shares and reasons."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, integers, sampled_from

import pgdrag.collectors._proc as proc
from pgdrag.collectors import (
    Amounts,
    Collector,
    Metric,
    Observer,
    Unseen,
    Window,
    observation_names,
)
from pgdrag.collectors._cgroups import throttling
from pgdrag.collectors._metric import most_named, of_kind, total
from pgdrag.collectors._proc import Gone, read_io, read_ticks, server_total
from pgdrag.collectors.counters import Drawn, growth
from pgdrag.collectors.host import Host
from pgdrag.collectors.processes import Cpu, Overhead, Reads, Schedule, ShareSampler
from pgdrag.collectors.profile import SAID_NOTHING, Profile
from pgdrag.model import Observation

FIVE_IN_TEN_SECONDS = Window(elapsed_s=10, committed=5, started_unix_s=100, finished_unix_s=110)
NOTHING_COMMITTED = Window(elapsed_s=10, committed=0, started_unix_s=100, finished_unix_s=110)
HIDDEN = "/proc hides the server's processes from this user (hidepid); it takes CAP_SYS_PTRACE"
NAMES = sampled_from(["a", "b", "c"])


def seen(
    metric: Metric, amounts: Amounts | Unseen, window: Window = FIVE_IN_TEN_SECONDS
) -> Observation:
    return metric.evaluate(amounts, window, seconds=window.length_s, absent={"z": "it is off"})


@pytest.mark.parametrize(
    ("metric", "value", "resolution"),
    [
        (Metric("x_per_transaction", "x", "a"), 4, 0.2),
        (Metric("x_per_s", "x", "a", "1/s"), 2, 0.1),
        (Metric("x_s_per_transaction", "x", "a", "s/transaction", size=0.5), 2, 0.1),
        (Metric("x_bytes", "x", ("a", "b"), "bytes", step=8), 28, 8),
        (Metric("x_ratio", "x", "b", "ratio", "a"), 0.4, 0.05),
        (Metric("x_ratio", "x", "a", "ratio", "b"), 1, 0.125),
        (Metric("x", "x", "a", "count", "b", step="b"), 2.5, 1),
        (Metric("x", "x", "kind *", "count"), 3, 1),
        (Metric("x", "x", "nothing *", "count"), 0, 1),
    ],
)
def test_an_amount_is_divided_by_what_the_unit_says(
    metric: Metric, value: float, resolution: float
) -> None:
    found = seen(metric, {"a": 20, "b": 8, "kind c": 1, "kind d": 2})
    assert (found.value, found.resolution) == (value, resolution)


DARK = Unseen("it was dark")


@pytest.mark.parametrize(
    ("metric", "amounts", "reason"),
    [
        (Metric("x", "x", "a", "count"), DARK, "it was dark"),
        (Metric("x", "x", ("b", "a"), "count"), {"a": DARK, "b": 1}, "it was dark"),
        (Metric("x", "x", "y", "count"), {}, "this server version does not count y"),
        (Metric("x", "x", "z", "count"), {}, "it is off"),
        (Metric("x", "x", "a", "ratio", "b", nothing="none"), {"a": 1, "b": 0}, "none"),
        (Metric("x", "x", "a", "ratio", "b"), {"a": 1, "b": 0}, "the window has no length"),
    ],
)
def test_without_an_amount_there_is_a_reason(
    metric: Metric, amounts: Amounts | Unseen, reason: str
) -> None:
    found = seen(metric, amounts)
    assert (found.value, found.missing) == (None, reason)


def test_nothing_committed_is_a_reason_and_the_rate_is_still_there() -> None:
    each = seen(Metric("x_per_transaction", "x", "a"), {"a": 20}, NOTHING_COMMITTED)
    assert (each.value, each.missing) == (None, "nothing committed in the window")
    assert seen(Metric("x_per_s", "x", "a", "1/s"), {"a": 20}, NOTHING_COMMITTED).value == 2


def test_a_detail_has_amounts_and_words_and_is_left_out_where_there_is_no_value() -> None:
    metric = Metric("x", "x", "a b", "count", detail="{a b:,} of them. {note} ")
    assert seen(metric, {"a b": 2000, "note": "Yes."}).detail == "2,000 of them. Yes."
    assert seen(metric, {}).detail == ""


@given(dictionaries(NAMES, integers(0, 9)), dictionaries(NAMES, integers(0, 9)))
def test_what_grew_is_what_was_added(before: dict[str, int], added: dict[str, int]) -> None:
    after = {name: before.get(name, 0) + added.get(name, 0) for name in {*before, *added}}
    moved = growth(before, after)
    assert moved == {name: added.get(name, 0) for name in after}


def test_a_kind_has_what_its_word_begins_and_nothing_else() -> None:
    counters = {"reads io worker": 3, "reads b": 4, "reads_ahead b": 50, "writes b": 60}
    assert of_kind(counters, "reads") == {"io worker": 3, "b": 4}
    assert total(counters, ["reads *", "writes b"]) == 67


def test_the_three_largest_are_named_and_those_of_zero_never() -> None:
    assert most_named("By X", {"a": 1, "b": 2000, "c": 3, "d": 2}) == "By X: b 2,000, c 3, d 2."
    assert most_named("By X", {"a": 0, "b": 1}) == "By X: b 1."
    assert most_named("By X", {"a": 0}) == ""


def test_a_counter_that_shrank_was_reset() -> None:
    with pytest.raises(Unseen, match="the server's counters were reset within the window"):
        growth({"a": 2, "b": 0}, {"a": 1, "b": 5})


def test_what_is_drawn_is_by_second_or_by_another_counter_and_nothing_took_no_time() -> None:
    then, now = {"ms": 10, "count": 1}, {"ms": 40, "count": 6}
    by_second = Drawn("queue", "", "count", ("ms",), 1 / 1000)
    by_request = Drawn("wait", "", "s", ("ms",), 1 / 1000, each=("count",))
    assert by_second.between(then, now, 2.0) == pytest.approx(0.015)
    assert by_request.between(then, now, 2.0) == pytest.approx(0.006)
    assert by_request.between(then, {**now, "count": 1}, 2.0) == 0
    assert by_request.between(now, then, 2.0) is None
    assert by_request.between(then, {"ms": 40}, 2.0) is None


def test_a_counter_that_is_gone_takes_only_itself_along() -> None:
    assert growth({"a": 2, "b": 1}, {"b": 3}) == {"b": 2}


def test_the_names_that_the_first_experiment_expects_are_observed() -> None:
    assert observation_names() >= {
        "buffer_hit_ratio",
        "read_syscalls_per_transaction",
        "vacuums_per_s",
        "analyzes_per_s",
        "checkpoints_per_s",
        "wal_bytes_per_transaction",
        "seq_scans_per_transaction",
        "seq_tuples_per_transaction",
    }


def test_an_observer_knows_the_first_postmaster_again_and_no_other() -> None:
    cluster: Any = SimpleNamespace(postmaster_pid=None)
    info = SimpleNamespace(server_version=180006, backend_pid=9)
    connection: Any = SimpleNamespace(autocommit=True, info=info)
    observer = Observer(cluster, connection)
    with pytest.raises(Unseen, match="the server does not run on this host, or no longer"):
        observer.postmaster()
    cluster.postmaster_pid = 7
    assert observer.postmaster() == observer.postmaster() == 7
    cluster.postmaster_pid = 8
    with pytest.raises(Unseen, match="the server was restarted within the window"):
        observer.postmaster()
    cluster.postmaster_pid = 7
    assert observer.postmaster() == 7


def at_once(path: Path, text: str) -> None:
    """Write a file that nobody ever sees half-written, like those of the kernel."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


class FakeProc:
    """Processes with accounts, in a directory laid out like /proc; 1 is the postmaster."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.children: list[int] = []
        self.put(1, "/usr/bin/postgres", 0)
        (root / "1" / "task" / "1").mkdir(parents=True)
        (root / "self").mkdir()
        (root / "self" / "io").touch()
        self.spawn()

    def spawn(self, *children: int) -> None:
        self.children += children
        listed = " ".join(map(str, self.children))
        at_once(self.root / "1" / "task" / "1" / "children", listed)

    def end(self, pid: int) -> None:
        """As the kernel does: its account passes to the postmaster, who waited for it."""
        calls = read_io(1)["read_calls"] + read_io(pid)["read_calls"]
        self.put(1, "/usr/bin/postgres", calls)
        (self.root / str(pid) / "io").unlink()
        self.children.remove(pid)
        self.spawn()

    def put(self, pid: int, title: str, read_calls: int) -> None:
        directory = self.root / str(pid)
        directory.mkdir(exist_ok=True)
        at_once(directory / "cmdline", title)
        rest = "syscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
        at_once(directory / "io", f"rchar: 0\nwchar: 0\nsyscr: {read_calls}\n{rest}")


@pytest.fixture
def fake_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProc:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    return FakeProc(tmp_path)


def test_the_total_does_not_depend_on_who_has_ended(fake_proc: FakeProc) -> None:
    fake_proc.put(7, "postgres: me db [local] idle", 30)
    fake_proc.put(8, "postgres: io worker 0", 5)
    fake_proc.put(9, "postgres: collectors db [local] idle", 100)
    fake_proc.spawn(7, 8, 9)
    assert server_total(1, 9, read_io)[0]["read_calls"] == 35
    fake_proc.end(7)
    assert server_total(1, 9, read_io)[0]["read_calls"] == 35


def test_calls_are_told_apart_by_kind_from_the_samplers_start_on(fake_proc: FakeProc) -> None:
    fake_proc.put(7, "postgres: checkpointer ", 1000)
    fake_proc.spawn(7)
    sampler = ShareSampler(1, nullcontext, without=-1)
    fake_proc.put(7, "postgres: checkpointer ", 1004)
    fake_proc.put(8, "postgres: prod: autovacuum worker db", 50)
    fake_proc.put(9, "postgres: prod: me db [local] idle", 3)
    fake_proc.spawn(8, 9)
    expected = {"checkpointer": 4, "autovacuum workers": 50, "sessions": 3}
    assert {kind: io["read_calls"] for kind, io in sampler.stop().items()} == expected


def test_a_number_that_another_process_got_loses_neither_account(fake_proc: FakeProc) -> None:
    fake_proc.put(7, "postgres: checkpointer ", 1000)
    fake_proc.spawn(7)
    sampler = ShareSampler(1, nullcontext, without=-1)
    fake_proc.put(7, "postgres: me db [local] idle", 5)
    found = sampler.stop()
    assert sum(io["read_calls"] for io in found.values()) == 5


def test_a_server_that_vanishes_ends_the_sampler_with_what_it_saw(fake_proc: FakeProc) -> None:
    fake_proc.put(7, "postgres: checkpointer ", 1000)
    fake_proc.spawn(7)
    sampler = ShareSampler(1, nullcontext, without=-1)
    (fake_proc.root / "1" / "task" / "1" / "children").unlink()
    assert set(sampler.stop()) <= {"checkpointer"}


def test_a_host_without_accounts_is_named(fake_proc: FakeProc) -> None:
    (fake_proc.root / "self" / "io").unlink()
    with pytest.raises(Unseen, match="does not report I/O per process"):
        read_io(4711)


@pytest.fixture(params=["living", "dead, not yet reaped", "gone"])
def process(request: pytest.FixtureRequest) -> Iterator[tuple[int, bool]]:
    """A process, and whether it has ended."""
    with subprocess.Popen(["sleep", "60"]) as child:
        if request.param != "living":
            child.kill()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if request.param == "gone":
            child.wait()
        yield child.pid, request.param != "living"
        child.kill()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError, HIDDEN),
        (ProcessLookupError, HIDDEN),
        (
            PermissionError,
            "this user may not read /proc/PID/io of the server's processes; it takes CAP_SYS_PTRACE",
        ),
    ],
)
def test_only_what_has_ended_is_gone_and_what_is_not_shown_is_unseen(
    error: type[OSError],
    reason: str,
    process: tuple[int, bool],
    fake_proc: FakeProc,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own user may not read the account of one that ends; hidepid shows nothing of one that lives."""

    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    pid, is_over = process
    with pytest.raises(Unseen) as raised:
        read_io(pid)
    assert isinstance(raised.value, Gone) is is_over
    assert raised.value.reason == ("the server's process is gone" if is_over else reason)


@pytest.mark.parametrize("kind", [Cpu, Reads, Schedule, Overhead, Profile])
def test_of_a_server_out_of_sight_each_value_is_missing_with_its_reason(
    kind: type[Collector], fake_proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stat", "schedstat"):
        (fake_proc.root / "self" / name).touch()
    observations = looked_at(kind(), monkeypatch).observations(FIVE_IN_TEN_SECONDS)
    assert {(one.value, one.missing) for one in observations} == {(None, HIDDEN)}


def test_of_control_groups_out_of_sight_none_is_said_not_to_limit_the_server(
    fake_proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake_proc.root / "self" / "cgroup").touch()
    observations = looked_at(Host(), monkeypatch).observations(FIVE_IN_TEN_SECONDS)
    hidden = {one.name for one in observations if one.missing == HIDDEN}
    assert hidden >= {"cpu_throttled_share", "memory_limit_bytes", "storage_reads_limit_per_s"}
    assert all("no control group" not in one.missing for one in observations)
    (fake_proc.root / "self" / "cgroup").unlink()
    with pytest.raises(Unseen, match="this kernel has no control groups"):
        throttling(os.getpid())


def test_a_perf_that_is_shown_no_server_and_says_nothing_is_explained(
    fake_proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> object:
        raise Unseen(SAID_NOTHING)

    profile, silent = Profile(), SimpleNamespace(read=read, stop=lambda: None)
    monkeypatch.setattr(profile, "_begin", lambda _: silent)
    looked_at(profile, monkeypatch)
    assert profile.recordings(FIVE_IN_TEN_SECONDS).missing == {"profile": HIDDEN}


def looked_at(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Collector:
    """Return a collector that looked at a server that lives, and of which /proc shows nothing."""

    def answer(*_: object) -> object:
        raise Unseen("nobody answers")

    monkeypatch.setattr(Observer, "query", answer)
    own = os.getpid()
    cluster: Any = SimpleNamespace(
        is_throw_away=True, postmaster_pid=own, user=None, data_directory=Path("/")
    )
    info = SimpleNamespace(server_version=180006, backend_pid=own)
    connection: Any = SimpleNamespace(autocommit=True, info=info)
    observer = Observer(cluster, connection)
    collector.before(observer)
    collector.sample(observer)
    collector.after(observer)
    collector.afterwards(observer)
    return collector


def stat(root: Path, pid: int, own: tuple[int, int], children: tuple[int, int] = (0, 0)) -> None:
    """Write an account of processor time for a process whose name is an awkward one."""
    directory = root / str(pid)
    directory.mkdir(exist_ok=True)
    before = " ".join(["0"] * 10)
    at_once(
        directory / "stat",
        f"{pid} (postgres: a) b) S {before} {own[0]} {own[1]} {children[0]} {children[1]} 20 0 1",
    )


def test_processor_time_is_of_the_living_and_of_those_that_have_ended(fake_proc: FakeProc) -> None:
    stat(fake_proc.root, 1, (1, 2), (30, 40))
    stat(fake_proc.root, 7, (500, 600), (7, 8))
    stat(fake_proc.root, 9, (9_000, 9_000))
    fake_proc.spawn(7, 9)
    assert server_total(1, 9, read_ticks) == (
        {"own": 1 + 2 + 500 + 600, "ended": 30 + 40 + 7 + 8},
        2,
    )


def test_processor_time_without_a_reading_or_a_commit_has_a_reason(fake_proc: FakeProc) -> None:
    assert {one.missing for one in Cpu().observations(Window(1.0, 1, 0.0, 1.0))} == {
        "no reading was taken"
    }
    with pytest.raises(Unseen, match="does not report processor time per process"):
        server_total(1, 9, read_ticks)
