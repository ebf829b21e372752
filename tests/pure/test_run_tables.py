"""`pgdrag report --format csv` and `parquet`: the trials of a run as tables, and all that they say in them."""

from __future__ import annotations

import lzma
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from in_process import pgdrag
from pgdrag.journal import Journal
from pgdrag.model.recordings import Series
from pgdrag.report.run_tables import TABLES
from pgdrag.tables import Form
from table_reading import read_tables

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"
FORMS: tuple[Form, ...] = ("csv", "parquet")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "journal.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("form", FORMS)
def test_the_tables_have_what_the_journal_has(home: Path, form: Form) -> None:
    out = home / "tables"
    status, printed, err = pgdrag("report", "old-ladder", "--format", form, "--output", out)
    assert (status, err) == (0, "")
    assert printed.splitlines() == [str(out / f"{name}.{form}") for name in TABLES]
    found = read_tables(TABLES, out, form)
    journal = Journal(home / "journal.sqlite")
    run = journal.run(journal.find("old-ladder"))
    assert [x["trial"] for x in found["trials"]] == sorted(x.trial.number for x in run.results)
    with sqlite3.connect(home / "journal.sqlite") as db:
        count, committed = db.execute(
            "SELECT count(*), sum(committed) FROM sample WHERE run_id = ?", (run.run_id,)
        ).fetchone()
    assert len(found["samples"]) == count
    assert sum(cast(int, x["committed"]) for x in found["samples"]) == committed
    values = sum(len(x.values) for one in run.results for x in one.recordings.of(Series))
    assert len(found["series"]) == values > 0
    assert len(found["observations"]) == sum(len(x.evidence) for x in run.results)
    assert {x["run"] for rows in found.values() for x in rows} == {run.run_id}


def test_both_forms_have_the_same_rows(home: Path) -> None:
    found = []
    for form in FORMS:
        assert pgdrag("report", "compare", "--format", form, "--output", home / form)[0] == 0
        found.append(read_tables(TABLES, home / form, form))
    # CSV has no way to tell an empty text from none.
    assert [
        {key: value or None if isinstance(value, str) else value for key, value in row.items()}
        for row in found[1]["trials"]
    ] == [
        {key: value or None if isinstance(value, str) else value for key, value in row.items()}
        for row in found[0]["trials"]
    ]
    assert found[0]["series"] == found[1]["series"]


def test_a_directory_that_has_such_files_is_left_alone(home: Path) -> None:
    (home / "there").mkdir()
    (home / "there" / "trials.csv").write_text("mine")
    status, _, err = pgdrag("report", "compare", "--format", "csv", "--output", home / "there")
    assert status == 2
    assert "exists already" in err
    assert (home / "there" / "trials.csv").read_text() == "mine"


def test_tables_do_not_go_to_standard_output(home: Path) -> None:
    status, _, err = pgdrag("report", "compare", "--format", "csv", "--output", "-")
    assert status == 2
    assert "a directory" in err
