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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pgdrag.english import counted
from pgdrag.stats.distributions import t_multiplier
from pgdrag.stats.interval import Comparison, Interval, LogEstimate
from pgdrag.stats.noise import ONE_TRIAL, Noise
from pgdrag.stats.rates import TrialRate, mean_rate, repeat_noise, within_spread

Weights = Mapping[str, float]
_ESTIMABLE = 1e-8
_PAIR = 2  # trials
_ENOUGH_DOF = 4  # of the noise in longer blocks: fewer make any interval too wide


def least_squares(model: ArrayLike, logs: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """Fit logarithms of throughput by a linear model, also one whose columns depend on each other.

    Args:
        model: one row a trial, one column a coefficient.

    Returns:
        The matrix that leads from the logarithms to the coefficients, one row a coefficient; and how many
        trials there are beyond those that the coefficients take up, 0 where nothing was repeated.
    """
    rows, count = np.asarray(model, dtype=np.float64), len(np.asarray(logs))
    if not count:
        return rows.T, 0
    dof = count - int(np.linalg.matrix_rank(rows))
    return np.asarray(np.linalg.pinv(rows), dtype=np.float64), dof


@dataclass(frozen=True)
class Fit:
    """Log throughput of treatments over blocks, by least squares; see `fit`.

    Attributes:
        trials: of each treatment, in the order of the first columns of `model`; then come the blocks but for
            the first.
        model, solution: see `least_squares`.
        logs: the logarithm of each trial's throughput.
        within: standard error of each logarithm from within its trial.
        noise: from trial to trial of one treatment in one block, from the residuals, see `fit`; None where nothing
            was repeated.
    """

    trials: Mapping[str, Sequence[TrialRate]]
    model: NDArray[np.float64]
    solution: NDArray[np.float64]
    logs: NDArray[np.float64]
    within: NDArray[np.float64]
    noise: Noise | None

    @property
    def dof(self) -> int:
        """Degrees of freedom of the noise; 0 where nothing was repeated."""
        return 0 if self.noise is None else self.noise.dof

    def __contains__(self, name: str) -> bool:
        return name in self.trials

    def contrast(self, weights: Weights) -> LogEstimate | None:
        """Estimate a weighted sum of log throughputs.

        Args:
            weights: by treatment; their sum is 0, so that blocks cancel.

        Returns:
            None without weights, and where a treatment has no trial that counts, or none in a block that ties
            it to the others.
        """
        on_trials = self._on_trials(weights)
        if on_trials is None:
            return None
        center = float(on_trials @ self.logs)
        within = math.sqrt(float(on_trials**2 @ self.within**2))
        if self.noise is None:
            method = "delta method within single trials"
            why = (ONE_TRIAL,)
            return LogEstimate(center, within, math.inf, 0.0, method, why, has_between=False)
        se = self.noise.log_sd * math.sqrt(float(on_trials @ on_trials))
        return LogEstimate(center, se, self.dof, within, f"t interval, {self._source}")

    def rate(self, name: str, *, confidence: float = 0.95) -> Interval | None:
        """Estimate a treatment's committed transactions/s in the run's own blocks.

        It does not include the variation of further blocks, which two or three blocks cannot tell.

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

    def compare(self, reference: str, treatment: str) -> Comparison | None:
        """Return the verdict on that; None where there is no estimate."""
        found = self.slowdown(reference, treatment)
        return None if found is None else found.comparison()

    def part(self, part: Weights, whole: Weights, *, confidence: float = 0.95) -> Interval | None:
        """Estimate the ratio of one contrast to another; None where the other could be 0.

        Source: Fieller 1954, for two estimates that depend on each other.
        """
        one, other = self.contrast(part), self.contrast(whole)
        if one is None or other is None or other.half_width(confidence) >= abs(other.center):
            return None
        errors = np.array([self._on_trials(weights) for weights in (part, whole)])
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
        return f"noise of {counted(len(self.trials), 'treatment')} together"

    def _on_trials(self, weights: Weights) -> NDArray[np.float64] | None:
        """Return what each trial's logarithm counts in a contrast; None where it cannot be estimated."""
        assert abs(sum(weights.values())) < _ESTIMABLE, weights
        if not weights or not weights.keys() <= self.trials.keys():
            return None
        wanted = np.zeros(self.model.shape[1])
        for at, name in enumerate(self.trials):
            wanted[at] = weights.get(name, 0.0)
        on_trials: NDArray[np.float64] = wanted @ self.solution
        is_estimable = np.abs(on_trials @ self.model - wanted).max() < _ESTIMABLE
        return on_trials if is_estimable else None


def fit(trials: Mapping[str, Sequence[TrialRate]]) -> Fit:
    """Estimate treatments and blocks from all trials of a run.

    The trials of a pair are neighbours, and on a machine whose noise lasts they differ less than those of a longer
    block. So where there are both, the noise is what is left in the longer blocks; where these are too few to say, what
    trials of one treatment differ by over the whole run.

    Args:
        trials: of each treatment by its name. Treatments with a trial that committed fewer than 30
            transactions are left out: what their logarithms do by chance is another thing.
    """
    found = _fitted(trials)
    lengths = Counter(rate.block for rates in found.trials.values() for rate in rates)
    longer = {block for block, length in lengths.items() if length > _PAIR}
    if not longer or len(longer) == len(lengths):
        return found
    of_longer = {
        name: [x for x in rates if x.block in longer] for name, rates in found.trials.items()
    }
    noise = _fitted(of_longer).noise
    if noise is None or noise.dof < _ENOUGH_DOF:
        noise = repeat_noise(found.trials.values()) or noise
    return replace(found, noise=noise)


def _fitted(trials: Mapping[str, Sequence[TrialRate]]) -> Fit:
    known = {
        name: rates
        for name, rates in trials.items()
        if rates and not any(rate.has_few_commits for rate in rates)
    }
    observed = [(at, rate) for at, rates in enumerate(known.values()) for rate in rates]
    blocks = sorted({rate.block for _, rate in observed})
    model = np.zeros((len(observed), len(known) + max(len(blocks) - 1, 0)))
    for row, (at, rate) in enumerate(observed):
        model[row, at] = 1.0
        if rate.block != blocks[0]:
            model[row, len(known) + blocks.index(rate.block) - 1] = 1.0
    logs = np.array([math.log(rate.per_s) for _, rate in observed])
    within = np.array([within_spread(rate).log_se for _, rate in observed])
    solution, dof = least_squares(model, logs)
    residuals = logs - model @ (solution @ logs)
    noise = Noise(math.sqrt(float(residuals @ residuals) / dof), dof) if dof else None
    return Fit(known, model, solution, logs, within, noise)
