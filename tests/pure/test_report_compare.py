"""The report of a comparison says what it rests on, in every medium."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace

import pytest
from test_comparing import RUNGS, found, slower_by, with_latency

from analysis_runs import run_of
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings, Interval
from pgdrag.model import Result
from pgdrag.model.design import parameters_of
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.terminal import terminal_text


def findings(results: list[Result], **parameters: object) -> Findings:
    run = run_of(RUNGS, results, design="compare")
    given = parameters_of("compare", parameters)
    return find(replace(run, study=replace(run.study, design_parameters=given)))


def interval(low: float, center: float, high: float) -> Interval:
    return Interval(low, center, high, 0.95, "t")


def test_the_terminal_has_verdict_picture_and_noise():
    text = terminal_text(findings(slower_by(1.2, 4)), width=80)
    assert re.search(r"├─*●─*┤ +1.2× slower$", text, re.MULTILINE)
    assert "Verdict: slower" in text
    assert "Noise: pairs differ by" in text
    assert "not significant" not in text


def test_a_gate_stands_on_top_and_in_the_picture():
    found = findings(slower_by(1.2, 4), fail_if_slower=0.03)
    assert found.answer.startswith("Fail (limit: 3 % slower). B is 1.2")
    assert "✗ fail: up to 1.03× slower is allowed" in terminal_text(found, width=100)
    assert 'class="limit"' in render_html(found)


def test_the_quantities_that_differ_are_in_the_terminal_and_all_of_them_in_the_report():
    compared = findings(with_latency(slower_by(1.2, 4), slower=2.0))
    assert re.search(r"Latency p99, payment .*2×", terminal_text(compared, width=100))
    same = findings(with_latency(slower_by(1.2, 4), slower=1.0))
    assert "Latency p99" not in terminal_text(same, width=100)
    assert "| **Latency p99, payment** |" in render_markdown(same)


def test_each_interim_analysis_and_each_pair_is_in_the_report():
    text = render_markdown(findings(slower_by(1.2, 4)))
    assert text.count("| slower |") + text.count("| inconclusive |") == 2
    assert len(re.findall(r"\| [AB] \| [\d,]+/s \|", text)) == 4


def test_json_has_every_field_and_no_infinity():
    document = json.loads(render_json(findings(slower_by(1.2, 4))))["found"]
    compared = found(slower_by(1.2, 4))
    assert document["design"] == "compare"
    assert (document["verdict"], document["end"]) == ("slower", "decided")
    assert document["slowdown"]["low"] == compared.slowdown.low if compared.slowdown else None
    assert {field.name for field in fields(compared)} <= set(document)


@pytest.mark.parametrize(
    ("shown", "track"),
    [
        (interval(1.05, 1.1, 1.2), "├"),
        (interval(0.0, 1.0, math.inf), "├"),
        (interval(500.0, math.inf, math.inf), "►"),
        (interval(0.0, 0.0, 0.002), "◄"),
    ],
)
def test_every_interval_can_be_drawn(shown, track):
    row = Row("3 pairs", words="words", found=shown)
    dots = (1.1, math.inf, 0.9)
    picture = rows_figure([row], "title <b>", "", "", band=1.02, limit=1.03, dots=dots)
    assert track in picture.text
    drawn = picture.svg
    assert "<b>" not in drawn
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("interval", "")


def test_so_many_pairs_as_there_are_the_picture_stays_low():
    row = Row("1,000 pairs", found=interval(1.0, 1.1, 1.2))
    picture = rows_figure([row], "t", "d", "", band=1.02, dots=[1.1] * 1000)
    height = re.search(r'height="(\d+)"', picture.svg)
    assert height is not None
    assert int(height[1]) < 600
    assert "+" in picture.text
