"""`pgdrag twin check`: a twin's data and load beside the original, and runs that say what is not alike."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from in_process import pgdrag
from pgdrag.data_twin.load import prepare_load
from pgdrag.english import as_sentence
from pgdrag.model import Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import Event, PhaseStarted
from pgdrag.model.load import LoadProfile
from pgdrag.servers.scratch import SCRATCH_VARIABLE
from pgdrag.trial import ServerTrialRunner, run_trial
from pgdrag.twin_check import CheckedTwin, Window, captured_under_load, check_twin, sessions_of
from pgdrag.twins import read_twin, twin_bytes
from pgdrag.twins.fidelity import TwinCheck
from pgdrag.workloads.pgbench import Pgbench
from pgdrag.workloads.twin import TwinWorkload

pytestmark = pytest.mark.postgres

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum": "off",
    "work_mem": "5MB",
}
LOAD = LoadProfile(2, 0.5, 60, 60)


@pytest.fixture(scope="module")
def twin_file(bench: ServerTrialRunner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A twin of pgbench's tables while two clients read and write."""
    workload = Pgbench.model_validate(
        {"scripts": ["simple-update", "select-only@3"], "statements": "prepared"}
    )
    snapshot = bench.snapshot(workload, lambda _: None)
    with snapshot.restore(bench.scratch, bench.binaries).cluster as cluster:
        cluster.configure(SETTINGS)
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
            connection.execute("VACUUM ANALYZE")
        twin = captured_under_load(
            workload, cluster, bench.driver, LOAD, window=Window(2.0), listen=lambda _: None
        )
    file = tmp_path_factory.mktemp("twin") / "bank.twin"
    file.write_bytes(twin_bytes(twin))
    return file


@pytest.fixture(scope="module")
def unchecked(bench: ServerTrialRunner, twin_file: Path) -> tuple[str, ...]:
    """What a trial warns of before anybody has checked the twin."""
    return warnings(bench, twin_file)


@pytest.fixture(scope="module")
def checked(bench: ServerTrialRunner, twin_file: Path, unchecked: tuple[str, ...]) -> TwinCheck:
    twin = read_twin(twin_file)
    workload = TwinWorkload(file=str(twin_file))
    return check_twin(
        CheckedTwin(twin, workload, 1.0, twin_file.name),
        bench,
        for_s=3.0,
        sessions=sessions_of(twin),
        warm_up_s=0.5,
        listen=lambda _: None,
    )  # fmt: skip


def warnings(bench: ServerTrialRunner, file: Path) -> tuple[str, ...]:
    workload = WorkloadSpec("twin", TwinWorkload(file=str(file)).model_dump(mode="json"))
    load = LoadProfile(2, 0.2, 0.5, 5)
    result = run_trial(Trial(1, 1, 1, Treatment("as it is"), workload, load, 1), bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    return result.warnings


def test_each_statement_of_the_original_is_compared(checked: TwinCheck) -> None:
    texts = {x.text.split()[0] for x in checked.fidelity.statements}
    assert {"UPDATE", "SELECT", "INSERT"} <= texts
    by_verb = {x.text.split()[0]: x for x in checked.fidelity.statements}
    amounts = {x.name: x for x in by_verb["UPDATE"].amounts}
    assert amounts["rows"].is_within, amounts["rows"]
    assert amounts["WAL bytes"].original > 50
    assert by_verb["SELECT"].is_planned
    assert checked.fidelity.relations_compared >= 2


def test_a_run_with_the_twin_says_that_nobody_checked_it_and_then_what_the_check_found(
    bench: ServerTrialRunner, twin_file: Path, unchecked: tuple[str, ...], checked: TwinCheck
) -> None:
    assert any("nobody has checked how far this twin" in x for x in unchecked), unchecked
    found = warnings(bench, twin_file)
    assert not any("nobody has checked" in x for x in found)
    assert set(checked.fidelity.warnings) <= set(found)


def test_a_load_that_was_prepared_in_too_little_time_is_not_taken_for_a_whole_one(
    bench: ServerTrialRunner, twin_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that finds a row in half of its calls takes keys that are not there: a clock that races ends the tries before those."""
    twin = read_twin(twin_file)
    statements = (replace(x, rows=x.calls // 2 if x.text.startswith("SELECT") else x.rows) for x in twin.workload.statements)  # fmt: skip
    file = tmp_path / "half.twin"
    file.write_bytes(twin_bytes(replace(twin, workload=replace(twin.workload, statements=tuple(statements)))))  # fmt: skip
    prepare = partial(prepare_load, clock=lambda: 1e9 * time.monotonic())
    monkeypatch.setattr("pgdrag.workloads.twin.prepare_load", prepare)
    events: list[Event] = []
    found = check_twin(
        CheckedTwin(read_twin(file), TwinWorkload(file=str(file)), 1.0, file.name),
        bench, for_s=1.0, sessions=1, warm_up_s=0.1, listen=events.append,
    )  # fmt: skip
    [clause] = found.hurried
    assert "too slow to try enough values for 1 statement" in clause
    assert as_sentence(clause) in [x.explanation for x in events if isinstance(x, PhaseStarted)]
    assert clause in warnings(bench, file)


def test_a_twin_without_statements_cannot_be_checked(
    bench: ServerTrialRunner, tmp_path: Path
) -> None:
    example = Path(str(TwinWorkload.example().file))
    variables = {SCRATCH_VARIABLE: str(bench.scratch.root), "PGDRAG_HOME": str(tmp_path)}
    status, out, err = pgdrag("twin", "check", example, **variables)
    assert (status, out) == (2, "")
    assert "no statement to compare" in err


def test_the_command_says_the_verdict_as_json(
    bench: ServerTrialRunner, twin_file: Path, checked: TwinCheck, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("pgdrag.twin_check.check_twin", lambda *_, **__: checked)
    variables = {SCRATCH_VARIABLE: str(bench.scratch.root), "PGDRAG_HOME": str(tmp_path)}
    page = tmp_path / "check.html"
    status, out, _ = pgdrag("twin", "check", twin_file, "--json", "-o", page, **variables)
    document = json.loads(out)
    assert document["verdict"] == checked.fidelity.verdict.value
    assert status == (1 if document["verdict"] == "not faithful" else 0)
    assert "How far is this twin like its original" in page.read_text(encoding="utf-8")
