"""Writes the marked places of docs/studies/*.md again, from this machine's runs: `make studies`.

A place begins with a comment such as `<!-- claims of slow-42k at standard -->` and ends with `<!-- end -->`: a part of
the newest complete run of that experiment at that scale. A part is a section of the report by its name, "answer" for the
answer alone, or "run" for what was run, where and when. Where this machine has no such run, what another one found stays.
Pictures are written beside the page. All else is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from benchmarks.standalone import standalone
from pgdrag.cli.findings import findings_of
from pgdrag.cli.place import open_journal
from pgdrag.errors import UsageError
from pgdrag.findings.values import Findings
from pgdrag.journal import Journal
from pgdrag.model import RunRecord
from pgdrag.report.document import Block, Details, Figure, Paragraph, Table
from pgdrag.report.markdown import markdown_of
from pgdrag.report.sections import all_sections
from pgdrag.units import format_bytes, format_duration

PAGES = Path(__file__).parents[1] / "docs/studies"
PLACE = re.compile(r"(<!-- ([\w-]+) of ([\w-]+) at ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_PICTURES = "images"


def filled(
    page: str, find: Callable[[str, str], Findings | None], keep: Callable[[str, str], None]
) -> str:
    """Return a page with its marked places written again.

    Args:
        find: returns what the newest run of an experiment at a scale found; None: there is none.
        keep: writes a picture, by its name within the page's folder.

    Raises:
        UsageError: a place names a part that no report has.
    """

    def place(found: re.Match[str]) -> str:
        begin, part, experiment, scale, before, end = found.groups()
        findings = find(experiment, scale)
        if findings is not None:
            body = _body(part, findings, keep) or "Nothing of this was found."
        elif before.strip():
            return found[0]
        else:
            is_first = part == "run"
            body = f"*Not run yet:* `pgdrag run {experiment} --scale {scale}`" if is_first else ""
        return f"{begin}{body}\n{end}" if body else begin + end

    return PLACE.sub(place, page)


def _body(part: str, findings: Findings, keep: Callable[[str, str], None]) -> str:
    drawn: list[str] = []

    def draw(figure: Figure) -> str:
        number = f"-{len(drawn) + 1}" if drawn else ""
        drawn.append(f"{_PICTURES}/{findings.run.study.name}-{part}{number}.svg")
        keep(drawn[-1], standalone(figure.svg))
        return drawn[-1]

    return markdown_of(shown(_blocks(part, findings)), draw)


def shown(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield what a report shows; of what it folds away only the first table, where it shows none: all is too much for a page."""
    found = [x for x in blocks if not isinstance(x, Details)]
    yield from found
    if not any(isinstance(x, Table) for x in found):
        inner = (x for block in blocks if isinstance(block, Details) for x in block.blocks)
        yield from islice((x for x in inner if isinstance(x, Table)), 1)


def _blocks(part: str, findings: Findings) -> Sequence[Block]:
    if part == "run":
        return (Paragraph(_run_words(findings.run)),)
    if part == "answer":
        return (Paragraph(findings.answer, is_lead=True),)
    kind = all_sections().get(part)
    if kind is None:
        raise UsageError(
            f'a report has no part "{part}"',
            hint=f"Its parts are: run, answer, {', '.join(sorted(all_sections()))}.",
        )
    section = kind()
    return section.blocks(findings) if section.applies(findings) else ()


def _run_words(run: RunRecord) -> str:
    host, study = run.host, run.study
    day = datetime.fromtimestamp(run.started_unix_s, UTC).strftime("%Y-%m-%d")
    took_s = (run.finished_unix_s or run.started_unix_s) - run.started_unix_s
    return (
        f"{study.name} at scale {study.scale}, {day}: {len(run.results)} trials in {format_duration(round(took_s))}, "
        f"PostgreSQL {run.server_version}, {host.cpu_count} processors ({host.cpu_model}), "
        f"{format_bytes(host.memory_bytes)} of memory, {host.kernel}, {host.file_system}; seed {run.seed}."
    )


def newest(journal: Journal, experiment: str, scale: str) -> Findings | None:
    """Return what the newest complete run of an experiment at a scale found; None: there is none."""
    for run in journal.runs_of(experiment):
        if run.status == "done" and run.study.scale == scale:
            return findings_of(run, journal)
    return None


def _pages(names: Sequence[str]) -> Iterator[Path]:
    known = {x.stem: x for x in sorted(PAGES.glob("*.md")) if PLACE.search(x.read_text("utf-8"))}
    for name in names or known:
        if name not in known:
            raise UsageError(f'no page "{name}"', hint=f"There are: {', '.join(known)}.")
        yield known[name]


def main() -> int:
    """Write the pages; 2 where that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies", description=__doc__)
    parser.add_argument("page", nargs="*", help="such as slow-42k (default: all)")
    journal = open_journal()

    def keep(name: str, picture: str) -> None:
        (PAGES / name).parent.mkdir(exist_ok=True)
        (PAGES / name).write_text(picture, encoding="utf-8")

    try:
        for path in _pages(parser.parse_args().page):
            text = path.read_text(encoding="utf-8")
            path.write_text(
                filled(text, lambda *named: newest(journal, *named), keep), encoding="utf-8"
            )
            print(path)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
