"""A headless browser for tests, in which nothing on the network answers."""

from __future__ import annotations

import html as html_module
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

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
# A browser's window has a least width; a frame has none.
FRAME = """<!doctype html>
<script>addEventListener("message", event => document.body.dataset.probe = event.data)</script>
<body style="margin: 0"><iframe src="{page}" style="border: 0; width: {width}px; height: 1200px">
</iframe></body>
"""


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
            return browser.communicate(timeout=120)[0].decode()
        finally:
            if browser.poll() is None:
                os.killpg(browser.pid, signal.SIGKILL)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def told_in_frame(tmp_path: Path, html: str, width: int) -> dict[str, object]:
    """Open a page in a frame of that width, and return what a script of it posts to the frame."""
    page = write(tmp_path / "report.html", html)
    frame = write(tmp_path / "frame.html", FRAME.format(page=page.as_uri(), width=width))
    dom = browse(tmp_path, frame, "--dump-dom", "--virtual-time-budget=5000")
    found = re.search(r'data-probe="([^"]*)"', dom)
    assert found is not None, dom[-2000:]
    return dict(json.loads(html_module.unescape(found[1])))
