"""What is asked of SciPy's special functions is what its distributions, which are slower, answer."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.stats import distributions as of
from pgdrag.stats.multiple_testing import false_discovery_rates

PROBABILITIES = st.floats(1e-9, 1 - 1e-9)
DOFS = st.floats(0.5, 1e6)
VALUES = st.floats(-50, 50)


def close(value):
    return pytest.approx(float(value), rel=1e-9, abs=1e-12)


@given(PROBABILITIES, VALUES)
def test_the_normal_one(probability, at):
    assert of.normal_quantile(probability) == close(scipy.stats.norm.ppf(probability))
    assert of.normal_beyond(at) == close(scipy.stats.norm.sf(at))


@given(PROBABILITIES, VALUES, DOFS | st.just(math.inf))
def test_students_also_with_infinite_degrees_of_freedom(probability, at, dof):
    assert of.t_multiplier(probability, dof) == close(scipy.stats.t.ppf((1 + probability) / 2, dof))
    assert of.student_beyond(at, dof) == close(scipy.stats.t.sf(at, dof))


@given(st.floats(0.5, 10), st.floats(1, 500), st.floats(0, 20))
def test_students_noncentral(at, dof, shift):
    found = of.noncentral_student_beyond(at, dof, shift)
    assert found == pytest.approx(float(scipy.stats.nct.sf(at, dof, shift)), abs=1e-6)


@given(st.floats(1, 200), st.floats(0.8, 0.9999), st.floats(0.5, 0.95))
def test_an_effect_of_that_size_is_significant_that_often(dof, confidence, power):
    shift = of.noncentrality(dof, confidence, power)
    quantile = of.t_multiplier(confidence, dof)
    assert scipy.stats.nct.sf(quantile, dof, shift) == pytest.approx(power, abs=1e-3)


@given(st.integers(3, 50), st.integers(0, 2**32 - 1))
def test_a_correlation(count, seed):
    one, other = np.random.default_rng(seed).standard_normal((2, count))
    known = scipy.stats.pearsonr(one, other)
    assert of.correlation_p_value(known.statistic, count) == close(known.pvalue)


def test_a_perfect_correlation_is_no_chance():
    assert of.correlation_p_value(-1.0, 3) == 0.0


@given(PROBABILITIES, st.floats(0, 50) | st.just(math.inf), DOFS, DOFS)
def test_fishers(probability, ratio, above, below):
    assert of.f_quantile(probability, above, below) == close(
        scipy.stats.f.ppf(probability, above, below)
    )
    assert of.f_beyond(ratio, above, below) == close(scipy.stats.f.sf(ratio, above, below))


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.01, 0.99))
def test_the_binomial_one(count, others, share):
    tries = count + others
    assert of.binomial_from(count, tries, share) == close(
        scipy.stats.binom.sf(count - 1, tries, share)
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from(["bh", "by"]))
def test_rates_of_false_discovery(p_values, method):
    known = scipy.stats.false_discovery_control(p_values, method=method)
    assert false_discovery_rates(p_values, method) == [close(rate) for rate in known]


def test_no_test_has_no_false_discovery():
    assert false_discovery_rates([]) == []
