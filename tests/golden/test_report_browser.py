"""The HTML report in a real browser, wide and narrow; skipped where there is no Chromium."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from browser import browse, needs_chromium, told_in_frame, write
from report_sample import hostile_findings, large_findings, sample_findings
from series_sample import compared_findings, eventful_findings

from pgdrag.report.html import render_html
from pgdrag.testing.conformance_sections import held_findings

pytestmark = needs_chromium
PROBE = """
<script>
addEventListener("load", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const page = document.documentElement;
  setTimeout(() => parent.postMessage(JSON.stringify({
    page: page.scrollWidth,
    window: page.clientWidth,
    loaded: performance.getEntriesByType("resource").map(entry => entry.name),
    title: document.title,
    pictures: [...document.querySelectorAll(".chart, .uplot")]
      .map(chart => chart.getBoundingClientRect().width).filter(width => width > 0),
  }), "*"), 500);  // after the pictures of what was opened are drawn
});
</script>
"""


def probe(tmp_path: Path, html: str, width: int) -> dict[str, object]:
    """Measure a copy of the page in which scripts may run and anything may be requested."""
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert free != html
    return told_in_frame(tmp_path, free.replace("</body>", PROBE + "</body>"), width)


@pytest.mark.parametrize(
    "findings", [sample_findings, eventful_findings, compared_findings, held_findings]
)
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_with_everything_open_and_requests_nothing(
    tmp_path, findings, width
):
    seen = probe(tmp_path, render_html(findings()), width)
    assert seen["window"] == width
    assert seen["page"] <= width
    assert len(seen["pictures"]) >= 4
    assert all(width * 0.6 < picture <= width for picture in seen["pictures"])
    assert seen["loaded"] == []


def test_the_probe_notices_a_wide_page_and_a_request(tmp_path):
    html = render_html(sample_findings())
    spoilt = '<img src="http://127.0.0.1:9/x.png"><div style="width: 900px">wide</div></body>'
    seen = probe(tmp_path, html.replace("</body>", spoilt), 400)
    assert seen["page"] >= 900
    assert seen["loaded"] == ["http://127.0.0.1:9/x.png"]


def test_long_words_and_markup_neither_widen_the_page_nor_run(tmp_path):
    text = "<script>document.title='ran'</script>" + "unbreakable" * 20
    seen = probe(tmp_path, render_html(hostile_findings(text)), 400)
    assert seen["page"] <= 400
    assert seen["title"] != "ran"


def test_the_largest_report_can_be_pictured(tmp_path):
    picture = tmp_path / "report.png"
    page = write(tmp_path / "report.html", render_html(large_findings()))
    browse(tmp_path, page, "--window-size=1280,1200", f"--screenshot={picture}")
    header = picture.read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (1280, 1200)


def test_a_run_without_trials_is_a_page_that_fits(tmp_path):
    findings = large_findings()
    bare = [
        replace(found, tps=None, to_baseline=None, samples=(), trials=0) for found in findings.rungs
    ]
    html = render_html(replace(findings, rungs=tuple(bare)))
    assert "<svg" not in html
    assert "not run yet" in html
    assert probe(tmp_path, html, 400)["page"] <= 400
