"""The documentation as a site: it builds without a warning and without a network, and its search works on files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import browse, needs_chromium, write

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe)\b[^>]*?\bsrc=\"?([^\s\">]+)|<link\b[^>]*?\bhref=\"?([^\s\">]+)"
)
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
# Opens the search as a reader does, types a word, and leaves what was found in the page.
SEARCH = """<script>
const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
addEventListener("load", async () => {
  document.querySelector("label[for=__search], .md-search__button").click();
  await wait(1000);
  const roots = [document, ...[...document.querySelectorAll("*")].map(x => x.shadowRoot).filter(x => x)];
  const input = roots.map(x => x.querySelector("input[type=search], input[type=text]")).find(x => x);
  input.value = "%s";
  input.dispatchEvent(new InputEvent("input", { bubbles: true }));
  await wait(3000);
  const links = roots.flatMap(x => [...x.querySelectorAll("a[href]")]).filter(x => x.getRootNode() !== document);
  document.title = "found: " + links.map(x => x.getAttribute("href")).join(" ");
});
</script></body>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (folder / "mkdocs.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(
        command,
        cwd=folder,
        env=NO_NETWORK | {"HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "arning" not in built.stdout + built.stderr
    return folder / "build/site"


def test_every_page_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        loaded = [
            source or link for source, link in LOADED.findall(page.read_text(encoding="utf-8"))
        ]
        if page.parent.name == "examples":  # a report, which is one file
            assert loaded == ["data:,"], page
            continue
        assert len(loaded) > 2, page
        assert [x for x in loaded if re.match(r"(https?:)?//", x)] == [], page


@needs_chromium
@pytest.mark.parametrize(("word", "page"), [("ablation", "ablate.html"), ("qwrtzpl", None)])
def test_the_search_works_on_files(site: Path, tmp_path: Path, word: str, page: str | None) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    page_of_search = write(site / "searching.html", html.replace("</body>", SEARCH % word))
    dom = browse(tmp_path, page_of_search, "--dump-dom", "--virtual-time-budget=10000")
    title = re.findall(r"<title>(.*?)</title>", dom)[0]
    assert title.startswith("found:")
    assert (page in title) if page else title.strip() == "found:"
