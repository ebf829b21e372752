"""The time series in a real browser: drawn under the page's own policy, zoomed, compared; else text."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import partial

import pytest
from browser import Page, Pages, browse, needs_chromium, write
from report_sample import hostile_findings
from series_sample import (
    compared_findings,
    eventful_findings,
    hostile_series,
    two_eventful_findings,
)

from pgdrag.findings.values import Findings
from pgdrag.report.html import render_html

pytestmark = needs_chromium
PAGES = Pages()

# Stands first in the page, so that it sees whatever goes wrong in it.
WATCH = """
const wrong = [];
addEventListener("error", event => wrong.push(event.message));
addEventListener("securitypolicyviolation", event => wrong.push(event.violatedDirective));
console.error = console.warn = (...words) => wrong.push(words.join(" "));
const wait = () => new Promise(done => setTimeout(done, 100));
const ofAll = () => document.querySelector('.series[aria-label^="All"]');
const figure = at => [...document.querySelectorAll('.series:not([aria-label^="All"])')][at];
const shown = at => figure(at).querySelector("output").value;
const over = (at, panel) => figure(at).querySelectorAll(".u-over")[panel];
const labels = at => [...figure(at).querySelectorAll(".u-label")].map(label => label.textContent);
const press = (at, name) => figure(at).querySelector(`[aria-label="${name}"]`).click();
function mouse(at, panel, kind, share) {
  const target = over(at, panel), box = target.getBoundingClientRect();
  const to = kind === "mouseup" ? document : target;
  to.dispatchEvent(new MouseEvent(kind, {
    bubbles: true, button: 0, buttons: 1, movementX: 1, view: window,
    clientX: box.left + box.width * share, clientY: box.top + box.height / 2,
  }));
}
async function drag(at, panel, from, to) {
  mouse(at, panel, "mouseenter", from);
  mouse(at, panel, "mousemove", from);
  mouse(at, panel, "mousedown", from);
  mouse(at, panel, "mousemove", to);
  mouse(at, panel, "mouseup", to);
  await wait();
}
function colours(canvas) {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}
async function tell(act) {
  await wait();
  for (const each of document.querySelectorAll("details")) each.open = true;
  await wait();
  const told = await act();
  parent.postMessage(JSON.stringify({ wrong, ...told }), "*");
}
"""


def watched(findings: Callable[[], Findings], act: str, width: int) -> Page:
    """A page in which `act`, the body of a function, tells what it sees; the policy lets it run, too."""

    def html() -> str:
        script = f"{WATCH}addEventListener('load', () => tell(async () => {{ {act} }}));"
        allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        found = render_html(findings())
        found = found.replace("; script-src ", f"; script-src 'sha256-{allowed}' ", 1)
        return found.replace("<title>", f"<script>{script}</script><title>", 1)

    return PAGES.add(html, width=width)


def tells(findings: Callable[[], Findings], act: str, *, width: int = 1000) -> pytest.MarkDecorator:
    """Let a test know what `act` tells of a page."""
    page = watched(findings, act, width)
    return pytest.mark.parametrize("page", [page], ids=["page"])


@tells(
    eventful_findings,
    """
    return {
      figures: document.querySelectorAll(".series .live").length,
      canvases: [...document.querySelectorAll(".uplot canvas")].filter(one => !ofAll().contains(one)).map(colours),
      stills: [...document.querySelectorAll(".still")].filter(still => !still.hidden).length,
      titles: [...figure(0).querySelectorAll(".panel-title")].map(title => title.textContent),
      lanes: [...figure(0).querySelectorAll(".lane button")].map(one => one.textContent),
    };
    """,
)
def test_every_panel_is_drawn_under_the_policy_of_the_page(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["figures"] == 8
    assert told["stills"] == 0
    assert len(told["canvases"]) == 7 * len(told["titles"])
    assert all(colours > 10 for colours in told["canvases"])
    assert told["titles"][:3] == ["Throughput", "Latency", "Sessions, by what they do"]
    assert told["lanes"] == ["checkpoint × 2", "vacuum × 2", "deadlock × 1", "error × 17"]


@tells(
    eventful_findings,
    """
    const titles = () => [...ofAll().querySelectorAll(".panel-title")].map(title => title.textContent);
    const choice = ofAll().querySelector("select"), first = titles();
    const names = [...ofAll().querySelector(".panel").querySelectorAll(".u-label")].map(one => one.textContent);
    const choose = async text => {
      choice.value = [...choice.options].find(option => option.text === text).value;
      choice.dispatchEvent(new Event("change"));
      await wait();
      return titles();
    };
    const one = await choose("WAL"), all = await choose("all of them");
    return { first, names, one, all: all.length, options: choice.options.length,
             lanes: ofAll().querySelectorAll(".lane").length, length: ofAll().querySelector("output").value };
    """,
)
def test_all_rungs_are_laid_over_each_other_for_any_series(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["first"] == ["Throughput: committed", "Latency: 99th percentile"]
    assert told["names"] == ["at", *(f"A{at}" for at in range(7))]
    assert told["one"] == ["WAL"]
    assert told["options"] == told["all"] + 2 > 20
    assert (told["lanes"], told["length"]) == (0, "0 to 120 s")


@tells(
    two_eventful_findings,
    """
    const before = shown(0);
    await drag(0, 2, 0.25, 0.45);
    const dragged = shown(0), others = shown(1);
    const marks = figure(0).querySelectorAll(".lane i").length;
    // Where the cursor stands, each panel tells the value of its own interval.
    mouse(0, 4, "mousemove", 0.6);
    await wait();
    const read = [...figure(0).querySelectorAll(".panel")].map(
      panel => panel.querySelectorAll(".u-value")[1].textContent);
    mouse(0, 4, "dblclick", 0.6);
    await wait();
    return { before, dragged, others, marks, read, after: shown(0) };
    """,
)
def test_dragging_over_one_panel_zooms_all_of_them_and_a_double_click_shows_all_again(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["before"] == told["after"] == told["others"] == "0 to 120 s"
    start, end = (float(number) for number in re.findall(r"[\d.]+", told["dragged"]))
    assert start == pytest.approx(30, abs=0.5)
    assert end == pytest.approx(54, abs=0.5)
    assert told["marks"] == 1
    assert re.fullmatch(r"[\d,]+/s", told["read"][0])
    assert re.fullmatch(r"[\d.]+ ms", told["read"][1])
    assert all(word != "–" for word in told["read"])


@tells(
    two_eventful_findings,
    """
    const seen = [];
    for (const name of ["Look closer", "Later", "Later", "Later", "Earlier",
                        "See more of the window", "Look closer", "Show the whole window"]) {
      press(0, name);
      await wait();
      seen.push(shown(0));
    }
    return { seen };
    """,
)
def test_buttons_do_without_a_mouse_what_dragging_does(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["seen"] == [
        "30 to 90 s",
        "45 to 105 s",
        "60 to 120 s",
        "60 to 120 s",
        "45 to 105 s",
        "0 to 120 s",
        "30 to 90 s",
        "0 to 120 s",
    ]


@tells(
    eventful_findings,
    """
    const choice = figure(3).querySelector("select");
    const names = [...choice.options].map(option => option.text), alone = labels(3);
    choice.value = "0";
    choice.dispatchEvent(new Event("change"));
    await wait();
    const both = labels(3);
    choice.value = "";
    choice.dispatchEvent(new Event("change"));
    await wait();
    return { names, alone, both, after: labels(3) };
    """,
)
def test_another_rung_can_be_laid_over_and_taken_away(page):
    told = page.told()
    assert told["wrong"] == []
    # The rung that it is compared with comes first.
    assert told["names"] == ["nothing", "A2", "A0", "A1", "A4", "A5", "A6"]
    assert told["alone"] == told["after"]
    assert told["alone"][:3] == ["at", "committed", "failed"]
    assert told["both"][:5] == [
        "at",
        "A3: committed",
        "A3: failed",
        "A2: committed",
        "A2: failed",
    ]


@tells(
    compared_findings,
    """
    const choice = figure(0).querySelector("select");
    return {
      figures: document.querySelectorAll(".series").length,
      chosen: choice.selectedOptions[0].text,
      labels: labels(0),
      length: shown(0),
    };
    """,
)
def test_two_sides_of_a_comparison_are_in_one_picture_from_the_start(page):
    told = page.told()
    assert told["wrong"] == []
    assert (told["figures"], told["chosen"], told["length"]) == (1, "A0", "0 to 120 s")
    assert {"A1: committed", "A0: committed"} <= set(told["labels"])


@tells(
    two_eventful_findings,
    """
    const tip = figure(0).querySelector(".tip");
    mouse(0, 0, "mousemove", 32 / 120);
    await wait();
    const during = tip.hidden ? "" : tip.textContent;
    mouse(0, 0, "mousemove", 45 / 120);
    await wait();
    return { during, after: tip.hidden };
    """,
)
def test_an_event_under_the_cursor_says_what_it_was(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["during"].startswith("vacuum at 31 s, 2.2 s long: table stock")
    assert told["after"] is True


@tells(
    eventful_findings,
    """
    const button = () => [...figure(3).querySelectorAll(".lane button")].find(
      one => one.dataset.kind === "vacuum");
    const canvas = figure(3).querySelector("canvas");
    const image = () => canvas.toDataURL(), before = image(), pressed = [button().ariaPressed];
    button().focus();
    button().click();
    await wait();
    const shaded = image();
    pressed.push(button().ariaPressed);
    const kept = document.activeElement === button();
    button().click();
    await wait();
    return { name: button().textContent, pressed, kept, changed: before !== shaded, back: before === image() };
    """,
)
def test_a_kind_of_event_that_is_everywhere_is_shaded_on_demand_only(page):
    told = page.told()
    assert told["wrong"] == []
    assert told["name"] == "vacuum × 102"
    assert told["pressed"] == ["false", "true"]
    assert (told["kept"], told["changed"], told["back"]) == (True, True, True)


LOGGED = """
    const text = figure(0).querySelector(".lane button").textContent;
    mouse(0, 0, "mousemove", 32 / 120);
    await wait();
    return { title: document.title, text, images: document.querySelectorAll("img").length };
"""


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (watched(partial(hostile_series, name), LOGGED, 1000), name)
        for name in (
            "<img src=x onerror=document.title='ran'>",
            "</script><script>document.title='ran'</script>",
        )
    ],
    ids=["img", "script"],
)
def test_what_a_log_holds_reaches_the_page_as_text_only(page, name):
    told = page.told()
    assert told["wrong"] == []
    assert told["title"] != "ran"
    assert name in told["text"]
    assert told["images"] == 0


def test_a_link_to_one_picture_opens_and_draws_the_file_as_it_is(tmp_path):
    page = write(tmp_path / "report.html", render_html(eventful_findings()))
    dom = browse(tmp_path, page, "--dump-dom", "--virtual-time-budget=5000", fragment="series-2")
    drawn = dom.split('<figure class="series"')[1:]
    assert ['class="uplot' in figure for figure in drawn] == [at in (0, 2) for at in range(8)]


def test_without_scripts_lines_of_text_stand_there(tmp_path):
    html = render_html(eventful_findings()).replace("<details", "<details open")
    forbidden = re.sub(r"; script-src [^\"]*", "", html)
    assert forbidden != html
    page = write(tmp_path / "report.html", forbidden)
    dom = browse(tmp_path, page, "--dump-dom", "--virtual-time-budget=5000")
    assert len(re.findall('<div class="still scroll"[^>]*><pre>Throughput', dom)) == 7
    assert "<canvas" not in dom


@tells(
    partial(hostile_findings, "unbreakable" * 20),
    """
    for (const still of document.querySelectorAll(".still")) still.hidden = false;
    await wait();
    return { page: document.documentElement.scrollWidth };
    """,
    width=400,
)
def test_text_without_scripts_fits_a_phone(page):
    told = page.told()
    assert told["page"] <= 400
