"""`pgdrag history`: where the level of an experiment's runs changed, and what was changed between them."""

from __future__ import annotations

import json
import lzma
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, sets

from analysis_runs import run_of, rung, setting, three_of
from in_process import pgdrag
from pgdrag.findings import find
from pgdrag.findings.compared import compared
from pgdrag.findings.history import History, history
from pgdrag.journal import Journal
from pgdrag.model import RunRecord
from pgdrag.report.history_page import _grouped, history_blocks, render_history_html
from pgdrag.report.json import json_of
from pgdrag.report.markdown import markdown_of
from pgdrag.stats.change_points import change_points, least_values

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"
DAY_S = 86_400.0
SLOWED = [6000, 6030, 5980, 6010, 5990, 6020, 4000, 4010, 3990, 4020, 3980, 4000]


def runs(committed: Sequence[int], **changed: object) -> list[RunRecord]:
    """One run a day, the baseline at the same rate in all; the keywords are of runs 7 and later."""
    made = []
    for at, number in enumerate(committed):
        study = [rung("A"), rung("B", added=[setting("work_mem", "4MB")])]
        one = run_of(study, [*three_of("A", 6000), *three_of("B", number)], design="grid")
        one = replace(one, run_id=f"run-{at + 1}", started_unix_s=at * DAY_S)
        made.append(replace(one, **changed) if at >= 6 else one)  # type: ignore[arg-type]
    return made


def changes_of(found: History, name: str = "B") -> list[str]:
    (one,) = (x for x in found.treatments if x.treatment == name)
    return [change.after for change in one.changes]


def test_a_change_is_placed_between_two_runs_with_its_size_and_what_differs() -> None:
    found = history(runs(SLOWED, server_version="18.7"))
    assert changes_of(found, "A") == []
    assert changes_of(found) == ["run-7"]
    (change,) = found.treatments[1].changes
    assert change.before == "run-6"
    assert change.slowdown.low < 1.5 < change.slowdown.high
    assert [x.words for x in change.differences] == ["PostgreSQL: 18.6 → 18.7"]


def test_settings_that_differ_are_named_with_their_treatments() -> None:
    made = runs(SLOWED)
    later = [rung("A", levels=[setting("jit", "off")]), rung("B", levels=[setting("jit", "off")])]
    made[6:] = [replace(x, study=replace(x.study, rungs=tuple(later))) for x in made[6:]]
    (change,) = history(made).treatments[1].changes
    assert {x.words for x in change.differences} == {
        "work_mem of B: 4MB → not set",
        "jit of A and B: not set → off",
    }


def test_the_ratio_to_the_baseline_is_free_of_what_both_have() -> None:
    """Another machine slows both sides."""
    made = runs(SLOWED)
    slow = [
        replace(x, results=(*three_of("A", n), *three_of("B", n)))
        for x, n in zip(made, SLOWED, strict=True)
    ]
    assert changes_of(history(slow), "A") == ["run-7"]
    assert changes_of(history(slow, quantity="slowdown")) == []
    assert changes_of(history(made, quantity="slowdown")) == ["run-7"]


def test_one_run_that_differs_is_no_change() -> None:
    assert changes_of(history(runs([6000, 6030, 5980, 6010, 5990, 6020, 6010, 5970, 3000]))) == []
    assert changes_of(history(runs([6000, 6030, 5980, 6010, 3000, 6020, 6010, 5970, 6020]))) == []


def test_few_runs_say_how_many_it_takes() -> None:
    found = history(runs(SLOWED[2:8]))
    assert changes_of(found) == []
    text = markdown_of(history_blocks(found))
    assert (
        "No answer yet: 6 runs of study (scale demo); a change can be found in 9 or more." in text
    )
    alone = history(runs(SLOWED[2:10]), treatments=["B"])
    assert alone.treatments[0].runs_needed == 8
    assert changes_of(alone) == ["run-5"]


def test_runs_that_cannot_be_compared_are_left_out_and_named() -> None:
    made = runs(SLOWED)
    made[0] = replace(made[0], status="interrupted")
    made[1] = replace(made[1], study=replace(made[1].study, scale="paper"))
    made[2] = replace(
        made[2], study=replace(made[2].study, load=replace(made[2].study.load, connections=99))
    )
    found = history(made)
    assert {x.run_id: x.why for x in found.left_out} == {
        "run-1": "it is interrupted",
        "run-2": "another scale",
        "run-3": "another load",
    }
    assert "Not compared: it is interrupted: run-1; another scale: run-2" in markdown_of(
        history_blocks(found)
    )


def test_a_history_reads_in_every_medium() -> None:
    found = history(runs(SLOWED, pgdrag_version="9"))
    text = markdown_of(history_blocks(found))
    assert text.startswith("**1 change in 12 runs of study (scale demo): B became 1.5× slower")
    assert "| **1970-01-07** (run-7) |" in text
    assert "1970-01-12  " in text  # a row of the picture
    assert "pgdrag: 0 → 9" in text
    assert "run-7" in render_history_html(found)
    document = json.loads(json_of(found), parse_constant=pytest.fail)
    assert document["treatments"][1]["changes"][0]["after"] == "run-7"


def test_of_many_runs_the_older_ones_share_rows_but_not_around_a_change() -> None:
    found = history(runs([n + at % 7 for at, n in enumerate([6000] * 60 + [4000] * 90)]))
    page = markdown_of(history_blocks(found))
    terminal = markdown_of(history_blocks(found, has_details=False))
    for text, most in ((page, 40), (terminal, 20)):
        picture = text[: text.index("### A ")]  # what changed comes first
        rows = re.findall(r"^(1970-\S+) .*●.*", picture, re.MULTILINE)
        assert most - 2 <= len(rows) <= most + 1
        assert rows[-1] == "1970-05-30"
        assert re.search(r"^1970-03-02 .* 66\.7/s ← 1\.\d+× slower", picture, re.MULTILINE)
        assert "A row of older runs has up to " in picture


@given(integers(0, 300), sets(integers(1, 299), max_size=3), integers(2, 40))
def test_each_run_is_in_one_row_of_a_history(count: int, at: set[int], most: int) -> None:
    ids = [str(x) for x in range(count)]
    changes = {str(x) for x in at if x < count}
    rows = [*_grouped(ids, changes, most)]
    assert [x for row in rows for x in row] == ids
    assert all(rows)
    assert len(rows) <= most + len(changes)
    assert changes <= {row[0] for row in rows}


def test_only_a_design_that_knows_better_than_its_trials_is_asked(
    old_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Throughput in an ablation is that of its trials; what separates its ends is not."""
    journal = Journal(old_home / "journal.sqlite")
    run = journal.run(journal.find("ablate"))
    treatments = compared(run, find.design_finding(run)).all
    (of_trials,) = history([run]).runs
    assert of_trials.values == {x.name: x.tps for x in treatments}
    asked = []
    monkeypatch.setattr("pgdrag.findings.history.design_finding", lambda run: asked.append(run))
    history([run])
    assert asked == []
    history([run], quantity="slowdown")
    assert asked == [run]


def test_what_committed_nothing_has_no_place_in_a_history() -> None:
    found = history(runs([6000, 0, 6000, 6010, 5990, 0, 6000, 6010, 5990, 6000, 6020]))
    (one,) = (x for x in found.treatments if x.treatment == "B")
    assert len(one.runs) == 9
    assert "| – |" in markdown_of(history_blocks(found))


@given(lists(floats(-3, 3), max_size=9), integers(-5, 5))
def test_changes_do_not_depend_on_the_unit_and_keep_their_order(
    logs: list[float], shift: int
) -> None:
    found = change_points(logs)
    moved = change_points([x * 2 + shift for x in logs])
    assert [x.at for x in found] == [x.at for x in moved]
    assert all(0 < x.at < len(logs) for x in found)
    assert len(logs) >= least_values() or not found


def test_a_series_without_a_change_shows_one_in_one_of_twenty_at_most() -> None:
    random, histories = np.random.default_rng(3), 300
    alarms = sum(bool(change_points(random.standard_t(3, 14).tolist())) for _ in range(histories))
    assert alarms <= histories * 0.05 + 3 * math.sqrt(histories * 0.05 * 0.95)


def test_two_changes_are_found_each_with_the_level_up_to_the_next() -> None:
    random = np.random.default_rng(5)
    logs = np.concatenate([random.normal(x, 0.01, 10) for x in (0.0, -0.5, -0.2)])
    first, second = change_points(logs.tolist())
    assert (first.at, second.at) == (10, 20)
    assert math.log(first.ratio.center) == pytest.approx(-0.5, abs=0.02)
    assert math.log(second.ratio.center) == pytest.approx(0.3, abs=0.02)
    assert change_points([0.0] * 40) == ()


@pytest.mark.parametrize(("rate", "least"), [(0.05, 8), (0.025, 9), (0.005, 11)])
def test_fewer_values_than_could_ever_be_significant_are_too_few(rate: float, least: int) -> None:
    assert least_values(rate) == least
    clear = [0.0] * (least // 2) + [1.0] * (least - least // 2)
    assert change_points(clear, false_alarms=rate)
    assert not change_points(clear[1:], false_alarms=rate)


def test_the_command_reads_the_journal_and_names_what_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    status, out, err = pgdrag("history", "old-ladder", "--html", tmp_path / "page.html")
    assert (status, out.split(":")[0].strip()) == (0, "No answer yet")
    assert "page.html" in err
    assert "old-ladder" in (tmp_path / "page.html").read_text()
    status, out, _ = pgdrag("history", "old-ladder", "--json", "--ratio")
    assert (status, json.loads(out)["quantity"]) == (0, "slowdown")
    for arguments, hint in (
        (["old-lader"], 'Did you mean "old-ladder"?'),
        (["old-ladder", "--scale", "quik"], 'Did you mean "quick"?'),
        (["old-ladder", "--treatment", "smal"], 'Did you mean "small"?'),
        (["old-ladder", "--treatment", "big", "--ratio"], "beside the baseline"),
    ):
        status, _, err = pgdrag("history", *arguments)
        assert status == 2
        assert hint in err


def test_without_a_run_there_is_no_history(tmp_path: Path) -> None:
    status, _, err = pgdrag("history", "nightly", PGDRAG_HOME=str(tmp_path))
    assert status == 2
    assert "There are no runs yet." in err
