"""Reports for people who do not see them, or do not use a mouse: no rule of axe-core is broken, in light and dark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest
from browser import Page, Pages, needs_chromium
from report_sample import sample_findings
from series_sample import compared_findings, two_eventful_findings

from pgdrag.findings.values import Findings
from pgdrag.report.html import render_html
from pgdrag.testing.conformance_sections import held_findings

pytestmark = needs_chromium
PAGES = Pages()
EXAMPLES = Path(__file__).parents[2] / "docs/examples"
# Everything that can be opened is open, and looked at as soon as it is drawn.
RUN = """
addEventListener("load", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  setTimeout(async () => {
    const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
    parent.postMessage(JSON.stringify({
      passes: passes.length,
      violations: violations.map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" ")}`),
    }), "*");
  }, 300);
});
"""


def audited(html: Callable[[], str], *, is_dark: bool = False) -> Page:
    """A page that axe-core looks at; the page's own policy would not let it."""

    def free() -> str:
        axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        found = html().replace("Content-Security-Policy", "x-unused")
        if is_dark:
            found = found.replace("@media (prefers-color-scheme: dark)", "@media all")
        return found.replace("<title>", f"<script>{axe}</script><script>{RUN}</script><title>", 1)

    return PAGES.add(free)


def report(findings: Callable[[], Findings]) -> Callable[[], str]:
    return lambda: render_html(findings())


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            audited(report(findings), is_dark=is_dark),
            id=f"{findings.__name__}-{'dark' if is_dark else 'light'}",
        )
        for findings, is_dark in (
            (sample_findings, False),
            (sample_findings, True),
            (two_eventful_findings, True),
            (compared_findings, False),
            (held_findings, False),
        )
    ],
)
def test_a_report_breaks_no_rule_of_accessibility(page: Page) -> None:
    told = page.told()
    assert told["violations"] == []
    assert told["passes"] > 15


# As their files are, so that they look as they did when they were made.
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(audited(partial(example.read_text, encoding="utf-8")), id=example.stem)
        for example in sorted(EXAMPLES.glob("*.html"))
    ],
)
def test_the_examples_in_the_docs_break_none(page: Page) -> None:
    told = page.told()
    assert told["violations"] == []
    assert told["passes"] > 15


@pytest.mark.parametrize(
    "page",
    [
        audited(
            lambda: render_html(sample_findings()).replace(
                "<main>",
                '<main><p style="color: #ccc; background: #fff">pale</p><img src="data:,">',
            )
        )
    ],
    ids=["page"],
)
def test_a_page_that_breaks_rules_is_noticed(page: Page) -> None:
    broken = {one.partition(":")[0] for one in page.told()["violations"]}
    assert {"color-contrast", "image-alt"} <= broken
