"""pg_expecto's formulas are as published, with sound statistics beside them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation, result, run_of, rung
from pgdrag.findings.expecto.analysis import correlation, effective_n, expecto_finding
from pgdrag.findings.expecto.findings import WAIT_SERIES, ExpectoFinding
from pgdrag.findings.expecto.published import (
    angle_deg,
    band,
    counted_over,
    is_significant,
    operational_speeds,
    pearson,
    rounded,
    smoothed_correlation,
    trailing_medians,
)
from pgdrag.findings.find import find
from pgdrag.findings.spent_time import PLACES
from pgdrag.model import OPERATIONAL_SPEED, Claim, Rung
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series, StatementUse
from pgdrag.report.markdown import render_markdown


def seconds(*committed: int) -> tuple[Sample, ...]:
    return tuple(Sample(at + 1.0, 1.0, count) for at, count in enumerate(committed))


def waiting(wait_type: str, *sessions: float, per_second: int = 1) -> Series:
    times = tuple((at + 1) / per_second for at in range(len(sessions)))
    return Series(WAIT_SERIES[wait_type], wait_type, "count", times, sessions)


def per_second(name: str, *rates: float) -> Series:
    return Series(name, name, "1/s", tuple(at + 1.0 for at in range(len(rates))), rates)


def view(samples: tuple[Sample, ...], *series: Series) -> ExpectoFinding:
    found = expecto_finding(samples, Recordings(series))
    assert found is not None
    return found


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_operational_speed_is_the_mean_of_trailing_medians_a_minute() -> None:
    # A third of six intervals: medians of 1 and 3, 3 and 5, 5 and 1, 1 and 1, 1 and 7.
    found = operational_speeds(seconds(1, 3, 5, 1, 1, 7), Recordings())
    assert found is not None
    assert found.per_min == (120, 240, 180, 60, 240)
    assert (found.times_s, found.window_s) == ((2, 3, 4, 5, 6), 2)
    assert found.mean_per_min == 168
    assert operational_speeds(seconds(1, 3), Recordings()) is None


def test_operational_speed_is_of_calls_and_rows_where_statements_were_counted() -> None:
    counted = Recordings((per_second("calls_per_s", 1, 3, 5), per_second("rows_per_s", 10, 10, 40)))
    found = operational_speeds(seconds(9, 9, 9), counted)
    assert found is not None
    assert (found.per_min, found.source) == ((660, 780, 2700), "statements")
    # Of one in two intervals it is not enough to know them.
    half = Recordings((per_second("calls_per_s", 1, 3), per_second("rows_per_s", 10, 10)))
    found = operational_speeds(seconds(9, 9, 9, 9), half)
    assert found is not None
    assert (set(found.per_min), found.source) == ({540}, "commits")


def test_a_rate_read_at_other_moments_than_the_drivers_is_shared_out_by_time() -> None:
    # Read at 0.5, 1.5 and 2.5 s: half of the first second's calls came at 2, half at 4 a second.
    times = (0.5, 1.5, 2.5)
    calls = Series("calls_per_s", "", "1/s", times, (2, 4, 8))
    rows = Series("rows_per_s", "", "1/s", times, (0, 0, 0))
    found = counted_over(seconds(1, 1, 1), Recordings((calls, rows)))
    assert found.calls.tolist() == [60 * 3, 60 * 6, 60 * 8]


def test_a_trial_of_two_hours_is_read_by_the_minute_over_an_hour() -> None:
    found = operational_speeds(seconds(*[2] * 3600, *[4] * 3600), Recordings())
    assert found is not None
    assert (found.interval_s, found.window_s, len(found.per_min)) == (60, 3660, 60)
    # Of 61 minutes the median is the latter rate from the 31st of them on.
    assert found.per_min.count(120) == found.per_min.count(240) == 30
    assert found.times_s[0] == 3660


def test_a_trailing_median_covers_a_value_and_those_before_it() -> None:
    assert trailing_medians(array(5, 1, 9, 2, 2), 3).tolist() == [5, 2, 2]
    assert trailing_medians(array(4, 3, 8), 1).tolist() == [4, 3, 8]


def test_what_was_not_seen_is_no_value_of_a_median() -> None:
    nothing = math.nan
    seen = array(nothing, 7, nothing, nothing, nothing, 1)
    assert trailing_medians(seen, 3).tolist() == [7, 7, 0, 1]


@pytest.mark.parametrize(
    ("one", "other", "r"),
    [
        ((1, 2, 3), (2, 4, 6), 1.0),
        ((1, 2, 3), (6, 4, 2), -1.0),
        ((1, 2, 3), (1, 3, 2), 0.5),
        ((1, 2, 3), (7, 7, 7), None),
        ((0.1 + 0.2, 0.3, 0.3), (1, 2, 3), None),  # rounding is no change
    ],
)
def test_pearsons_r(one: tuple[float, ...], other: tuple[float, ...], r: float | None) -> None:
    assert pearson(array(*one), array(*other)) == (None if r is None else pytest.approx(r))


def test_the_p_of_smoothed_series_takes_medians_as_independent() -> None:
    found = smoothed_correlation(array(1, 2, 3), array(1, 3, 2))
    # r of 0.5 with one degree of freedom: t is 1/√3, and Cauchy's law gives 2/3.
    assert found is not None
    assert found.p == pytest.approx(2 / 3)


def test_a_series_that_only_rises_has_the_steepest_angle_however_little_it_rises() -> None:
    assert angle_deg(array(1, 2, 3)) == pytest.approx(45)
    assert angle_deg(array(1000, 1001, 1002)) == pytest.approx(45)
    assert angle_deg(array(3, 2, 1)) == pytest.approx(-45)
    assert angle_deg(array(1, 3, 2)) == pytest.approx(math.degrees(math.atan(0.5)))
    assert angle_deg(array(2, 2, 2)) == 0


@pytest.mark.parametrize(
    ("weighted", "name"),
    [
        (0.0, "negligible"),
        (-0.9, "negligible"),  # what falls with the waits is not looked at
        (0.01, "low"),
        (0.04, "medium"),
        (0.1, "high"),
        (0.2, "critical"),
        (1.0, "critical"),
    ],
)
def test_a_band_goes_by_the_weighted_correlation(weighted: float, name: str) -> None:
    assert band(weighted) == name


@pytest.mark.parametrize(
    ("value", "shown"), [(0.195, 0.2), (0.005, 0.01), (-0.005, -0.01), (0.0149, 0.01)]
)
def test_hundredths_are_rounded_as_sql_rounds_them(value: float, shown: float) -> None:
    assert rounded(value) == shown


@pytest.mark.parametrize(
    ("r", "n", "passes"),
    [
        (0.36, 31, True),  # 2/√31
        (0.35, 31, False),
        (0.36, 30, False),  # 3/√30 of no more than 30
        (0.55, 30, True),
        (0.17, 101, True),  # 1.65/√101, and t is 1.72
        (0.16, 101, False),
        (0.99, 10, False),
        (1.0, 11, True),
        (-1.0, 200, False),
    ],
)
def test_both_of_pg_expectos_tests_are_to_be_passed(r: float, n: int, passes: bool) -> None:
    assert is_significant(r, n) is passes


def test_a_type_is_weighed_by_its_share_of_all_waits_with_which_it_is_correlated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # In windows of one interval medians are the values.
    monkeypatch.setattr("pgdrag.findings.expecto.published.WINDOW_SHARE", 0.01)
    rates = [100, 90] * 6
    found = view(
        seconds(*rates),
        waiting("IO", *[3.0, 6.0] * 6),
        waiting("Lock", *[1.0] * 12),
        waiting("LWLock", *[2.0, 1.5] * 6),
    )
    assert found.window == 1
    assert found.counted == "commits"
    assert found.speed_per_min == pytest.approx(95 * 60)
    # All waits are 6 and 8.5, the middle of which is 7.25; of IO it is 4.5, of LWLock 1.75.
    assert found.waitings == pytest.approx(7.25)
    io, lwlock, lock = found.wait_types
    assert (io.wait_type, lwlock.wait_type, lock.wait_type) == ("IO", "LWLock", "Lock")
    assert io.share == pytest.approx(4.5 / 7.25)
    assert io.published is not None
    assert io.published.r == pytest.approx(1)
    assert (io.weighted, io.r2, io.band) == (0.62, 1.0, "critical")
    # What falls where waits rise has a weight, and no band.
    assert (lwlock.weighted, lwlock.r2, lwlock.band) == (-0.24, 1.0, None)
    # What never changes goes with nothing.
    assert (lock.published, lock.weighted, lock.band, lock.sound, lock.q) == (None,) * 5


def test_the_window_is_a_third_of_the_trial() -> None:
    assert view(seconds(*range(100, 130)), waiting("IO", *range(30))).window == 10


def test_a_type_seen_in_few_intervals_has_the_median_of_those() -> None:
    rare = [0.0, 0.0, 5.0] * 10
    found = view(seconds(*range(100, 130)), waiting("IO", *range(30)), waiting("Lock", *rare))
    lock = found.wait_types[-1]
    # The medians of all waits are those of IO, 4.5 to 24.5, and 5.
    assert lock.wait_type == "Lock"
    assert lock.share == pytest.approx(5 / (14.75 + 5), abs=0.01)
    assert (lock.published, lock.weighted) == (None, None)
    assert lock.sessions == pytest.approx(5 / 3)
    assert lock.sound is not None


def test_types_without_waits_are_left_out() -> None:
    found = view(seconds(*[100] * 12), waiting("IO", *[0.0] * 12))
    assert found.wait_types == ()
    assert found.waitings == 0
    assert found.published is None


def test_waits_are_averaged_over_the_drivers_intervals() -> None:
    quarters = [0.0, 1.0, 2.0, 5.0] * 12
    found = view(seconds(*[100, 101] * 6), waiting("IO", *quarters, per_second=4))
    assert found.intervals == 12
    assert found.wait_types[0].sessions == pytest.approx(2)


def test_intervals_without_a_sample_and_a_short_last_one_are_left_out() -> None:
    samples = (*seconds(*[100, 110] * 7), Sample(14.01, 0.01, 50))
    found = view(samples, waiting("IO", *[1.0, 2.0] * 6))
    assert found.intervals == 12
    assert found.speed_per_min == pytest.approx(105 * 60)


def test_without_waits_over_time_or_with_too_few_intervals_there_is_no_view() -> None:
    assert expecto_finding(seconds(*[100] * 12), Recordings()) is None
    assert expecto_finding((), Recordings((waiting("IO", 1.0),))) is None
    few = Recordings((waiting("IO", *[1.0] * 9),))
    assert expecto_finding(seconds(*[100] * 9), few) is None


def test_calls_and_rows_a_minute_come_from_the_statements() -> None:
    use = StatementUse("SELECT 1", 240, 480, 1.0, None, 0, 0, 0, 0, 0)
    recordings = Recordings((waiting("IO", *[1.0, 2.0] * 6), use, use))
    found = expecto_finding(seconds(*[100] * 12), recordings)
    assert found is not None
    assert (found.calls_per_min, found.rows_per_min) == (2400, 4800)


def test_the_effective_number_of_independent_intervals_is_what_there_are() -> None:
    # One lag (a fifth of five), whose autocorrelation is -1 × 5/4 · 4/5: products of opposite signs.
    falling, steady = array(1, -1, 1, -1, 1), array(1, 2, 3, 4, 5)
    assert effective_n(falling, steady) == 5
    # Lag one of 1 … 5: products 2, 0, 0, 2 of deviations over 10, without bias × 5/4: 0.5.
    assert effective_n(steady, steady) == pytest.approx(5 / (1 + 2 * 4 / 5 * 0.5**2))


def test_three_effective_intervals_or_fewer_show_nothing() -> None:
    found = correlation(array(1, 2, 3), array(1, 2, 3))
    assert found is not None
    assert (found.low, found.high, found.p) == (-1, 1, 1)
    assert found.r == pytest.approx(1)


@given(st.integers(0, 10_000), st.integers(10, 200))
def test_the_interval_contains_r_and_r_is_symmetric(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, n))
    found, turned = correlation(one, other), correlation(other, one)
    assert found is not None
    assert turned is not None
    assert -1 <= found.low <= found.r <= found.high <= 1
    assert turned.r == pytest.approx(found.r)
    assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)


def of_speed(name: str) -> Rung:
    """A rung of which pg_expecto's operational speed was published."""
    return replace(rung(name), claim=Claim(of=OPERATIONAL_SPEED))


def text_of(*series: Series, rates: tuple[int, ...], published: bool = True) -> str:
    """The report of one rung whose trial had these waits."""
    one = result("A0", sum(rates))
    assert one.measurement is not None
    window = replace(one.measurement, samples=seconds(*rates), elapsed_s=float(len(rates)))
    rungs = [of_speed("A0") if published else rung("A0")]
    run = run_of(rungs, [replace(one, measurement=window, recordings=Recordings(series))])
    return render_markdown(find(run)).partition("The view of pg_expecto")[2]


def test_a_planted_correlation_is_significant_and_noise_is_not() -> None:
    rng = np.random.default_rng(4)
    io = rng.uniform(2, 6, 60)
    rates = tuple(round(2000 - 100 * x + 20 * rng.standard_normal()) for x in io)
    noise = np.convolve(rng.uniform(0, 1, 79), np.ones(20) / 20, mode="valid")
    text = text_of(waiting("IO", *io), waiting("LWLock", *noise), rates=rates)
    assert "more where throughput is low" in text
    assert "no significant correlation with throughput" in text
    assert "60 intervals of 1 s; medians trail over 20 s" in text
    assert (
        "No session was seen in these wait types: BufferPin, Extension, IPC, Lock and Timeout."
        in text
    )


def test_a_report_without_waits_over_time_has_no_section() -> None:
    assert text_of(rates=(100,) * 60) == ""


def test_wait_types_are_for_studies_that_publish_operational_speed() -> None:
    series, rates = waiting("IO", *[1.0, 2.0] * 30), (1000,) * 60
    assert "Wait types on A0" in text_of(series, rates=rates)
    text = text_of(series, rates=rates, published=False)
    assert "Wait types on A0" not in text
    assert "The JSON report has each wait type." in text


def test_the_time_a_change_added_is_shown_beside_the_waits_of_that_type() -> None:
    spent = {"A0": (0.006, 0.002), "A1": (0.006, 0.012)}
    results = []
    for at, (name, (on_cpu_s, io_s)) in enumerate(spent.items()):
        seconds_of = {"on_cpu_s_per_transaction": on_cpu_s, "io_wait_s_per_transaction": io_s}
        evidence = [observation(x, seconds_of.get(x, 0.0), "s/transaction") for x in PLACES]
        one = result(name, 60_000 if at == 0 else 6_000, evidence=evidence, number=at + 1)
        waits = Recordings((waiting("IO", *[1.0, 2.0] * 30),))
        results.append(replace(one, recordings=waits))
    text = render_markdown(find(run_of([of_speed("A0"), of_speed("A1")], results)))
    shown = text.partition("Wait types on A1")[2]
    assert "| **IO** (1.5 sessions) | 100 % | – | – | – | – | – | 100 % |" in shown
    assert "-90.0 % (against A0; no interval)" in text
