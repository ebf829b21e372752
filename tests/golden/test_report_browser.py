"""The HTML report in a real browser, wide and narrow; skipped where there is no Chromium."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from browser import Page, Pages, browse, needs_chromium, write
from report_sample import hostile_findings, large_findings, sample_findings
from series_sample import compared_findings, eventful_findings

from pgdrag.report.html import render_html
from pgdrag.testing.conformance_sections import held_findings

pytestmark = needs_chromium
PAGES = Pages()
PROBE = """
<script>
addEventListener("load", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const page = document.documentElement;
  setTimeout(() => parent.postMessage(JSON.stringify({
    page: page.scrollWidth,
    window: page.clientWidth,
    loaded: performance.getEntriesByType("resource").map(entry => entry.name),
    tables: [...document.querySelectorAll("section > .scroll")].map(table => table.scrollWidth - table.clientWidth),
    title: document.title,
    pictures: [...document.querySelectorAll(".chart, .uplot")]
      .map(chart => chart.getBoundingClientRect().width).filter(width => width > 0),
  }), "*"), 500);  // after the pictures of what was opened are drawn
});
</script>
"""


def probed(html: Callable[[], str], width: int) -> Page:
    """A copy of the page that is measured: scripts may run in it and anything may be requested."""

    def free() -> str:
        as_it_is = html()
        found = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", as_it_is)
        assert found != as_it_is
        return found.replace("</body>", PROBE + "</body>")

    return PAGES.add(free, width=width)


def sees(html: Callable[[], str], width: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", [probed(html, width)], ids=["page"])


@pytest.mark.parametrize(
    ("page", "width"),
    [
        pytest.param(
            probed(lambda findings=findings: render_html(findings()), width),
            width,
            id=f"{width}-{findings.__name__}",
        )
        for findings in (sample_findings, eventful_findings, compared_findings, held_findings)
        for width in (1280, 400)
    ],
)
def test_the_page_fits_its_window_with_everything_open_and_requests_nothing(page, width):
    told = page.told()
    assert told["window"] == width
    assert told["page"] <= width
    assert len(told["pictures"]) >= 4
    assert all(width * 0.6 < picture <= width for picture in told["pictures"])
    assert not any(told["tables"])  # none that is not folded scrolls sideways
    assert told["loaded"] == []


def spoilt() -> str:
    added = '<img src="http://127.0.0.1:9/x.png"><div style="width: 900px">wide</div></body>'
    return render_html(sample_findings()).replace("</body>", added)


@sees(spoilt, 400)
def test_the_probe_notices_a_wide_page_and_a_request(page):
    told = page.told()
    assert told["page"] >= 900
    assert told["loaded"] == ["http://127.0.0.1:9/x.png"]


def hostile() -> str:
    text = "<script>document.title='ran'</script>" + "unbreakable" * 20
    return render_html(hostile_findings(text))


@sees(hostile, 400)
def test_long_words_and_markup_neither_widen_the_page_nor_run(page):
    told = page.told()
    assert told["page"] <= 400
    assert told["title"] != "ran"


def test_the_largest_report_can_be_pictured(tmp_path):
    picture = tmp_path / "report.png"
    page = write(tmp_path / "report.html", render_html(large_findings()))
    browse(tmp_path, page, "--window-size=1280,1200", f"--screenshot={picture}")
    header = picture.read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (1280, 1200)


def without_trials() -> str:
    findings = large_findings()
    bare = [
        replace(found, tps=None, to_baseline=None, samples=(), trials=0) for found in findings.rungs
    ]
    html = render_html(replace(findings, rungs=tuple(bare)))
    assert "<svg" not in html
    assert "not run yet" in html
    return html


@sees(without_trials, 400)
def test_a_run_without_trials_is_a_page_that_fits(page):
    told = page.told()
    assert told["page"] <= 400
