"""Hosts of a fleet that differ: ratios do not depend on their speed, and the report names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdrag.findings.find import find
from pgdrag.findings.hosts import HostsFinding
from pgdrag.model import Host, Result, RunRecord, Study, Trial
from pgdrag.model.design import make_design
from pgdrag.model.events import ignore
from pgdrag.report.sections import all_sections
from pgdrag.stats.hosts import Measured, fit_hosts, host_shifts
from pgdrag.testing.simulated import (
    SIMULATED_HOST,
    SimulatedTrialRunner,
    Truth,
    record_of,
    run_design,
    simulated_ladder,
)

HOSTS = ("one", "two", "three")
SMALL = Host("another", 1, 1 << 30, "simulated", "simulated")


def on_hosts(study: Study, truths: dict[str, Truth], *, blocks: int = 1000) -> RunRecord:
    """Return a run whose blocks take turns on hosts with truths of their own."""
    benches = {x: SimulatedTrialRunner(truths.get(x, Truth()), seed=3) for x in HOSTS}

    seen: dict[int, str] = {}

    def run(trial: Trial) -> Result:
        host = seen.setdefault(trial.block, HOSTS[len(seen) % len(HOSTS)])
        machine = SMALL if host == "three" else SIMULATED_HOST
        return replace(benches[host].run(trial, ignore), host=host, machine=machine)

    found = run_design(make_design(study), study, run, blocks=blocks)
    return record_of(study, [result for _, results in found for result in results])


def truth_of(base_tps: float = 1000.0, noise: float = 0.01, a: float = 1.5) -> Truth:
    return Truth(base_tps, slowdowns={"a": a, "b": 1.0}, noise=noise)


FAST = {"one": truth_of(), "two": truth_of(3000.0), "three": truth_of(500.0)}
ALIKE = {x: truth_of() for x in HOSTS}


def hosts_of(run: RunRecord) -> HostsFinding:
    found = find(run).get(HostsFinding)
    assert found is not None
    return found


@pytest.mark.parametrize("design", ["ladder", "compare", "screen"])
def test_the_speed_of_hosts_is_named_and_changes_no_ratio(design: str) -> None:
    study = simulated_ladder("a", replicates=6).with_design(design)
    alike, fast = (find(on_hosts(study, x)).rungs[1].to_baseline for x in (ALIKE, FAST))
    assert alike is not None
    assert fast is not None
    for name in ("low", "center", "high"):
        assert getattr(fast.slowdown, name) == pytest.approx(
            getattr(alike.slowdown, name), rel=0.01
        )
    found = {one.name: one for one in hosts_of(on_hosts(study, FAST)).hosts}
    assert found["two"].speed == pytest.approx(3000 / 1500 ** (1 / 3) / 100, rel=0.05)
    assert [note.partition("× ")[2] for note in found["two"].notes] == ["faster than the mean"]
    assert found["three"].notes[0] == "another processor: another"
    assert found["three"].notes[-1].endswith("× slower than the mean")


@pytest.mark.parametrize("design", ["ablate", "bisect"])
def test_an_adaptive_search_finds_the_same_on_hosts_of_different_speed(design: str) -> None:
    study = simulated_ladder("a", "b", "c", "d").with_design(design)
    assert find(on_hosts(study, ALIKE)).found is not None
    answers = []
    for truths in (ALIKE, FAST):
        found = find(on_hosts(study, truths)).found
        assert found is not None
        effects = {name: x.slowdown for x in found.effects() for name, *_ in x.changes}
        answers.append(effects["a"])
    alike, fast = answers
    assert alike.low < 1.5 < alike.high
    assert fast.low < 1.5 < fast.high
    assert fast.high / fast.low < 1.3


def test_hosts_that_are_alike_are_left_alone() -> None:
    study = simulated_ladder("a", replicates=6)
    found = hosts_of(on_hosts(study, ALIKE))
    assert [one.notes for one in found.hosts if one.name != "three"] == [(), ()]
    assert found.differing == ()


def test_a_noisy_host_is_named() -> None:
    study = simulated_ladder("a", "b", replicates=30)
    found = hosts_of(on_hosts(study, {**ALIKE, "two": truth_of(noise=0.2)}))
    (noisy,) = [one for one in found.hosts if "noisier than the others" in one.notes]
    assert noisy.name == "two"


def test_an_effect_that_depends_on_the_host_is_reported() -> None:
    study = simulated_ladder("a", "b", replicates=12)
    run = on_hosts(study, {**ALIKE, "two": truth_of(a=3.0)})
    (effect,) = [x for x in hosts_of(run).differing if x.treatment == "R1"]
    assert effect.p < 0.001
    assert effect.slowdowns["two"] == pytest.approx(3.0, rel=0.05)
    assert effect.slowdowns["one"] == pytest.approx(1.5, rel=0.05)
    assert "The slowdown of R1 depends on the host" in find(run).answer


def test_the_report_has_a_row_for_each_host() -> None:
    findings = find(on_hosts(simulated_ladder("a", replicates=6), FAST))
    section = all_sections()["hosts"]()
    assert section.applies(findings)
    text = repr(section.blocks(findings))
    assert all(name in text for name in HOSTS)
    assert not section.applies(find(record_of(simulated_ladder("a"), [])))


def test_one_host_has_nothing_to_be_compared_with() -> None:
    measured = [Measured("a", "one", 1.0), Measured("b", "one", 2.0)]
    assert fit_hosts(measured) is None
    assert host_shifts(measured) == [0.0, 0.0]


def test_hosts_without_a_common_treatment_say_nothing_of_their_speed() -> None:
    assert fit_hosts([Measured("a", "one", 1.0), Measured("b", "two", 2.0)] * 3) is None


def test_shifts_lead_to_the_mean_host() -> None:
    measured = [
        Measured(treatment, host, log + speed + noise)
        for treatment, log in (("a", 1.0), ("b", 5.0))
        for host, speed in (("one", 0.5), ("two", -0.5))
        for noise in (0.001, -0.001)
    ]
    shifts = host_shifts(measured)
    assert [round(x, 6) for x in shifts[:4]] == [-0.5, -0.5, 0.5, 0.5]
