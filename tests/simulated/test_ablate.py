"""An ablation through the real loop, journal, analysis and report, against planted truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.designs.ablate import Ablate, AblateParameters
from pgdrag.designs.ablate.findings import AblateFinding
from pgdrag.designs.ablate.long_trials import Together
from pgdrag.errors import UsageError
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Level, Outcome, Rung, RunRecord, Study, Treatment
from pgdrag.model.design import parameters_of
from pgdrag.report.json import plain
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    run_blocks,
    simulated_ladder,
)

NAMES = (
    "random_page_cost",
    "cpu_index_tuple_cost",
    "autovacuum_naptime",
    "autovacuum_vacuum_threshold",
    "shared_buffers",
    "wal_compression",
    *(f"harmless_{at}" for at in range(6)),
)
TRUTH = Truth(
    slowdowns={
        "random_page_cost": 20.0,
        "cpu_index_tuple_cost": 20.0,
        "shared_buffers": 2.5,
        "wal_compression": 0.7,
    },
    interactions={
        frozenset({"random_page_cost", "cpu_index_tuple_cost"}): 1 / 20,
        frozenset({"autovacuum_naptime", "autovacuum_vacuum_threshold"}): 3.0,
    },
    noise=0.02,
)


def study_of(*names: str, **parameters: object) -> Study:
    levels = [Level("setting", name, "on") for name in names]
    good = Treatment("good.conf")
    bad = good.with_levels("bad.conf", levels)
    return replace(
        simulated_ladder("a"),
        design="ablate",
        rungs=(Rung("good.conf", "", good), Rung("bad.conf", "", bad, tuple(levels))),
        design_parameters=parameters_of("ablate", parameters),
    )


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    journal = Journal(tmp_path_factory.mktemp("ablate") / "journal.sqlite")
    run_id = begin_simulated(journal, study_of(*NAMES))
    return run_experiment(run_id, SimulatedTrialRunner(TRUTH, seed=2), journal)


def finding(record: RunRecord) -> AblateFinding:
    found = find(record).found
    assert isinstance(found, AblateFinding)
    return found


def test_the_planted_pairs_get_their_labels(record: RunRecord) -> None:
    found = finding(record)
    labels = {change.name: change.label.value for change in found.changes}
    assert labels["random_page_cost"] == labels["cpu_index_tuple_cost"] == "redundant"
    assert (
        labels["autovacuum_naptime"] == labels["autovacuum_vacuum_threshold"] == "needs a partner"
    )
    assert labels["shared_buffers"] == "sufficient and necessary"
    pairs = {pair.together: set(pair.names) for pair in found.pairs}
    assert pairs[Together.EITHER] == {"random_page_cost", "cpu_index_tuple_cost"}
    assert pairs[Together.BOTH_NEEDED] == {"autovacuum_naptime", "autovacuum_vacuum_threshold"}


def test_the_parts_add_up_to_the_whole_and_cover_what_was_planted(record: RunRecord) -> None:
    found = finding(record)
    shares = [change.share for change in found.changes if change.share is not None]
    parts = [share.part for share in (*shares, found.others) if share is not None]
    assert sum(part for part in parts if part is not None) == pytest.approx(1)
    planted = {"shared_buffers": 2.5, "random_page_cost": 20**0.5, "autovacuum_naptime": 3**0.5}
    for change in found.changes:
        if change.name in planted:
            assert change.share is not None
            interval = change.share.slowdown
            assert interval.low <= planted[change.name] * 1.02
            assert interval.high >= planted[change.name] / 1.02


def test_the_answer_names_shares_and_pairs(record: RunRecord) -> None:
    answer = find(record).answer
    assert answer.startswith("All 12 changes together make good.conf ")
    assert "either alone suffices" in answer
    assert "(only together) 2" in answer  # per cent: ln 3 of ln 100


def test_the_terminal_has_the_picture_and_json_the_numbers(record: RunRecord) -> None:
    findings = find(record)
    text = terminal_text(findings, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert [line.split()[0] for line in text.splitlines() if "●" in line][-1].isdigit()  # others
    assert "the whole" in text
    found = json.loads(json.dumps(plain(findings.found), allow_nan=False))
    assert found["stage"] == "done"
    assert {change["label"] for change in found["changes"]} >= {"redundant", "needs a partner"}


def test_no_treatment_of_a_harmless_change_got_a_long_trial(record: RunRecord) -> None:
    long_ones = {r.trial.treatment.levels for r in record.results if not r.trial.is_brief}
    names = [{level.name for level in levels} for levels in long_ones]
    harmless = {name for name in NAMES if name.startswith("harmless")}
    assert all(len(some & harmless) in (0, len(harmless)) for some in names)


def test_a_setting_that_prevents_the_start_is_named_and_left_out(tmp_path: Path) -> None:
    truth = replace(TRUTH, outcomes={"harmless_0": Outcome.DID_NOT_START})
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, study_of(*NAMES))
    found = find(run_experiment(run_id, SimulatedTrialRunner(truth, seed=2), journal))
    assert found.answer.startswith("Without harmless_0, the other 11 changes together make")
    assert isinstance(found.found, AblateFinding)
    assert any("harmless_0: prevents the start" in text for text in found.found.warnings)


def test_a_target_that_commits_nothing_gives_bounds_and_a_warning(tmp_path: Path) -> None:
    truth = replace(TRUTH, outcomes={"shared_buffers": Outcome.STALLED})
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, study_of(*NAMES))
    found = finding(run_experiment(run_id, SimulatedTrialRunner(truth, seed=2), journal))
    assert found.is_bounded
    assert found.answer.startswith("All 12 changes together make good.conf at least ")
    assert any("upper bound of their throughput" in text for text in found.warnings)


def test_a_budget_too_small_to_compare_each_change_is_refused() -> None:
    with pytest.raises(
        UsageError, match="max_trials is 15, but an ablation of 12 changes needs at least 18"
    ):
        Ablate(study_of(*NAMES).rungs, AblateParameters(max_trials=15))


def test_a_file_in_which_nothing_matters_is_known_without_long_trials(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    run_id = begin_simulated(journal, study_of(*NAMES))
    runner = SimulatedTrialRunner(Truth(base_tps=1000, noise=0.03), seed=1)
    found = find(run_experiment(run_id, runner, journal)).found
    assert isinstance(found, AblateFinding)
    assert (found.stage, found.full_trials) == ("done", 0)
    assert "make no significant difference" in found.answer
    assert "None of the 12 changes shows an effect" in found.answer


def test_before_there_are_shares_the_answer_names_what_has_an_effect() -> None:
    study, runner = study_of(*NAMES), SimulatedTrialRunner(TRUTH, seed=1)
    answers = []
    for blocks in range(4, 12):
        found = find(run_blocks(study, runner, blocks=blocks)).found
        assert isinstance(found, AblateFinding)
        answers.append(found.answer)
    named = next(answer for answer in answers if "Only with the others: " in answer)
    assert "No shares yet: " in named
    assert "Alone: random_page_cost" in named
    assert "autovacuum_naptime" in named.partition("Only with the others: ")[2]
