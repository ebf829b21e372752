"""Steps of a load have rates of their own; New-Orders are called tpmC only where they are."""

from dataclasses import replace

import pytest

from analysis_runs import LOAD, measurement, result, run_of, rung
from pgdrag.findings.decay.analysis import Drift
from pgdrag.findings.find import find
from pgdrag.findings.steps import LoadSteps, step_findings
from pgdrag.findings.values import Interval
from pgdrag.model import Result, RunRecord, Treatment, WorkloadSpec
from pgdrag.model.load import Step
from pgdrag.model.measurement import Counts, Measurement, Sample
from pgdrag.report.html import render_html
from pgdrag.report.markdown import render_markdown
from pgdrag.report.terminal import terminal_text
from pgdrag.workloads.new_orders import new_orders

STEPS = (Step(0, 4), Step(20, 8), Step(40, 16))
TPS = Interval(9.0, 10.0, 11.0, 0.95, "batch means")


def stepped(*seconds: int, steps: tuple[Step, ...] = STEPS) -> tuple[Result, Measurement]:
    """Make a trial whose seconds have these commits."""
    samples = [Sample(at + 1.0, 1.0, committed) for at, committed in enumerate(seconds)]
    measured = measurement(sum(seconds), elapsed_s=float(len(seconds)), samples=samples)
    bare = result("A0", None)
    trial = replace(bare.trial, load=replace(LOAD, steps=steps))
    return replace(bare, trial=trial, measurement=measured), measured


def run_with_steps() -> RunRecord:
    one, _ = stepped(*[100] * 20, *[150] * 20, *[120] * 20)
    run = run_of([rung("A0")], [one])
    return replace(run, study=replace(run.study, load=replace(LOAD, steps=STEPS)))


def test_each_step_has_the_rate_of_its_seconds() -> None:
    found = step_findings([stepped(*[100] * 20, *[150] * 20, *[120] * 20)])
    assert [(x.at_s, x.end_s, x.sessions) for x in found] == [(0, 20, 4), (20, 40, 8), (40, 60, 16)]
    assert [x.tps.center for x in found if x.tps] == pytest.approx([100, 150, 120])


def test_a_second_on_the_border_of_two_steps_counts_for_neither() -> None:
    trial = stepped(10, 999, 20, 20, steps=(Step(0, 1), Step(1.5, 2)))
    assert [x.tps.center for x in step_findings([trial]) if x.tps] == [10, 20]


def test_a_step_that_was_not_reached_is_not_there() -> None:
    assert [x.sessions for x in step_findings([stepped(*[5] * 25)])] == [4, 8]
    assert step_findings([]) == ()
    assert step_findings([stepped(1, 2, steps=())]) == ()


def test_steps_over_trials_are_combined() -> None:
    (only,) = step_findings(
        [stepped(*[100] * 9, steps=STEPS[:1]), stepped(*[121] * 9, steps=STEPS[:1])]
    )
    assert only.tps is not None
    assert only.tps.center == pytest.approx(110)  # the geometric mean


def test_each_step_is_compared_with_the_same_one_of_the_baseline() -> None:
    first, _ = stepped(*[100] * 20, *[150] * 20, *[120] * 20)
    other, _ = stepped(*[100] * 20, *[75] * 20, *[40] * 20)
    trial = replace(other.trial, treatment=Treatment("A1"), number=2)
    run = run_of([rung("A0"), rung("A1")], [first, replace(other, trial=trial)])
    run = replace(run, study=replace(run.study, load=replace(LOAD, steps=STEPS)))
    baseline, slower = find(run).rungs
    assert [step.to_baseline for step in baseline.get(LoadSteps).steps] == [None] * 3
    told = [
        step.to_baseline.slowdown.center for step in slower.get(LoadSteps).steps if step.to_baseline
    ]
    assert told == pytest.approx([1, 2, 3])
    assert "Slowdown of each step against A0" in render_html(find(run))


def test_what_changes_by_design_is_no_drift_and_the_mean_says_what_it_is() -> None:
    found = find(run_with_steps())
    assert found.rungs[0].get(Drift) is None
    assert any(x.startswith("the load has 3 steps") for x in found.warnings)


@pytest.mark.parametrize("render", [render_markdown, lambda found: terminal_text(found, width=120)])
def test_the_report_has_a_row_a_step(render) -> None:
    text = " ".join(render(find(run_with_steps())).replace("|", " ").replace("*", " ").split())
    for row in ("0 s 4 100/s", "20 s 8 150/s", "40 s 16 120/s"):
        assert row in text


def tpcc_window(new_orders: int, payments: int) -> tuple[Result, Measurement]:
    types = {"new_order": new_orders, "payment": payments}
    counts = {name: Counts(scheduled=n, committed=n) for name, n in types.items()}
    return result("A0", 1), replace(measurement(1), transactions=counts)


@pytest.mark.parametrize(
    ("parameters", "label"),
    [
        ({}, "new orders/min"),
        ({"terminals": "specification"}, "new orders/min"),
        ({"terminals": "specification", "wait_scale": 0.1}, "new orders/min"),
        ({"terminals": "benchbase", "wait_scale": 1.0}, "new orders/min"),
        ({"terminals": "specification", "wait_scale": 1.0}, "tpmC"),
    ],
)
def test_only_the_specifications_terminals_and_waits_make_tpmc(
    parameters: dict[str, object], label: str
) -> None:
    found = new_orders(WorkloadSpec("tpcc", parameters), TPS, [tpcc_window(45, 55)])
    assert found is not None
    assert found.label == label
    low, center, high = found.per_min.low, found.per_min.center, found.per_min.high
    assert (low, center, high) == pytest.approx((9 * 27, 10 * 27, 11 * 27))


def test_another_workload_or_no_commit_has_no_new_orders() -> None:
    spec = WorkloadSpec("tpcc")
    assert new_orders(WorkloadSpec("pgbench"), TPS, [tpcc_window(45, 55)]) is None
    assert new_orders(spec, None, []) is None
    assert new_orders(spec, TPS, [tpcc_window(0, 55)]) is None
