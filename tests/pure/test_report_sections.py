"""Every section passes the suite of its kind, and says what it should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from analysis_runs import LOAD, measurement, result, run_of, rung, setting, three_of

from pgdrag.analysis.ladder import find
from pgdrag.plan import Applied, Latency, Outcome, RunRecord
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.sections import Section, all_sections
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.conformance_sections import SectionConformance


class TestEverySection(SectionConformance):
    @pytest.fixture(params=list(all_sections().values()), ids=list(all_sections()))
    def section_class(self, request: Any) -> type[Section]:
        return request.param


def at_a_rate() -> RunRecord:
    load = replace(LOAD, rate_per_s=500.0)
    window = replace(
        measurement(30_000),
        latency={"payment": Latency(30_000, 5e3, 4e3, 9e3, 2e4, 5e5)},
        queue_us_p99=250_000.0,
        max_queue=1_234,
    )
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    return replace(run, study=replace(run.study, load=load))


def test_at_a_rate_latency_counts_from_the_first_attempt_and_the_wait_stands_apart():
    text = render_markdown(find(at_a_rate()))
    assert "Counted from the start of the first attempt" in text
    assert "intended start" not in text
    assert "| **A0** | 250 ms | 1,234 |" in text


def test_the_wait_of_arrivals_is_in_the_findings_and_in_json():
    found = find(at_a_rate())
    assert (found.rungs[0].queue_us_p99, found.rungs[0].max_queue) == (250_000.0, 1_234)
    # Once with the rung, and once with its trial.
    assert render_json(found).count('"queue_us_p99": 250000.0') == 2
    assert render_json(found).count('"max_queue": 1234') == 2


def test_the_noise_of_repeats_is_stated_and_decides_nothing():
    rungs = [rung("A0"), rung("A1")]
    text = render_markdown(find(run_of(rungs, [*three_of("A0", 60_000), *three_of("A1", 59_900)])))
    assert "trials of the baseline, all alike, differed by up to 1.04×." in text
    assert "means nothing" not in text


def test_an_inert_rung_is_called_so_wherever_its_number_stands():
    level = setting("wal_level", "logical")
    applied = [Applied(level, "logical", default="logical")]
    rungs = [rung("A0"), rung("A1", added=[level])]
    found = find(run_of(rungs, [result("A0", 60_000), result("A1", 50_000, applied=applied)]))
    assert found.rungs[1].outcome is Outcome.INERT
    assert found.rungs[1].tps is not None
    assert "Inert here: nothing effective changed from A0." in terminal_text(found, width=200)
    assert "; inert)" in render_markdown(found)
    assert "- Inert: Everything that this rung sets" in render_markdown(found)


@pytest.mark.parametrize("render", [render_markdown, lambda found: terminal_text(found, width=200)])
def test_a_drift_is_said_once(render):
    falling = measurement(0).samples
    falling = tuple(replace(one, committed=200 - 2 * at) for at, one in enumerate(falling))
    window = measurement(8_460, samples=falling)
    run = run_of([rung("A0")], [replace(result("A0", None), measurement=window)])
    assert render(find(run)).count("by 85 %") == 1


def test_a_title_that_fills_the_line_is_wrapped_and_not_cut():
    run = run_of([rung("A0")], [result("A0", 60_000)])
    title = " ".join(["slow"] * 40)
    lines = terminal_text(find(replace(run, study=replace(run.study, title=title))), width=80)
    assert lines.split("\n\n")[0].split() == title.split()
    assert max(map(len, lines.splitlines())) <= 80
