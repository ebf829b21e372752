"""The HTML report: loads nothing, runs nothing but its own scripts, stays small, names what it shows."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from report_sample import hostile_findings, large_findings, sample_findings
from series_sample import eventful_findings, hostile_series, long_findings, without_series

from pgdrag.report.html import render_html
from pgdrag.report.json import render_json

CELLS = ("th", "td")  # which HTML closes before the next one
VOID = {"meta", "link", "br", "img", "input", "hr"}
LOADING = {"src", "srcset", "href", "xlink:href", "data", "action", "poster", "background"}


class Page(HTMLParser):
    """Every start tag with its attributes, and whether tags are closed in order.

    A row and a cell need no end tag before the next one, nor at the end of the table's part.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in (*CELLS, "tr"):
            self._close_of_itself(*CELLS, *(["tr"] if tag == "tr" else []))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def _close_of_itself(self, *tags):
        while self.open[-1] in tags:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in ("thead", "tbody"):
            self._close_of_itself(*CELLS, "tr")
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_only_the_link_to_the_source_leads_out_of_the_file():
    page = Page(render_html(sample_findings()))
    leading = [
        (tag, value)
        for tag, attributes in page.tags
        for key, value in attributes.items()
        if key in LOADING and value is not None and not value.startswith(("#", "data:"))
    ]
    assert leading == [("a", "https://example.org/slow")]


def test_the_style_sheet_loads_nothing():
    style = render_html(sample_findings()).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def policy_of(page: Page) -> str:
    [policy] = [
        attributes["content"]
        for attributes in page.named("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    return policy


def test_a_policy_forbids_scripts_and_requests_where_no_script_is_needed():
    html = render_html(without_series(sample_findings()))
    page = Page(html)
    assert policy_of(page) == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert [one.get("type") for one in page.named("script")] == ["application/json"]


def test_a_policy_lets_exactly_the_own_scripts_run_by_their_hashes():
    html = render_html(eventful_findings())
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(scripts) == 2
    assert policy_of(Page(html)) == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'"
    )


def test_what_was_measured_is_no_part_of_a_script():
    # Else a hash would allow whatever a server's log holds.
    texts = ("text", "alert(1)</script><script>alert(2)")
    of_each = {
        tuple(re.findall(r"<script>.*?</script>", render_html(hostile_series(text)), re.DOTALL))
        for text in texts
    }
    assert len(of_each) == 1


def test_no_script_of_a_report_asks_for_anything_or_makes_code_of_text():
    html = render_html(eventful_findings())
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    ways = (
        "eval(",
        "Function(",
        "document.write",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "innerHTML",
    )
    assert [way for way in ways for script in scripts if way in script] == []


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='alert(1)",
        "</style></title></svg><iframe src=//example.org>",
    ],
)
def test_text_from_files_and_servers_stays_text(text):
    hostile, harmless = (
        Page(render_html(hostile_series(text))),
        Page(render_html(hostile_series("x" * len(text)))),
    )
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert [set(attributes) for _, attributes in hostile.tags] == [
        set(attributes) for _, attributes in harmless.tags
    ]
    assert text in hostile.text


def test_an_address_that_would_run_something_is_no_link():
    links = Page(render_html(hostile_findings("alert(1)"))).named("a")
    assert all(str(one["href"]).startswith("#trial-") for one in links)


def embedded(html: str) -> Any:
    return json.loads(
        re.findall(r'<script [^>]*id="report-data">(.*?)</script>', html, re.DOTALL)[0]
    )


def test_the_numbers_are_in_the_page_under_the_keys_of_the_json_report():
    found = embedded(render_html(sample_findings()))
    whole = json.loads(render_json(sample_findings()))
    assert found["answer"] == whole["answer"]
    assert [one["tps"] for one in found["rungs"]] == [one["tps"] for one in whole["rungs"]]
    assert [one["name"] for one in found["rungs"]] == [f"A{at}" for at in range(7)]
    for one, other in zip(found["trials"], whole["trials"], strict=True):
        assert one == {key: other[key] for key in one}


def test_text_in_the_embedded_numbers_ends_no_element():
    text = "</script><script>alert(1)</script><!--"
    assert embedded(render_html(hostile_findings(text)))["rungs"][1]["title"] == text


def test_a_large_run_stays_under_500_kb():
    html = render_html(large_findings())
    assert html.count('class="trace"') == 7
    assert len(html.encode()) < 500_000


def test_seven_rungs_with_every_series_of_two_minutes_stay_under_500_kb():
    html = render_html(eventful_findings())
    assert html.count('<figure class="series"') == 8
    assert len(html.encode()) < 500_000


@pytest.mark.parametrize("count", [15, 30])
def test_a_long_run_stays_under_500_kb_and_names_whose_series_are_left_out(count):
    html = render_html(long_findings(count))
    assert len(html.encode()) < 500_000
    drawn = set(re.findall(r'<figure class="series" [^>]*aria-label="(B\d+) over time"', html))
    words = re.search("the series of (.*) are left out", html)
    left_out = set(re.findall(r"B\d+", words[1])) if words else set()
    assert drawn | left_out == {f"B{at}" for at in range(count)}
    assert not drawn & left_out
    # What changed much is never left out for what hardly did.
    much = {f"B{at}" for at in range(0, count, 3)}
    assert much <= drawn or drawn <= much


def test_every_tag_is_closed_and_every_name_is_used_once():
    page = Page(render_html(sample_findings()))
    assert page.open == []
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))


def test_tables_name_their_rows_and_columns_and_pictures_say_what_they_show():
    page = Page(render_html(sample_findings()))
    assert {attributes.get("scope") for attributes in page.named("th")} == {"col", "row"}
    assert len(page.named("caption")) == len(page.named("table")) >= 8
    pictures = [attributes for attributes in page.named("svg") if attributes.get("role") == "img"]
    assert [picture["aria-labelledby"] for picture in pictures] == [
        "steps-chart-title steps-chart-desc",
        "timeline-chart-title timeline-chart-desc",
    ]


def test_headings_go_down_one_level_at_a_time():
    page = Page(render_html(sample_findings()))
    levels = [int(tag[1]) for tag, _ in page.tags if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
