"""A clock that jumps within the window changes no number, and is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from test_driver_contract import HELLO, TARGET, done, driver_that
from test_log_reading import LoggingServer

from pgdrag.collectors import Window
from pgdrag.collectors._log import LogCollector, LogReading
from pgdrag.collectors.counters import Counters
from pgdrag.collectors.messages import Messages, Settings
from pgdrag.host.clock import CLOCK, SteadyClock
from pgdrag.trial import clock_warnings

HOUR_S = 3600.0
NOON = 1_700_000_000.0


class Machine:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.steady_s = 500.0
        self.wall_ahead_s = NOON - 500.0

    @property
    def clock(self) -> SteadyClock:
        return SteadyClock(self.wall_s, lambda: self.steady_s)

    def wall_s(self) -> float:
        return self.steady_s + self.wall_ahead_s

    def set_clock(self, by_s: float) -> None:
        self.wall_ahead_s += by_s


def test_time_goes_on_evenly_whatever_becomes_of_the_machines_clock() -> None:
    machine = Machine()
    clock = machine.clock
    for by_s in (-HOUR_S, 2 * HOUR_S, -HOUR_S):
        machine.set_clock(by_s)
        machine.steady_s += 10
        clock.look()
    assert clock.unix_s() == NOON + 30
    assert [(step.at_unix_s, step.by_s) for step in clock.steps(NOON, NOON + 25)] == [
        (NOON + 10, -HOUR_S),
        (NOON + 20, 2 * HOUR_S),
    ]
    assert clock.steps(NOON + 31, NOON + 99) == []


@pytest.mark.parametrize("by_s", [-HOUR_S, HOUR_S, -60.0, 90.0])
def test_moments_of_the_machines_clock_are_found_again_before_and_after_a_jump(by_s: float) -> None:
    machine = Machine()
    clock = machine.clock
    shown = []
    for second in range(40):
        if second in (10, 25):
            machine.set_clock(by_s if second == 10 else -by_s)
        shown.append((machine.wall_s(), machine.steady_s + NOON - 500))
        machine.steady_s += 0.5  # what is shown between a jump and the next look, too
        clock.look()
        machine.steady_s += 0.5
    for wall_s, true_s in shown:
        assert clock.of_wall(wall_s) == pytest.approx(true_s, abs=1e-6)


def test_a_clock_that_is_only_slewed_or_never_set_has_no_jump() -> None:
    machine = Machine()
    clock = machine.clock
    for _ in range(100):
        machine.set_clock(0.0004)
        machine.steady_s += 1
        clock.look()
    assert clock.steps(0, 2e9) == []
    assert clock.of_wall(NOON + 5) == NOON + 5


def test_what_took_long_to_read_proves_nothing() -> None:
    machine = Machine()

    def slow() -> float:
        machine.steady_s += 3  # another process had the processor
        return machine.wall_s() + 100

    clock = SteadyClock(machine.wall_s, lambda: machine.steady_s)
    clock._wall_s = slow
    clock.look()
    assert clock.steps(0, 2e9) == []


def test_a_clock_that_is_set_for_ever_takes_no_more_memory() -> None:
    machine = Machine()
    clock = machine.clock
    for _ in range(3000):
        machine.set_clock(1.0)
        machine.steady_s += 1
        clock.look()
    assert len(clock._ahead) <= 1002


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine that everything runs on."""
    machine = Machine()
    fresh = machine.clock
    for name, value in vars(fresh).items():
        monkeypatch.setattr(CLOCK, name, value)
    return machine


def stamp(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:23] + " UTC"


class Told(Messages):
    """Counts what the log tells, on a server that is none."""

    def before(self, observer: Any) -> None:
        LogCollector.before(self, observer)
        self.settings = Settings("warning", True, 2**20, "1s")

    def read(self, observer: Any) -> Counters:
        return {}


def numbers(server: LoggingServer, machine: Machine, jumps: dict[int, float]) -> dict[str, Any]:
    """Return what a window of 20 s shows with an error a second, on a machine whose clock jumps."""
    collector = Told()
    collector.before(server.observer)
    begin_s = CLOCK.unix_s()
    for second in range(20):
        machine.set_clock(jumps.get(second, 0.0))
        server.write("no", timestamp=stamp(machine.wall_s()), severity="ERROR")
        machine.steady_s += 0.5
        CLOCK.look()
        machine.steady_s += 0.5
    window = Window(20.0, 10, begin_s, CLOCK.unix_s())
    collector.afterwards(server.observer)
    assert isinstance(collector.reading, LogReading)
    return {
        "errors": collector.amounts(window)["errors"],
        "messages": collector.reading.messages_within(window),
        "events": [round(event.start_s, 2) for event in collector.recordings(window).events],
    }


def test_a_jump_back_and_forth_within_the_window_changes_no_number_of_the_log(
    tmp_path: Path, machine: Machine
) -> None:
    found = {}
    for name, jumps in (("even", {}), ("jumping", {5: -HOUR_S, 12: HOUR_S})):
        (tmp_path / name).mkdir()
        server = LoggingServer(tmp_path / name)
        found[name] = numbers(server, machine, jumps)
    assert found["jumping"] == found["even"]
    assert found["even"]["errors"] == 20
    assert [f"{text:.95}" for text in clock_warnings(CLOCK.unix_s() - 20)] == [
        "the machine's clock jumped 1 h back within 5.5 s of the window's begin: throughput and latency ",
        "the machine's clock jumped 1 h ahead within 12.5 s of the window's begin: throughput and latency"[
            :95
        ],
    ]


def test_a_jump_before_anybody_looked_does_not_move_what_a_watch_saw(
    tmp_path: Path, machine: Machine
) -> None:
    machine.set_clock(HOUR_S)
    hello = HELLO | {"started_unix_s": machine.wall_s()}
    waits = {"type": "waits", "t_s": 2.0, "duration_s": 1.0, "looks": 1, "processes": {}}
    driver = driver_that(tmp_path, before=[hello, waits, done()], end="sys.stdin.readline()")
    with driver.watching(TARGET, every_s=0.1) as watching:
        (seen,) = watching.end()
    assert seen.started_unix_s == pytest.approx(NOON + 1)


def test_without_a_jump_nothing_is_said(machine: Machine) -> None:
    machine.steady_s += 100
    CLOCK.look()
    assert clock_warnings(NOON) == []
