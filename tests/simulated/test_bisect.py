"""Bisection on the simulated laboratory, through the real loop's trials and the analysis."""

from dataclasses import replace

import pytest

from pgdrag.designs.bisect.findings import BisectFinding
from pgdrag.findings.find import find
from pgdrag.model import Level, Outcome, Rung, Treatment
from pgdrag.model.design import parameters_of
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, run_blocks, simulated_ladder

NAMES = [f"s{at:02}" for at in range(32)]
GROUPS = {name: f"group {at // 4}" for at, name in enumerate(NAMES)}


def study_of(**parameters):
    """Return a study between nothing set and 32 settings."""
    levels = tuple(Level("setting", name, "on") for name in NAMES)
    rungs = (
        Rung("good", "", Treatment("good")),
        Rung("bad", "", Treatment("bad", levels), levels),
    )
    return replace(
        simulated_ladder("a"),
        rungs=rungs,
        design="bisect",
        design_parameters=parameters_of("bisect", {"groups": GROUPS, **parameters}),
    )


def bisected(truth, *, runner=SimulatedTrialRunner, blocks=1000, replicates=1, **parameters):
    """Return what so many blocks of a bisection find."""
    study = study_of(**parameters).with_replicates(replicates)
    found = find(run_blocks(study, runner(truth, seed=1), blocks=blocks)).found
    assert isinstance(found, BisectFinding)
    return found


def guilty(found):
    return {one.name for one in found.guilty}


PLAIN = Truth(base_tps=1000, slowdowns={"s03": 30.0, "s10": 5.0, "s20": 1.1}, noise=0.04)


def test_the_guilty_are_found_and_confirmed():
    found = bisected(PLAIN)
    assert found.ending == "found"
    assert guilty(found) == {"s03", "s10"}
    assert found.is_minimal
    assert found.share.low <= found.share.center <= found.share.high
    assert found.share.center == pytest.approx(0.98, abs=0.03)
    assert found.trials <= 40
    assert "2 of 32 changes are enough: s03 and s10 keep" in found.answer


def test_it_ends_with_what_reverting_the_set_restores():
    found = bisected(PLAIN)
    (reverted,) = found.reverted
    assert set(reverted.changes) == guilty(found)
    assert reverted.is_enough
    assert reverted.restored.low < 0.98 < reverted.restored.high
    assert "Reverting them restores 9" in found.answer
    assert found.also == ()


def test_of_two_that_do_the_same_the_second_is_named_as_well():
    # Whoever reverts only the one that is named stays slow.
    either = Truth(
        base_tps=1000,
        slowdowns={"s08": 50.0, "s23": 50.0},
        interactions={frozenset({"s08", "s23"}): 1 / 50},
        noise=0.04,
    )
    found = bisected(either)
    (also,) = found.also
    assert {*guilty(found), *also} == {"s08", "s23"}
    first, both = found.reverted
    assert not first.is_enough
    assert first.slowdown.center == pytest.approx(50, rel=0.2)
    assert both.is_enough
    assert f"{also[0]} does the same. Reverting both restores" in found.answer


def test_a_pair_that_does_the_same_is_named_as_well():
    pair = frozenset({"s12", "s30"})
    truth = Truth(
        base_tps=1000,
        slowdowns={"s08": 50.0},
        interactions={pair: 50.0, pair | {"s08"}: 1 / 50},
        noise=0.03,
    )
    found = bisected(truth, max_trials=60)
    assert {frozenset(guilty(found)), *map(frozenset, found.also)} == {frozenset({"s08"}), pair}


def test_of_a_redundant_pair_one_is_found():
    either = Truth(
        base_tps=1000,
        slowdowns={"s08": 200.0, "s09": 200.0, "s17": 3.0},
        interactions={frozenset({"s08", "s09"}): 1 / 200},
        noise=0.04,
    )
    found = bisected(either)
    assert guilty(found) in ({"s08", "s17"}, {"s09", "s17"})


def test_a_pair_that_only_counts_together_is_found_within_a_group_and_across_groups():
    for pair in (frozenset({"s04", "s07"}), frozenset({"s04", "s25"})):
        found = bisected(Truth(base_tps=1000, interactions={pair: 50.0}, noise=0.03))
        assert guilty(found) == pair


def test_a_setting_that_hurts_only_upon_another_is_found():
    upon = Truth(
        base_tps=1000,
        slowdowns={"s00": 40.0},
        interactions={frozenset({"s00", "s30"}): 20.0},
        noise=0.04,
    )
    assert guilty(bisected(upon)) == {"s00", "s30"}


def test_a_speedup_is_bisected_too():
    found = bisected(Truth(base_tps=10, slowdowns={"s05": 1 / 40}, noise=0.03))
    assert guilty(found) == {"s05"}
    assert "of the log speedup" in found.answer


def test_two_ends_that_do_not_differ_end_it_at_once():
    found = bisected(Truth(base_tps=1000, noise=0.05))
    assert found.ending == "no difference"
    assert found.trials <= 7
    assert "do not differ significantly" in found.answer


@pytest.mark.parametrize("outcome", [Outcome.DID_NOT_START, Outcome.CRASHED])
def test_a_target_that_does_not_run_is_bisected_by_its_outcome(outcome):
    found = bisected(Truth(outcomes={"s13": outcome}))
    assert guilty(found) == {"s13"}
    assert found.outcome == outcome.value
    assert found.trials <= 40


def test_a_part_that_does_not_run_while_the_target_does_is_unresolved():
    class Frail(SimulatedTrialRunner):
        def run(self, trial, listen):
            result = super().run(trial, listen)
            names = trial.treatment.of_kind("setting").keys()
            if "s03" in names and "s16" not in names and len(names) < 32:
                return replace(result, outcome=Outcome.DID_NOT_START, measurement=None)
            return result

    found = bisected(PLAIN, runner=Frail)
    assert found.trials <= 40
    assert found.share is None or found.share.high > 0.9 or found.warnings


def test_a_target_that_stalls_is_bisected_by_its_bound():
    stalls = Truth(base_tps=500, slowdowns={"s01": 1e5, "s02": 1.3}, noise=0.03)
    found = bisected(stalls)
    assert guilty(found) == {"s01"}
    assert found.is_censored
    assert any("lower bound" in warning for warning in found.warnings)


def test_a_reference_without_a_number_is_no_answer():
    class Crashing(SimulatedTrialRunner):
        def run(self, trial, listen):
            return replace(super().run(trial, listen), outcome=Outcome.CRASHED, measurement=None)

    found = bisected(PLAIN, runner=Crashing)
    assert found.trials == 3
    assert "good has no number" in found.answer


@pytest.mark.parametrize("blocks", [0, 1, 2, 4, 8])
def test_an_unfinished_run_has_an_answer(blocks):
    found = bisected(PLAIN, blocks=blocks)
    assert found.ending == "under way"
    assert found.answer


def test_replicates_count_as_trials_of_one_set():
    found = bisected(PLAIN, replicates=2, max_trials=100)
    assert guilty(found) == {"s03", "s10"}


def test_the_limit_is_kept():
    found = bisected(PLAIN, max_trials=14)
    assert found.trials <= 14


def test_changes_that_read_the_same_at_both_ends_are_left_out():
    class Fixed(SimulatedTrialRunner):
        def run(self, trial, listen):
            result = super().run(trial, listen)
            fixed = tuple(
                replace(x, effective="off", default="off") if x.level.name == "s31" else x
                for x in result.applied
            )
            return replace(result, applied=fixed)

    run = run_blocks(study_of(), Fixed(PLAIN, seed=1))
    assert find(run).found.inert == ("s31",)
    later = [one.trial.treatment for one in run.results if one.trial.treatment.name != "bad"]
    assert all("s31" not in treatment.of_kind("setting") for treatment in later)


def test_a_target_that_crashed_once_by_chance_is_bisected_by_its_throughput():
    class Unlucky(SimulatedTrialRunner):
        def run(self, trial, listen):
            result = super().run(trial, listen)
            if trial.treatment.name == "bad" and trial.block == 1:
                return replace(result, outcome=Outcome.CRASHED, measurement=None)
            return result

    assert guilty(bisected(PLAIN, runner=Unlucky)) == {"s03", "s10"}
