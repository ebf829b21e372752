"""A run as JUnit XML for a CI server, and as a comment for those who read the pull request."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis.strategies import integers, text
from test_comparing import slower_by
from test_report_compare import findings as compared

from analysis_runs import result, run_of, rung, three_of
from in_process import pgdrag
from pgdrag.findings.false_alarms import FalseAlarms, false_alarms
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.journal import Journal
from pgdrag.lab import run_experiment
from pgdrag.model import Outcome
from pgdrag.report.comment import render_comment
from pgdrag.report.junit import render_junit
from pgdrag.stats.counts import exact_share
from pgdrag.stats.distributions import binomial_from
from pgdrag.testing.conformance_sections import every_state
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"

# What the schemas of Jenkins (junit-10.xsd) and Surefire (surefire-test-report.xsd) both allow.
CHILDREN = {
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out"},
}
NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"message"},
}


def suite_of(findings: Findings) -> Element:
    """Read the suite, and hold it to the schemas: elements, attributes, and counts that are those of its cases."""
    suite = ElementTree.fromstring(render_junit(findings))
    assert suite.tag == "testsuite"
    for each in suite.iter():
        assert {x.tag for x in each} <= CHILDREN.get(each.tag, set()), each.tag
        assert set(each.attrib) == NEEDED.get(each.tag, set()), each.tag
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(cases))
    for state, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert suite.get(name) == str(sum(x.find(state) is not None for x in cases))
    names = [(x.get("classname"), x.get("name")) for x in cases]
    assert len(set(names)) == len(names)
    return suite


def states(findings: Findings) -> dict[str, str]:
    """Return how each case ended, by the last word of its class and by its name."""
    return {
        f"{case.get('classname', '').rpartition('.')[2]}: {case.get('name')}": case[0].tag
        for case in suite_of(findings).findall("testcase")
    }


@pytest.mark.parametrize("findings", every_state(), ids=lambda x: x.run.status)
def test_every_state_of_a_run_is_a_valid_suite_and_a_comment_that_fits(findings: Findings) -> None:
    suite_of(findings)
    assert 0 < len(render_comment(findings)) < 65_536


@pytest.mark.parametrize(
    ("slowdown", "state"), [(1.2, "failure"), (0.9, "system-out"), (1.03, "skipped")]
)
def test_a_limit_that_is_broken_fails_and_one_that_is_not_decided_is_skipped(
    slowdown: float, state: str
) -> None:
    found = compared(slower_by(slowdown, 4), fail_if_slower=0.03)
    assert states(found)["limit: B is at most 3 % slower than A"] == state
    failure = suite_of(found).find("testcase/failure")
    assert (failure is not None) == (state == "failure")
    if failure is not None:
        assert failure.get("message") == found.answer


def test_without_a_limit_there_is_no_case_of_one() -> None:
    assert not any(name.startswith("limit") for name in states(compared(slower_by(1.2, 4))))


def test_each_treatment_is_a_case_and_how_it_ended_its_state() -> None:
    outcomes = {
        "B": Outcome.CRASHED,
        "C": Outcome.DID_NOT_START,
        "D": Outcome.STALLED,
        "E": Outcome.INVALID,
        "F": Outcome.UNTESTABLE,
    }
    results = three_of("A", 6000)
    results += [
        result(name, None, outcome=outcome, number=4 + at, reason=f"why {name}")
        for at, (name, outcome) in enumerate(outcomes.items())
    ]
    run = run_of([rung(name) for name in "ABCDEFG"], results, design="grid")
    found = states(find(run))
    assert [found[f"treatment: {x} title of {x}"] for x in "ABCDEFG"] == [
        "system-out",
        "failure",
        "failure",
        "failure",
        "error",
        "skipped",
        "skipped",
    ]
    message = suite_of(find(run)).find("testcase[@name='B title of B']/failure")
    assert message is not None
    assert "why B" in str(message.get("message"))


def test_a_claim_that_does_not_hold_fails() -> None:
    rungs = [rung("A", 1000.0), rung("B", 100.0), rung("C", 500.0)]
    results = [*three_of("A", 6000), *three_of("B", 6000), *three_of("C", 3000)]
    found = states(find(run_of(rungs, results, design="grid")))
    assert found["claim: B against the baseline"] == "failure"
    assert found["claim: C against the baseline"] == "system-out"


def test_a_run_that_was_interrupted_is_an_error_whatever_its_limit_says() -> None:
    done = compared(slower_by(0.9, 4), fail_if_slower=0.03)
    cut = replace(done, run=replace(done.run, status="interrupted"))
    assert states(done)["run: the run is complete"] == "system-out"
    assert states(cut)["run: the run is complete"] == "error"


@given(text())
def test_any_name_that_a_person_can_write_makes_valid_xml(name: str) -> None:
    found = find(run_of([rung("A"), rung("B")], three_of("A", 60), design="grid"))
    hostile = replace(found, run=replace(found.run, study=replace(found.run.study, name=name)))
    suite_of(replace(hostile, answer=name))


def test_the_comment_answers_first_and_says_how_sure_it_is() -> None:
    found = compared(slower_by(1.2, 12), fail_if_slower=0.03)
    mark, answer, *lines = render_comment(
        found, alarms=FalseAlarms(40, 2), link="https://ci.example/report.html"
    ).splitlines()
    assert mark == "<!-- pgdrag study -->"
    assert answer.startswith("**✗ Fail (limit: 3 % slower). B is 1.2× slower than A")
    shown, _, folded = "\n".join(lines).partition("<details>")
    assert "- p = " in shown
    assert "2 of 40 comparisons of a server with itself, 5 % (95 % CI 1 % to 17 %)" in shown
    assert "[r1](<https://ci.example/report.html>)" in shown
    assert "Detectable effect" in folded
    assert len(shown.splitlines()) < 15


def test_a_machine_that_was_never_compared_with_itself_is_told_how() -> None:
    shown = render_comment(compared(slower_by(1.2, 4)))
    assert "not measured; pgdrag compare default default --allow-identical" in shown


def test_a_comment_of_very_many_treatments_loses_its_details_and_not_its_answer() -> None:
    names = [f"T{number}" for number in range(800)]
    results = [x for name in names for x in three_of(name, 6000)]
    found = find(run_of([rung(name) for name in names], results, design="grid"))
    comment = render_comment(found)
    assert len(comment) < 65_536
    assert "<details>" not in comment


@given(integers(0, 30), integers(1, 30))
def test_bounds_of_a_share_are_those_at_which_it_is_as_far_out_as_the_tail(
    count: int, more: int
) -> None:
    tries = count + more
    found = exact_share(count, tries)
    assert 0 <= found.low <= found.center <= found.high <= 1
    if count:
        assert binomial_from(count, tries, found.low) == pytest.approx(0.025)
    assert 1 - binomial_from(count + 1, tries, found.high) == pytest.approx(0.025)


def test_false_alarms_are_counted_over_comparisons_of_a_server_with_itself(tmp_path: Path) -> None:
    """Of the same machine, and by the same design; others say nothing of it."""
    journal = Journal(tmp_path / "j.sqlite")
    study = simulated_ladder("a").with_design("compare", max_pairs=4)
    base, other = study.rungs
    same = replace(study, rungs=(base, replace(other, treatment=base.treatment)))
    for seed, one in enumerate((study, same, same), start=1):
        bench = SimulatedTrialRunner(Truth(slowdowns={"a": 2.0}, noise=0.01), seed=seed)
        run = run_experiment(begin_simulated(journal, one, seed=seed), bench, journal)
    found = false_alarms(journal.runs_of_same("compare", run.host, most=10))
    assert found is not None
    assert (found.comparisons, found.alarms) == (2, 0)
    assert not list(journal.runs_of_same("bisect", run.host, most=10))
    elsewhere = replace(run.host, cpu_count=99)
    assert false_alarms(journal.runs_of_same("compare", elsewhere, most=10)) is None


def test_the_command_writes_both_and_refuses_a_link_without_a_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    status, out, err = pgdrag("report", "compare", "--format", "junit")
    assert (status, err) == (0, "")
    assert ElementTree.fromstring(out).get("name") is not None
    status, out, err = pgdrag("report", "compare", "--format", "comment", "--link", "https://x.y/")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].startswith("**")
    assert "<https://x.y/>" in out
    assert pgdrag("report", "compare", "--link", "https://x.y/")[0] == 2
    assert pgdrag("report", "compare", "--format", "comment", "--link", "javascript:x")[0] == 2
