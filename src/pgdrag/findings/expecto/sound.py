"""Do two series go together, where neighbouring intervals resemble each other?

A second resembles the one before it, so that sixty of them tell less than sixty independent ones.
How much less follows from how long either series remembers: that is the effective number, and with
it Fisher's interval for r holds what it promises. tests/simulated shows it, on independent noise and on
noise that lasts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pgdrag.findings.expecto.findings import Correlation
from pgdrag.findings.expecto.published import Values, pearson
from pgdrag.stats.distributions import normal_beyond, normal_quantile

CONFIDENCE = 0.95
_LAGS_SHARE = 5  # products of autocorrelations are summed up to a fifth of the length
_MOST_R = 1 - 1e-12  # Fisher's transformation of 1 is infinite


def correlation(one: Values, other: Values) -> Correlation | None:
    """Return r of the intervals as they are; None where a side never changes.

    With three effective intervals or fewer nothing is told: the interval is all of -1 to 1, and p is 1.
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
    """Return how many independent pairs would tell as much of r as these; never more than there are.

    Source: Pyper and Peterman 1998, equation 1, with autocorrelations by their equation 7 (Box and
    Jenkins' estimate without its bias towards 0) and products summed up to a fifth of the length.
    """
    n = len(one)
    lags = np.arange(1, n // _LAGS_SHARE + 1)
    products = _autocorrelations(one, lags) * _autocorrelations(other, lags)
    inflation = 1 + 2 * float(((n - lags) / n * products).sum())
    return n / max(inflation, 1.0)


def _autocorrelations(values: Values, lags: NDArray[np.int64]) -> Values:
    n, centred = len(values), values - values.mean()
    whole = float((centred * centred).sum())
    raw = [float((centred[:-lag] * centred[lag:]).sum()) / whole for lag in lags]
    return np.array(raw) * n / (n - lags)
