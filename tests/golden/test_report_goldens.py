"""What people and programs read, byte for byte; PGDRAG_UPDATE_GOLDENS=1 writes it anew."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from report_sample import hostile_findings, large_findings, sample_findings
from rich.console import Console
from series_sample import eventful_findings

from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.terminal import render_terminal, terminal_text

GOLDENS = Path(__file__).parent / "report"


def _one_rung(findings):
    """What a program reads is held by the schema (test_report_schema.py); one rung shows its form."""
    rung = replace(findings.rungs[1], samples=findings.rungs[1].samples[:2])
    run = replace(findings.run, results=findings.run.results[1:2])
    return replace(findings, rungs=(rung,), run=run)


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("terminal-80.txt", partial(terminal_text, width=80)),
        ("terminal-120.txt", partial(terminal_text, width=120)),
        ("report.md", render_markdown),
        ("report.json", lambda findings: render_json(_one_rung(findings))),
    ],
)
def test_the_sample_reads_as_the_golden_file(name, render):
    golden = GOLDENS / name
    text = render(sample_findings())
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), "if it reads well: make update-goldens"


def test_time_series_in_characters_read_as_the_golden_file():
    found = eventful_findings()
    text = render_markdown(replace(found, rungs=found.rungs[:2]))
    section = text.partition("## What happened when\n\n")[2].partition("\n## ")[0]
    golden = GOLDENS / "time-series.md"
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        golden.write_text(section, encoding="utf-8")
    assert section == golden.read_text(encoding="utf-8"), "if it reads well: make update-goldens"


@pytest.mark.parametrize("render", [render_html, render_markdown, render_json])
def test_the_same_findings_give_the_same_bytes(render):
    assert render(sample_findings()) == render(sample_findings())


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_in_the_terminal_is_wider_than_the_terminal(width):
    assert max(map(len, terminal_text(large_findings(), width=width).splitlines())) <= width


def test_colour_adds_nothing_that_the_words_do_not_say():
    out = io.StringIO()
    colours = Console(
        file=out, width=100, force_terminal=True, color_system="truecolor", highlight=False
    )
    render_terminal(sample_findings(), colours)
    assert "\x1b[" in out.getvalue()
    words = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert [line.rstrip() for line in words.splitlines()] == (
        terminal_text(sample_findings(), width=100).splitlines()
    )


def test_the_terminal_reads_no_markup_in_a_title():
    assert "[red]title[/red]" in terminal_text(hostile_findings("[red]title[/red]"))


@pytest.mark.parametrize("render", [terminal_text, render_markdown])
def test_no_escape_sequence_of_data_is_in_a_text_that_a_terminal_shows(render):
    text = render(hostile_findings("ti\x1b[31mtle\x9b2J"))
    assert not {"\x1b", "\x9b"} & set(text)
    assert "ti�" in text


def test_json_has_no_infinity_and_says_what_was_censored():
    document = json.loads(render_json(sample_findings()), parse_constant=pytest.fail)
    rate = document["rungs"][6]["tps"]
    assert (rate["low"], rate["center"], rate["high"]) == (0, None, 0.0333)
    assert rate["censored"] == "upper bound"
    slowdown = document["rungs"][6]["to_baseline"]["slowdown"]
    assert (slowdown["center"], slowdown["high"]) == (None, None)
    assert slowdown["censored"] == "lower bound"
    assert document["rungs"][1]["tps"]["censored"] is None


def test_json_carries_every_rung_and_trial_under_a_versioned_key():
    document = json.loads(render_json(large_findings()))
    assert document["pgdrag_report"] == 2
    assert [rung["rung"]["name"] for rung in document["rungs"]] == [f"A{i}" for i in range(7)]
    assert len(document["trials"]) == 21


def test_markdown_tables_keep_their_columns_whatever_a_title_holds():
    text = render_markdown(hostile_findings("a | b\n| c ```d``` <script> *e*"))
    outside_code = "".join(text.split("```")[::2])
    assert "<script>" not in outside_code
    start = text.index("| Rung | Committed")
    table = text[start:].split("\n\n")[0].splitlines()
    separators = [row.replace("\\|", "").count("|") for row in table]
    assert len(table) == 9
    assert set(separators) == {8}
