"""The pages on the studies: what is written by hand stays, and the marked places are the newest run's."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

from analysis_runs import run_of, rung, setting, three_of
from benchmarks.standalone import standalone
from benchmarks.studies import PAGES, PLACE, filled, shown
from pgdrag.errors import UsageError
from pgdrag.experiment import shipped_experiments
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.report.document import Cell, Details, Paragraph, Table, header
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import all_sections

PAGE = """# By hand

<!-- run of study at standard -->
old
<!-- end -->

Between.

<!-- steps of study at standard -->
<!-- end -->
"""


def findings(*tps: int) -> Findings:
    rungs = [rung("A0", 7000.0), rung("A1", 1000.0, added=[setting("shared_buffers", "8MB")])]
    rungs.append(rung("A2", 500.0, added=[setting("fsync", "off")]))
    results = [
        x for one, rate in zip(rungs, tps, strict=True) for x in three_of(one.name, rate * 60)
    ]
    return find(run_of(rungs, results))


def test_marked_places_are_written_again_and_nothing_else() -> None:
    kept: dict[str, str] = {}
    page = filled(PAGE, lambda *_: findings(7000, 1000, 500), kept.__setitem__)
    assert "old" not in page
    assert "Between." in page
    assert list(kept) == ["images/study-steps.svg"]
    assert "](images/study-steps.svg)" in page
    assert "9 trials in" in page
    assert page == filled(page, lambda *_: findings(7000, 1000, 500), kept.__setitem__)
    before = dict(kept)
    filled(page, lambda *_: findings(7000, 1000, 900), kept.__setitem__)
    assert kept != before


def test_what_another_machine_found_stays_where_this_one_has_no_run() -> None:
    page = filled(PAGE, lambda *_: None, lambda *_: pytest.fail("a picture of nothing"))
    assert page == PAGE


def test_a_run_that_was_not_made_is_named_once_with_its_command() -> None:
    never = PAGE.replace("old\n", "")
    page = filled(never, lambda *_: None, lambda *_: pytest.fail("a picture of nothing"))
    assert page.count("Not run yet") == 1
    assert "`pgdrag run study --scale standard`" in page
    assert "old" not in page


def test_of_what_a_report_folds_away_a_page_has_the_first_table_where_it_has_no_other() -> None:
    first, second, third = (Table(x, header("value"), ((Cell(x),),)) for x in "abc")
    text, folded = (
        Paragraph("text"),
        (Details("1", (Paragraph("no"), first)), Details("2", (second,))),
    )
    assert list(shown((text, *folded))) == [text, first]
    assert list(shown((text, third, *folded))) == [text, third]


def test_a_part_that_no_report_has_is_refused() -> None:
    with pytest.raises(UsageError, match='no part "stpes"'):
        filled(PAGE.replace("steps of", "stpes of"), lambda *_: findings(3, 2, 1), lambda *_: None)


def test_a_picture_of_its_own_has_the_rules_of_what_it_draws() -> None:
    drawn = standalone(rows_figure([Row("A0")], "title", "description", "").svg)
    assert ElementTree.fromstring(drawn).get("width") == "844"
    assert "prefers-color-scheme: dark" in drawn
    sheet = files("pgdrag.report").joinpath("templates/report.css").read_text(encoding="utf-8")
    of_pictures = set(re.findall(r"^\.chart[ \w.,-]*\.([a-z-]+)", sheet, re.MULTILINE))
    style = drawn[: drawn.index("</style>")]
    assert len(of_pictures) > 10
    assert [x for x in of_pictures if f".{x}" not in style] == []


# What the test of the documents is told of a console block.
NOT_RUN = re.compile(r"<!-- (?:not|dry) run: .*? -->")


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_places_name_what_there_is(path: Path) -> None:
    text = NOT_RUN.sub("", path.read_text(encoding="utf-8"))
    places = [found.groups()[1:4] for found in PLACE.finditer(text)]
    assert text.count(" -->") == 2 * len(places), "a comment that begins or ends no place"
    seen: set[str] = set()
    for part, experiment, scale in places:
        assert scale in shipped_experiments()[experiment].scales
        assert part in (*all_sections(), "run", "answer")
        assert part == "run" or experiment in seen, "what was run stands first"
        seen.add(experiment)
    assert places or path.stem == "claims"
