"""Another program as the workload of a trial: what it does well, and what it does wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdrag.errors import DriverError, UsageError
from pgdrag.factors.programs import programs_of
from pgdrag.model import Level, Outcome, Result, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import ignore
from pgdrag.model.load import LoadProfile, Step
from pgdrag.trial import ServerTrialRunner, run_trial
from pgdrag.workloads.command import Command

LOAD = LoadProfile(connections=3, warm_up_s=0, measure_s=1, budget_s=1, min_commits=0)
PATTERN = r"tps (?P<tps>\d+)"


def run(bench: ServerTrialRunner, load: LoadProfile = LOAD, **parameters: Any) -> Result:
    if "profile" not in parameters:
        parameters = {"pattern": PATTERN, **parameters}
    spec = WorkloadSpec("command", {"dataset_mb": 70, **parameters})
    bench.allow(x.key for x in programs_of(spec, ()))
    return run_trial(Trial(1, 1, 1, Treatment("untouched"), spec, load, seed=7), bench)


def test_pgbench_is_called_and_read_and_its_cpu_time_counts(bench: ServerTrialRunner) -> None:
    found = run(
        bench,
        profile="pgbench",
        setup="pgbench -i -q",
        command="pgbench -n -S -R 200 -c $PGDRAG_CONNECTIONS -T $PGDRAG_DURATION_S",
        check="test $(psql -Atc 'SELECT count(*) FROM pgbench_accounts') = 100000",
    )
    assert found.outcome is Outcome.MEASURED, found.reason
    assert found.measurement is not None
    assert found.measurement.total.committed > 10
    assert found.measurement.driver.user_cpu_s + found.measurement.driver.system_cpu_s > 0
    assert found.evidence


def test_a_program_is_told_where_and_what_to_do(bench: ServerTrialRunner, tmp_path: Path) -> None:
    told = tmp_path / "told"
    tmp_path.chmod(0o777)  # root's is closed to the user that runs programs
    command = (
        'echo "$PGDRAG_PHASE $PGDRAG_SEED $PGDRAG_CONNECTIONS $PGDRAG_DURATION_S" >> told; '
        'psql "$PGDRAG_DSN" -Atc "SELECT \'tps 5\'"'
    )
    load = LoadProfile(connections=3, warm_up_s=1.5, measure_s=2, budget_s=2, min_commits=0)
    found = run(bench, load, command=command, directory=str(tmp_path))
    assert found.measurement is not None, found.reason
    assert (found.measurement.total.committed, found.measurement.elapsed_s) == (10, 2.0)
    # The seed of the warm-up is another, so that its transactions are not the window's.
    assert told.read_text().splitlines() == ["warm-up 6 3 2", "measure 7 3 2"]


def test_a_result_file_is_read(bench: ServerTrialRunner) -> None:
    found = run(
        bench,
        command='echo \'{"rate": [1, 4]}\' > "$PGDRAG_RESULTS/a.json"',
        pattern=(),
        json_paths={"tps": "rate.1"},
        result_file="*.json",
    )
    assert found.measurement is not None, found.reason
    assert found.measurement.total.committed == 4


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (
            "echo no such table >&2; exit 3",
            "the measure command ended with status 3: no such table",
        ),
        ("kill -9 $$", "the measure command ended with signal 9"),
        ("echo slow", "the command's result cannot be read: nothing in its output matches"),
        ("sleep 100", "the measure command did not end within 1 s"),
    ],
)
def test_a_program_that_goes_wrong_is_an_invalid_trial(
    bench: ServerTrialRunner, command: str, reason: str
) -> None:
    found = run(bench, command=command, overtime_s=0)
    assert found.outcome is Outcome.INVALID
    assert reason in found.reason


def test_a_program_that_did_nothing_stalled(bench: ServerTrialRunner) -> None:
    assert run(bench, command="echo tps 0").outcome is Outcome.STALLED


def test_the_check_runs_under_default_settings(bench: ServerTrialRunner) -> None:
    crippled = Treatment("crippled", (Level("setting", "work_mem", "64kB"),))
    shown = 'test "$(psql -Atc "SHOW work_mem")" = '
    parameters = {"pattern": PATTERN, "dataset_mb": 70, "check": shown + "4MB"}
    parameters["command"] = f"{shown}64kB && echo tps 5"
    spec = WorkloadSpec("command", parameters)
    bench.allow(x.key for x in programs_of(spec, ()))
    found = run_trial(Trial(1, 1, 1, crippled, spec, LOAD, seed=7), bench)
    assert (found.outcome, found.warnings) == (Outcome.MEASURED, ()), found.reason


def test_a_failed_check_makes_the_trial_invalid(bench: ServerTrialRunner) -> None:
    found = run(bench, command="echo tps 5", check="echo rows are missing; false")
    assert found.outcome is Outcome.INVALID
    assert "rows are missing" in found.reason


def test_a_server_that_the_program_crashes_has_crashed(bench: ServerTrialRunner) -> None:
    command = "kill -9 $(psql -Atc 'SELECT pg_backend_pid()'); sleep 1; psql -c 'SELECT 1'; kill -9 $(head -1 \"$(psql -Atc 'SHOW data_directory')/postmaster.pid\"); exit 1"  # fmt: skip
    found = run(bench, command=command, superuser=True)
    assert found.outcome is Outcome.CRASHED


def test_a_load_that_no_program_can_be_asked_for_stops_the_run(bench: ServerTrialRunner) -> None:
    load = LoadProfile(3, 0, 2, 2, min_commits=0, steps=(Step(0, 1), Step(1, 3)))
    with pytest.raises(UsageError, match="cannot be asked of another program"):
        run(bench, load, command="echo tps 5")


def test_a_setup_that_fails_says_why(bench: ServerTrialRunner) -> None:
    workload = Command(command="true", pattern=PATTERN, setup="echo no disk >&2; exit 1", dataset_mb=1)  # fmt: skip
    bench.allow(x.key for x in workload.programs())
    with pytest.raises(DriverError, match="the setup command ended with status 1") as found:
        bench.snapshot(workload, ignore)
    assert found.value.detail == "no disk"
