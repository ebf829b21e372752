"""Fewer changes are kept only where a trial bears them out."""

import math

import pytest

from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.parameters import Dimension, SearchParameters
from pgdrag.designs.search.procedure import Procedure, Stage
from pgdrag.designs.search.proposal import best, best_tried
from pgdrag.designs.search.reduction import Reduction
from pgdrag.designs.search.response import Kernels, Tried, respond
from pgdrag.designs.search.space import Space
from pgdrag.designs.search.trials import Observed
from pgdrag.model import Treatment

BOTH, ONE = (1, 1), (1, 0)
SPACE = Space(
    tuple(Dimension(name=name, values=("off", "on"), start="off") for name in ("cache", "index")),
    Treatment("baseline"),
)


def kept_after(log_gain_of_both, log_gain_of_one, variance):
    """Return what a reduction keeps once half of the changes were tried; variances are of few commits."""
    tried = [
        Tried(SPACE.start, 0.0, 1e-4, 1),
        Tried(BOTH, log_gain_of_both, variance, 1),
        Tried(SPACE.start, 0.0, 1e-4, 2),
        Tried(BOTH, log_gain_of_both, variance, 2),
        Tried(ONE, log_gain_of_one, variance, 2),
    ]
    reduction = Reduction(whole=BOTH, kept=BOTH)
    reduction.judge(ONE, respond(Kernels(SPACE), tried), Feasible(SPACE), 0.95)
    return reduction.kept


@pytest.mark.parametrize("variance", [0.001, 0.1, 0.5])
def test_a_loss_is_not_excused_by_few_commits(variance):
    assert kept_after(10.0, 8.4, variance) == BOTH


@pytest.mark.parametrize("variance", [0.001, 0.1, 0.5])
def test_what_brings_nothing_is_left_out(variance):
    assert kept_after(10.0, 10.0, variance) == ONE


def test_a_hundredth_less_is_within_the_noise():
    assert kept_after(0.3, 0.3 + math.log(0.99), 0.001) == ONE


def test_what_failed_another_time_is_not_the_best():
    tried = [Tried(SPACE.start, 0.0, 1e-4, block) for block in (1, 2)]
    tried += [Tried(point, gain, 1e-3, 1) for point, gain in ((BOTH, 5.0), (ONE, 3.0))]
    response, feasible = respond(Kernels(SPACE), tried), Feasible(SPACE)
    feasible.worked += [BOTH, ONE]
    assert best(response, feasible) == BOTH
    feasible.failed.append(BOTH)
    assert best(response, feasible) == ONE


def test_what_lost_much_is_not_the_best_although_all_of_its_changes_gain():
    values = {SPACE.start: 0.0, ONE: 0.5, (0, 1): 0.5, BOTH: -6.0}
    tried = [
        Tried.of(point, value, 1e-4, block, start=0.0)
        for block in (1, 2)
        for point, value in values.items()
        if point != BOTH or block == 2
    ]
    response, feasible = respond(Kernels(SPACE), tried), Feasible(SPACE)
    assert response.gain(BOTH)[0] > max(response.gain(ONE)[0], response.gain((0, 1))[0])
    assert BOTH not in {best(response, feasible), best_tried(response, feasible)}


def expected_of_an_untried_change(loss):
    """Return the log gain that the model expects of a change after trials of twenty others at once."""
    dimensions = tuple(
        Dimension(name=f"d{at}", values=("low", "middle", "high"), start="middle")
        for at in range(40)
    )
    space = Space(dimensions, Treatment("baseline"))
    far = [tuple(2 * (at < 20) + (at >= 20) for at in range(40))]
    far += [tuple(0 if at < 20 else 1 for at in range(40))]
    tried = [Tried(space.start, 0.0, 1e-4, block) for block in (1, 2)]
    tried += [Tried(point, -loss, 1e-4, block) for block, point in enumerate(far, start=1)]
    effect, _ = respond(Kernels(space), tried).effects[39]
    return effect[2]


def test_where_changes_lose_much_others_are_expected_to_lose_too():
    assert expected_of_an_untried_change(loss=2.0) < expected_of_an_untried_change(loss=0.5) < 0
    assert expected_of_an_untried_change(loss=0.0) == pytest.approx(0, abs=0.02)


def switches(count):
    """Return a space of so many settings that are off or on, and may well matter."""
    dimensions = tuple(
        Dimension(name=f"d{at}", values=("off", "on"), start="off", is_expected=True)
        for at in range(count)
    )
    return Space(dimensions, Treatment("baseline"))


@pytest.mark.parametrize("seed", range(5))
def test_what_disappoints_whenever_it_is_tried_is_not_the_winner(seed):
    """What effects add up to is worth nothing when it comes to it; what was tried before keeps its gain."""
    space = switches(60)
    procedure = Procedure(space, SearchParameters(goal="minimize", max_trials=12, seed=seed))
    seen = {}
    while procedure.stage in (Stage.EXPLORING, Stage.COMPETING):
        for point in procedure.request.points:
            seen.setdefault(point, 0.1 * sum(point) * (procedure.stage is Stage.EXPLORING))
        block = len(procedure.history)
        procedure.tell(
            [Observed(x, (seen[x],), (1e-3,), block, True, False) for x in procedure.request.points]
        )
    assert seen[procedure.main.winner] == max(seen.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_claim_owes_nothing_to_the_luck_of_what_was_chosen(seed):
    space = switches(12)
    procedure = Procedure(space, SearchParameters(goal="maximize", max_trials=16, seed=seed))
    tried = {space.start}
    while procedure.stage is not Stage.PROVING:
        told = []
        for point in procedure.request.points:
            lucky = 0.2 * (point not in tried)
            tried.add(point)
            values = (0.1 * sum(point[:4]) + lucky,)
            told.append(Observed(point, values, (1e-4,), len(procedure.history), True, False))
        procedure.tell(told)
    claim = procedure.main.claim
    assert claim.gain == pytest.approx(0.1 * sum(claim.point[:4]))
    assert claim.low < claim.gain < claim.high
