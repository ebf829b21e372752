"""Sums that can be done by hand, and what cannot be estimated is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgdrag.stats.linear_model import fit
from pgdrag.stats.rates import TrialRate


def trials(*rates: tuple[int, float]) -> list[TrialRate]:
    """(block, transactions/s) of each trial; so many commits that counting them adds no doubt."""
    return [TrialRate(block, round(per_s * 1e6), 1e6) for block, per_s in rates]


def test_two_treatments_in_two_blocks_are_paired() -> None:
    found = fit({"a": trials((1, 200), (2, 800)), "b": trials((1, 100), (2, 200))}).slowdown(
        "a", "b"
    )
    assert found is not None
    # Log ratios log 2 and log 4: their mean, and their standard error with one degree of freedom.
    assert found.center == pytest.approx(1.5 * math.log(2))
    assert (found.se, found.dof) == (pytest.approx(0.5 * math.log(2)), 1)


def test_blocks_cancel_and_equal_trials_have_no_doubt_but_that_of_counting() -> None:
    made = fit({"a": trials((1, 100), (2, 300)), "b": trials((1, 50), (2, 150))})
    found = made.slowdown("a", "b")
    assert found is not None
    assert found.center == pytest.approx(math.log(2))
    assert found.se == pytest.approx(0, abs=1e-9)
    assert found.floor_se > 0


def test_the_interaction_is_what_both_do_beyond_the_product() -> None:
    levels = {"neither": 600, "one": 300, "other": 200, "both": 50}
    made = fit({name: trials((1, x), (2, 2 * x)) for name, x in levels.items()})
    found = made.contrast({"neither": -1, "one": 1, "other": 1, "both": -1})
    assert found is not None
    # 2 × and 3 × slower: 6 × would be no interaction, 12 × is twice that.
    assert math.exp(found.center) == pytest.approx(2)


def test_a_part_is_of_the_whole_on_the_log_scale() -> None:
    made = fit({name: trials((1, x), (2, x)) for name, x in {"a": 900, "b": 300, "c": 100}.items()})
    found = made.part({"a": 1, "b": -1}, {"a": 1, "c": -1})
    assert found is not None
    assert found.center == pytest.approx(0.5)
    assert found.low < 0.5 < found.high


def test_a_part_of_what_may_be_nothing_is_not_told() -> None:
    made = fit({"a": trials((1, 100), (2, 110)), "b": trials((1, 105), (2, 100))})
    assert made.part({"a": 1, "b": -1}, {"a": 1, "b": -1}) is None


def test_treatments_without_a_block_in_common_are_not_compared() -> None:
    made = fit({"a": trials((1, 100)), "b": trials((2, 50))})
    assert made.slowdown("a", "b") is None
    # A third one that ran in both blocks ties them.
    tied = fit({"a": trials((1, 100)), "b": trials((2, 50)), "c": trials((1, 10), (2, 10))})
    found = tied.slowdown("a", "b")
    assert found is not None
    assert math.exp(found.center) == pytest.approx(2)
    assert not found.has_between


def test_few_commits_and_unknown_names_have_no_contrast() -> None:
    made = fit({"a": trials((1, 100), (2, 100)), "b": [TrialRate(1, 3, 60.0)]})
    assert "b" not in made
    assert made.slowdown("a", "b") is None
    assert made.slowdown("a", "a") is None
    assert fit({}).slowdown("a", "b") is None


def test_without_repeats_the_doubt_is_that_within_the_trials() -> None:
    found = fit({"a": trials((1, 100)), "b": trials((1, 50))}).slowdown("a", "b")
    assert found is not None
    assert not found.has_between
    assert "the interval leaves out trial-to-trial noise" in found.warnings[0]


def test_the_rate_of_a_treatment_rests_on_the_noise_of_all() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    runs = 300
    for _ in range(runs):
        blocks = rng.normal(0, 0.5, 2)
        made = {
            str(name): trials(
                *((at, 100 * math.exp(blocks[at] + rng.normal(0, 0.1))) for at in (0, 1))
            )
            for name in range(8)
        }
        found = fit(made).rate("3")
        assert found is not None
        # What the two blocks were like is known, as it is in the trials of all the others.
        covered += found.low <= 100 * math.exp(blocks.mean()) <= found.high
        assert found.high / found.low < 2
    # 95 % wanted: fewer than 271 of 300 would be a chance of one in a thousand.
    assert covered >= 271


def test_without_repeats_no_rate_is_told() -> None:
    assert fit({"a": trials((1, 100)), "b": trials((1, 50))}).rate("a") is None
