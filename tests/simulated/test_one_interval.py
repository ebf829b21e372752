"""A report has one interval for one number: in the answer, in text, in tables and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome
from pgdrag.model.design import all_designs
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, begin_simulated, simulated_ladder

SIZE = r"([\d.]+)× (?:slower|faster)[^()\n]*\((?:95 % CI )?([\d.]+)×?(?:–| to )([\d.]+)"


def findings(
    directory: Path, design: str, truth: Truth, *factors: str, replicates: int = 2, **given: object
) -> Findings:
    study = simulated_ladder(*factors, replicates=replicates).with_design(design, **given)
    journal = Journal(directory / "journal.sqlite")
    run_id = begin_simulated(journal, study)
    return find(run_experiment(run_id, SimulatedTrialRunner(truth, seed=2), journal))


@pytest.mark.parametrize("slowdown", [1.0, 1.02, 1.3, 0.7])
def test_a_comparison_prints_its_effect_with_one_interval(tmp_path: Path, slowdown: float) -> None:
    """Equivalent, perhaps inconclusive, slower, faster; in the answer, the list, the picture, the last analysis."""
    truth = Truth(slowdowns={"a": slowdown}, noise=0.02)
    found = findings(tmp_path, "compare", truth, "a", replicates=1, max_pairs=12)
    texts = (
        terminal_text(found, width=200),
        render_markdown(found).partition("interim analyses")[0],
    )
    for text in texts:
        assert len({*re.findall(SIZE, text)}) == 1, text
        assert len(re.findall(SIZE, text)) >= 2
        assert "p-value" not in text
    said = json.loads(render_json(found))
    assert said["rungs"][-1]["to_baseline"]["slowdown"] == said["found"]["slowdown"]
    assert not {"fixed", "bootstrap"} & said["found"].keys()
    *_, last = re.findall(SIZE, render_markdown(found).partition("pairs</summary>")[0])
    assert last in re.findall(SIZE, found.answer)


@pytest.mark.parametrize(
    ("design", "given"),
    [("ladder", {"alone": True, "without": True}), ("grid", {}), ("boundary", {}), ("screen", {})],
)
def test_what_a_design_knows_of_a_rung_is_what_the_report_says_of_it(
    tmp_path: Path, design: str, given: dict[str, object]
) -> None:
    truth = Truth(slowdowns={"a": 1.5, "b": 1.2, "c": 3.0}, noise=0.05)
    found = findings(tmp_path, design, truth, "a", "b", "c", **given)
    design_knows, rungs = found.found, {one.rung.name: one for one in found.rungs}
    assert design_knows is not None
    known = 0
    for name, rung in rungs.items():
        for mine, theirs in (
            (rung.tps, design_knows.rate(name)),
            (rung.to_baseline, design_knows.comparison(name)),
        ):
            known += theirs is not None
            assert theirs is None or mine == theirs
    assert known or not design_knows.has_rungs


def test_no_two_combinations_of_a_grid_have_two_intervals(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 1.5, "b": 3.0}, noise=0.05)
    found = findings(tmp_path, "grid", truth, "a", "b")
    said = json.loads(render_json(found))
    in_rungs = {one["rung"]["treatment"]["name"]: one["to_baseline"] for one in said["rungs"]}
    of_grid = {one["treatment"]: one["to_first"] for one in said["found"]["combinations"]}
    assert {name: one for name, one in in_rungs.items() if one} == {
        name: one for name, one in of_grid.items() if one
    }
    (interaction,) = said["found"]["interactions"]
    assert of_grid["R2"]["slowdown"] == interaction["both"]
    # A sentence that the answer has is not said again below it.
    assert terminal_text(found, width=200).count("without an interaction") == 1


def test_a_boundary_has_one_rate_for_a_value_that_is_a_rung(tmp_path: Path) -> None:
    found = findings(tmp_path, "boundary", Truth(noise=0.1), "a")
    said = json.loads(render_json(found))
    (value,) = said["found"]["values"]
    assert said["rungs"][-1]["tps"] == value["tps"]


def test_one_doubt_is_told_once(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 1.5, "b": 3.0}, noise=0.02)
    for design in ("ladder", "grid", "one-at-a-time"):
        (directory := tmp_path / design).mkdir()
        text = terminal_text(findings(directory, design, truth, "a", "b", replicates=1), width=200)
        assert text.count("run 3 or more replicates") == 1, text


def test_a_rung_that_its_design_never_asks_for_is_not_run_once_the_run_is_over(
    tmp_path: Path,
) -> None:
    truth = Truth(slowdowns={"b": 1.5}, noise=0.01)
    found = findings(tmp_path, "compare", truth, "a", "b", replicates=1)
    assert found.rungs[1].state == "not run"
    assert "not run" not in terminal_text(found).lower()
    assert "yet" not in render_markdown(found)


def test_a_design_with_numbers_of_its_own_warns_of_no_single_trial(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 1.5, "b": 3.0}, noise=0.02)
    for design in ("compare", "boundary", "screen"):
        (directory := tmp_path / design).mkdir()
        text = terminal_text(findings(directory, design, truth, "a", "b", replicates=1), width=200)
        assert "replicates" not in text
        assert "how unsteady" not in text


def test_what_a_window_is_warned_about_stands_there_once(tmp_path: Path) -> None:
    found = findings(tmp_path, "window", Truth(base_tps=0.2), "a", replicates=1)
    assert terminal_text(found, width=200).count("a longer budget would narrow the interval") == 1


@pytest.mark.parametrize("design", sorted(all_designs()))
def test_only_a_ladder_speaks_of_rungs(tmp_path: Path, design: str) -> None:
    """Whether it was run to its end, cut off before, or has a treatment without a number."""
    for at, (outcomes, replicates) in enumerate([({}, 2), ({"b": Outcome.DID_NOT_START}, 1)]):
        truth = Truth(
            slowdowns={"a": 1.3, "b": 2.0}, noise=0.02, outcomes=outcomes, is_observed=True
        )
        (directory := tmp_path / str(at)).mkdir()
        found = findings(directory, design, truth, "a", "b", replicates=replicates)
        for text in (terminal_text(found), render_markdown(found)):
            assert (re.search(r"\brungs?\b", text, re.IGNORECASE) is not None) == (
                design == "ladder"
            )


def test_a_comparison_is_told_without_the_words_of_a_ladder(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"a": 1.3}, noise=0.02, is_observed=True)
    found = findings(tmp_path, "compare", truth, "a", replicates=1)
    assert not re.search(r"\brungs?\b|\bstep\b", terminal_text(found), re.IGNORECASE)
    assert "rung before" not in render_markdown(found)
    assert "rungs before" not in render_markdown(found)
