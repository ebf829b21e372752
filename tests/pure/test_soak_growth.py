"""What the soak takes for growth: a trend that no noise explains, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "soak"))

from growth import growth

LOOKS_S = np.arange(0.0, 1200.0, 5.0)
HOURS = LOOKS_S / 3600


def rough(seed: int) -> np.ndarray:
    """Memory that moves: each look resembles the one before."""
    draw, level, found = np.random.default_rng(seed), 0.0, []
    for _ in LOOKS_S:
        level = 0.7 * level + draw.normal(0, 0.1)
        found.append(level)
    return np.array(found)


def test_a_leak_is_growth_however_rough_the_rest_is():
    found = growth(LOOKS_S, 60 + rough(1) + 12 * HOURS)
    assert found.low < 12 < found.high
    assert found.is_beyond(1.0)


def test_what_only_moves_is_none():
    false = [growth(LOOKS_S, 60 + rough(seed)).is_beyond(1.0) for seed in range(300)]
    assert sum(false) <= 6  # one side of 99 %, and more than nothing is allowed


def test_what_is_loaded_in_the_beginning_is_none():
    found = growth(LOOKS_S, np.where(HOURS < 0.1, 40.0, 60.0) + rough(2))
    assert not found.is_beyond(1.0)


def test_a_file_now_and_again_that_is_never_closed_is_growth():
    assert growth(LOOKS_S, 15 + (LOOKS_S // 120)).is_beyond(1.0)


def test_what_never_changes_grows_by_nothing():
    found = growth(LOOKS_S, [15.0] * len(LOOKS_S))
    assert (found.low, found.per_h, found.high) == pytest.approx((0, 0, 0), abs=1e-9)


def test_few_looks_tell_nothing():
    assert growth(LOOKS_S[:20], [1.0] * 20) is None
