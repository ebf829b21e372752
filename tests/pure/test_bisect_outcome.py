"""A bisection by an outcome: the set is minimal, groups are tried first, nothing is asked for twice."""

from hypothesis import given
from hypothesis import strategies as st

from pgdrag.designs._subsets import Observed
from pgdrag.designs.bisect.procedure import BisectParameters, Ending, Procedure
from pgdrag.findings.readings import Reading
from pgdrag.model import Outcome

STARTS, FAILS, UNKNOWN = Outcome.MEASURED, Outcome.DID_NOT_START, Outcome.INVALID


def run(count, outcome, *, size=1):
    """Return the set that a bisection of groups of a size comes to, and the sets it tried beside the ends."""
    bisection, asked = played(count, outcome, size)
    return bisection.found, asked


def played(count, outcome, size=1):
    """Return a bisection at its end, and the sets it tried beside the ends with their outcomes."""
    groups = {f"s{at:02}": f"F / {at // size}" for at in range(count)} if size > 1 else {}
    bisection = Procedure(
        [f"s{at:02}" for at in range(count)], BisectParameters(groups=groups, max_trials=1000)
    )
    asked = {}
    while (request := bisection.request) is not None:
        results = []
        for one in request.sets:
            end = outcome(one) if one else STARTS
            reading = Reading(7.0, 0.01, False, 1, True) if end is STARTS else None
            results.append(Observed(one, True, reading, end))
            if 0 < len(one) < count:
                assert one not in asked or bisection.history.stage == "confirm"
                asked[one] = end
        bisection.tell(results)
    assert bisection.ending is Ending.FOUND
    return bisection, asked


def needing(*guilty):
    return lambda subset: FAILS if {*guilty} <= subset else STARTS


def is_minimal(found, asked):
    """Return whether the set was tried without each of its members, and started."""
    return len(found) == 1 or all(asked[found - {one}] is STARTS for one in sorted(found))


def test_halving_takes_about_as_many_tests_for_each_guilty_change_as_the_line_can_be_halved():
    for guilty in ({17}, {3, 30}, {0, 9, 31}):
        found, asked = run(32, needing(*guilty))
        assert found == guilty
        assert len(asked) <= 6 * len(guilty) + 2 * len(guilty)
        assert is_minimal(found, asked)


def test_a_pair_of_which_either_is_enough_gives_one_of_them():
    found, _ = run(16, lambda subset: FAILS if subset & {3, 12} else STARTS)
    assert found in ({3}, {12})


def test_what_else_has_the_outcome_is_found_and_reverted_too():
    bisection, _ = played(16, lambda subset: FAILS if subset & {3, 12} else STARTS)
    assert {bisection.found, *bisection.also} == {frozenset({3}), frozenset({12})}
    assert [bisection.is_restored(rest) for rest in bisection.reverted] == [False, True]


def test_what_stays_unresolved_is_not_left_out():
    def outcome(subset):
        if 5 not in subset:
            return UNKNOWN
        return FAILS if 2 in subset else STARTS

    assert run(8, outcome)[0] == {2, 5}


def test_a_single_change_needs_no_test():
    assert run(1, needing(0)) == ({0}, {})


def test_where_tests_contradict_each_other_groups_and_then_changes_are_left_out():
    # 6 prevents what 2 and 3 do, unless 7 is there.
    def outcome(subset):
        return FAILS if {2, 3} <= subset and (6 not in subset or 7 in subset) else STARTS

    for size in (1, 2):
        found, asked = run(8, outcome, size=size)
        assert found == {2, 3}
        assert is_minimal(found, asked)


@given(st.sets(st.integers(0, 19), min_size=1, max_size=5), st.integers(1, 6))
def test_what_is_found_is_what_is_needed_and_minimal(guilty, size):
    found, asked = run(20, needing(*guilty), size=size)
    assert found == guilty
    assert is_minimal(found, asked)
