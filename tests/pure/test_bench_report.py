"""A measured window is reported with what was counted, its interval and its warnings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema

from pgdrag.bench import window_findings
from pgdrag.designs.window import load_words
from pgdrag.findings.values import Findings
from pgdrag.model import (
    Arrivals,
    Counts,
    DriverCost,
    Host,
    Latency,
    Measurement,
    Outcome,
    Result,
    Sample,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.load import Closed, LoadProfile, Open, Pacing, Step
from pgdrag.report.json import render_json
from pgdrag.report.schema import report_schema
from pgdrag.report.terminal import terminal_text

HOST = Host("a processor", 2, 8 << 30, "Linux 6", "ext4")
LOAD = LoadProfile(connections=8, warm_up_s=5, measure_s=20, budget_s=20, min_commits=0)
MEASURED = Measurement(
    elapsed_s=20.0,
    stopped_by="deadline",
    transactions={
        "tpcb-like": Counts(scheduled=60_003, committed=60_000, in_flight=3),
        "select-only": Counts(scheduled=40_005, committed=40_000, in_flight=5),
    },
    latency={
        "tpcb-like": Latency(60_000, 1200, 1000, 2000, 4000, 50_000),
        "select-only": Latency(40_000, 120, 100, 200, 400, 5_000),
    },
    samples=tuple(Sample(float(n), 1.0, 5000 + n % 3, sessions=8) for n in range(1, 21)),
    driver=DriverCost(1.0, 1.4, 1, 2.4, 9 << 20, 10.0, 90.0, None, None, 100.0, 400.0),
    warm_up_s=5.0,
)


def run_of(
    measured: Measurement = MEASURED, load: LoadProfile = LOAD, *notes: str, **workload: Any
) -> Findings:
    spec = WorkloadSpec(workload.pop("kind", "pgbench"), workload)
    trial = Trial(1, 1, 1, Treatment("as it is"), spec, load, seed=42)
    result = Result(trial, Outcome.MEASURED, 0.0, server_version="18.6", measurement=measured)
    return window_findings('database "b" on db1, port 5432', "two scripts", result, HOST, notes)


def text_of(run: Findings) -> str:
    return terminal_text(run, width=120)


def json_of(run: Findings) -> Any:
    found = json.loads(render_json(run), parse_constant=fail)
    jsonschema.validate(found, report_schema())
    return found


def with_counts(**counts: int) -> Measurement:
    total = Counts(scheduled=100_000 + sum(counts.values()), committed=100_000, **counts)
    if total.failed:
        total = replace(total, failed_by_sqlstate={"40P01": total.failed})
    return replace(MEASURED, transactions={"a": total}, latency={}, errors=(("a", "40P01", "deadlock detected", 7),))  # fmt: skip


def test_the_headline_has_the_rate_its_interval_and_what_stands_behind_it() -> None:
    text = text_of(run_of())
    assert 'two scripts on database "b" on db1, port 5432, PostgreSQL 18.6' in text
    assert "8 clients, closed loop; 20 s after 5 s of warm-up; seed 42" in text
    assert "5,000/s committed (95 % interval 4,9" in text
    assert "): 100,000 in 20 s." in text


def test_the_limits_of_the_interval_are_stated() -> None:
    words = (
        "The interval covers this one window on this one server, not the variation between runs."
    )
    assert words in " ".join(text_of(run_of()).split())


def test_what_has_a_trend_has_its_ends_and_no_bare_mean() -> None:
    counts = [round(10_000 * 0.98**n) + n % 3 for n in range(60)]
    samples = tuple(Sample(n + 1.0, 1.0, count, sessions=8) for n, count in enumerate(counts))
    total = Counts(scheduled=sum(counts), committed=sum(counts))
    falling = run_of(
        replace(MEASURED, elapsed_s=60.0, transactions={"a": total}, latency={}, samples=samples)
    )
    text = " ".join(text_of(falling).split())
    ends = r"10,\d\d\d → 3,0\d\d/s committed, falling \(× 0.3, 95 % interval 0.\d+–0.\d+; 5,8\d\d/s on average\)"
    assert re.search(ends, text), text
    assert "hroughput fell by 70 % during the window" in text
    assert json_of(falling)["rungs"][0]["decay"]["direction"] == "falling"


def test_each_type_has_its_percentiles() -> None:
    (row,) = [line for line in text_of(run_of()).splitlines() if "select-only" in line]
    for cell in ("40,000", "2,000", "120 µs", "100 µs", "200 µs", "400 µs", "5 ms"):
        assert cell in row


def test_what_did_not_happen_takes_no_room() -> None:
    text = text_of(run_of())
    for word in (
        "Failed",
        "failed",
        "Retried",
        "Skipped",
        "Dropped",
        "Arrivals",
        "Warnings",
        "Notes",
    ):
        assert word not in text


def test_the_driver_says_what_it_used() -> None:
    assert "Load driver: at most 12 % of a processor, 24 µs a transaction" in text_of(run_of())


def test_failures_are_reported_by_class_with_their_first_message() -> None:
    text = text_of(run_of(with_counts(failed=7, retried=0)))
    assert "7 transactions failed (0.007 % of those started)" in text
    assert "7 × 40P01: deadlock detected" in text


def test_arrivals_that_were_late_skipped_or_dropped_are_reported() -> None:
    arrivals = Arrivals(
        scheduled=100_030,
        dropped=10,
        skipped=20,
        late=500,
        max_queue=40,
        queue_us_p50=100.0,
        queue_us_p99=2000.0,
        queue_us_max=9000.0,
    )
    load = replace(LOAD, pacing=Open(5000.0), latency_limit_us=10_000)
    text = text_of(run_of(replace(with_counts(skipped=20, dropped=10), arrivals=arrivals), load))
    assert "5,000 Poisson arrivals/s" in text
    assert "response time" in text
    assert "Late: 500 (0.5 %): no client was free when they were due" in text
    assert "Skipped: 20 (0.02 %)" in text
    assert "Dropped: 10 (0.01 %)" in text
    assert "Wait until started: p50 100 µs, p99 2 ms, max 9 ms; at most 40 at once" in text


def test_a_driver_without_a_processor_is_a_warning() -> None:
    busy = replace(MEASURED.driver, user_cpu_s=10.0, system_cpu_s=9.0, busiest_thread_cpu_s=19.0)
    text = text_of(run_of(replace(MEASURED, driver=busy)))
    assert "the load driver may be the bottleneck" in text


def test_nothing_committed_is_no_rate() -> None:
    nothing = replace(MEASURED, transactions={"a": Counts()}, latency={}, samples=())
    assert "Nothing was committed in 20 s." in text_of(run_of(nothing))


def test_steps_have_a_row_each() -> None:
    load = replace(LOAD, steps=(Step(0, 4), Step(10, 8)))
    text = text_of(run_of(load=load))
    assert "4 to 8 of 8 clients" in text
    assert "Sessions" in text


def test_new_orders_are_reported_and_called_tpmc_only_by_its_rules() -> None:
    counts = {"new_order": Counts(scheduled=45_000, committed=45_000), "payment": Counts(scheduled=55_000, committed=55_000)}  # fmt: skip
    measured = replace(MEASURED, transactions=counts, latency={})
    assert "135,000 new orders/min" in text_of(run_of(measured, kind="tpcc"))
    by_rule = run_of(measured, kind="tpcc", terminals="specification", wait_scale=1)
    assert "135,000 tpmC" in text_of(by_rule)


def test_json_is_the_reports_with_every_figure() -> None:
    found = json_of(run_of(MEASURED, LOAD, "a note", scale=10))
    assert found["found"]["committed_per_s"]["center"] == 5000
    assert found["study"]["workload"] == {"kind": "pgbench", "parameters": {"scale": 10}}
    (rung,), (trial,) = found["rungs"], found["trials"]
    assert rung["latency"]["tpcb-like"]["p99_us"] == 4000
    assert trial["counts"]["tpcb-like"]["committed"] == 60_000
    assert found["found"]["latency_counts_from"] == "begin"
    assert (found["study"]["notes"], trial["seed"], len(rung["samples"])) == (["a note"], 42, 20)


def fail(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_the_load_is_described_in_words() -> None:
    pacings: dict[Pacing, str] = {
        Closed(): "1 client, closed loop; 20 s; seed 7",
        Open(50.0, "uniform"): "1 client, 50 uniform arrivals/s; 20 s; seed 7",
    }
    for pacing, words in pacings.items():
        assert load_words(replace(LOAD, connections=1, warm_up_s=0, pacing=pacing), 7) == words
