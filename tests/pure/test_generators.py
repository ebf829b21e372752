"""Several load generators measure as one, and whatever one of them loses, nothing has been measured."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from pgdrag.cli.options import StudyOptions, generators_of, refuse_hosts
from pgdrag.cli.study_command import conditions
from pgdrag.driver.contract import IntervalLine, Line, PhaseLine
from pgdrag.driver.generators import CommandGenerator, by_ssh, names_of
from pgdrag.driver.histogram import _latency
from pgdrag.driver.process import Driver, Target
from pgdrag.errors import DriverError, FileError, UsageError
from pgdrag.findings.driver_limits import clock_warnings, driver_warnings
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.workloads.command import Command

TARGET = Target("/nowhere", 5432, "me", "db", password="secret")
LOAD = LoadProfile(
    connections=5, warm_up_s=0, measure_s=0.4, budget_s=0.4, min_commits=0, generators=("", "", "")
)

# A driver that commits ten transactions an interval of a second, by a clock of its own, and does to itself what its
# number in SELF says, in the window.
STUB = """
import json, os, select, signal, sys, time
SELF = {self!r}
began_s, moved_s, held = time.monotonic(), 0.0, b""
def now(): return time.monotonic() - began_s + ahead_s + moved_s
def say(**line): print(json.dumps(line), flush=True)
def lines(timeout_s):
    global held
    if select.select([0], [], [], timeout_s)[0]:
        chunk = os.read(0, 65536)
        if not chunk: sys.exit(3)
        held += chunk
    while b"\\n" in held:
        line, _, held = held.partition(b"\\n")
        yield json.loads(line)
held += os.read(0, 65536)
while b"\\n" not in held: held += os.read(0, 65536)
line, _, held = held.partition(b"\\n")
job = json.loads(line)
run = job["run"]
share = run.get("share") or {{"index": 0, "of": 1}}
does = SELF.get(share["index"], "")
ahead_s = 1000.0 * share["index"]
clients = len(range(share["index"], run["connections"], share["of"]))
if does == "is slow to greet": time.sleep(2.0)
version = "2" if does == "other version" else "1"
say(type="hello", contract=2, driver_version=version, pid=os.getpid(), action="run", started_unix_s=0.0)
say(type="phase", name="connect", t_s=now())
if does == "refused": say(type="error", message="no role", sqlstate="28000", phase="connect"); sys.exit(1)
if does != "never warm": say(type="warm", t_s=now())
open_s = end_s = None
printed = 0
def counts(number):
    latency = {latency} if number else None
    return {{"t": dict(scheduled=number, committed=number, latency=latency)}}
def interval(length_s):
    global printed
    printed += 1
    say(type="interval", t_s=now(), duration_s=length_s, sessions=clients, transactions=counts(0 if does == "cut off" else 10))
while True:
    t = now()
    if open_s is not None:
        while t >= open_s + printed + 1 and open_s + printed + 1 < end_s: interval(1.0)
        if t >= end_s: break
    wait_s = 0.05 if open_s is None else max(0.0, min(end_s, open_s + printed + 1) - t)
    for line in lines(wait_s):
        match line["type"]:
            case "clock": say(type="clock", id=line["id"], received_s=now(), t_s=now())
            case "end": end_s = line["at_s"]
            case "measure":
                open_s = line["at_s"]
                end_s = open_s + run["duration_s"] - (0.2 if does == "ends early" else 0.0)
                say(type="phase", name="run", t_s=now())
                match does:
                    case "dies": os.kill(os.getpid(), signal.SIGKILL)
                    case "stops": os.kill(os.getpid(), signal.SIGSTOP)
                    case "garbage": print("no json", flush=True)
                    case "jumps": moved_s = 40.0; open_s += 40; end_s += 40
                    case "hangs": signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)
stopped_by = "clients" if does == "no clients" else "signal" if does == "signal" else "deadline"
length_s = round(end_s - open_s, 6)
if length_s - printed > 1e-9: interval(length_s - printed)
stall = 6e6 if does == "stood still" else 100.0
busy = 0.99 * length_s if does == "busy" else 0.1
driver = dict(user_cpu_s=busy, system_cpu_s=0.0, threads=1, busiest_thread_cpu_s=busy, stall_us_max=stall)
say(type="done", t_s=now(), elapsed_s=length_s, warm_up_s=1.0, stopped_by=stopped_by, driver=driver,
    transactions=counts(0 if does == "cut off" else 10 * printed))
"""


def latency(number: int) -> str:
    """Return an expression of the histogram of `number` latencies of a millisecond."""
    counts = np.zeros(1001, np.int64)
    counts[1000] = number
    return repr(vars(_latency(counts, is_encoded=True)))


@contextmanager
def stub(tmp_path: Path, selves: dict[int, str]) -> Iterator[Driver]:
    text = STUB.format(self=selves, latency="LATENCY[number]")
    known = "{" + ", ".join(f"{n}: {latency(n)}" for n in range(10, 101, 10)) + "}"
    script = tmp_path / "driver"
    script.write_text(f"#!{sys.executable}\nLATENCY = {known}\n{text}")
    script.chmod(stat.S_IRWXU)
    yield Driver(script)


def measured(
    tmp_path: Path, *, load: LoadProfile = LOAD, heard: list[Line] | None = None, **selves: str
) -> Measurement:
    numbered = {int(name.removeprefix("_")): does for name, does in selves.items()}
    with stub(tmp_path, numbered) as driver:
        listen = [].append if heard is None else heard.append
        return driver.run(TARGET, {"kind": "tpcc"}, load, seed=1, listen=listen)


@pytest.fixture(autouse=True)
def _at_short_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdrag.driver.together.NOTICE_S", 0.2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes whoever is silent for a second for lost."""
    monkeypatch.setattr("pgdrag.driver.together.SILENT_S", 1.5)
    monkeypatch.setattr("pgdrag.driver.together.CANCELLED_S", 1.5)


def test_clocks_that_differ_by_a_thousand_seconds_have_one_window(tmp_path: Path) -> None:
    heard: list[Line] = []
    found = measured(tmp_path, load=replace(LOAD, measure_s=1.2, budget_s=1.2), heard=heard)
    assert (found.total.committed, found.elapsed_s, found.stopped_by) == (60, 1.2, "deadline")
    assert [(x.committed, round(x.t_s, 6), x.sessions) for x in found.samples] == [
        (30, 1.0, 5),
        (30, 1.2, 5),
    ]
    assert found.latency["t"].count == 60
    assert [x.clients for x in found.generators] == [2, 2, 1]
    assert [x.name for x in found.generators] == ["generator 1", "generator 2", "generator 3"]
    assert all(0 < x.clock_uncertainty_s < 0.5 for x in found.generators)
    lines = [x for x in heard if isinstance(x, IntervalLine)]
    assert [x.committed for x in lines] == [30, 30]
    assert [x.name for x in heard if isinstance(x, PhaseLine)] == ["connect", "run"]


def test_the_worst_generator_is_the_one_that_counts(tmp_path: Path) -> None:
    found = measured(tmp_path, _1="busy")
    (warning,) = driver_warnings(found)
    assert warning.startswith(
        "load generator 2 may be the bottleneck: its busiest thread used 99 %"
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("dies", "generator 2 of 3 was lost: load driver ended without a result, exit status -9"),
        ("stops", "generator 2 of 3 was lost: it has not said anything for 1.5 s"),
        ("hangs", "generator 2 of 3 was lost: it has not said anything for 1.5 s"),
        ("garbage", "generator 2 of 3 was lost: load driver broke its contract"),
        ("jumps", "generator 2 of 3 was lost: its clock jumped by 40 s"),
        ("signal", "generator 2 of 3 was lost: it was stopped by a signal"),
        ("no clients", "generator 2 of 3 was lost: none of its clients could go on"),
        (
            "cut off",
            "generator 2 of 3 was lost: it committed nothing for 1.5 s or longer while the others did",
        ),
        ("ends early", "generator 2 of 3 was lost: its window did not end with that of the others"),
        ("stood still", "generator 2 of 3 was lost: it stood still for 6 s"),
        ("refused", "no role"),
        ("other version", "load generators have different versions of the driver: 1, 2"),
    ],
)
def test_what_one_loses_all_have_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, why: str
) -> None:
    began_s = time.monotonic()
    monkeypatch.setattr("pgdrag.driver.together.CERTAINLY", 10)
    load = replace(LOAD, measure_s=2.0, budget_s=2.0) if does == "cut off" else LOAD
    with pytest.raises(DriverError) as caught:
        measured(tmp_path, load=load, _1=does)
    assert str(caught.value) == why
    assert caught.value.is_servers == (does == "refused")
    assert time.monotonic() - began_s < 30
    assert not _running(tmp_path / "driver")


@pytest.mark.usefixtures("impatient")
def test_a_host_that_takes_long_to_be_reached_is_not_lost(tmp_path: Path) -> None:
    assert measured(tmp_path, _1="is slow to greet").total.committed == 30


def test_whoever_is_not_ready_in_time_keeps_the_others_from_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONNECT_TIMEOUT_S", "SLACK_S"):
        monkeypatch.setattr(f"pgdrag.driver.process.{name}", 0.5)
    with pytest.raises(DriverError, match="generator 3 of 3 was lost: it was not ready within 1 s"):
        measured(tmp_path, _2="never warm")


def test_who_leaves_ends_all(tmp_path: Path) -> None:
    class Left(BaseException):
        pass

    def leave(driver: Driver) -> None:
        with driver.driving(TARGET, {"kind": "tpcc"}, LOAD, seed=1) as driving:
            driving.warm_up()
            assert len(_running(driver.binary)) == 3
            raise Left

    with stub(tmp_path, {}) as driver, pytest.raises(Left):
        leave(driver)
    assert not _running(driver.binary)


def _running(binary: Path) -> list[int]:
    """Return the processes that run a script."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline"])
        if str(binary) in (one.info["cmdline"] or ())
    ]


@pytest.mark.parametrize(
    ("min_commits", "budget_s", "stopped_by"),
    [(5, 4.0, "deadline"), (75, 4.5, "commits"), (10_000, 2.2, "budget"), (0, 4.0, "deadline")],
)
def test_the_window_goes_on_until_all_together_have_enough(
    tmp_path: Path, min_commits: int, budget_s: float, stopped_by: str
) -> None:
    load = LoadProfile(5, 0, 1.8, budget_s, min_commits=min_commits, generators=("",) * 3)
    found = measured(tmp_path, load=load)
    assert found.stopped_by == stopped_by
    if stopped_by == "commits":
        assert 2.4 < found.elapsed_s < 4.5
    else:
        assert found.elapsed_s == (2.2 if stopped_by == "budget" else 1.8)
    assert found.total.committed == sum(x.committed for x in found.samples)


def test_a_clock_that_is_not_known_well_is_a_warning(tmp_path: Path) -> None:
    found = measured(tmp_path)
    assert clock_warnings(found) == ()
    vague = tuple(vars(x) | {"clock_uncertainty_s": 0.2} for x in found.generators)
    unsure = Measurement(
        **vars(found) | {"generators": tuple(type(found.generators[0])(**x) for x in vague)}
    )
    (warning,) = clock_warnings(unsure)
    assert "up to 0.2 s apart" in warning or "up to 200 ms apart" in warning


def test_a_generator_on_another_host_is_not_given_what_only_this_one_has(tmp_path: Path) -> None:
    elsewhere = CommandGenerator("load-b", ("true",))
    load = LoadProfile(2, 0, 1, 1, generators=("load-b",))
    driver = Driver(tmp_path, lambda host: elsewhere)
    for host in ("/run/postgresql", "localhost", "127.0.0.1"):
        with pytest.raises(UsageError, match='"load-b" cannot reach a server'):
            driver.run(Target(host, 1, "me", "db"), {}, load, seed=1)
    with pytest.raises(UsageError, match='cannot run on another host, "load-b"'):
        driver.run(Target("db1", 1, "me", "db"), {"allow_shell": True}, load, seed=1)
    with pytest.raises(
        DriverError, match=r"generator 1 \(load-b\) of 1 was lost: .* exit status 0"
    ):
        driver.run(Target("db1", 1, "me", "db"), {}, load, seed=1)


def test_ssh_never_asks_and_takes_no_host_for_an_option() -> None:
    command = by_ssh("-oProxyCommand=x").command
    assert command[-3:-1] == ("--", "-oProxyCommand=x")
    assert command[-1].endswith(" pgdrag-driver")
    assert "-oBatchMode=yes" in command
    assert names_of([by_ssh("a"), by_ssh("b")]) == ["generator 1 (a)", "generator 2 (b)"]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (None, ()),
        ("1", ()),
        ("3", ("", "", "")),
        ("load-a, me@load-b", ("load-a", "me@load-b")),
        ("local,load-a", ("", "load-a")),
        ("me@load-a:~/venv/bin/pgdrag-driver", ("me@load-a:~/venv/bin/pgdrag-driver",)),
    ],
)
def test_generators_are_a_number_or_hosts(text: str | None, hosts: tuple[str, ...]) -> None:
    assert generators_of(text, 4) == hosts


def test_generators_are_hosts_of_a_fleet_file(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(
        'local = 1\n[[ssh]]\nhost = "a"\n[[ssh]]\nhost = "me@b"\nprogram = "~/v/bin/pgdrag"\n'
    )
    found = generators_of(str(file), 4)
    assert found == ("", "a", "me@b:~/v/bin/pgdrag-driver")
    assert by_ssh(found[2]).host == "me@b"
    assert by_ssh(found[2]).command[-1].endswith(" ~/v/bin/pgdrag-driver")
    file.write_text('listen = "10.0.0.1:1"\njoin = ["c"]\n')
    with pytest.raises(UsageError, match="that SSH does not reach cannot be load generators"):
        generators_of(str(file), 4)
    with pytest.raises(FileError):
        generators_of(str(tmp_path / "none.toml"), 4)


@pytest.mark.parametrize(
    "text", ["0", "101", "-1", "", "a,,b", "-oX", "a b", "x;y", "a:/bin/sh", "a:b;c/pgdrag-driver"]
)
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither a number from 1 to 100 nor a list of hosts"):
        generators_of(text, 10_000)


def test_there_are_never_more_generators_than_clients() -> None:
    with pytest.raises(UsageError, match="3 load generators cannot divide 2 clients"):
        generators_of("3", 2)


def test_an_experiments_generators_are_those_that_options_ask_for() -> None:
    under = conditions(StudyOptions(generators="2", connections=4), ())
    assert under.load.generators == ("", "")
    assert conditions(StudyOptions(), ()).load.generators == ()
    with pytest.raises(UsageError, match="3 load generators cannot divide 2 clients"):
        conditions(StudyOptions(generators="3", connections=2), ())


def test_a_program_that_is_the_workload_is_not_divided() -> None:
    load = LoadProfile(2, 0, 1, 1, generators=("", ""))
    assert Command.example().objection(replace(load, generators=())) is None
    objection = Command.example().objection(load)
    assert objection is not None
    assert "cannot be divided" in objection.message


def test_other_hosts_cannot_reach_a_throw_away_server() -> None:
    load: Any = LoadProfile(2, 0, 1, 1, generators=("", "load-a"))
    with pytest.raises(UsageError, match=r"\(load-a\) cannot be combined with --throw-away"):
        refuse_hosts(load, "--throw-away")
    refuse_hosts(LoadProfile(2, 0, 1, 1, generators=("", "")), "--throw-away")
