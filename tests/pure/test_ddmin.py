"""Delta debugging: minimal, groups first, nothing asked for twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs.bisect.ddmin import ddmin, smallest_set
from pgdrag.designs.bisect.sequential_test import SetVerdict


def run(units, verdict, method=ddmin):
    """Return what a search comes to, and the verdicts it asked for."""
    search, asked = method(units), {}
    try:
        subset = next(search)
        while True:
            assert subset not in asked
            asked[subset] = verdict(subset)
            subset = search.send(asked[subset])
    except StopIteration as done:
        return done.value, asked


def is_minimal(found, verdicts):
    """Return whether the set was tested without each of its members, and lost the outcome."""
    return len(found) == 1 or all(
        verdicts.get(found - {one}) is SetVerdict.LOSES for one in sorted(found)
    )


def needing(*guilty):
    """Return an oracle that keeps where all of these are there."""
    return lambda subset: SetVerdict.KEEPS if {*guilty} <= subset else SetVerdict.LOSES


def singles(count):
    return [frozenset([one]) for one in range(count)]


def test_one_of_many_is_found_in_few_tests():
    found, asked = run(singles(32), needing(17))
    assert found == {17}
    assert len(asked) <= 12


def test_groups_are_tried_as_wholes_first():
    groups = [frozenset(range(at, at + 8)) for at in range(0, 32, 8)]
    found, asked = run(groups, needing(9))
    assert found == {9}
    wholes = [subset for subset in asked if len(subset) >= 8]
    assert len(wholes) >= 2
    assert len(asked) <= 12


def test_a_pair_of_which_either_is_enough_gives_one_of_them():
    found, _ = run(
        singles(16), lambda subset: SetVerdict.KEEPS if subset & {3, 12} else SetVerdict.LOSES
    )
    assert found in ({3}, {12})


def test_what_stays_unresolved_is_not_left_out():
    def verdict(subset):
        if 5 not in subset:
            return SetVerdict.UNRESOLVED
        return SetVerdict.KEEPS if 2 in subset else SetVerdict.LOSES

    found, _ = run(singles(8), verdict)
    assert found == {2, 5}


def test_a_single_change_needs_no_test():
    assert run(singles(1), needing(0)) == ({0}, {})


def test_halving_takes_about_as_many_tests_for_each_guilty_change_as_the_line_can_be_halved():
    for guilty in ({17}, {3, 30}, {0, 9, 31}):
        found, asked = run(singles(32), needing(*guilty), smallest_set)
        assert found == guilty
        assert len(asked) <= 6 * len(guilty) + 2 * len(guilty)
        assert is_minimal(found, asked)


def test_where_tests_contradict_each_other_delta_debugging_takes_over():
    # 6 prevents what 2 and 3 do, unless 7 is there.
    def verdict(subset):
        is_kept = {2, 3} <= subset and (6 not in subset or 7 in subset)
        return SetVerdict.KEEPS if is_kept else SetVerdict.LOSES

    assert run(singles(8), verdict, smallest_set)[0] == {2, 3}


@pytest.mark.parametrize("method", [ddmin, smallest_set])
@given(st.sets(st.integers(0, 19), min_size=1, max_size=5), st.integers(1, 6))
def test_what_is_found_is_what_is_needed_and_minimal(method, guilty, size):
    units = [frozenset(range(at, min(at + size, 20))) for at in range(0, 20, size)]
    found, asked = run(units, needing(*guilty), method)
    assert found == guilty
    assert is_minimal(found, asked) or len(found) == 20
