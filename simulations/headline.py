"""Do a ladder's trials go where the question is? Its headline in pairs first, beside whole blocks alone as before.

Both schemes have the trials of os-io's demo: five steps, each also alone and left out, two replicates. Of equal trials
the logarithms differ by 0.26 (a factor of 1.3), or by half of that; the noise is independent, or lasts from trial to trial.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pgdrag.designs.rungs import RungsFinding
from pgdrag.findings.values import Comparison, Verdict
from pgdrag.model import Host, RunRecord, Study
from pgdrag.model.design import make_design
from pgdrag.model.events import ignore
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, run_design, simulated_ladder
from simulations.rows import Row, share_row, value_row

REPEATS = 400
NOISES = (("1.3×", math.log(1.3)), ("1.14×", math.log(1.3) / 2))
_FACTORS = ("a", "b", "c", "d", "e")
_HOST = Host("simulated", 2, 1 << 30, "simulated", "simulated")
_LASTS = 0.7


@dataclass(frozen=True)
class Found:
    """What one run found.

    Attributes:
        whole: the last rung against the baseline.
        steps: each other rung against the baseline.
        trials: that it took.
    """

    whole: Comparison | None
    steps: Sequence[Comparison | None]
    trials: int


def simulate(scale: float) -> list[Row]:
    """Return what is told of headlines of several sizes, and how often too much is."""
    repeats = max(round(REPEATS * scale), 4)
    rows: list[Row] = []
    for words, noise in NOISES:
        for ratio, lasts in itertools.product((1.0, 1.2), (0.0, _LASTS)):
            rows += _schemes(words, noise, ratio, lasts, repeats)
    return rows + _schemes(*NOISES[0], 1.65, 0.0, repeats)


def study(*, is_first: bool) -> Study:
    """Return os-io's demo, with pairs first or without."""
    given = {} if is_first else {"headline": 0.0}
    made = simulated_ladder(*_FACTORS, replicates=2)
    return made.with_design("ladder", alone=True, without=True, threshold=0.1, **given)


def found(made: Study, truth: Truth, seed: int) -> Found:
    """Run a study against a truth, and return what its design found."""
    design, bench = make_design(made), SimulatedTrialRunner(truth, seed=seed)
    blocks = run_design(design, made, lambda trial: bench.run(trial, ignore), blocks=100, seed=seed)
    results = tuple(result for _, told in blocks for result in told)
    record = RunRecord("", made, _HOST, "", "", seed, 0.0, 1.0, "done", results, len(results))
    finding = design.find(record)
    assert isinstance(finding, RungsFinding), finding
    *steps, whole = (finding.comparison(rung.name) for rung in made.rungs[1:])
    return Found(whole, steps, len(results))


def _schemes(words: str, noise: float, ratio: float, lasts: float, repeats: int) -> list[Row]:
    # What makes it faster is the last step but one; every other does nothing.
    truth = Truth(slowdowns={"d": 1 / ratio}, noise=noise, autocorrelation=lasts)
    kind = f"noise that lasts ({lasts:g})" if lasts else "independent noise"
    rows = []
    for scheme, is_first in (("headline first", True), ("blocks alone", False)):
        name = f"ladder, {scheme}, equal trials differ by {words}, {kind}, {ratio:g}× faster"
        made, first_seed = study(is_first=is_first), zlib.crc32(name.encode())
        runs = [found(made, truth, first_seed + at) for at in range(repeats)]
        wholes = [one.whole for one in runs if one.whole is not None]
        told = sum(x.verdict in (Verdict.FASTER, Verdict.SLOWER) for x in wholes)
        right = sum(x.verdict is Verdict.FASTER for x in wholes)
        covered = sum(x.slowdown.low <= 1 / ratio <= x.slowdown.high for x in wholes)
        if ratio == 1:
            rows.append(share_row(f"{name}: headline told", told, repeats, "<= 0.05"))
            steps = [x for one in runs for x in one.steps if x is not None]
            wrong = sum(x.is_significant for x in steps)
            rows.append(
                share_row(f"{name}: steps told", wrong, len(steps), _goal("<= 0.05", is_first))
            )
        else:
            rows.append(
                share_row(
                    f"{name}: headline told",
                    right,
                    repeats,
                    _goal(_POWER[words, ratio, lasts], is_first),
                )
            )
            rows.append(
                share_row(
                    f"{name}: interval covers it", covered, repeats, _goal(">= 0.95", is_first)
                )
            )
        rows.append(value_row(f"{name}: trials, mean", fmean(one.trials for one in runs)))
    return rows


# What is promised, by the noise, the ratio and how the noise lasts.
_POWER = {
    ("1.3×", 1.2, 0.0): ">= 0.18",
    ("1.3×", 1.2, _LASTS): ">= 0.5",
    ("1.14×", 1.2, 0.0): ">= 0.7",
    ("1.14×", 1.2, _LASTS): ">= 0.95",
    ("1.3×", 1.65, 0.0): ">= 0.9",
}


def _goal(goal: str, is_promised: bool) -> str:
    return goal if is_promised else ""
