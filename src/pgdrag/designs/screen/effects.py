"""Which of many changes have an effect of their own? Two-level screening designs and what they show.

A Hadamard matrix of order N sets N - 1 changes in N trials so that every effect is an average over all
of them. Folded (each trial again with every change the other way round) no effect of a single change
is mixed up with the interaction of any two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pgdrag.stats.interval import LogEstimate
from pgdrag.stats.linear_model import least_squares
from pgdrag.stats.multiple_testing import holm
from pgdrag.stats.noise import pooled_noise

Matrix = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Screened:
    """Result of a screening.

    Attributes:
        effects: how many times slower each change makes it, on average over all settings of the others.
        p_adjusted: their p-values, adjusted for all changes (Holm).
        se: standard error of an effect; of the middle one where trials are missing.
        dof: of that.
        method: how the error was estimated, in a few words.
    """

    effects: tuple[LogEstimate, ...]
    p_adjusted: tuple[float, ...]
    se: float
    dof: float
    method: str


def hadamard(order: int) -> Matrix | None:
    """Return a normalised Hadamard matrix of this order; None where none of the constructions has one.

    Source: Sylvester 1867 (doubling); Paley 1933 (both constructions, over prime fields).
    """
    if order <= 2:
        return np.array([[1, 1], [1, -1]], dtype=np.int8)[:order, :order]
    if order % 4:
        return None
    half, first, second = hadamard(order // 2), order - 1, order // 2 - 1
    if _is_prime(first):
        found = np.eye(order, dtype=np.int64)
        found[0, 1:] += 1
        found[1:, 0] -= 1
        found[1:, 1:] += _jacobsthal(first)
    elif half is not None:
        found = np.block([[half, half], [half, -half]])
    elif second % 4 == 1 and _is_prime(second):
        symmetric = np.ones((second + 1, second + 1), dtype=np.int64)
        symmetric[0, 0], symmetric[1:, 1:] = 0, _jacobsthal(second)
        zero, plus = np.array([[1, -1], [-1, -1]]), np.array([[1, 1], [1, -1]])
        found = np.kron(symmetric, plus) + np.kron(np.eye(second + 1, dtype=np.int64), zero)
    else:
        return None
    # With a first row and a first column of ones.
    found = found * found[:, :1]
    return (found * found[:1, :]).astype(np.int8)


def screening_matrix(count: int, *, is_folded: bool = True) -> Matrix:
    """Return the design matrix: one row per trial, one column per change, 1 where the change is made.

    The smallest Hadamard matrix with more columns than changes; its first column is the mean.
    """
    assert count >= 1, "nothing to screen"
    order = 4 * (count // 4 + 1)
    while (found := hadamard(order)) is None:
        order += 4
    columns = found[:, 1 : count + 1]
    return np.vstack([columns, -columns]) if is_folded else columns.copy()


def screen(design: npt.ArrayLike, logs: npt.ArrayLike) -> Screened | None:
    """Estimate the effect of every change from trials, each with its row of the design.

    Args:
        design: a row a trial, as of `screening_matrix`; rows stand as often as they were run.
        logs: logarithms of throughput.

    Returns:
        None where the trials cannot tell the changes apart. Missing trials cost precision, but bias no
        effect: all effects are fitted together.

    Source: pure error from repeats of a row, else Lenth's pseudo standard error (1989); Holm 1979.
    """
    rows, y = np.asarray(design, dtype=float), np.asarray(logs, dtype=float)
    count = rows.shape[1] if rows.ndim == 2 else 0
    if count == 0 or len(y) <= count:
        return None
    solution, dof_left = least_squares(np.column_stack([np.ones(len(y)), rows]), y)
    if len(y) - dof_left <= count:
        return None
    # From one level to the other is a step of two.
    effects = -2 * (solution @ y)[1:]
    scales = 2 * np.linalg.norm(solution[1:], axis=1)
    scale = float(np.median(scales))
    repeats: dict[tuple[float, ...], list[float]] = {}
    for row, log in zip(rows, y, strict=True):
        repeats.setdefault(tuple(row), []).append(float(log))
    noise = pooled_noise(repeats.values())
    if noise is not None and noise.dof >= count / 3:
        se, dof = noise.log_sd * scale, float(noise.dof)
        method = f"pure error of {noise.dof} repeats"
    else:
        se, dof = lenth(effects.tolist())
        method = "Lenth's pseudo standard error of the effects themselves"
    found = [
        LogEstimate(float(effect), se * float(own / scale), dof, 0.0, f"t interval, {method}")
        for effect, own in zip(effects, scales, strict=True)
    ]
    p_adjusted = tuple(holm([one.p_value for one in found]))
    return Screened(tuple(found), p_adjusted, se, dof, method)


def lenth(effects: Sequence[float]) -> tuple[float, float]:
    """Return the pseudo standard error of unrepeated effects, and its degrees of freedom.

    It rests on most of the effects being none: so it is with many settings.
    """
    sizes = np.abs(np.asarray(effects, dtype=float))
    first = 1.5 * float(np.median(sizes))
    kept = sizes[sizes < 2.5 * first] if first > 0 else sizes
    return 1.5 * float(np.median(kept)) if len(kept) else 0.0, max(len(sizes) / 3, 1.0)


def _jacobsthal(q: int) -> npt.NDArray[np.int64]:
    """Return the matrix of quadratic characters of all differences modulo q."""
    squares = {i * i % q for i in range(1, q)}
    character = [0, *(1 if i in squares else -1 for i in range(1, q))]
    return np.array([[character[(i - j) % q] for j in range(q)] for i in range(q)])


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % i for i in range(2, math.isqrt(number) + 1))
