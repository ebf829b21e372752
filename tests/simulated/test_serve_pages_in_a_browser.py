"""The pages of `pgdrag serve` in a browser: on a phone, in the dark, with a keyboard, for those who do not see them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest
from playwright.sync_api import Browser, Page, expect

from chromium import needs_chromium
from pgdrag.journal import Journal
from pgdrag.model.events import PhaseStarted, TimeLeft, TrialStarted
from pgdrag.model.program import Program
from pgdrag.serve.starting import Planned
from served import Client, journal_of_its_own, run_simulated, run_under_way, second, serving

pytestmark = needs_chromium
AXE = files("axe_playwright_python").joinpath("axe.min.js")
AUDIT = """async () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" ")}`);
}"""
# What a keyboard has to reach, and where it is: -1 is none of them.
CONTROLS = """[...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter(one => one.checkVisibility() && one.type !== "hidden")"""
AT = f"""(() => {{
  const at = {CONTROLS}.indexOf(document.activeElement), style = getComputedStyle(document.activeElement);
  return [at, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0];
}})()"""


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where each page is, by a name; one run is under way."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        program = Program("put load on the server", "rm x", "/srv")
        plan = Planned("what it would do", is_refused=False, programs=(program,))
        patch.setattr("pgdrag.serve.pages.planned", lambda wanted: plan)
        patch.setattr("pgdrag.serve.pages.RunPages._refuse_beside_another", lambda *_: None)
        with journal_of_its_own(home, patch) as journal, serving(journal) as client:
            yield from _addresses(journal, client)


def _addresses(journal: Journal, client: Client) -> Iterator[dict[str, str]]:
    first, other = run_simulated(journal), run_simulated(journal)
    with run_under_way(journal) as (run_id, listen):
        listen(TimeLeft(60.0, 180.0))
        listen(TrialStarted(journal.run(run_id).results[0].trial))
        listen(PhaseStarted("measure", 20.0))
        for at in range(1, 10):
            listen(second(at, 1000 + at))
        paths = {
            "list": "",
            "search": "?q=nothing",
            "live": f"run/{run_id}",
            "start": "start",
            "report": f"report/{first}",
            "comparison": f"together?run={first}&run={other}",
            "error": "nowhere",
        }
        origin = f"http://{client.host}{client.server.root}"
        yield {
            "token": f"{origin}#{client.server.token}",
            **{name: origin + path for name, path in paths.items()},
        }


@pytest.fixture(params=[400, 1280])
def page(
    browser: Browser, addresses: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A page as wide as a phone's, or a desk's, of somebody who has the token; no script fails on it."""
    size = {"width": request.param, "height": 800}
    with browser.new_context(viewport=size) as context:
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda said: wrong.append(said.text) if "Content Security" in said.text else None,
        )
        page.goto(addresses["token"])
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        assert "#" not in page.url
        yield page
        assert wrong == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def broken(page: Page) -> list[str]:
    """Return which rules of axe-core the page breaks, in light and dark."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found += [f"{scheme}: {one}" for one in page.evaluate(AUDIT)]
    return found


NAMES = ("list", "search", "live", "start", "comparison", "error")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_breaks_no_rule_of_accessibility_and_fits(
    page: Page, addresses: dict[str, str], name: str
) -> None:
    page.goto(addresses[name])
    assert fits(page)
    assert broken(page) == []
    assert fits(page)  # with everything open


def test_the_numbers_of_two_runs_fit_side_by_side(page: Page, addresses: dict[str, str]) -> None:
    page.goto(addresses["comparison"])
    inner = "[...document.querySelectorAll('#two-runs .scroll')].map(x => x.scrollWidth - x.clientWidth)"
    assert set(page.evaluate(inner)) == {0}


def test_the_plan_of_a_run_breaks_none_and_fits(page: Page, addresses: dict[str, str]) -> None:
    page.goto(addresses["start"])
    page.get_by_label("Allow changes to").fill("vm.swappiness")
    page.get_by_label("Shipped experiment").select_option("slow-42k demo")
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("pre").first).to_have_text("what it would do")
    expect(page.locator("form pre")).to_contain_text("rm x  # in /srv")
    assert page.get_by_role("checkbox").count() == 3
    assert fits(page)
    assert broken(page) == []


def test_past_runs_are_found_laid_over_each_other_and_read(
    page: Page, addresses: dict[str, str]
) -> None:
    page.goto(addresses["list"])
    page.get_by_role("searchbox").fill("work_mem")
    page.get_by_role("button", name="Search").click()
    boxes = page.get_by_role("checkbox")
    assert boxes.count() == 3
    expect(boxes.first).to_be_in_viewport()  # on a phone, too, without scrolling the table
    for box in boxes.all()[-2:]:
        box.check()
    page.get_by_role("button", name="Compare two runs").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(" against ")
    page.get_by_text("What happened when").click()
    page.locator("summary", has_text="R0").click()
    expect(page.locator(".panel-title", has_text="Throughput").first).to_be_visible()
    page.go_back()
    page.get_by_role("row").last.get_by_role("link").click()
    page.wait_for_url("**/report/*")
    assert page.locator("section").count() > 3


@pytest.mark.parametrize("end", ["", "#wrong"])
def test_without_the_token_there_is_nothing_to_see(
    browser: Browser, addresses: dict[str, str], end: str
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(addresses["list"] + end)
        words = "another pgdrag serve" if end else "Open the whole address"
        expect(page.locator("#words")).to_contain_text(words)
        assert page.locator("table").count() == 0
        assert broken(page) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_keyboard_reaches_whatever_there_is_to_do(
    page: Page, addresses: dict[str, str], name: str
) -> None:
    page.goto(addresses[name])
    many = page.evaluate(f"{CONTROLS}.length")
    reached = set()
    for _ in range(2 * many):
        page.keyboard.press("Tab")
        at, is_shown = page.evaluate(AT)
        if at < 0:
            break
        assert is_shown, at
        reached.add(at)
    assert reached == set(range(many))
