"""A mechanism is named where it was planted, and nowhere else more often than one time in twenty."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pgdrag.findings.analysis import treatment_analyses
from pgdrag.findings.compared import compared
from pgdrag.findings.find import find
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.model import RunRecord
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    record_of,
    run_rungs,
    simulated_ladder,
)
from pgdrag.testing.simulated_server import SlowBy

RUNS = 60


def named(truth: Truth, *, replicates: int, seed: int) -> list[str]:
    """The mechanisms named on the one step of a ladder, the largest share first."""
    study = simulated_ladder("a", replicates=replicates)
    run = run_rungs(study, SimulatedTrialRunner(truth, seed=seed), seed=seed)
    return [one.name for one in mechanisms_of(run).named]


def mechanisms_of(run: RunRecord) -> MechanismsFinding:
    """What `find` says of them, without all else that it looks for."""
    treatments = compared(run, None)
    [mechanisms] = [x for x in treatment_analyses().values() if x.finds is MechanismsFinding]
    found = mechanisms.find(treatments.all[1], treatments)
    assert isinstance(found, MechanismsFinding)
    return found


def test_they_are_those_of_the_report() -> None:
    truth = Truth(slowdowns={"a": 3.0}, noise=0.03, is_observed=True)
    study = simulated_ladder("a", replicates=3)
    run = run_rungs(study, SimulatedTrialRunner(truth, seed=1), seed=1)
    assert find(run).rungs[1].get(MechanismsFinding) == mechanisms_of(run)


@pytest.mark.parametrize("replicates", [3, 6])
def test_a_placebo_names_a_mechanism_in_no_more_than_one_run_of_twenty(replicates: int) -> None:
    truth = Truth(noise=0.03, is_observed=True)
    told = [named(truth, replicates=replicates, seed=seed) for seed in range(RUNS)]
    assert sum(bool(names) for names in told) <= RUNS / 20


@pytest.mark.parametrize(
    ("slow_by", "mechanism"), [("reads", "cache misses"), ("commits", "synchronous commits")]
)
@pytest.mark.parametrize("replicates", [3, 6])
def test_a_real_slowdown_with_counters_that_only_waver_names_the_planted_one_alone(
    replicates: int, slow_by: SlowBy, mechanism: str
) -> None:
    truth = Truth(slowdowns={"a": 3.0}, noise=0.03, is_observed=True, slow_by=slow_by)
    told = [named(truth, replicates=replicates, seed=seed) for seed in range(RUNS)]
    assert sum(names == [mechanism] for names in told) >= 0.95 * RUNS


def test_of_mechanisms_that_had_no_part_in_it_hardly_any_is_shown() -> None:
    """With the signs of the planted one taken away, something real is left that nobody may claim."""
    truth = Truth(slowdowns={"a": 3.0}, noise=0.03, is_observed=True)
    study = simulated_ladder("a", replicates=6)
    shown: Counter[str] = Counter()
    for seed in range(RUNS):
        run = run_rungs(study, SimulatedTrialRunner(truth, seed=seed), seed=seed)
        results = [
            replace(x, evidence=tuple(one for one in x.evidence if one.name != "buffer_hit_ratio"))
            for x in run.results
        ]
        found = mechanisms_of(record_of(study, results))
        shown.update(one.name for one in found.found if one.is_shown)
    # Reads take longer in truth, so that whoever needs no more than that is no false discovery.
    assert sum(shown.values()) <= RUNS / 20, shown
