"""By how much do treatments differ, where all trials of a run tell how noisy each of them is?

A run of twelve treatments in two blocks has two trials of each, too few for an interval of their own that is
of any use. Together they have twelve pairs of trials that differ by noise alone. So the logarithms of
throughput are taken as treatment + block + noise of one size, all of it estimated at once by least squares;
whatever is asked of the treatments (a step, a change alone, an interaction of two) is then a sum of their
logarithms with weights, a *contrast*, and has an interval.

What it takes for granted: noise is a share of throughput, and alike in all treatments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgdrag.english import counted
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.estimate import LogEstimate
from pgdrag.stats.interval import Interval
from pgdrag.stats.noise import Noise
from pgdrag.stats.rates import TrialRate, mean_rate, within_spread

Weights = Mapping[str, float]
_ESTIMABLE = 1e-8


@dataclass(frozen=True)
class LeastSquares:
    """Log throughput as a linear model with noise of one size; see `least_squares`.

    Attributes:
        model: one row a trial, one column a coefficient.
        solution: from the observed logarithms to the coefficients, one row a coefficient.
        logs: observed.
        dof: trials beyond those that the coefficients take up; 0: nothing was repeated.
    """

    model: NDArray[np.float64]
    solution: NDArray[np.float64]
    logs: NDArray[np.float64]
    dof: int

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """The estimates, one a column of the model."""
        return np.asarray(self.solution @ self.logs, dtype=np.float64)

    @property
    def noise(self) -> Noise | None:
        """Trial-to-trial noise, from the residuals; None where nothing was repeated."""
        if not self.dof:
            return None
        residuals = self.logs - self.model @ self.coefficients
        return Noise(math.sqrt(float(residuals @ residuals) / self.dof), self.dof)

    def weights_on_trials(self, wanted: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return what each trial's logarithm counts in a sum of coefficients; None where it cannot be estimated."""
        on_trials: NDArray[np.float64] = wanted @ self.solution
        is_estimable = np.abs(on_trials @ self.model - wanted).max() < _ESTIMABLE
        return on_trials if is_estimable else None


def least_squares(model: ArrayLike, logs: ArrayLike) -> LeastSquares:
    """Fit logarithms of throughput by a linear model, also one whose columns depend on each other."""
    rows, observed = np.asarray(model, dtype=np.float64), np.asarray(logs, dtype=np.float64)
    if not len(observed):
        return LeastSquares(rows, rows.T, observed, 0)
    dof = len(observed) - int(np.linalg.matrix_rank(rows))
    return LeastSquares(rows, np.asarray(np.linalg.pinv(rows), dtype=np.float64), observed, dof)


@dataclass(frozen=True)
class Fit:
    """Log throughput of treatments over blocks, by least squares; see `fit`.

    Attributes:
        trials: of each treatment, in the order of the first columns of `model`; then come the blocks but for
            the first.
        within: standard error of each logarithm from within its trial.
        noise: from trial to trial of one treatment in one block; None where nothing was repeated.
    """

    trials: Mapping[str, Sequence[TrialRate]]
    model: LeastSquares
    within: NDArray[np.float64]
    noise: Noise | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the treatments."""
        return tuple(self.trials)

    @property
    def dof(self) -> int:
        """Degrees of freedom of the noise; 0: nothing was repeated."""
        return self.model.dof

    def __contains__(self, name: str) -> bool:
        return name in self.trials

    def contrast(self, weights: Weights) -> LogEstimate | None:
        """Estimate a weighted sum of log throughputs.

        Args:
            weights: by treatment; their sum is 0, so that blocks cancel.

        Returns:
            None where a treatment has no trial that counts, or none in a block that ties it to the others.
        """
        on_trials = self._on_trials(weights)
        if on_trials is None:
            return None
        center = float(on_trials @ self.model.logs)
        within = math.sqrt(float(on_trials**2 @ self.within**2))
        if self.noise is None:
            warning = (
                "one trial each: what differs from trial to trial is not in the interval; "
                "run 2 or more replicates"
            )
            method = "delta method within single trials"
            return LogEstimate(center, within, math.inf, 0.0, method, (warning,), has_between=False)
        se = self.noise.log_sd * math.sqrt(float(on_trials @ on_trials))
        return LogEstimate(center, se, self.dof, within, f"t interval, {self._source}")

    def rate(self, name: str, *, confidence: float = 0.95) -> Interval | None:
        """Estimate a treatment's committed transactions/s in the run's own blocks.

        What further blocks would differ by is no part of it: two or three blocks cannot tell that.

        Returns:
            The geometric mean over its trials; None where it has none that counts, or nothing was repeated.
        """
        if name not in self or self.noise is None:
            return None
        method = f"t interval, {self._source}, these blocks"
        return mean_rate(self.trials[name], self.noise, method).interval(confidence)

    def slowdown(self, reference: str, treatment: str) -> LogEstimate | None:
        """Estimate how many times slower one treatment is than another."""
        return self.contrast({reference: 1.0, treatment: -1.0}) if reference != treatment else None

    def part(self, part: Weights, whole: Weights, *, confidence: float = 0.95) -> Interval | None:
        """Estimate which part one contrast is of another; None where the other could be 0.

        Source: Fieller 1954, for two estimates that depend on each other.
        """
        one, other = self.contrast(part), self.contrast(whole)
        if one is None or other is None or other.half_width(confidence) >= abs(other.center):
            return None
        rows = [self._on_trials(weights) for weights in (part, whole)]
        errors = np.array([row for row in rows if row is not None])
        within = errors @ np.diag(self.within**2) @ errors.T
        between = self.noise.log_sd**2 * errors @ errors.T if self.noise else within
        # Whichever error of the two says less, as for each of them alone.
        spread = between if between[1, 1] >= within[1, 1] else within
        square = t_multiplier(confidence, one.dof) ** 2
        a = other.center**2 - square * float(spread[1, 1])
        b = one.center * other.center - square * float(spread[0, 1])
        c = one.center**2 - square * float(spread[0, 0])
        if a <= 0:
            return None
        root = math.sqrt(max(b * b - a * c, 0.0))
        center = one.center / other.center
        return Interval((b - root) / a, center, (b + root) / a, confidence, "Fieller's interval")

    @property
    def _source(self) -> str:
        return f"noise of {counted(len(self.names), 'treatment')} together"

    def _on_trials(self, weights: Weights) -> NDArray[np.float64] | None:
        """Return what each trial's logarithm counts in a contrast; None where it cannot be estimated."""
        assert abs(sum(weights.values())) < _ESTIMABLE, weights
        if not weights.keys() <= self.trials.keys():
            return None
        wanted = np.zeros(self.model.model.shape[1])
        for name, weight in weights.items():
            wanted[self.names.index(name)] = weight
        return self.model.weights_on_trials(wanted)


def fit(trials: Mapping[str, Sequence[TrialRate]]) -> Fit:
    """Estimate treatments and blocks from all trials of a run.

    Args:
        trials: of each treatment by its name. Treatments with a trial that committed fewer than 30
            transactions are left out: what their logarithms do by chance is another thing.
    """
    known = {
        name: rates
        for name, rates in trials.items()
        if rates and not any(rate.has_few_commits for rate in rates)
    }
    names = tuple(known)
    observed = [(at, rate) for at, name in enumerate(names) for rate in known[name]]
    blocks = sorted({rate.block for _, rate in observed})
    model = np.zeros((len(observed), len(names) + max(len(blocks) - 1, 0)))
    for row, (at, rate) in enumerate(observed):
        model[row, at] = 1.0
        if rate.block != blocks[0]:
            model[row, len(names) + blocks.index(rate.block) - 1] = 1.0
    found = least_squares(model, [math.log(rate.per_s) for _, rate in observed])
    within = np.array([within_spread(rate).log_se for _, rate in observed])
    return Fit(known, found, within, found.noise)
