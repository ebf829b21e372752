from __future__ import annotations

import math

import pytest

from pgdrag.designs.ablate.history import Value
from pgdrag.designs.ablate.labels import (
    Call,
    Label,
    call_all,
    effect,
    label_of,
    resolved,
)
from pgdrag.stats.effects import Effect

MATTERS = math.log(1.05)


def value(log, *, is_bound=False):
    return Value(log, 0.03**2, is_bound, 1, 20)


def called(*effects):
    return call_all(effects, matters=MATTERS)


def found(center, se=0.04):
    return Effect(center, center - 2 * se, center + 2 * se, se, 20)


@pytest.mark.parametrize(
    ("alone", "with_others", "label"),
    [
        (Call.SLOWER, Call.SLOWER, Label.BOTH),
        (Call.FASTER, Call.FASTER, Label.BOTH),
        (Call.SLOWER, Call.NONE, Label.REDUNDANT),
        (Call.NONE, Call.SLOWER, Label.NEEDS_PARTNER),
        (Call.NONE, Call.NONE, Label.INERT),
        (Call.SLOWER, Call.UNKNOWN, Label.SUFFICIENT),
        (Call.UNKNOWN, Call.FASTER, Label.NECESSARY),
        (Call.NONE, Call.SUSPECT, Label.UNDECIDED),
        (Call.UNKNOWN, Call.NONE, Label.UNDECIDED),
    ],
)
def test_two_calls_make_a_label(alone, with_others, label):
    none = found(0.0, se=0.01)
    assert label_of((none, alone), (none, with_others), matters=MATTERS) is label


@pytest.mark.parametrize(
    "effects", [(found(0.0), found(0.0, se=0.01)), (None, found(0.0, se=0.01))]
)
def test_inert_is_only_what_certainly_makes_no_difference_on_both_sides(effects):
    alone, with_others = ((one, Call.NONE) for one in effects)
    assert label_of(alone, with_others, matters=MATTERS) is Label.UNDECIDED


def test_a_large_effect_is_called_by_its_direction_and_none_where_there_is_none():
    assert called(found(1.0), found(-1.0), found(0.0)) == (Call.SLOWER, Call.FASTER, Call.NONE)


def test_an_effect_below_the_threshold_is_none_however_precise():
    assert called(found(0.04, se=0.001)) == (Call.NONE,)


def test_calls_allow_for_the_number_of_comparisons():
    borderline = found(0.12)  # p = 0.007
    assert called(borderline) == (Call.SLOWER,)
    assert called(borderline, *[found(0.0)] * 63)[0] is Call.SUSPECT


def test_many_true_effects_make_room_for_a_smaller_one():
    assert called(found(0.12), *[found(2.0)] * 63)[0] is Call.SLOWER


def test_an_effect_is_how_much_slower_the_second_is():
    one = effect(value(7.0), value(6.5))
    assert one.center == pytest.approx(0.5)
    assert one.low < 0.5 < one.high
    assert one.se == pytest.approx(0.03 * math.sqrt(2))


def test_a_treatment_that_committed_nothing_is_slower_by_a_bound():
    one = effect(value(7.0), value(1.0, is_bound=True))
    assert one.center == one.high == math.inf
    assert one.low == pytest.approx(6.0 - 2.086 * 0.03, abs=1e-3)
    assert called(one) == (Call.SLOWER,)


def test_against_a_reference_that_committed_nothing_only_faster_is_known():
    fast = effect(value(1.0, is_bound=True), value(7.0))
    slow = effect(value(1.0, is_bound=True), value(0.9))
    assert called(fast, slow) == (Call.FASTER, Call.UNKNOWN)


def test_two_that_committed_nothing_cannot_be_compared():
    assert effect(value(1.0, is_bound=True), value(1.0, is_bound=True)) is None
    assert effect(None, value(1.0)) is None
    assert called(None) == (Call.UNKNOWN,)


@pytest.mark.parametrize(
    ("se", "with_others"),
    [(0.04, Call.NONE), (0.5, Call.UNKNOWN)],  # the second reaches from -0.9 to 1.1
)
def test_a_comparison_too_imprecise_for_the_other_ones_effect_is_unknown(se, with_others):
    alone = (found(0.5), Call.SLOWER)
    assert resolved(alone, (found(0.1, se=se), Call.NONE)) == (Call.SLOWER, with_others)
    assert resolved((found(0.1, se=se), Call.NONE), alone) == (with_others, Call.SLOWER)


def test_two_comparisons_without_effect_stay_as_they_are():
    both = (found(0.0, se=0.5), Call.NONE)
    assert resolved(both, both) == (Call.NONE, Call.NONE)
