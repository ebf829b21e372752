"""A driver that was the bottleneck, or late, is told from one that was not."""

from dataclasses import replace

import pytest

from analysis_runs import IDLE, measurement, result
from pgdrag.findings.driver_limits import (
    cpu_us_per_transaction,
    driver_finding,
    driver_warnings,
    driver_words,
    median_latency_us,
)
from pgdrag.model.measurement import Counts, DriverCost, Latency, Measurement

# 60 s, 60,000 commits, a median latency of 5 ms.
WINDOW = replace(measurement(60_000), latency={"payment": Latency(60_000, 6e3, 5e3, 9e3, 2e4, 5e5)})


def window_with(**cost: float) -> Measurement:
    return replace(WINDOW, driver=replace(IDLE, **cost))


@pytest.mark.parametrize(
    ("cost", "what"),
    [
        ({"busiest_thread_cpu_s": 48.1}, "its busiest thread used 80 % of a processor"),
        ({"lateness_us_p99": 1_001.0}, "began 1 ms or more behind"),
        # A tenth of the median latency counts as much as a millisecond.
        ({"lateness_us_p99": 501.0}, "began 501 µs or more behind"),
        (
            {"send_lag_us_p99": 501.0},
            "waited 501 µs or more for its processor (median latency 5 ms)",
        ),
        ({"stall_us_max": 1_000_001.0}, "stalled for 1 s"),
    ],
)
def test_just_over_a_limit_is_a_warning(cost: dict[str, float], what: str) -> None:
    (warning,) = driver_warnings(window_with(**cost))
    assert what in warning


@pytest.mark.parametrize(
    "cost",
    [
        {"busiest_thread_cpu_s": 48.0},
        {"lateness_us_p99": 500.0},
        {"send_lag_us_p99": 500.0},
        {"stall_us_max": 1_000_000.0},
        {"lateness_us_p99": None, "send_lag_us_p99": None, "stall_us_max": None},
    ],
)
def test_on_the_limit_is_none(cost: dict[str, float]) -> None:
    assert driver_warnings(window_with(**cost)) == ()


# 60,000 commits of 6 ms in the mean: 360 s, of which 7 round trips of half a millisecond each are 210 s.
FAR = {"round_trips": 420_000, "round_trip_us": 500.0}


def test_a_network_that_takes_most_of_the_time_is_a_warning_with_the_rate_it_allows() -> None:
    (warning,) = driver_warnings(window_with(**FAR))
    assert "58 % of their time in 7 round trips of 500 µs" in warning
    assert "at most 1,714/s" in warning  # 1,000/s were committed
    found = driver_finding([(result("A0", 60_000), window_with(**FAR))])
    assert found is not None
    assert driver_words(found).endswith("7 round trips of 500 µs a transaction")
    once = {"round_trips": 60_000, "round_trip_us": 500.0}
    found = driver_finding([(result("A0", 60_000), window_with(**once))])
    assert found is not None
    assert driver_words(found).endswith("1 round trip of 500 µs a transaction")


@pytest.mark.parametrize(
    "nearer",
    [
        {"round_trip_us": 428.0},
        {"round_trips": 60_000},
        {"round_trip_us": 99.0, "round_trips": 6_000_000},
    ],
)
def test_a_network_that_takes_less_is_none(nearer: dict[str, float]) -> None:
    assert driver_warnings(window_with(**{**FAR, **nearer})) == ()


def test_a_driver_that_does_not_tell_its_threads_is_judged_by_their_mean() -> None:
    busy = replace(WINDOW, driver=DriverCost(80.0, 20.0, threads=2))
    found = driver_finding([(result("A0", 1), busy)])
    assert found is not None
    assert found.busiest_share == pytest.approx(100 / 60 / 2)
    assert len(driver_warnings(busy)) == 1


def test_without_a_commit_only_what_needs_no_latency_is_judged() -> None:
    silent = replace(measurement(0), driver=replace(IDLE, send_lag_us_p99=1e9))
    assert (cpu_us_per_transaction(silent), driver_warnings(silent)) == (None, ())


def test_the_busiest_trial_speaks_for_its_rung() -> None:
    calm, busy = window_with(), window_with(user_cpu_s=29.0, busiest_thread_cpu_s=30.0)
    trials = [(result("A0", 1, number=1), calm), (result("A0", 1, number=2), busy)]
    found = driver_finding(trials)
    assert found is not None
    assert (found.trial, found.cpu_share, found.busiest_share) == (2, 0.5, 0.5)
    assert driver_words(found) == "50 % of a processor, 500 µs a transaction, send lag p99 100 µs"
    assert driver_finding([]) is None


def test_cpu_is_shared_by_all_transactions_that_ended() -> None:
    counts = Counts(
        scheduled=4, committed=1, rolled_back=1, failed=2, failed_by_sqlstate={"40P01": 2}
    )
    window = replace(WINDOW, transactions={"payment": counts})
    assert cpu_us_per_transaction(window) == pytest.approx(2e6 / 4)


def test_the_median_latency_weighs_types_by_their_commits() -> None:
    def latency(count: int, p50_us: float) -> Latency:
        return Latency(count, p50_us, p50_us, p50_us, p50_us, p50_us)

    assert median_latency_us({"a": latency(10, 1.0), "b": latency(30, 5.0)}) == 5.0
    assert median_latency_us({"a": latency(30, 1.0), "b": latency(10, 5.0)}) == 1.0
    assert median_latency_us({"a": latency(0, 0.0)}) is None
