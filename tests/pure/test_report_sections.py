"""Every section passes the suite of its kind, and says what it should."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from analysis_runs import LOAD, measurement, result, run_of, rung, setting, three_of
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.find import find
from pgdrag.model import Applied, Outcome, RestoreCost, Result, RunRecord
from pgdrag.model.load import BenchBaseRate, Closed, Open, Pacing
from pgdrag.model.measurement import Arrivals, Latency, Sample
from pgdrag.model.recordings import Recordings, WaitTime
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.schema import report_schema
from pgdrag.report.sections import Section, all_sections
from pgdrag.report.terminal import terminal_text
from pgdrag.stats.batches import long_memory
from pgdrag.stats.hdr_histogram import encoded
from pgdrag.stats.rates import LONG_MEMORY
from pgdrag.testing.conformance_sections import SectionConformance, every_state


class TestEverySection(SectionConformance):
    @pytest.fixture(params=list(all_sections().values()), ids=list(all_sections()))
    def section_class(self, request: Any) -> type[Section]:
        return request.param


def test_json_is_as_its_schema_says_whatever_a_run_found() -> None:
    """Here, since the suite above has made runs of every state, which takes seconds."""
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for findings in every_state():
        document = json.loads(render_json(findings))
        errors = [
            f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)
        ]
        assert not errors, findings.run.study.design


ARRIVALS = Arrivals(
    scheduled=30_500,
    dropped=200,
    skipped=300,
    late=4_000,
    max_queue=1_234,
    queue_us_p50=2_000.0,
    queue_us_p99=250_000.0,
    queue_us_max=900_000.0,
)


def at_a_rate(pacing: Pacing) -> RunRecord:
    load = replace(LOAD, pacing=pacing)
    window = replace(
        measurement(30_000),
        latency={"payment": Latency(30_000, 5e3, 4e3, 9e3, 2e4, 5e5)},
        arrivals=ARRIVALS,
    )
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    return replace(run, study=replace(run.study, load=load))


@pytest.mark.parametrize(
    ("pacing", "kind", "meaning"),
    [
        (Closed(), "service time", "each client waits for an answer"),
        (Open(500.0), "response time", "counted from the moment an arrival was due"),
        (
            BenchBaseRate(500.0),
            "without the wait in the queue",
            "counted from the moment a client took an arrival",
        ),
    ],
)
def test_latency_says_what_it_counts_from(pacing: Pacing, kind: str, meaning: str):
    found = find(at_a_rate(pacing))
    assert f"Latency of committed transactions: {kind}" in render_html(found)
    assert meaning in render_markdown(found)


def test_arrivals_that_were_lost_or_late_are_counted_and_the_wait_stands_apart():
    text = render_markdown(find(at_a_rate(Open(500.0))))
    assert "| Late: no client free | Skipped: over the limit | Dropped: queue full |" in text
    assert "| **A0** | 30,500 | 4,000 | 300 | 200 | 2 ms | 250 ms | 900 ms | 1,234 |" in text
    spared = replace(ARRIVALS, dropped=0, skipped=0)
    run = at_a_rate(Open(500.0))
    window = replace(run.results[0].measurement, arrivals=spared)
    text = render_markdown(
        find(replace(run, results=(replace(run.results[0], measurement=window),)))
    )
    assert "Dropped" not in text
    assert "Skipped" not in text


def test_arrivals_are_in_the_findings_and_in_json():
    found = find(at_a_rate(BenchBaseRate(500.0)))
    assert found.rungs[0].arrivals == ARRIVALS
    # Once with the rung, and once with its trial.
    assert render_json(found).count('"queue_us_p99": 250000.0') == 2
    assert render_json(found).count('"max_queue": 1234') == 2


def test_repeats_that_agree_are_said_to_agree():
    trials = [result("A0", 60_000, number=1), result("A0", 60_100, number=2)]
    text = render_markdown(find(run_of([rung("A0")], trials)))
    assert "repeats of the baseline agree within 0.5 %." in text
    assert "1.00×" not in text


def test_warnings_that_differ_in_numbers_alone_are_one_line():
    def falling(at: int, fall: float) -> Result:
        seconds = [Sample(s + 1.0, 1.0, round(1000 - fall * s)) for s in range(60)]
        committed = sum(one.committed for one in seconds)
        window = measurement(committed, samples=seconds)
        return replace(result(f"A{at}", None, number=at + 1), measurement=window)

    run = run_of([rung(f"A{at}") for at in range(3)], [falling(0, 2), falling(1, 4), falling(2, 8)])
    text = terminal_text(find(run), width=400)
    warnings = text[text.index("\nWarnings\n") :]
    (line,) = [line for line in warnings.splitlines() if "throughput fell" in line]
    assert line.startswith(
        " • A0, A1 and A2: throughput fell by 12 to 48 % during the window of 1 min"
    )


def test_a_fall_is_not_doubted_once_more_for_seconds_that_resemble_each_other():
    # As C2 of global-counters went: so bent that no line through its batches is told from noise.
    rates = [40_000, *(round(90_000 / (s + 2.5)) for s in range(1, 30))]
    seconds = [Sample(s + 1.0, 1.0, rate) for s, rate in enumerate(rates)]
    bent = replace(
        result("A1", None, number=2), measurement=measurement(sum(rates), samples=seconds)
    )
    found = find(run_of([rung("A0"), rung("A1")], [result("A0", 60_000), bent])).rungs[1]
    assert found.get(DecayFinding) is not None
    assert found.get(DecayFinding).direction == "falling"
    assert found.tps is not None
    assert long_memory(seconds) is not None
    warnings = [*found.tps.warnings, *found.to_baseline.slowdown.warnings]
    assert not [one for one in warnings if LONG_MEMORY in one]


def test_numbers_of_doubts_that_are_one_line_end_before_a_comma():
    sums = {"A0": ("-2,009", "-1,951"), "A1": ("4,915", "4,936")}
    results = [
        replace(
            result(name, 50_000),
            violations=(f"the deltas sum to {deltas}, the table to {table}",),
        )
        for name, (deltas, table) in sums.items()
    ]
    text = terminal_text(find(run_of([rung("A0"), rung("A1")], results)), width=400)
    assert "the deltas sum to -2,009 to 4,915, the table to -1,951 to 4,936." in text


def test_the_noise_of_repeats_is_stated_and_decides_nothing():
    rungs = [rung("A0"), rung("A1")]
    text = render_markdown(find(run_of(rungs, [*three_of("A0", 60_000), *three_of("A1", 59_900)])))
    assert "repeats of the baseline differ by up to 1.04×." in text
    assert "means nothing" not in text


def test_an_inert_rung_is_called_so_wherever_its_number_stands():
    level = setting("wal_level", "logical")
    applied = [Applied(level, "logical", default="logical")]
    rungs = [rung("A0"), rung("A1", added=[level])]
    found = find(run_of(rungs, [result("A0", 60_000), result("A1", 50_000, applied=applied)]))
    assert found.rungs[1].outcome is Outcome.INERT
    assert found.rungs[1].tps is not None
    assert "Inert: nothing effective changed from A0." in terminal_text(found, width=200)
    assert "; inert)" in render_markdown(found)
    assert "- Inert: Every setting of this rung" in render_markdown(found)


@pytest.mark.parametrize("render", [render_markdown, lambda found: terminal_text(found, width=200)])
def test_a_drift_is_said_once(render):
    falling = measurement(0).samples
    falling = tuple(replace(one, committed=200 - 2 * at) for at, one in enumerate(falling))
    window = measurement(8_460, samples=falling)
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    assert render(find(run)).count("its mean depends") == 1


def test_a_title_that_fills_the_line_is_wrapped_and_not_cut():
    run = run_of([rung("A0")], [result("A0", 60_000)])
    title = " ".join(["slow"] * 40)
    lines = terminal_text(find(replace(run, study=replace(run.study, title=title))), width=80)
    assert lines.split("\n\n")[0].split() == title.split()
    assert max(map(len, lines.splitlines())) <= 80


def test_the_report_says_what_restoring_the_dataset_took():
    costs = (RestoreCost(0.02, 300 << 20, "reflink"), RestoreCost(1.0, 200 << 20, "copy"))
    results = [
        *(replace(result("A0", 1000, number=n), restored=cost) for n, cost in enumerate(costs, 1)),
        result("A0", 1000, number=3),
    ]
    text = render_markdown(find(run_of([rung("A0")], results)))
    assert (
        "restored before every trial from a snapshot: 300 MB, by reflink "
        "and by copying, 510 ms each, at most 1 s" in text
    )
    rows = [line for line in text.splitlines() if "| **A0** | measured |" in line]
    assert [row.split(" | ")[5] for row in rows] == [
        "20 ms (300 MB by reflink)",
        "1 s (200 MB by copy)",
        "–",
    ]


def test_a_run_that_restored_nothing_does_not_speak_of_it():
    assert "restored before" not in render_markdown(find(run_of([rung("A0")], [result("A0", 10)])))


def test_waits_stand_by_type_of_process_beside_those_of_the_rung_before():
    def waiting(name, time_s, number):
        waits = (
            WaitTime("client backend", "IO:WalSync", time_s),
            WaitTime("checkpointer", "IO:DataFileWrite", 6.0),
        )
        return replace(result(name, 60_000, number=number), recordings=Recordings(waits))

    run = run_of([rung("A0"), rung("A1")], [waiting("A0", 6.0, 1), waiting("A1", 60.0, 2)])
    text = render_markdown(find(run))
    assert "| client backend | IO:WalSync | 100 µs | 1 ms | 100 % |" in text
    assert "| checkpointer | IO:DataFileWrite | 100 µs | 100 µs | 100 % |" in text


def test_a_link_to_a_trial_leads_to_its_row():
    html = render_html(find(run_of([rung("A0")], [result("A0", 60_000, number=12)])))
    assert html.count('<a id="trial-12" href="#trial-12">12</a>') == 1


def test_latency_shows_its_modes_and_whose_they_are():
    fast, slow = np.zeros(4096, np.int64), np.zeros(4096, np.int64)
    fast[900:1100], slow[3400:3600] = 4, 1
    latency = {
        name: Latency(int(x.sum()), 1e3, 1e3, 1e3, 1e3, 1e3, encoded(x))
        for name, x in (("payment", fast), ("new_order", slow), ("none", slow * 0))
    }
    window = replace(measurement(1000), latency=latency)
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    html = render_html(find(run))
    assert "950 µs (80 %, payment) and 5.9 ms (20 %, new_order)" in html
    older = {name: replace(one, encoded="") for name, one in latency.items()}
    window = replace(window, latency=older)
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    assert "latency-chart" not in render_html(find(run))
