"""`pgdrag serve` in a real browser: an experiment is started, watched, stopped, and its report opened."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import start
from playwright.sync_api import Browser, Page, expect

from chromium import needs_chromium
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.scratch import Scratch

pytestmark = [pytest.mark.postgres, needs_chromium]
PLANTED = Path(__file__).with_name("planted.toml")
PATIENCE_MS = 120_000


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory, scratch: Scratch, binaries: Binaries
) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    # It lasts until it is stopped.
    text = PLANTED.read_text().replace("measure_s = 0.5", "measure_s = 300")
    (home / "long.toml").write_text(text.replace('name = "planted"', 'name = "long"'))
    return {"PGDRAG_HOME": str(home), "PGDRAG_SCRATCH": str(scratch.root)}


@pytest.fixture(scope="module")
def address(places: dict[str, str]) -> Iterator[str]:
    served = start("serve", **places)
    assert served.stdout is not None
    yield served.stdout.readline().strip()
    served.send_signal(signal.SIGINT)
    _, err = served.communicate(timeout=60)
    assert served.returncode == 0, err
    assert "Traceback" not in err


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page as wide as a phone's, on which no script fails."""
    with browser.new_context(viewport={"width": 400, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda said: wrong.append(said.text) if "Content Security" in said.text else None,
        )
        yield page
        assert wrong == []


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_a_run_is_started_watched_stopped_and_its_report_opened(
    page: Page, address: str, places: dict[str, str]
) -> None:
    page.goto(address)
    expect(page.locator("#state")).to_have_text("Nothing runs now.")
    assert "#" not in page.url
    assert fits(page)
    page.get_by_role("link", name="Start a run").click()
    page.get_by_placeholder("/home/me/shop.toml").fill(f"{places['PGDRAG_HOME']}/long.toml")
    assert fits(page)
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("pre")).to_contain_text("Nothing was run, because of --dry-run.")
    assert fits(page)
    page.get_by_label("Run this now").check()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("link", name="two settings that either slow all reads").click()
    expect(page.locator("#state")).to_contain_text("Trial 1 of ")
    expect(page.locator("#state")).to_contain_text("now,")
    # It moves, in one picture with what sessions wait for.
    expect(page.locator(".panel-title", has_text="Latency")).to_be_visible()
    expect(page.locator(".panel-title", has_text="Sessions, by what they do")).to_be_visible()
    shown = page.locator(".series .shown")
    expect(shown).not_to_have_text(str(shown.text_content()))
    assert fits(page)
    page.get_by_text("Stop this run").click()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_url("**/report/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "two settings that either slow all reads"
    )
    assert fits(page)
    page.goto(address)
    expect(page.get_by_role("row", name="long-")).to_contain_text("interrupted")
