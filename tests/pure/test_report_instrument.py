"""Every report says what looking cost, as far as that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from analysis_runs import result, run_of, rung
from pgdrag.cli.findings import findings_of
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings, InstrumentCost, Interval
from pgdrag.journal import Journal
from pgdrag.model import Observation, RunRecord
from pgdrag.model.run import OVERHEAD
from pgdrag.report.document import KeyValues
from pgdrag.report.json import render_json
from pgdrag.report.sections.method import MethodSection
from turn_trials import looked_at_in_turns

COST = InstrumentCost(
    Interval(0.998, 1.004, 1.01, 0.95, "t"), 12, 1_700_000_000.0, "tpcc, 10 warehouses", True
)


def said(findings: Findings, key: str) -> str:
    (pairs,) = [x for x in MethodSection().blocks(findings) if isinstance(x, KeyValues)]
    return dict(pairs.pairs)[key].text


def looked_at(*shares: float | None) -> Findings:
    results = []
    for number, share in enumerate(shares, start=1):
        reason = "" if share is not None else "not on this kernel"
        seen = Observation("collectors_cpu_share", "looking", share, "ratio", 1e-4, reason)
        one = result("A0", 1000)
        results.append(replace(one, trial=replace(one.trial, number=number), evidence=(seen,)))
    return find(run_of([rung("A0")], results))


def test_a_machine_on_which_it_was_never_measured_is_told_how_to() -> None:
    expected = "not measured on this machine; run pgdrag calibrate --collectors"
    assert said(looked_at(0.01), "Collectors' cost") == expected


def test_what_was_measured_is_told_with_its_interval_and_its_conditions() -> None:
    findings = replace(looked_at(0.01), instrument=COST)
    text = said(findings, "Collectors' cost")
    assert text == (
        "throughput is 1.004× (0.998× to 1.01×) as high without them (95 % CI), "
        "from 12 blocks of four turns on 2023-11-14, tpcc, 10 warehouses"
    )
    elsewhere = replace(findings, instrument=replace(COST, is_alike=False))
    assert said(elsewhere, "Collectors' cost").endswith("(another workload or load)")
    assert '"blocks": 12' in render_json(findings)


def test_the_median_and_the_most_that_looking_used_are_told() -> None:
    text = said(looked_at(0.004, None, 0.005, 0.009), "Collectors' CPU time")
    assert text == "0.5 % of the machine's CPU time in the window, at most 0.9 %"
    assert said(looked_at(None), "Collectors' CPU time") == "not measured"


class Kept:
    """A journal that has nothing but runs that measured the collectors, newest first."""

    def __init__(self, *runs: RunRecord) -> None:
        self.runs = runs

    def runs_of(self, experiment: str) -> Sequence[RunRecord]:
        assert experiment == OVERHEAD
        return self.runs


def measured(scale: str, *, connections: int | None = None, **changed: object) -> RunRecord:
    trial = looked_at_in_turns(blocks=3, cost=1.01, noise=0.005)
    run = run_of([rung("in turns")], [trial], design="turns")
    load = run.study.load
    if connections is not None:
        load = replace(load, connections=connections)
    return replace(run, study=replace(run.study, scale=scale, load=load), **changed)


def cost_of(*runs: RunRecord) -> InstrumentCost | None:
    return findings_of(run_of([rung("A0")], []), cast("Journal", Kept(*runs))).instrument


def test_the_newest_measurement_under_the_same_conditions_is_told() -> None:
    found = cost_of(measured("elsewhere", connections=99), measured("alike"), measured("older"))
    assert found is not None
    assert (found.workload, found.is_alike, found.blocks) == ("alike", True, 3)
    assert found.slowdown.low <= 1.01 <= found.slowdown.high


def test_one_under_other_conditions_is_better_than_none() -> None:
    found = cost_of(measured("newer", connections=99), measured("older", connections=98))
    assert found is not None
    assert (found.workload, found.is_alike) == ("newer", False)


def test_other_machines_and_broken_off_measurements_say_nothing_of_this_one() -> None:
    here = measured("here")
    other = replace(here, host=replace(here.host, cpu_count=64))
    assert cost_of(other, replace(here, status="interrupted")) is None
