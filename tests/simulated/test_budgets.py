"""A budget of time is kept: loading, slow trials and extended windows count, and what fits is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.duration import took_s
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import RunRecord
from pgdrag.model.events import BudgetSpent, TimeLeft
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder

# Eight trials of 5 s warm-up and a window of 20 s, which few commits extend to 60 s.
STUDY = simulated_ladder("a", "b", "c", replicates=2)


def run(path: Path, budget_s: float | None, truth: Truth) -> tuple[RunRecord, float, list[object]]:
    """Run the study, and return also how long it took on the simulated clock, and its events."""
    journal, events = Journal(path / "journal.sqlite"), []
    bench = SimulatedTrialRunner(truth)
    record = run_experiment(
        begin_simulated(journal, replace(STUDY, budget_s=budget_s)), bench, journal, events.append
    )
    return record, bench.now_s(), events


def test_what_trials_take_adds_up_to_what_the_run_took(tmp_path: Path) -> None:
    record, took, _ = run(tmp_path, None, Truth(loading_s=30.0, overheads_s=(4.0, 2.0)))
    assert sum(map(took_s, record.results)) == took == 30 + 4 + 7 * 2 + 8 * 25
    assert record.results[0].phases_s == {"prepare": 30.0}


@pytest.mark.parametrize("budget_s", [60.0, 100.0, 101.0, 150.0, 199.0])
@pytest.mark.parametrize(
    "truth",
    [
        Truth(overheads_s=(5.0,)),
        Truth(loading_s=25.0, overheads_s=(3.0, 5.0, 4.0)),
        # Few commits: each window would go on to its 60 s.
        Truth(base_tps=0.4, overheads_s=(5.0,)),
        Truth(slowdowns={"a": 5000.0}, overheads_s=(1.0, 2.0)),
    ],
)
def test_a_budget_is_kept_whatever_the_trials_take(
    tmp_path: Path, truth: Truth, budget_s: float
) -> None:
    record, took, events = run(tmp_path, budget_s, truth)
    assert 1 <= len(record.results) < 8
    assert took <= budget_s
    assert any(isinstance(event, BudgetSpent) for event in events)


def test_of_a_budget_no_more_is_left_than_one_trial_may_take(tmp_path: Path) -> None:
    record, took, _ = run(tmp_path, 200.0, Truth(overheads_s=(5.0,)))
    assert len(record.results) == 6
    assert took == 180


def test_windows_are_extended_as_far_as_there_is_time(tmp_path: Path) -> None:
    record, took, _ = run(tmp_path, 100.0, Truth(base_tps=0.4))
    first, second = record.results
    assert first.measurement is not None
    assert second.measurement is not None
    assert (first.measurement.elapsed_s, second.measurement.elapsed_s) == (60, 30)
    assert second.trial.load.budget_s == 30.0
    assert took == 100


def test_the_first_trial_is_run_whatever_is_guessed_of_it(tmp_path: Path) -> None:
    record, _, _ = run(tmp_path, 26.0, Truth(overheads_s=(1.0,)))
    assert len(record.results) == 1


def test_a_resumed_run_agrees_with_itself(tmp_path: Path) -> None:
    truth = Truth(loading_s=25.0, overheads_s=(3.0, 5.0, 4.0))
    record, _, _ = run(tmp_path, 150.0, truth)
    again = SimulatedTrialRunner(truth)
    journal = Journal(tmp_path / "journal.sqlite")
    assert run_experiment(record.run_id, again, journal).results == record.results
    assert again.trials_run == []


def test_what_is_left_is_learnt_from_the_first_trial_and_capped_by_the_budget(
    tmp_path: Path,
) -> None:
    _, _, events = run(tmp_path, None, Truth(overheads_s=(15.0,)))
    left = [event for event in events if isinstance(event, TimeLeft)]
    # The first one knows nothing yet.
    assert (left[0].least_s, left[0].most_s) == (8 * 26.5, 8 * 26.5)
    assert [round(event.most_s) for event in left[1:]] == [40 * n for n in range(7, -1, -1)]
    _, _, events = run(tmp_path / "other", 200.0, Truth(overheads_s=(15.0,)))
    left = [event for event in events if isinstance(event, TimeLeft)]
    assert [round(event.most_s) for event in left] == [200, 160, 120, 80, 40]


def test_the_answer_says_how_many_trials_were_left_out(tmp_path: Path) -> None:
    record, _, _ = run(tmp_path, 200.0, Truth(overheads_s=(5.0,)))
    (warning, *_) = find(record).warnings
    assert warning.startswith("the time budget of 3 min 20 s ended the run after 6 of 8 trials")


def test_the_second_run_is_foretold_as_long_as_it_takes(tmp_path: Path) -> None:
    truth = Truth(loading_s=30.0, overheads_s=(6.0, 4.0))
    run(tmp_path, None, truth)
    _, took, events = run(tmp_path, None, truth)
    first = next(event for event in events if isinstance(event, TimeLeft))
    assert first.least_s == first.most_s
    assert first.least_s == pytest.approx(took - 30, rel=0.02)


def test_loading_that_takes_the_whole_budget_is_said_and_done_once(tmp_path: Path) -> None:
    record, took, events = run(tmp_path, 40.0, Truth(loading_s=30.0))
    assert (record.results, took) == ((), 30)
    (spent,) = [event for event in events if isinstance(event, BudgetSpent)]
    assert (spent.spent_s, spent.trial.number) == (30, 1)
    assert find(record).warnings[0].startswith("the time budget of 40 s ended the run after 0 of 8")
    # The dataset is there when it is resumed.
    bench = SimulatedTrialRunner(Truth())
    journal = Journal(tmp_path / "journal.sqlite")
    assert len(run_experiment(record.run_id, bench, journal).results) == 1
