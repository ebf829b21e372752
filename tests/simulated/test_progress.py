"""Where no terminal is, a run prints a line a trial: which arm, how fast, and what the design knows by now."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from pgdrag.cli.progress import showing_progress
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome, RunRecord
from pgdrag.testing.simulated import (
    SimulatedKill,
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

SLOWER = Truth(slowdowns={"a": 1.5, "b": 3.0}, noise=0.01)


class Run:
    """One run on the simulated laboratory, and what it printed."""

    def __init__(self, directory: Path, design: str, truth: Truth = SLOWER) -> None:
        study = simulated_ladder("a", "b").with_design(design)
        self.journal = Journal(directory / "journal.sqlite")
        self.run_id = begin_simulated(self.journal, study)
        self.truth = truth

    def go(
        self, *, is_terminal: bool = False, **faults: BaseException
    ) -> tuple[RunRecord, list[str]]:
        """Run what is left, and return the lines of the trials."""
        out = io.StringIO()
        by_trial = {int(name.removeprefix("trial_")): x for name, x in faults.items()}
        bench = SimulatedTrialRunner(self.truth, seed=2, faults=by_trial)
        with showing_progress(Console(file=out, width=80, force_terminal=is_terminal)) as listen:
            record = run_experiment(self.run_id, bench, self.journal, listen)
        self.printed = out.getvalue()
        return record, [x for x in self.printed.splitlines() if re.match(r" *\d+/\d", x)]


@pytest.mark.parametrize(
    ("design", "last"),
    [
        ("compare", r"[AB] +[\d,]+/s  B is [\d.]+× slower \([\d.]+× to [\d.]+×\) so far$"),
        ("ladder", r"R2 +[\d,]+/s  [\d.]+× slower \([\d.]+× to [\d.]+×\) than R0 so far"),
        ("one-at-a-time", r"R2 +[\d,]+/s  [\d.]+× slower \(.*\) than R0 so far"),
        ("grid", r"R2 +[\d,]+/s  [\d.]+× slower \(.*\) than R0 so far"),
        ("boundary", r"b = on +[\d,]+/s  works from on up so far$"),
        ("ablate", r"R\d.* +[\d,]+/s  (shares|pairs|checking), 2 suspects so far: a, b"),
        ("bisect", r"\S.* +[\d,]+/s  [a-z ]+, [12] suspects? so far: [ab]"),
    ],
)
def test_a_line_a_trial_says_which_arm_how_fast_and_what_is_known_so_far(
    tmp_path: Path, design: str, last: str
) -> None:
    record, lines = Run(tmp_path, design).go()
    assert len(lines) == len(record.results)
    assert any(re.search(last, line) for line in lines), lines


def test_the_arms_of_a_comparison_are_a_and_b_and_named_once_at_the_beginning(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "compare")
    run.go()
    assert run.printed.splitlines()[2:4] == ["A: R0 as it is", "B: R2 b as well"]


def test_a_trial_without_a_number_says_why_and_nothing_of_it_is_known(tmp_path: Path) -> None:
    _, lines = Run(tmp_path, "ladder", Truth(outcomes={"b": Outcome.CRASHED})).go()
    (broken,) = (line for line in lines if " R2 " in line)
    assert "crashed" in broken
    assert "so far" not in broken


def test_after_a_restart_the_pairs_of_before_count(tmp_path: Path) -> None:
    run = Run(tmp_path, "compare")
    with pytest.raises(SimulatedKill):
        run.go(trial_4=SimulatedKill())
    _, lines = run.go()
    assert lines[0].lstrip().startswith("4/")
    assert "so far" in lines[0]


def test_on_a_terminal_no_line_of_a_trial_is_wider_than_it_but_a_reason_is_whole(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "ablate", Truth(slowdowns={"a": 3.0}, outcomes={"b": Outcome.CRASHED}))
    run.go(is_terminal=True)
    printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", run.printed)
    lines = [x for x in re.split(r"[\r\n]+", printed) if re.match(r" *\d+/\d+\S*  ", x)]
    measured = [line for line in lines if "/s " in line]
    assert measured
    assert max(map(len, measured)) <= 80
    assert any("crashed" in line and not line.endswith("…") for line in lines)
