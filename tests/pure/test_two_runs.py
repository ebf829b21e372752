"""`pgdrag report RUN RUN`: two runs over each other, if they can be compared at all."""

from __future__ import annotations

import json
import lzma
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis_runs import run_of, rung, setting, three_of
from in_process import pgdrag
from pgdrag.findings.two_runs import TreatmentTwice, TwoRuns, _ratio, not_comparable, two_runs
from pgdrag.findings.values import Verdict
from pgdrag.model import RunRecord, WorkloadSpec
from pgdrag.report.markdown import markdown_of
from pgdrag.report.two_runs_page import render_two_runs_html, two_runs_blocks
from pgdrag.stats.interval import LogEstimate

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"


def a_run(name: str, a: int, b: int) -> RunRecord:
    study = [rung("A"), rung("B", added=[setting("jit", "off")])]
    return replace(
        run_of(study, [*three_of("A", a), *three_of("B", b)], design="grid"), run_id=name
    )


FIRST = a_run("first", 6000, 6000)
SECOND = replace(a_run("second", 6000, 3000), server_version="18.7", started_unix_s=86_400.0)


def of(found: TwoRuns, name: str) -> TreatmentTwice:
    return next(x for x in found.treatments if x.treatment == name)


def test_what_became_slower_in_the_second_run_has_its_ratio_and_interval() -> None:
    found = two_runs(FIRST, SECOND)
    slowdown = of(found, "B").slowdown
    assert slowdown is not None
    assert slowdown.verdict is Verdict.SLOWER
    assert slowdown.slowdown.low < 2.0 < slowdown.slowdown.high
    same = of(found, "A").slowdown
    assert same is not None
    assert not same.is_significant
    assert [x.words for x in found.differences] == ["PostgreSQL: 18.6 → 18.7"]


def test_trials_of_two_runs_are_no_pairs() -> None:
    """What both have in common from block to block is no drift that they share."""
    slowdown = of(two_runs(FIRST, SECOND), "A").slowdown
    assert slowdown is not None
    assert slowdown.slowdown.method.startswith("Welch's t")


def test_against_the_baseline_what_the_whole_runs_differ_in_is_cancelled() -> None:
    found = of(two_runs(FIRST, a_run("slow day", 3000, 3000)), "B")
    assert found.slowdown is not None
    assert found.slowdown.verdict is Verdict.SLOWER
    assert found.to_baseline is not None
    assert found.to_baseline.slowdown.center == pytest.approx(1)
    assert not found.to_baseline.is_significant


def test_the_interval_of_a_ratio_of_slowdowns_covers_it() -> None:
    random, repeats, covered = np.random.default_rng(1), 2000, 0
    for _ in range(repeats):
        both = []
        for _ in range(2):
            logs = random.normal(0.3, 0.05, 6)
            se = float(logs.std(ddof=1)) / math.sqrt(6)
            both.append(LogEstimate(float(logs.mean()), se, 5, 0.0, "t").interval())
        found = _ratio(*both)
        assert found is not None
        covered += found.slowdown.low <= 1 <= found.slowdown.high
    assert covered / repeats > 0.95 - 3 * math.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"workload": WorkloadSpec("tpcc", {"warehouses": 9})}, "workload, warehouses: 1 → 9"),
        ({"workload": WorkloadSpec("pgbench", {"warehouses": 1})}, "workload: tpcc → pgbench"),
        ({"load": replace(FIRST.study.load, connections=9)}, "load, connections: 8 → 9"),
        ({"rungs": (rung("X"), rung("Y"))}, "treatments: A, B → X, Y"),
    ],
)
def test_another_workload_or_load_or_other_treatments_are_not_comparable(
    changed: dict[str, object], words: str
) -> None:
    other = replace(SECOND, study=replace(SECOND.study, **changed))  # type: ignore[arg-type]
    assert [x.words for x in not_comparable(FIRST, other)] == [words]
    assert not_comparable(FIRST, SECOND) == ()


def test_another_machine_is_not_comparable_but_its_next_kernel_is() -> None:
    host = FIRST.host
    assert not_comparable(FIRST, replace(SECOND, host=replace(host, kernel="9.9"))) == ()
    (reason,) = not_comparable(FIRST, replace(SECOND, host=replace(host, cpu_count=64)))
    assert reason.words == "processors: 2 → 64"


def test_two_runs_read_in_every_medium() -> None:
    found = two_runs(FIRST, SECOND)
    text = markdown_of(two_runs_blocks(found))
    assert text.startswith("**In second against first: B is 2× slower (")
    assert "| **PostgreSQL** | 18.6 | 18.7 |" in text
    assert "second against first" in render_two_runs_html(FIRST, SECOND)
    same = markdown_of(two_runs_blocks(two_runs(FIRST, replace(FIRST, run_id="again"))))
    assert same.startswith("**No significant change of 2 treatments in again against first.**")
    assert "Nothing that a run records" in same


def test_a_treatment_without_a_number_leaves_a_gap() -> None:
    none = replace(
        SECOND, results=tuple(x for x in SECOND.results if x.trial.treatment.name == "A")
    )
    found = two_runs(FIRST, none)
    assert of(found, "B").slowdown is None
    assert "| **B** | " in markdown_of(two_runs_blocks(found))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The old journal with a copy of one of its runs, a day later."""
    path = tmp_path / "journal.sqlite"
    path.write_bytes(lzma.decompress(OLD.read_bytes()))
    with sqlite3.connect(path) as db:
        for table in ("run", "trial", "attempt", "sample"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            values = ", ".join("'again'" if x == "run_id" else x for x in columns)
            db.execute(
                f"INSERT INTO {table} SELECT {values} FROM {table} WHERE run_id LIKE 'old-l%'"
            )
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    return tmp_path


def test_the_command_compares_two_runs(home: Path) -> None:
    status, out, err = pgdrag("report", "old-ladder", "again", "--format", "terminal")
    assert (status, err) == (0, "")
    assert "No significant change of 3 treatments in again against old-ladder" in out
    status, out, _ = pgdrag("report", "old-ladder", "again", "--format", "json")
    assert status == 0
    assert [x["treatment"] for x in json.loads(out)["treatments"]] == ["big", "small", "noindex"]
    status, out, _ = pgdrag("report", "old-ladder", "again")
    assert status == 0
    assert Path(out.strip()).parent == home / "reports"
    assert "Dashed lines: again" in Path(out.strip()).read_text()


def test_the_command_refuses_what_is_not_comparable_and_says_why(home: Path) -> None:
    status, out, err = pgdrag("report", "old-ladder", "compare")
    assert (status, out) == (2, "")
    assert "cannot be compared" in err
    assert "Workload: tpcc → pgbench." in err
    for arguments, words in (
        (["again", "again"], "both runs are again"),
        (["old-ladder", "again", "--format", "junit"], "--format junit is of one run"),
    ):
        status, _, err = pgdrag("report", *arguments)
        assert status == 2
        assert words in err
