"""What several drivers tell is put together to what one driver would tell that had all of the load."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.driver import histogram
from pgdrag.driver.clock_offset import Exchange, clearest, moved_s
from pgdrag.driver.contract import DoneLine, IntervalLine, measurement_of
from pgdrag.driver.histogram import merged
from pgdrag.driver.merging import merged_cost, merged_done, merged_interval
from pgdrag.errors import DriverError
from pgdrag.model.measurement import DriverCost, Latency


def latency_of(values_us: Sequence[int]) -> Latency:
    """Return the histogram of some latencies, by the rule for places that the layout has."""
    places = [
        value
        if value < 2048
        else (value.bit_length() - 11) * 1024 + (value >> (value.bit_length() - 11))
        for value in values_us
    ]
    counts = np.bincount(places).astype(np.int64)
    return histogram._latency(counts, is_encoded=True)


latencies_us = st.lists(st.integers(1, 3_600_000_000), min_size=1, max_size=40)


@given(st.lists(latencies_us, min_size=2, max_size=5))
def test_a_merged_histogram_is_the_histogram_of_all(parts: list[list[int]]) -> None:
    together = merged([latency_of(part) for part in parts])
    assert together == latency_of([value for part in parts for value in part])
    assert merged([latency_of(part) for part in reversed(parts)]) == together


@given(latencies_us)
def test_percentiles_are_within_a_thousandth_above_those_of_the_values(values: list[int]) -> None:
    found, ordered = latency_of(values), sorted(values)
    assert found.count == len(values)
    for got, share in ((found.p50_us, 0.5), (found.p95_us, 0.95), (found.max_us, 1.0)):
        exact = ordered[int(np.ceil(share * len(values))) - 1]
        assert exact <= got <= exact * 1.001
    assert found.mean_us == pytest.approx(sum(values) / len(values), rel=1e-3)


@given(latencies_us)
def test_what_is_written_is_read_again(values: list[int]) -> None:
    written = latency_of(values)
    assert histogram._latency(histogram._counts(written), is_encoded=True) == written


def test_one_histogram_stays_as_it_is() -> None:
    alone = Latency(3, 1.0, 1.0, 1.0, 1.0, 1.0, "whatever")
    assert (merged([alone]), merged([])) == (alone, None)


@given(st.binary(max_size=200))
def test_what_is_no_histogram_is_a_breach_of_the_contract(payload: bytes) -> None:
    head = base64.b64decode(latency_of([5]).encoded)[:8]
    for raw in (payload, head + payload, head + zlib.compress(payload)):
        wrong = Latency(1, 1.0, 1.0, 1.0, 1.0, 1.0, base64.b64encode(raw).decode())
        with pytest.raises(DriverError, match="broke its contract"):
            merged([wrong, latency_of([5])])


def transactions(committed: int, latency_us: int, **others: int) -> dict[str, Any]:
    ended = committed + sum(others.values())
    found: dict[str, Any] = {"scheduled": ended, "committed": committed, **others}
    if others.get("failed"):
        found["failed_by_sqlstate"] = {"40001": others["failed"]}
    if committed:
        found["latency"] = latency_of([latency_us] * committed)
    return {"payment": found}


def cost(**given: float) -> dict[str, Any]:
    return {"user_cpu_s": 0.5, "system_cpu_s": 0.25, "threads": 2, **given}


def done(committed: int, elapsed_s: float = 1.0, **more: Any) -> DoneLine:
    line = {
        "type": "done",
        "t_s": 9.0,
        "elapsed_s": elapsed_s,
        "warm_up_s": 1.0 + committed,
        "stopped_by": "deadline",
        "transactions": transactions(committed, 100 * committed, failed=1),
        "driver": cost(),
        "errors": [{"transaction": "payment", "sqlstate": "40001", "message": "no", "count": 1}],
    }
    return DoneLine.model_validate(line | more)


def interval(committed: int, t_s: float, duration_s: float = 1.0) -> IntervalLine:
    return IntervalLine.model_validate(
        {
            "type": "interval",
            "t_s": t_s,
            "duration_s": duration_s,
            "sessions": 2,
            "transactions": transactions(committed, 100 * committed, failed=1),
        }
    )


def test_counts_add_up_and_keep_the_identities_of_one_driver() -> None:
    line = merged_interval([interval(3, 77.0), interval(2, 12.0, 0.5)], t_s=5.0, sessions=4)
    assert (line.t_s, line.duration_s, line.sessions, line.committed) == (5.0, 1.0, 4, 5)
    whole = merged_done([done(3), done(2, 0.5)], t_s=6.0, stopped_by="deadline")
    found = measurement_of(whole, [line])
    assert (found.total.committed, found.total.failed, found.total.scheduled) == (5, 2, 7)
    assert found.errors == (("payment", "40001", "no", 2),)
    assert found.latency["payment"].count == 5
    assert (found.elapsed_s, found.warm_up_s) == (1.0, 3.0)
    assert found.samples[0].p99_us == 300


def test_costs_add_up_and_of_what_shows_a_bottleneck_the_worst_counts() -> None:
    slow = DriverCost(1.0, 0.5, 1, 1.4, 10, 9.0, 90.0, None, None, 3.0, 7.0, 100, 20.0, 1.9, 4)
    fast = DriverCost(0.1, 0.1, 2, 0.1, 20, 1.0, 10.0, 4.0, 8.0, 1.0, 2.0, 300, 40.0, 0.2, 2)
    assert merged_cost([slow, fast]) == DriverCost(
        1.1, 0.6, 3, 1.4, 30, 9.0, 90.0, 4.0, 8.0, 3.0, 7.0, 400, 35.0, 1.9, 2
    )


def test_arrivals_statements_and_sums_of_all_are_kept() -> None:
    def part(number: int) -> DoneLine:
        counted = {"scheduled": number + 1, "dropped": 0, "skipped": 0, "late": 1, "max_queue": 2}
        values = {"sum": -number, "committed": number, "unknown_low": -1, "unknown_high": 1}
        statement = {
            "transaction": "payment",
            "line": 1,
            "text": "SELECT 1",
            "failed": 1,
            "retried": 0,
        }
        means = {"succeeded": number, "mean_us": 10.0 * number}
        return done(
            number,
            arrivals=counted | {"queue": latency_of([7] * number)},
            statements=[statement | means],
            sums={"d": values},
        )

    found = merged_done([part(1), part(3)], t_s=1.0, stopped_by="deadline")
    assert found.arrivals is not None
    assert (found.arrivals.scheduled, found.arrivals.late, found.arrivals.max_queue) == (6, 2, 4)
    assert found.arrivals.queue_us_p50 == 7
    (statement,) = found.statements
    assert (statement.succeeded, statement.mean_us, statement.failed) == (4, 25.0, 2)
    assert (found.sums["d"].sum, found.sums["d"].unknown_low) == (-4, -2)


def test_a_line_without_what_a_run_has_is_a_breach() -> None:
    with pytest.raises(DriverError, match="broke its contract"):
        merged_done([done(1), done(1, driver=None)], t_s=1.0, stopped_by="deadline")


ways_s = st.floats(0.0, 1.0)


@given(st.floats(-1e4, 1e4), ways_s, ways_s, ways_s)
def test_the_offset_of_a_clock_is_within_its_uncertainty(
    ahead_s: float, there_s: float, busy_s: float, back_s: float
) -> None:
    asked_s = 100.0
    received_s = asked_s + there_s + ahead_s
    heard_s = asked_s + there_s + busy_s + back_s
    found = Exchange(asked_s, received_s, received_s + busy_s, heard_s)
    assert abs(found.offset_s - ahead_s) <= found.uncertainty_s + 1e-9
    assert found.uncertainty_s == pytest.approx((there_s + back_s) / 2, abs=1e-9)


def exchange(at_s: float, ahead_s: float, way_s: float = 0.001) -> Exchange:
    there_s = at_s + way_s + ahead_s
    return Exchange(at_s, there_s, there_s, at_s + 2 * way_s)


def test_the_clearest_answer_is_the_one_that_waited_least() -> None:
    slow, fast = exchange(1.0, 5.0, way_s=0.3), exchange(2.0, 5.0)
    assert clearest([slow, fast]) is fast


@pytest.mark.parametrize(
    ("later", "ahead_s", "moved"),
    [
        (10.0, 5.0, 0.0),
        (1000.0, 5.9, 0.0),  # both clocks were slewed
        (10.0, 5.5, 0.5),
        (10.0, 4.0, -1.0),
    ],
)
def test_a_clock_has_moved_only_if_nothing_else_explains_it(
    later: float, ahead_s: float, moved: float
) -> None:
    assert moved_s(exchange(0.0, 5.0), exchange(later, ahead_s)) == pytest.approx(moved)


def test_an_answer_that_was_slow_does_not_show_that_a_clock_moved() -> None:
    slow = Exchange(10.0, 13.0 + 5.0, 13.0 + 5.0, 13.0)  # three seconds on its way there
    assert moved_s(exchange(0.0, 5.0), slow) == 0.0
