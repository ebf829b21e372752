"""Three points whose line the reader can draw, and SciPy's for any others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgdrag.stats.line import line_through

PLACES = (1.0, 2.0, 4.0, 5.0, 9.0)


def test_a_line_through_its_own_points_is_without_doubt():
    found = line_through([1, 2, 3], [5, 7, 9])
    assert (found.slope, found.slope_se, found.dof, found.p_value) == (2.0, 0.0, 1, 0.0)


def test_equal_values_have_no_slope_and_nothing_speaks_for_one():
    found = line_through([1, 2, 3], [4, 4, 4])
    assert (found.slope, found.slope_se, found.p_value) == (0.0, 0.0, 1.0)


@given(st.lists(st.integers(-1000, 1000), min_size=5, max_size=5).filter(lambda x: len(set(x)) > 2))
def test_it_is_the_line_of_least_squares(values):
    found, theirs = line_through(PLACES, values), stats.linregress(PLACES, values)
    assert found.slope == pytest.approx(theirs.slope, abs=1e-9)
    assert found.slope_se == pytest.approx(theirs.stderr, rel=1e-6, abs=1e-6)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-6)
