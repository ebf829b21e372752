"""What a run says of single changes is what was planted, whichever design asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.experiment.known_effects import KnownChange, effects_of, own_effects, read, written
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import RunRecord
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder

TRUTH = Truth(slowdowns={"a": 1.5, "b": 1.0, "c": 1 / 1.4}, noise=0.01)


def run_of(
    directory: Path, design: str, *factors: str, **given: object
) -> tuple[Journal, RunRecord]:
    study = simulated_ladder(*factors, replicates=1 if design == "ablate" else 3)
    study = study.with_design(design, **given)
    journal = Journal(directory / "journal.sqlite")
    run_id = begin_simulated(journal, study)
    return journal, run_experiment(run_id, SimulatedTrialRunner(TRUTH, seed=2), journal)


@pytest.mark.parametrize(
    ("design", "factors", "given"),
    [
        ("ladder", ("a", "b", "c"), {"headline": 0}),
        ("compare", ("a",), {"max_pairs": 8}),
        ("compare", ("c",), {"max_pairs": 8}),
        ("ablate", ("a", "c"), {}),
    ],
)
def test_an_effect_covers_what_was_planted(
    tmp_path: Path, design: str, factors: tuple[str, ...], given: dict[str, object]
) -> None:
    _, run = run_of(tmp_path, design, *factors, **given)
    found = effects_of(run)
    assert {name for one in found for name in (x.name for x in one.changes)} == {*factors}
    for one in found:
        [change] = one.changes
        planted = TRUTH.slowdowns[change.name]
        assert one.interval.low / 1.03 < planted < one.interval.high * 1.03
        assert one.source == f"run {run.run_id}"


def test_a_step_of_a_ladder_says_what_it_stands_upon(tmp_path: Path) -> None:
    _, run = run_of(tmp_path, "ladder", "a", "b", headline=0)
    assert [one.beside for one in effects_of(run)] == ["alone", "on top of R1"]


def test_the_machine_knows_what_its_own_runs_said_of_a_setting(tmp_path: Path) -> None:
    journal, run = run_of(tmp_path, "compare", "a", max_pairs=8)
    [own] = own_effects(journal, ["a"], run.host)
    assert own.is_own
    assert own.changes[0] == KnownChange("a", None, own.changes[0].after)
    assert not own_effects(journal, ["unknown"], run.host)


def test_rows_survive_the_shipped_file(tmp_path: Path) -> None:
    _, run = run_of(tmp_path, "ladder", "a", "b", headline=0)
    rows = effects_of(run)
    assert read(written(rows)) == tuple(rows)
