"""What does an ablation aim at, and how many trials may it run?"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from pgdrag.designs import DesignParameters


class AblateParameters(DesignParameters):
    """Parameters of an ablation."""

    threshold: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.05,
        description="Smallest slowdown or speedup that matters, as a ratio less 1: 0.05 is 5 %",
    )
    share_precision: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.05,
        description="Target precision of each share, as a part of the whole: 0.05 is ±5 points",
    )
    max_trials: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Maximum number of trials, short ones included (default: 88 plus 4 per change)",
    )
    max_pairs: Annotated[int, Field(ge=0, le=100)] = Field(
        default=6, description="Maximum number of suspected pairs of changes to cross"
    )
    has_brief_screening: bool = Field(
        default=True, description="Screen with short trials; false: with trials of full length"
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Seed of the orders that shares are averaged over"
    )

    @property
    def log_threshold(self) -> float:
        """The threshold as a natural logarithm."""
        return math.log1p(self.threshold)
