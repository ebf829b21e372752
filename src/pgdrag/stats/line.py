"""Which straight line runs through these points, and how sure is its slope?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pgdrag.stats.distributions import student_beyond


@dataclass(frozen=True)
class Line:
    """A line of least squares.

    Attributes:
        slope_se: standard error of the slope; 0 where all points lie on the line.
        dof: degrees of freedom of that error: points less two.
    """

    slope: float
    slope_se: float
    dof: int

    @property
    def p_value(self) -> float:
        """How likely points without any slope show one as large, by Student's t."""
        if self.slope_se == 0:
            return float(self.slope == 0)
        return 2 * student_beyond(abs(self.slope) / self.slope_se, self.dof)


def line_through(places: ArrayLike, values: ArrayLike) -> Line:
    """Return the line of least squares through three points or more, not all at one place.

    By hand, as scipy.stats.linregress checks its arguments for a hundred times as long as this takes.
    """
    x, y = np.asarray(places, float), np.asarray(values, float)
    x, y = x - x.mean(), y - y.mean()
    spread, dof = float(x @ x), len(x) - 2
    slope = float(x @ y) / spread
    rest = y - slope * x
    return Line(slope, math.sqrt(float(rest @ rest) / dof / spread), dof)
