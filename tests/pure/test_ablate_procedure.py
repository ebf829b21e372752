"""An ablation played on numbers: each set of changes has a planted loss, and trials have noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdrag.designs._subsets import Observed
from pgdrag.designs.ablate import Procedure, default_max_trials, smallest_max_trials
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.long_trials import Together
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome

TEN = math.log(10)


def play(loss, *, changes=32, noise=0.03, seed=1, fails=None, floor=None, options=None):
    """Play to the end.

    Args:
        loss: how much slower a set makes the server, on the log scale.
        fails: the outcome of a set that has no number, or None.
        floor: short trials see nothing slower than this loss, long ones see three times further.
    """
    rng = np.random.default_rng(seed)
    ablation = Procedure(changes, options or AblateParameters(seed=seed))
    while (wanted := ablation.request) is not None:
        ablation.tell(
            [_trial(one, wanted.is_brief, loss, noise, rng, fails, floor) for one in wanted.sets]
        )
    return ablation


def _trial(some, is_brief, loss, noise, rng, fails=None, floor=None):
    if fails is not None and (outcome := fails(some)) is not None:
        return Observed(some, is_brief, None, outcome)
    lost = loss(some) + rng.normal(0, noise * (1.5 if is_brief else 1))
    deepest = np.inf if floor is None else floor + (0 if is_brief else np.log(3))
    is_bound = lost > deepest
    reading = Reading(7 - min(lost, deepest), noise / 10, bool(is_bound), 1, is_brief)
    return Observed(some, is_brief, reading, Outcome.STALLED if is_bound else Outcome.MEASURED)


def labels(ablation):
    return {
        change: found.label
        for change, found in ablation.screening.screened().items()
        if found.label not in (Label.INERT, Label.UNDECIDED)
    }


def share_of(ablation, *changes):
    at = ablation.long_trials.players.index(frozenset(changes))
    return ablation.long_trials.shares().players[at]


def together(ablation):
    return {pair: found.together for pair, found in ablation.long_trials.crossed().items()}


def test_two_changes_of_which_either_suffices_are_redundant():
    found = play(lambda s: TEN * bool(s & {3, 20}))
    assert labels(found) == {3: Label.REDUNDANT, 20: Label.REDUNDANT}
    assert together(found) == {(3, 20): Together.EITHER}
    assert share_of(found, 3).center == pytest.approx(TEN / 2, abs=0.05)


def test_two_changes_that_need_each_other_say_so():
    found = play(lambda s: TEN * ({3, 20} <= s))
    assert labels(found) == {3: Label.NEEDS_PARTNER, 20: Label.NEEDS_PARTNER}
    assert together(found) == {(3, 20): Together.BOTH_NEEDED}
    assert share_of(found, 20).center == pytest.approx(TEN / 2, abs=0.05)


def test_speedups_have_negative_shares():
    found = play(lambda s: TEN * (1 in s) - math.log(3) * (2 in s))
    assert labels(found) == {1: Label.BOTH, 2: Label.BOTH}
    assert share_of(found, 2).high < 0


def test_a_pair_that_another_change_masks_is_found_by_the_checks():
    found = play(lambda s: TEN * ({3, 20} <= s or 9 in s))
    assert labels(found) == {3: Label.NEEDS_PARTNER, 20: Label.NEEDS_PARTNER, 9: Label.REDUNDANT}
    assert [one.is_hidden for one in map(found.screening.screened().get, (3, 9, 20))] == [1, 0, 1]
    assert [check.is_passed for check in found.screening.checks] == [True, True]
    assert together(found)[3, 20] is Together.BOTH_NEEDED


def test_two_pairs_that_mask_each_other_are_both_found():
    found = play(lambda s: TEN * ({3, 20} <= s or {7, 25} <= s))
    assert labels(found) == dict.fromkeys((3, 7, 20, 25), Label.NEEDS_PARTNER)
    assert together(found) == dict.fromkeys([(3, 20), (7, 25)], Together.BOTH_NEEDED)


def test_a_partner_that_matters_only_with_the_survivors_is_found():
    # Alone 9 does a part; with 3 and 20 it does it all, and so do 3, 20 and 25.
    found = play(lambda s: (0.5 * TEN) * (9 in s) + TEN * ({3, 9, 20} <= s or {3, 9, 25} <= s))
    assert {3, 9} <= set(found.screening.survivors)
    assert found.screening.checks[0].is_passed


def test_a_hidden_pair_beneath_a_much_slower_change_is_found():
    # As autovacuum and its thresholds beneath plans without an index.
    found = play(lambda s: max(7.0 * bool(s & {1, 2}), 0.5 * ({3, 20} <= s)))
    assert {1, 2, 3, 20} <= set(found.screening.survivors)
    assert together(found)[3, 20] is Together.BOTH_NEEDED


def test_many_small_effects_leave_no_survivor_and_are_reported_as_diffuse():
    found = play(lambda s: 0.02 * len(s))
    assert found.screening.is_diffuse
    assert len(found.screening.survivors) < 3
    assert found.long_trials.shares().players[-1].low > 0.5


def test_a_check_that_fails_by_little_starts_no_expensive_search():
    # 40 changes of half a per cent: no trial of a few of them could tell on which side it stands.
    found = play(lambda s: 0.005 * len(s), noise=0.06)
    assert not found.screening.survivors or len(found.screening.survivors) < 3
    assert found.history.brief_trials < 130


@pytest.mark.parametrize("noise", [0.03, 0.1])
@pytest.mark.parametrize("changes", [4, 40])
def test_without_any_effect_hardly_any_long_trials_are_run(changes, noise):
    played = [play(lambda s: 0.0, changes=changes, noise=noise, seed=seed) for seed in range(10)]
    assert sum(bool(labels(found)) for found in played) <= 1
    assert sum(found.long_trials is not None for found in played) <= 2
    assert sorted(found.history.trials for found in played)[5] <= (60 if changes == 40 else 40)


def test_a_change_that_prevents_the_start_is_left_out_and_the_rest_is_measured():
    found = play(
        lambda s: TEN * (1 in s), fails=lambda s: Outcome.DID_NOT_START if 7 in s else None
    )
    assert labels(found)[7] is Label.PREVENTS_START
    assert found.screening.whole == frozenset(range(32)) - {7}
    assert share_of(found, 1).center == pytest.approx(TEN, abs=0.1)


def test_two_that_crash_the_server_together_are_both_left_out():
    found = play(lambda s: TEN * (1 in s), fails=lambda s: Outcome.CRASHED if {7, 8} <= s else None)
    assert found.screening.left_out == {7: Label.CRASHES, 8: Label.CRASHES}
    assert labels(found)[1] is Label.BOTH


def test_a_change_that_starts_only_with_another_is_part_of_the_others():
    found = play(
        lambda s: TEN * (1 in s),
        fails=lambda s: Outcome.DID_NOT_START if 7 in s and 20 not in s else None,
    )
    assert found.screening.whole == frozenset(range(32))
    assert labels(found)[7] is Label.PREVENTS_START
    assert 1 in found.screening.survivors
    assert 7 not in found.screening.survivors


def test_outcomes_alone_give_the_labels_inert_and_untestable():
    for outcome, label in (
        (Outcome.INERT, Label.INERT),
        (Outcome.UNTESTABLE, Label.UNTESTABLE),
    ):
        alone = frozenset({2})
        ends = {alone: outcome}
        found = play(lambda s: TEN * (1 in s), changes=6, fails=ends.get)
        assert found.screening.screened()[2].label is label


def test_a_target_that_commits_nothing_has_shares_that_are_bounds():
    found = play(lambda s: 3.0 * (1 in s) + 4.0 * (2 in s), floor=5.5)
    assert found.screening.screened()[1].label.is_sufficient
    assert found.long_trials.shares().whole.center == pytest.approx(5.5 + math.log(3), abs=0.1)
    assert found.long_trials.shares().is_bounded


def test_in_a_target_that_commits_nothing_the_changes_largest_alone_are_crossed():
    found = play(lambda s: 4.5 * bool(s & {1, 2}) + 2.0 * (3 in s), floor=4.8)
    assert found.screening.screened()[1].label is Label.SUFFICIENT
    assert together(found)[1, 2] is Together.EITHER


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_reference_without_a_number_ends_the_ablation(outcome):
    found = play(lambda s: 0.0, changes=5, fails=lambda s: None if s else outcome)
    assert found.screening.problem == "reference"
    assert found.history.trials <= 6
    assert found.long_trials is None


@pytest.mark.parametrize("outcome", [Outcome.INVALID, Outcome.UNTESTABLE])
def test_without_a_number_of_the_target_effects_alone_remain(outcome):
    whole = frozenset(range(5))
    found = play(
        lambda s: TEN * (1 in s), changes=5, fails=lambda s: outcome if s == whole else None
    )
    assert found.screening.problem == "target"
    assert labels(found)[1] is Label.SUFFICIENT


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
def test_a_few_changes_are_no_special_case(changes):
    found = play(lambda s: TEN * (0 in s), changes=changes)
    assert found.request is None
    assert (found.long_trials is None) == (changes == 0)


@pytest.mark.parametrize("most", [80, 100, 130])
def test_the_budget_is_kept_and_the_smallest_survivors_are_part_of_the_others(most):
    def loss(some):
        return sum((1 + change / 10) for change in some if change < 12)

    found = play(loss, options=AblateParameters(max_trials=most))
    assert found.history.trials <= most
    kept = [min(player) for player in found.long_trials.players if len(player) == 1]
    assert {*found.long_trials.merged, *kept} == set(found.screening.survivors) >= set(range(12))
    assert all(change in kept for change in range(12) if change > min(kept, default=12))


def test_the_forecast_begins_with_a_screening_in_which_no_group_makes_a_difference():
    ablation = Procedure(32, AblateParameters())
    forecast = ablation.forecast()
    assert forecast.brief_least == 2 * 7 + 2 * 4
    assert forecast.brief_least + forecast.most == default_max_trials(32)
    assert smallest_max_trials(32) == forecast.brief_least + 6
    done = play(lambda s: 0.0)
    assert done.forecast().most == 0
    assert forecast.brief_least <= done.history.brief_trials <= forecast.brief_most


@pytest.mark.parametrize("most", [None, 130])
def test_no_forecast_exceeds_the_budget(most):
    ablation = Procedure(32, AblateParameters(max_trials=most))
    loss, rng = (lambda s: 1.1 * (1 in s)), np.random.default_rng(1)
    limit = most or default_max_trials(32)
    while (wanted := ablation.request) is not None:
        forecast = ablation.forecast()
        assert forecast.most + ablation.history.trials <= limit
        assert forecast.brief_most + ablation.history.trials <= limit
        assert len(wanted.sets) <= (forecast.brief_most if wanted.is_brief else forecast.most)
        ablation.tell([_trial(one, wanted.is_brief, loss, 0.02, rng) for one in wanted.sets])
    assert ablation.history.trials <= limit


def test_screening_by_long_trials_asks_for_no_short_one():
    options = AblateParameters(has_brief_screening=False)
    found = play(lambda s: TEN * ({3, 20} <= s), options=options)
    assert found.history.brief_trials == 0
    assert labels(found) == {3: Label.NEEDS_PARTNER, 20: Label.NEEDS_PARTNER}
