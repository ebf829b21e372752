"""Takes the pictures of README and docs, and the example reports, from real runs: `make screenshots`.

A picture is the beginning of the HTML report of this machine's newest complete run of its kind, as Chromium draws it.
Where there is no such run, pgdrag makes one first, which takes up to ten minutes each.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdrag.cli.findings import findings_of
from pgdrag.cli.place import open_journal
from pgdrag.findings.values import Findings
from pgdrag.journal import Journal
from pgdrag.report.html import render_html
from pgdrag.report.share_picture import render_png

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 1280  # pixels
_LIMIT_S = 120  # of one start of the browser


@dataclass(frozen=True)
class Example:
    """A report that is shown in the docs.

    Attributes:
        name: of its run's experiment, and of its files.
        picture: the file of its picture, within docs/images.
        height: of the picture, in pixels.
        command: of pgdrag, that makes the run.
    """

    name: str
    picture: str
    height: int
    command: tuple[str, ...]


# The configuration of docs/start.md: its two guilty lines hurt only together.
_GUILTY = "enable_indexscan=off,enable_bitmapscan=off,shared_buffers=64MB,work_mem=64MB,checkpoint_timeout=15min"
_READS = (
    "--workload",
    "pgbench",
    "-b",
    "select-only",
    "--pgbench-scale",
    "1",
    "--warm-up",
    "1",
    "--measure",
    "3",
)
EXAMPLES = (
    Example("slow-42k", "report.png", 1330, ("run", "slow-42k", "--scale", "demo")),
    Example("ablate", "ablate.png", 1100, ("ablate", _GUILTY, *_READS)),
    Example("bisect", "bisect.png", 1100, ("bisect", "default", _GUILTY, *_READS)),
)


def newest(journal: Journal, experiment: str) -> Findings | None:
    """Return what the newest complete run of an experiment found; None: there is none."""
    runs = (run for run in journal.runs_of(experiment) if run.status == "done")
    return next((findings_of(run, journal) for run in runs), None)


def photograph(chromium: str, page: Path, picture: Path, height: int) -> None:
    """Write a picture of the top of a page, in light colours."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            "--proxy-server=127.0.0.1:9",  # nothing on the network answers
            f"--user-data-dir={profile}",
            f"--window-size={WIDTH},{height}",
            "--virtual-time-budget=3000",
            f"--screenshot={picture}",
        )
        subprocess.run(
            [chromium, *flags, page.as_uri()], check=True, timeout=_LIMIT_S, capture_output=True
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures and the reports; 2 where that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screenshots", description=__doc__)
    parser.add_argument("name", nargs="*", help="such as slow-42k (default: all)")
    names = parser.parse_args(arguments).name
    if unknown := set(names) - {one.name for one in EXAMPLES}:
        known = ", ".join(one.name for one in EXAMPLES)
        print(f"no example {', '.join(sorted(unknown))}: there are {known}", file=sys.stderr)
        return 2
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("screenshots need Chromium: apt install chromium", file=sys.stderr)
        return 2
    for one in EXAMPLES:
        if names and one.name not in names:
            continue
        found = newest(open_journal(), one.name)
        if found is None:
            subprocess.run([sys.executable, "-m", "pgdrag", *one.command], check=True)
            found = newest(open_journal(), one.name)
            assert found is not None, "it was just run"
        page = DOCS / "examples" / f"{one.name}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(render_html(found), encoding="utf-8")
        page.with_suffix(".png").write_bytes(render_png(found))
        photograph(chromium, page, DOCS / "images" / one.picture, one.height)
        print(f"{found.run.run_id}: {page}, {DOCS / 'images' / one.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
