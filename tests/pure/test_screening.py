"""Hadamard designs: orthogonal, and right about planted effects."""

import math

import numpy as np
import pytest

from pgdrag.designs.screen.effects import hadamard, lenth, screen, screening_matrix
from pgdrag.stats.multiple_testing import holm


@pytest.mark.parametrize("order", [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 60, 64, 76])
def test_rows_and_columns_of_a_hadamard_matrix_are_orthogonal(order):
    found = hadamard(order).astype(int)
    assert set(np.unique(found)) <= {-1, 1}
    assert (found @ found.T == order * np.eye(order)).all()
    assert (found[0] == 1).all()
    assert (found[:, 0] == 1).all()


def test_orders_that_none_of_the_constructions_has_are_passed_over():
    assert hadamard(52) is None
    assert hadamard(6) is None
    assert screening_matrix(50, is_folded=False).shape == (56, 50)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 19, 32])
def test_in_a_folded_design_no_two_changes_look_like_a_third(count):
    rows = screening_matrix(count).astype(int)
    assert (rows.T @ rows == len(rows) * np.eye(count)).all()
    pairs = np.array([rows[:, i] * rows[:, j] for i in range(count) for j in range(i)])
    if len(pairs):
        assert (pairs @ rows == 0).all()


def test_planted_effects_are_found_and_an_interaction_moves_none():
    rows = screening_matrix(32)
    rng = np.random.default_rng(1)
    both = (rows[:, 4] > 0) & (rows[:, 9] > 0)
    logs = 5.0 - 1.5 * (rows[:, 7] > 0) - 0.6 * (rows[:, 20] > 0) - 0.8 * both
    found = screen(rows, logs + rng.normal(0, 0.05, len(rows)))
    told = {at for at, p in enumerate(found.p_adjusted) if p <= 0.05}
    # The pair shows half of what it does in each of the two.
    assert told == {4, 7, 9, 20}
    assert found.effects[7].center == pytest.approx(1.5, abs=0.05)
    assert found.effects[4].center == pytest.approx(0.4, abs=0.05)


def test_missing_trials_cost_precision_and_nothing_else():
    rows = screening_matrix(12)
    logs = 3.0 - 0.7 * (rows[:, 3] > 0)
    kept = np.arange(len(rows)) % 7 != 0
    found = screen(rows[kept], logs[kept])
    assert found.effects[3].center == pytest.approx(0.7)
    assert max(abs(x.center) for at, x in enumerate(found.effects) if at != 3) < 1e-9


def test_too_few_trials_tell_nothing():
    rows = screening_matrix(12)
    assert screen(rows[:10], np.zeros(10)) is None
    assert screen([], []) is None


def test_repeats_give_the_error_themselves():
    rows = np.vstack([screening_matrix(5)] * 3)
    rng = np.random.default_rng(2)
    found = screen(rows, rng.normal(0, 0.1, len(rows)))
    assert found.method.startswith("pure error")
    assert found.se == pytest.approx(2 * 0.1 / math.sqrt(len(rows)), rel=0.5)


def test_holm_is_never_below_bonferroni_of_the_smallest_and_ascends():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_lenth_is_not_fooled_by_a_few_large_effects():
    rng = np.random.default_rng(3)
    effects = [*rng.normal(0, 0.1, 28), 3.0, -2.0, 1.0]
    error, dof = lenth(effects)
    assert 0.06 < error < 0.16
    assert dof == pytest.approx(31 / 3)
