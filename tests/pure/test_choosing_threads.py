"""The number of the driver's threads follows how busy they are, and no more are tried than can help."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

from pgdrag.driver.choosing_threads import BUSY, choose_threads, is_to_choose
from pgdrag.model import Counts, DriverCost, LoadProfile, Measurement
from pgdrag.model.load import Closed, Open, Step
from pgdrag.model.threads import ChosenThreads

LOAD = LoadProfile(8, warm_up_s=5, measure_s=15, budget_s=60, threads=None)


def measured(busy: float, rate: float = 1000.0, processors: int | None = 64) -> Measurement:
    driver = DriverCost(
        1.0, 1.0, busiest_thread_cpu_s=0.1, busiest_thread_busy_s=2 * busy, processors=processors
    )
    counts = Counts(scheduled=round(2 * rate), committed=round(2 * rate))
    return Measurement(2.0, "deadline", {"t": counts}, {}, (), driver)


def chosen(
    load: LoadProfile, of: Callable[[int], Measurement | None]
) -> tuple[ChosenThreads, list[int]]:
    tried: list[int] = []

    def probe(one: LoadProfile) -> Measurement | None:
        assert one.threads is not None
        tried.append(one.threads)
        return of(one.threads)

    return choose_threads(load, probe), tried


def test_a_thread_that_is_hardly_busy_is_enough() -> None:
    found, tried = chosen(LOAD, lambda _: measured(0.23))
    assert (found.threads, tried) == (1, [1])
    assert found.words == "1 thread, 23 % busy"


def test_threads_double_until_they_have_time_to_spare() -> None:
    found, tried = chosen(LOAD, lambda n: measured(min(1.0, 2.0 / n), 1000.0 * n))
    assert (found.threads, tried) == (4, [1, 2, 4])
    assert (
        found.words == "4 threads, 50 % busy (tried: 1 thread, 100 % busy; 2 threads, 100 % busy)"
    )


@pytest.mark.parametrize(
    ("load", "processors", "most"),
    [
        (LOAD, 2, 2),  # processors
        (LOAD, 6, 6),  # not a power of 2
        (LOAD, 64, 8),  # a thread has a client
        (replace(LOAD, connections=10_000), 1000, 256),  # what the contract allows
        (replace(LOAD, connections=32, generators=("", "")), 8, 4),  # share the processors
        (replace(LOAD, connections=32, generators=("a", "b")), 8, 8),  # have their own
        (replace(LOAD, connections=9, generators=("a", "b")), 8, 4),  # share the clients
    ],
)  # fmt: skip
def test_no_more_threads_than_processors_and_clients(
    load: LoadProfile, processors: int, most: int
) -> None:
    found, tried = chosen(load, lambda n: measured(0.95, 1000.0 * n, processors))
    assert (found.threads, max(tried), found.is_limited) == (most, most, True)
    assert found.words.startswith(f"{most} threads, 95 % busy, and no processor or client for more")


def test_a_driver_that_does_not_tell_its_processors_keeps_one_thread() -> None:
    assert chosen(LOAD, lambda _: measured(0.95, processors=None))[1] == [1]


def test_threads_that_commit_less_are_not_kept() -> None:
    found, tried = chosen(LOAD, lambda n: measured(0.9 / n, 1000.0 - n))
    assert (found.threads, tried, found.is_limited) == (1, [1, 2], False)
    assert found.words == "1 thread, 90 % busy (tried: 2 threads, 45 % busy, and slower)"


def test_at_a_given_rate_it_is_not_the_throughput_that_counts() -> None:
    load = replace(LOAD, pacing=Open(1000.0))
    assert chosen(load, lambda n: measured(0.9 / n, 1000.0 - n))[0].threads == 2


def test_where_waits_are_not_counted_the_processor_time_is() -> None:
    one = measured(0.0)
    assert replace(one, driver=replace(one.driver, busiest_thread_busy_s=None)).busy_share == 0.05


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_probe_without_a_result_ends_the_search(fails_at: int) -> None:
    found, tried = chosen(LOAD, lambda n: None if n == fails_at else measured(0.9))
    assert (found.threads, tried) == (1, list(range(1, fails_at + 1)))
    words = (
        "1 thread, as the baseline could not be measured"
        if fails_at == 1
        else "1 thread, 90 % busy"
    )
    assert found.words == words


def test_a_probe_is_short_and_as_hard_as_the_hardest_step() -> None:
    steps = (Step(0, 2, 100.0), Step(60, 8, 900.0), Step(120, 4, 300.0))
    load = replace(LOAD, pacing=Open(100.0), steps=steps, measure_s=180, min_commits=30)
    asked: list[LoadProfile] = []
    choose_threads(load, lambda one: (asked.append(one), measured(0.1))[1])
    [one] = asked
    assert (one.pacing, one.steps, one.connections) == (Open(900.0), (), 8)
    assert one.warm_up_s + one.budget_s <= 5
    assert one.min_commits == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"threads": 1},  # somebody has said it
        {"measure_s": 4.9},
        {"transactions": 10},
        {"connections": 1},
        {"connections": 3, "generators": ("", "")},
    ],
)
def test_loads_that_are_not_worth_probes(changed: dict[str, object]) -> None:
    assert is_to_choose(LOAD)
    assert not is_to_choose(replace(LOAD, **changed))  # type: ignore[arg-type]


@given(work=floats(0.01, 100.0), clients=integers(2, 10_000), processors=integers(1, 64))
def test_a_load_that_threads_share_has_enough_of_them_or_all(
    work: float, clients: int, processors: int
) -> None:
    """Work is what one thread would need in a second; `n` threads do `n` seconds of it at most."""
    load = replace(LOAD, connections=clients, pacing=Closed())
    found, tried = chosen(
        load, lambda n: measured(min(1.0, work / n), 1000.0 * min(n, work), processors)
    )
    most = min(clients, processors)
    assert found.threads <= most
    assert len(tried) <= math.log2(most) + 2
    assert found.is_limited == (work / most > BUSY)
    assert found.is_limited or work / found.threads <= BUSY
    if work <= BUSY:
        assert tried == [1]
