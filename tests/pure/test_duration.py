"""How long trials take is learnt from results of this machine, and told within the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis_runs import LOAD, result, run_of, rung
from pgdrag.agenda import expand
from pgdrag.duration import Experience, Span, took_s
from pgdrag.journal import Journal
from pgdrag.model import Block, Forecast, Host, Result, Treatment, WorkloadSpec

TREATMENT = Treatment("A")
TPCC, LARGER = (WorkloadSpec("tpcc", {"warehouses": count}) for count in (10, 20))
PGBENCH = WorkloadSpec("pgbench", {"scripts": ["select-only"], "scale": 10})
HERE, ELSEWHERE = (Host("cpu", 2, 4 << 30, "6.1", file_system) for file_system in ("ext4", "xfs"))


def seen(
    workload: WorkloadSpec = TPCC, *, window_s: float = 60.0, number: int = 1, **phases_s: float
) -> Result:
    """A trial of 5 s warm-up and a window of 60 s, and how long its other parts took."""
    one = result("A", 1000, number=number)
    assert one.measurement is not None
    whole_s = 5 + window_s + sum(phases_s.values())
    return replace(
        one,
        trial=replace(one.trial, workload=workload),
        measurement=replace(one.measurement, elapsed_s=window_s),
        phases_s=phases_s,
        took_s=whole_s + 1,  # connecting, and what has no phase
    )


def test_the_mean_of_the_newest_trials_of_the_same_workload_is_expected() -> None:
    known = [seen(restore=1, check=2), seen(restore=3, check=4), seen(PGBENCH, restore=90)]
    experience = Experience.of(known)
    assert experience.overhead(TPCC, TREATMENT) == Span(3 + 3, 4 * 1.5 + 4 * 1.5)
    assert experience.overhead(TPCC, TREATMENT, is_checked=False) == Span(3, 6)
    # Nine newer ones, and the older are forgotten.
    for _ in range(9):
        experience = experience.after(seen(restore=11, check=0))
    assert experience.overhead(TPCC, TREATMENT).expected_s == 12


def test_what_depends_on_the_size_of_another_dataset_is_scaled_and_the_rest_is_not() -> None:
    experience = Experience.of([seen(restore=2, check=4, collect=5)])
    small, large = (experience.overhead(x, TREATMENT).expected_s for x in (TPCC, LARGER))
    assert small == 12
    assert 6 + 1.9 * 6 < large < 6 + 2.1 * 6


def test_it_is_told_what_an_estimate_rests_on() -> None:
    experience = Experience.of([seen()])
    assert experience.basis(TPCC) == "trials of this workload on this machine"
    assert experience.basis(LARGER).startswith("trials of workload tpcc with other parameters")
    assert experience.basis(PGBENCH) == "trials of another workload, tpcc, on this machine"
    assert Experience().basis(TPCC).startswith("assumptions")


def test_loading_the_dataset_is_no_part_of_what_the_next_trial_takes() -> None:
    first = seen(prepare=100, restore=2)
    assert took_s(first) == 5 + 60 + 102 + 1
    assert Experience.of([first]).overhead(TPCC, TREATMENT, is_checked=False).expected_s == 3


def test_windows_that_few_commits_extended_are_expected_again() -> None:
    experience = Experience.of([seen(window_s=90)])
    assert experience.window_s(TPCC, LOAD) == 90
    assert experience.window_s(TPCC, replace(LOAD, budget_s=70)) == 70
    assert experience.window_s(TPCC, replace(LOAD, measure_s=100)) == 100
    assert experience.after(seen()).window_s(TPCC, LOAD) == 75
    assert experience.window_s(PGBENCH, LOAD) == 60, "of another workload, who knows"


def test_trials_whose_server_breaks_are_soon_done_and_say_nothing_of_others() -> None:
    study = replace(run_of([rung("A")], []).study, workload=TPCC)
    broken = replace(seen(), measurement=None, phases_s={"prepare": 40, "restore": 2}, took_s=43)
    experience = Experience.of([seen(restore=1, check=2), broken])
    assert experience.overhead(TPCC, TREATMENT, is_checked=False).expected_s == 2
    assert experience.trials(study, Forecast(2, 2)) == (69 + 3, 69 + 3)
    for _ in range(9):
        experience = experience.after(broken)
    assert experience.trials(study, Forecast(2, 2)) == (6, 6)


def test_short_trials_are_shorter_and_unchecked() -> None:
    study = replace(run_of([rung("A")], []).study, workload=TPCC)
    experience = Experience.of([seen(restore=1, check=2)])
    assert experience.trials(study, Forecast(1, 3)) == (65 + 4, 3 * (65 + 4))
    assert experience.trials(study, Forecast(0, 0, 1, 3)) == (3 + 20 + 2, 3 * (3 + 20 + 2))
    assert experience.extended(study, Forecast(1, 1, 1, 1)) == 125 + 4 + 43 + 2


def test_the_journal_tells_the_newest_trials_of_the_same_workload_on_this_machine(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    told = [(TPCC, HERE, 1.0), (PGBENCH, HERE, 2.0), (LARGER, HERE, 3.0), (TPCC, ELSEWHERE, 4.0)]
    for workload, host, restore_s in told:
        study = replace(run_of([rung("A")], []).study, workload=workload)
        run_id = journal.begin_run(
            study, host, server_wanted=None, server_version="0", pgdrag_version="0", seed=1
        )
        (trial,) = expand(Block((TREATMENT,)), study, seed=1, block_number=1, first_number=1)
        journal.plan_trials(run_id, [trial])
        attempt = journal.begin_attempt(run_id, 1)
        given = replace(seen(workload, restore=restore_s), trial=trial)
        journal.end_attempt(run_id, attempt, given)

    def restored(workload: WorkloadSpec) -> float:
        experience = Experience.of(journal.newest_results(workload, HERE))
        return experience.overhead(workload, TREATMENT, is_checked=False).expected_s - 1

    assert [restored(x) for x in (TPCC, PGBENCH, LARGER)] == [1, 2, 3]
    # Of none the same, those of its kind: 1 s at a quarter of the size, and 3 s at half of it.
    assert 4.5 < restored(WorkloadSpec("tpcc", {"warehouses": 40})) < 5.5
    assert journal.newest_results(TPCC, replace(HERE, cpu_count=3)) == []


def test_where_both_maxima_exclude_each_other_the_longest_case_is_foretold() -> None:
    forecast = Forecast(6, 10, 30, 40, most_in_all=45)
    assert (forecast.fewest, forecast.greatest, forecast.longest) == (36, 45, (10, 35))
    assert Forecast(6, 10, 30, 40).longest == (10, 40)
    assert forecast.times(2).greatest == 90
    assert forecast.without(is_brief=True) == Forecast(6, 10, 29, 39, 44)
    study = replace(run_of([rung("A")], []).study, workload=TPCC)
    _, most_s = Experience.of([seen(restore=1, check=2)]).trials(study, forecast)
    assert most_s == 10 * (65 + 4) + 35 * (3 + 20 + 2)
