"""Any run that the analysis can say something of has a report in every form."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from analysis_runs import result, run_of, rung, setting, three_of
from pgdrag.english import counted
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.model import Applied, Outcome
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.sections import sections_for
from pgdrag.report.terminal import render_answer, terminal_text

RUNGS = [
    rung("A0", 1000),
    rung("A1", 100, added=[setting("shared_buffers", "1MB")]),
    rung("A2", 1),
]
CACHE = Applied(setting("shared_buffers", "1MB"), "1MB")
RUNS = {
    "no rung": run_of([], []),
    "no trial": run_of(RUNGS, [], status="running"),
    "only the baseline": run_of(RUNGS, [result("A0", 60_000)], status="interrupted"),
    "baseline failed": run_of(RUNGS, [result("A0", None, outcome=Outcome.CRASHED, reason="died")]),
    "a rung is out": run_of(
        RUNGS,
        [
            result("A0", 60_000),
            result("A1", None, outcome=Outcome.DID_NOT_START, reason="FATAL", applied=[CACHE]),
            result("A2", 0, outcome=Outcome.STALLED),
        ],
    ),
    "nothing committed at all": run_of(
        RUNGS, [result(x, 0, outcome=Outcome.STALLED) for x in ("A0", "A1", "A2")]
    ),
    "a baseline that committed nothing": run_of(
        RUNGS, [result("A0", 0, outcome=Outcome.STALLED), result("A1", 6_000)]
    ),
    "three replicates": run_of(
        RUNGS, [*three_of("A0", 60_000), *three_of("A1", 6_000), *three_of("A2", 61_000)]
    ),
    "few commits": run_of(
        RUNGS, [result("A0", 60_000), result("A1", 11), result("A2", 1, applied=[CACHE])]
    ),
    "not a ladder": run_of(
        RUNGS, [*three_of("A0", 60_000), *three_of("A1", 59_000)], design="one-at-a-time"
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_state_of_a_run_has_a_report_in_every_form(name):
    findings = find(RUNS[name])
    answer = findings.answer.split()[0]
    assert answer in terminal_text(findings, width=80)
    assert answer in render_markdown(findings)
    assert json.loads(render_json(findings))["answer"] == findings.answer
    html = render_html(findings)
    assert html.startswith("<!doctype html>")
    for word in (">inf", "inf<", ">nan", "nan<", '"nan', '"inf', "None<"):
        assert word not in html


def test_a_run_without_rungs_still_says_how_it_was_set_up():
    assert [one.name for one in sections_for(find(RUNS["no rung"]))] == ["answer", "method"]


def test_outside_a_ladder_no_column_speaks_of_steps():
    text = render_markdown(find(RUNS["not a ladder"]))
    header = next(line for line in text.splitlines() if line.startswith("| Treatment | Committed"))
    assert header == "| Treatment | Committed | × slower than A0 | Published |"


def test_the_answer_comes_first_and_then_the_picture_and_the_table():
    names = [section.name for section in sections_for(find(RUNS["three replicates"]))]
    assert names[:3] == ["answer", "steps", "ladder"]
    assert [x for x in names[3:6] if x != "warnings"][:2] == ["claims", "evidence"]
    assert names[-2:] == ["method", "how-to-read"]


def test_a_rate_with_nothing_committed_is_a_bound_and_names_the_window():
    # -ln(0.05) / 60 s = 0.0499.
    text = render_markdown(find(RUNS["a rung is out"]))
    assert "&lt; 0.0499/s (nothing committed in 1 min)" in text


@pytest.mark.parametrize("name", RUNS)
def test_a_section_that_applies_has_a_name_a_title_and_something_to_say(name):
    findings = find(RUNS[name])
    sections = sections_for(findings)
    assert len({section.order for section in sections}) == len(sections)
    for section in sections:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", section.name)
        assert section.title[:1].isupper()
        assert list(section.blocks(findings)), section.name


def ending(findings: Findings, width: int = 80) -> list[str]:
    """Return what a command prints of a run at its end."""
    out = io.StringIO()
    render_answer(findings, Console(file=out, width=width, color_system=None))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_with_its_answer_and_at_most_two_warnings(name):
    findings = find(RUNS[name])
    lines = ending(findings, width=1000)
    assert lines[0] == findings.answer
    assert len(lines) <= 4
    assert all(line.startswith(" • ") for line in lines[1:])
    shown = terminal_text(findings, width=1000).splitlines()
    assert {*lines[1:3]} <= {*shown}
    assert not any("more warning" in line for line in shown)


def test_two_trials_end_in_a_few_lines_and_no_warning_stands_twice():
    findings = find(run_of(RUNGS[:2], [result("A0", 60_000), result("A1", 11)]))
    assert len(ending(findings)) <= 8
    warnings = terminal_text(findings, width=1000).partition("\nWarnings\n")[2].splitlines()
    assert len(warnings) == len({*warnings}) > 2
    more = counted(len(warnings) - 2, "more warning")
    assert ending(findings, width=1000)[-1] == f" • {more} in the report."
