"""The table of all published figures: which run answers which, and what is said where none can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis_runs import run_of, rung, setting, three_of
from pgdrag.experiment import shipped_experiments
from pgdrag.findings.claim_kinds.course import CourseClaim
from pgdrag.findings.claim_kinds.slowdown import SlowdownClaim
from pgdrag.findings.claim_kinds.unmeasured import UnmeasuredClaim
from pgdrag.findings.every_claim import every_claim
from pgdrag.findings.find import find
from pgdrag.findings.values import Answer
from pgdrag.model import Claim, Outcome, RunRecord, Study
from pgdrag.report.claims_page import TITLE, ClaimedStudy, claims_page
from pgdrag.report.document import Paragraph
from pgdrag.report.markdown import blocks_as_markdown

RUNGS = [rung("A0", 7000.0), rung("A1", 1000.0, added=[setting("shared_buffers", "8MB")])]
TPS = {"A0": 7000, "A1": 1000, "A2": 100}
CLAIM = SlowdownClaim(text="42 times slower", at="A1", than="A0", times=42)


def run_at(scale: str, tps: int | None) -> RunRecord:
    results = [] if tps is None else [*three_of("A0", 7000 * 60), *three_of("A1", tps * 60)]
    run = run_of(RUNGS, results)
    return replace(run, run_id=scale, study=replace(run.study, scale=scale))


def now() -> Study:
    return replace(run_at("demo", None).study, claims=(CLAIM,))


def test_a_claim_that_was_added_since_a_run_is_answered_by_it() -> None:
    stated, rate = ClaimedStudy.of([now()], [run_at("demo", 1000)]).claims
    assert (stated.claim.text, stated.claim.answer) == ("42 times slower", Answer.PARTLY)
    assert (rate.claim.answer, rate.scale) == (Answer.REPRODUCED, "demo")


def test_an_older_run_answers_what_the_newest_cannot() -> None:
    runs = [run_at("broken", None), run_at("paper", 1000), run_at("oldest", 100)]
    assert {x.scale for x in ClaimedStudy.of([now()], runs).claims} == {"paper"}


def test_a_run_that_is_not_done_answers_nothing() -> None:
    """Without some of its rungs its steps are others, and would have rows of their own."""
    cut = replace(run_at("cut", 1000), status="interrupted")
    assert {x.run_id for x in ClaimedStudy.of([now()], [cut]).claims} == {""}


def test_what_was_not_run_yet_is_not_untestable_and_has_the_command_that_answers_it() -> None:
    untestable = UnmeasuredClaim(text="it rains", why="no collector sees it")
    study = replace(now(), claims=(CLAIM, untestable))
    stated, rain, rate = ClaimedStudy.of([study], [], named="a file.toml").claims
    assert [x.claim.answer for x in (stated, rain, rate)] == [
        Answer.NOT_RUN,
        Answer.UNTESTABLE,
        Answer.NOT_RUN,
    ]
    assert {stated.command, rate.command} == {"pgdrag run 'a file.toml'"}
    assert not rain.command
    text = blocks_as_markdown(TITLE, claims_page([ClaimedStudy.of([study], [])]))
    assert "Of 3 published claims, 1 untestable here and 2 not run yet." in text
    assert "| 42 times slower | pgdrag run study | … not run yet |" in text


def test_an_experiment_that_claims_nothing_says_so() -> None:
    rungs = (rung("A0"), rung("A1", added=[setting("shared_buffers", "8MB")]))
    study = replace(now(), claims=(), rungs=rungs)
    text = blocks_as_markdown(TITLE, claims_page([ClaimedStudy.of([study], [])]))
    assert "It claims nothing: its file has no" in text
    assert "Source: ." not in text


HOUR = CourseClaim(text="steady for an hour", at="A1", trend="steady", after_s=3600.0)


def test_a_moment_that_one_scale_reaches_is_run_at_that_scale() -> None:
    demo = replace(now(), claims=(HOUR,))
    long = replace(demo, scale="long", load=replace(demo.load, measure_s=3600.0))
    runs = [run_at("demo", 1000)]
    (claim, *_) = ClaimedStudy.of([demo, long], runs).claims
    assert (claim.claim.answer, claim.command) == (Answer.NOT_RUN, "pgdrag run study --scale long")
    (claim, *_) = ClaimedStudy.of([demo], runs).claims
    assert (claim.claim.answer, claim.command) == (Answer.UNTESTABLE, "")


def test_what_a_run_could_not_test_is_untestable_and_no_other_scale_is_named() -> None:
    """Otherwise a server that lacks a setting would be asked for again and again."""
    run = run_at("demo", 1000)
    lacking = [
        x if x.trial.treatment.name == "A0" else replace(x, outcome=Outcome.UNTESTABLE)
        for x in run.results
    ]
    run = replace(run, results=tuple(lacking))
    for row in ClaimedStudy.of([now(), replace(now(), scale="paper")], [run]).claims:
        assert (row.claim.answer, row.run_id) == (Answer.UNTESTABLE, "demo")


FALLING = Claim(trend="falling", series=((5, 1000), (10, 900), (15, 800), (20, 700)))


@pytest.mark.parametrize(
    ("claim", "keys"),
    [
        (Claim(tps=100), ["A2 against the baseline", "A2 as a step"]),
        (FALLING, ["A2: trend", "A2: change", "order"]),
    ],
)
def test_each_claim_has_one_row_whatever_each_run_made_of_it(claim: Claim, keys: list[str]) -> None:
    """Without a rung between them two others are another step, and without a fit there is no order."""
    rungs = [*RUNGS, replace(rung("A2", added=[setting("fsync", "off")]), claim=claim)]
    trials = {name: three_of(name, tps * 60) for name, tps in TPS.items()}
    whole = run_of(rungs, [x for every in trials.values() for x in every])
    gap = replace(whole, results=(*trials["A0"], *trials["A2"]))
    for runs in ([], [whole], [gap], [whole, gap], [gap, whole]):
        rows = ClaimedStudy.of([whole.study], runs).claims
        assert [x.claim.key for x in rows] == ["A1 against the baseline", *keys]


def test_every_figure_of_the_catalogue_has_a_row() -> None:
    """Also before a run, and those of rungs, too."""
    for experiment in shipped_experiments().values():
        study = experiment.study(experiment.default_scale)
        rows = [x.claim.key for x in ClaimedStudy.of([study], []).claims]
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
        for row in ClaimedStudy.of([experiment.study(experiment.default_scale)], []).claims
        if escaped(row.claim.text) not in page
    ]
    assert missing == [], "run: make claims"


def test_steps_are_claims_of_a_ladder_alone() -> None:
    rungs = [*RUNGS, rung("A2", 100.0, added=[setting("fsync", "off")])]
    trials = [x for name, tps in TPS.items() for x in three_of(name, tps * 60)]
    run = run_of(rungs, trials)
    assert [x.rungs for x in every_claim(find(run))] == [("A0", "A1"), ("A0", "A2"), ("A1", "A2")]
    alone = replace(run, study=run.study.with_design("one-at-a-time"))
    assert [x.rungs for x in every_claim(find(alone))] == [("A0", "A1"), ("A0", "A2")]
