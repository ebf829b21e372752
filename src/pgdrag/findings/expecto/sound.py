"""Are two series correlated, allowing for autocorrelation?

A second resembles the one before it, so sixty of them carry less information than sixty independent ones. The
effective number of intervals follows from the autocorrelation of both series; with it Fisher's interval
for r has its nominal coverage. tests/simulated shows it, on white and on autocorrelated noise.
"""

from __future__ import annotations

import math

import numpy as np

from pgdrag.findings.expecto.findings import Correlation
from pgdrag.findings.expecto.published import Values, pearson
from pgdrag.stats.distributions import normal_beyond, normal_quantile

CONFIDENCE = 0.95
_LAGS_SHARE = 5  # autocorrelations are used up to a fifth of the length
_MOST_R = 1 - 1e-12  # Fisher's transformation of 1 is infinite


def correlation(one: Values, other: Values) -> Correlation | None:
    """Return r of the intervals as counted; None where a side is constant.

    With three effective intervals or fewer, the interval is all of -1 to 1, and p is 1.
    """
    r = pearson(one, other)
    if r is None:
        return None
    n = effective_n(one, other)
    if n <= 3:
        return Correlation(r, -1.0, 1.0, 1.0, n)
    z = math.atanh(max(min(r, _MOST_R), -_MOST_R))
    se = 1 / math.sqrt(n - 3)
    half = normal_quantile((1 + CONFIDENCE) / 2) * se
    p = 2 * normal_beyond(abs(z) / se)
    return Correlation(r, math.tanh(z - half), math.tanh(z + half), p, n)


def effective_n(one: Values, other: Values) -> float:
    """Return how many independent pairs carry as much information on r as these; never more than there are.

    Source: Pyper and Peterman 1998, equation 1, with autocorrelations by their equation 7 (Box and
    Jenkins' estimate without its bias toward 0) and products summed up to a fifth of the length.
    """
    n = len(one)
    kept = n - np.arange(1.0, n // _LAGS_SHARE + 1)  # pairs at each lag
    products = _autocorrelations(one, kept) * _autocorrelations(other, kept)
    return n / max(1 + 2 * float((kept / n * products).sum()), 1.0)


def _autocorrelations(values: Values, kept: Values) -> Values:
    n, centred = len(values), values - values.mean()
    sums = np.correlate(centred, centred, "full")[n - 1 :]
    return np.asarray(sums[1 : len(kept) + 1] / sums[0] * n / kept)
