"""The table of all published figures: which run answers which, and what is said where none can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analysis_runs import run_of, rung, setting, three_of
from pgdrag.experiment import shipped_experiments
from pgdrag.findings.claim_kinds.slowdown import SlowdownClaim
from pgdrag.findings.every_claim import every_claim
from pgdrag.findings.find import find
from pgdrag.findings.values import Answer
from pgdrag.model import RunRecord, Study
from pgdrag.report.claims_page import TITLE, ClaimedStudy, claims_page
from pgdrag.report.document import Paragraph
from pgdrag.report.markdown import blocks_as_markdown

RUNGS = [rung("A0", 7000.0), rung("A1", 1000.0, added=[setting("shared_buffers", "8MB")])]
CLAIM = SlowdownClaim(text="42 times slower", at="A1", than="A0", times=42)


def run_at(scale: str, tps: int | None) -> RunRecord:
    results = [] if tps is None else [*three_of("A0", 7000 * 60), *three_of("A1", tps * 60)]
    run = run_of(RUNGS, results)
    return replace(run, run_id=scale, study=replace(run.study, scale=scale))


def now() -> Study:
    return replace(run_at("demo", None).study, claims=(CLAIM,))


def test_a_claim_that_was_added_since_a_run_is_answered_by_it() -> None:
    stated, rate = ClaimedStudy.of(now(), [run_at("demo", 1000)]).claims
    assert (stated.claim.text, stated.claim.answer) == ("42 times slower", Answer.PARTLY)
    assert (rate.claim.answer, rate.scale) == (Answer.REPRODUCED, "demo")


def test_an_older_run_answers_what_the_newest_cannot() -> None:
    runs = [run_at("broken", None), run_at("paper", 1000), run_at("oldest", 100)]
    assert {x.scale for x in ClaimedStudy.of(now(), runs).claims} == {"paper"}


def test_a_run_that_is_not_done_answers_nothing() -> None:
    """Without some of its rungs its steps are others, and would have rows of their own."""
    cut = replace(run_at("cut", 1000), status="interrupted")
    assert {x.run_id for x in ClaimedStudy.of(now(), [cut]).claims} == {""}


def test_without_a_run_every_claim_is_there_with_the_reason() -> None:
    claims = ClaimedStudy.of(now(), []).claims
    assert [x.claim.answer for x in claims] == [Answer.UNTESTABLE] * 2
    assert all("not run" in x.claim.why for x in claims)
    text = blocks_as_markdown(TITLE, claims_page([ClaimedStudy.of(now(), [])]))
    assert "42 times slower" in text
    assert "no run" in text


def test_every_figure_of_the_catalogue_has_a_row() -> None:
    """Also before a run, and those of rungs, too."""
    for experiment in shipped_experiments().values():
        study = experiment.study(experiment.default_scale)
        rows = [x.claim.text for x in ClaimedStudy.of(study, []).claims]
        assert len(rows) == len(set(rows)), "two figures have the same words"
        assert {claim.text for claim in study.claims} <= set(rows)


def escaped(text: str) -> str:
    # Behind a word: at the beginning of a paragraph a number could begin a list.
    return blocks_as_markdown("", [Paragraph(f"x {text}")]).partition("x ")[2].strip()


def test_the_table_in_the_documents_has_every_figure() -> None:
    """Its answers are those of one machine's runs, but no figure may be missing."""
    page = (Path(__file__).parents[2] / "docs/studies/claims.md").read_text(encoding="utf-8")
    missing = [
        f"{name}: {row.claim.text}"
        for name, experiment in shipped_experiments().items()
        for row in ClaimedStudy.of(experiment.study(experiment.default_scale), []).claims
        if escaped(row.claim.text) not in page
    ]
    assert missing == [], "run: make claims"


def test_steps_are_claims_of_a_ladder_alone() -> None:
    rungs = [*RUNGS, rung("A2", 100.0, added=[setting("fsync", "off")])]
    trials = [
        x
        for name, tps in (("A0", 7000), ("A1", 1000), ("A2", 100))
        for x in three_of(name, tps * 60)
    ]
    run = run_of(rungs, trials)
    assert [x.rungs for x in every_claim(find(run))] == [("A0", "A1"), ("A0", "A2"), ("A1", "A2")]
    alone = replace(run, study=run.study.with_design("one-at-a-time"))
    assert [x.rungs for x in every_claim(find(alone))] == [("A0", "A1"), ("A0", "A2")]
