from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs.ablate.history import Value
from pgdrag.designs.ablate.shapley import (
    all_orders,
    both_ways,
    coalitions,
    drawn_orders,
    leverage,
    shares,
)


def game(players, loss, *, variance=0.01):
    """Values of all coalitions: `loss` says how much slower one makes the server, on the log scale."""
    every = [
        frozenset(some)
        for size in range(players + 1)
        for some in combinations(range(players), size)
    ]
    return {one: Value(7 - loss(one), variance, False, 1, 10) for one in every}


def centers(found):
    return [share.center for share in found.players]


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        (lambda s: sum(i + 1 for i in s), [1, 2, 3]),
        (lambda s: 2.0 * bool(s & {0, 1}), [1, 1, 0]),
        (lambda s: 2.0 * ({0, 1} <= s), [1, 1, 0]),
    ],
    ids=["that add up", "of which two do the same", "of which two need each other"],
)
def test_shares_of_three(loss, wanted):
    found = shares(3, all_orders(3), game(3, loss))
    assert centers(found) == pytest.approx(wanted)
    assert found.is_exact


@given(st.lists(st.floats(-5, 5), min_size=16, max_size=16), st.integers(0, 99))
def test_shares_add_up_to_the_whole_whatever_the_orders(losses, seed):
    def loss(some):
        return losses[sum(1 << player for player in some)]

    for draws in (all_orders(4), drawn_orders(4, seed, 3)):
        found = shares(4, draws, game(4, loss))
        assert sum(centers(found)) == pytest.approx(found.whole.center, abs=1e-9)
        assert found.whole.center == pytest.approx(losses[15] - losses[0], abs=1e-9)


@given(
    st.lists(st.floats(-5, 5), min_size=5, max_size=5),
    st.lists(st.floats(-5, 5), min_size=10, max_size=10),
    st.integers(0, 99),
)
def test_one_order_with_its_reverse_is_exact_where_changes_interact_in_pairs(alone, joint, seed):
    pairs = list(combinations(range(5), 2))

    def loss(some):
        return sum(alone[i] for i in some) + sum(
            size for pair, size in zip(pairs, joint, strict=True) if set(pair) <= some
        )

    exact = shares(5, all_orders(5), game(5, loss))
    drawn = shares(5, drawn_orders(5, seed, 1), game(5, loss))
    assert centers(drawn) == pytest.approx(centers(exact), abs=1e-9)


def test_an_interaction_of_three_widens_the_intervals_by_the_orders():
    values = game(6, lambda s: 3.0 * ({0, 1, 2} <= s), variance=1e-6)
    found = shares(6, drawn_orders(6, 1, 6), values)
    assert found.players[0].orders_se > 10 * found.players[0].noise_se
    assert found.players[0].low <= 1 <= found.players[0].high
    assert found.players[5].orders_se == pytest.approx(0, abs=1e-9)


def test_a_single_draw_of_many_players_has_an_infinite_interval():
    found = shares(6, drawn_orders(6, 1, 1), game(6, lambda s: len(s)))
    assert math.isinf(found.players[0].half_width)


def test_the_noise_of_a_share_is_that_of_its_values():
    # One player: its share is the difference of two values, each with a variance of 0.01.
    found = shares(1, all_orders(1), game(1, lambda s: len(s)))
    assert found.players[0].noise_se == pytest.approx(math.sqrt(0.02))
    assert found.players[0] == found.whole


def test_a_draw_with_a_coalition_that_did_not_start_is_left_out():
    values = game(3, lambda s: len(s))
    draws = drawn_orders(3, 1, 3)
    missing = frozenset(draws[0][:2])
    del values[missing]
    found = shares(3, draws, values)
    assert found is not None
    assert found.draws == sum(missing not in coalitions(draw) for draw in draws)
    every = shares(3, all_orders(3), values)
    assert every.draws == 1  # of 3: the one in which the third stands in the middle
    assert not every.is_exact
    assert shares(3, [draws[0]], values) is None


def test_drawn_orders_are_all_different_and_more_of_them_begin_with_the_same():
    few, many = drawn_orders(5, 7, 3), drawn_orders(5, 7, 9)
    assert many[:3] == few
    orders = [order for draw in many for order in both_ways(draw)]
    assert len(set(orders)) == len(orders) == 18
    assert len(drawn_orders(3, 7, 99)) == 3  # 6 orders are 3 with their reverses


def test_the_ends_weigh_most():
    weights = leverage(4, all_orders(4))
    ends = {frozenset(), frozenset(range(4))}
    assert min(weights[end] for end in ends) == max(weights.values())
