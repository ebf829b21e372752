"""A mechanism is named where it was planted, and nowhere else more often than one time in twenty."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pgdrag.findings.find import find
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.lab import expand
from pgdrag.model import Block, Host, RunRecord
from pgdrag.model.events import ignore
from pgdrag.testing.simulated import EPOCH_UNIX_S, SimulatedTrialRunner, Truth, simulated_ladder
from pgdrag.testing.simulated_server import SlowBy

RUNS = 60
HOST = Host("simulated", 2, 1 << 30, "simulated", "simulated")


def named(truth: Truth, *, replicates: int, seed: int) -> list[str]:
    """The mechanisms named on the one step of a ladder, the largest share first."""
    study = simulated_ladder("a", replicates=replicates)
    bench, results = SimulatedTrialRunner(truth, seed=seed), []
    block = Block(tuple(rung.treatment for rung in study.rungs))
    for trial in expand(block, study, seed=seed, block_number=1, first_number=1):
        results.append(bench.run(trial, ignore))
    run = RunRecord(
        "simulated", study, HOST, "18", "0", seed, EPOCH_UNIX_S, None, "done", tuple(results)
    )
    return [one.name for one in find(run).rungs[1].get(MechanismsFinding).named]


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
    block = Block(tuple(rung.treatment for rung in study.rungs))
    for seed in range(RUNS):
        bench = SimulatedTrialRunner(truth, seed=seed)
        results = []
        for trial in expand(block, study, seed=seed, block_number=1, first_number=1):
            result = bench.run(trial, ignore)
            kept = tuple(x for x in result.evidence if x.name != "buffer_hit_ratio")
            results.append(replace(result, evidence=kept))
        run = RunRecord(
            "simulated", study, HOST, "18", "0", seed, EPOCH_UNIX_S, None, "done", tuple(results)
        )
        found = find(run).rungs[1].get(MechanismsFinding)
        shown.update(one.name for one in found.found if one.is_shown)
    # Reads take longer in truth, so that whoever needs no more than that is no false discovery.
    assert sum(shown.values()) <= RUNS / 20, shown
