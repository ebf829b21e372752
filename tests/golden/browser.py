"""A headless browser for tests, in which nothing on the network answers."""

from __future__ import annotations

import html as html_module
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from chromium import CHROMIUM, needs_chromium

__all__ = ["Page", "Pages", "browse", "needs_chromium", "write"]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--proxy-server=127.0.0.1:9",  # nothing on the network answers
)
# A browser's window has a least width; a frame has none. One page after the other has it to itself.
FRAMES = """<!doctype html>
<body style="margin: 0"><script>
const pages = %s, told = {};
let at = -1, frame, impatience;
function next() {
  frame?.remove();
  clearTimeout(impatience);
  if (++at === pages.length) return;
  frame = document.createElement("iframe");
  frame.style = `border: 0; width: ${pages[at].width}px; height: 1200px`;
  frame.src = pages[at].page;
  document.body.append(frame);
  impatience = setTimeout(next, %d);
}
addEventListener("message", event => {
  if (event.source !== frame.contentWindow) return;
  told[at] = event.data;
  document.body.dataset.told = JSON.stringify(told);
  next();
});
next();
</script></body>
"""
# Of the browser's own time, which waits for nothing but what the pages load.
PAGE_MS = 5000


@dataclass(frozen=True, eq=False)
class Page:
    """A page to open in a frame, a script of which posts a text in JSON to whoever framed it.

    Attributes:
        html: makes the page.
        width: of the frame, in pixels.
        file: all pages of a file of tests: they are opened together when the first is asked for.
    """

    html: Callable[[], str]
    width: int
    file: Pages

    def told(self) -> dict[str, Any]:
        """Return what it posted."""
        assert self in self.file.told, "the page posted nothing"
        return self.file.told[self]


class Pages:
    """Pages that share one start of a browser."""

    def __init__(self) -> None:
        self._pages: list[Page] = []

    def add(self, html: Callable[[], str], *, width: int = 1000) -> Page:
        """Return a page that will be opened with the others."""
        page = Page(html, width, self)
        self._pages.append(page)
        return page

    @cached_property
    def told(self) -> dict[Page, dict[str, Any]]:
        """What each page posted that did."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            return told_in_frames(Path(directory), self._pages)


def browse(tmp_path: Path, page: Path, *arguments: str, fragment: str = "") -> str:
    """Open a page in a new browser and return what it prints."""
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    with subprocess.Popen(
        [str(CHROMIUM), *FLAGS, profile, *arguments, page.as_uri() + f"#{fragment}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as browser:
        try:
            return browser.communicate(timeout=300)[0].decode()
        finally:
            if browser.poll() is None:
                os.killpg(browser.pid, signal.SIGKILL)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def told_in_frames(tmp_path: Path, pages: Sequence[Page]) -> dict[Page, dict[str, Any]]:
    """Open pages in frames of one browser, one after the other, and return what each that did posted."""
    files = [
        write(tmp_path / f"report-{at}.html", page.html()).as_uri() for at, page in enumerate(pages)
    ]
    framed = [{"page": uri, "width": page.width} for uri, page in zip(files, pages, strict=True)]
    frames = write(tmp_path / "frames.html", FRAMES % (json.dumps(framed), PAGE_MS))
    budget = f"--virtual-time-budget={PAGE_MS * len(pages)}"
    dom = browse(tmp_path, frames, "--dump-dom", budget)
    found = re.search(r'data-told="([^"]*)"', dom)
    assert found is not None, dom[-2000:]
    told = json.loads(html_module.unescape(found[1]))
    return {pages[int(at)]: json.loads(text) for at, text in told.items()}
