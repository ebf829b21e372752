from __future__ import annotations

import pytest

from pgdrag.designs.ablate.history import Value
from pgdrag.designs.ablate.long_trials import Together, cross, suspected_pairs
from pgdrag.stats.effects import Effect


def read(first, second, both, *, se=0.02, is_bound=False):
    losses = (0.0, first, second, both)
    corners = tuple(Value(7 - loss, se**2, is_bound, 2, 20) for loss in losses)
    return cross(corners, matters=0.1)


@pytest.mark.parametrize(
    ("first", "second", "both", "together"),
    [
        (3.0, 3.0, 3.0, Together.EITHER),
        (2.7, 3.0, 3.1, Together.EITHER),
        (0.0, 0.0, 3.0, Together.BOTH_NEEDED),
        (0.3, 0.0, 3.0, Together.BOTH_NEEDED),
        (1.0, 2.0, 3.0, Together.ADD_UP),
        (1.0, 3.0, 3.0, Together.WEAKER),
        (1.0, 1.0, 3.0, Together.STRONGER),
        (-1.0, -1.0, -1.0, Together.EITHER),
        (0.0, 0.0, -2.0, Together.BOTH_NEEDED),
        (2.0, 0.0, 0.0, Together.WEAKER),
    ],
)
def test_a_factorial_says_how_two_changes_act_together(first, second, both, together):
    assert read(first, second, both).together is together


def test_the_interaction_is_what_both_do_beyond_the_sum():
    found = read(1.0, 2.0, 4.0)
    assert found.interaction.center == pytest.approx(1.0)
    # Four corners of the same error: twice the error of one.
    assert found.interaction.high - 1.0 == pytest.approx(2.086 * 0.04, rel=1e-3)


def test_noise_and_bounds_leave_a_pair_undecided():
    assert read(1.0, 1.0, 2.2, se=0.2).together is Together.UNDECIDED
    assert read(3.0, 3.0, 3.0, is_bound=True).together is Together.UNDECIDED


def pairs(differences, *, most=6, se=0.02):
    """Suspect pairs of changes by their effects with the others less their effects alone."""
    effects = {
        at: (Effect(1.0, 0.9, 1.1, se, 20), Effect(1.0 + size, 0.9, 1.1, se, 20))
        for at, size in enumerate(differences)
    }
    return tuple(suspected_pairs(effects, most=most))


def test_changes_that_lose_or_gain_alike_with_the_others_are_a_pair():
    assert pairs([-3.0, 2.0, 0.0, 2.02, -3.01]) == ((0, 4), (1, 3))


def test_differences_that_a_pair_explains_suspect_no_other_pair():
    assert pairs([2.0, 2.0, 2.0, 2.0]) == ((2, 3), (0, 1))


def test_a_change_with_two_partners_is_in_two_pairs():
    assert set(pairs([3.0, 1.0, 2.0])) == {(0, 1), (0, 2)}


def test_noise_suspects_no_pair_and_the_number_of_pairs_is_limited():
    assert pairs([0.05, 0.05]) == ()
    assert len(pairs([2.0] * 6, most=2)) == 2
