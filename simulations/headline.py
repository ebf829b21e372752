"""Do a ladder's trials go where the question is? Its headline in pairs first, beside whole blocks alone as before.

Both schemes have the trials of os-io's demo: five steps, each also alone and left out, two replicates. Of equal trials
the logarithms differ by 0.26 (a factor of 1.3), or by half of that; the noise is independent, or lasts from trial to trial.

And slow-42k's demo, whose last two steps hardly commit: two replicates in short windows beside what it was before, each
step once in a long window, and the baseline three times.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from pgdrag.designs.rungs import RungsFinding
from pgdrag.findings.find import design_finding, find
from pgdrag.findings.values import Comparison, Verdict
from pgdrag.model import RunRecord, Study
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, run_blocks, simulated_ladder
from simulations.rows import Row, share_row, value_row

REPEATS = 400
NOISES = (("1.3×", math.log(1.3)), ("1.14×", math.log(1.3) / 2))
_FACTORS = ("a", "b", "c", "d", "e")
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
    rows += _schemes(*NOISES[0], 1.65, 0.0, repeats)
    for words, noise in NOISES:
        rows += _slow(words, noise, repeats)
    return rows


def study(*, is_first: bool) -> Study:
    """Return os-io's demo, with pairs first or without."""
    given = {} if is_first else {"headline": 0.0}
    made = simulated_ladder(*_FACTORS, replicates=2)
    return made.with_design("ladder", alone=True, without=True, threshold=0.1, **given)


def found_by(made: Study, truth: Truth, seed: int) -> Found:
    """Run a study against a truth, and return what its design found."""
    run = _run(made, truth, seed)
    finding = design_finding(run)
    assert isinstance(finding, RungsFinding), finding
    *steps, whole = (finding.comparison(rung.name) for rung in made.rungs[1:])
    return Found(whole, steps, len(run.results))


def _schemes(words: str, noise: float, ratio: float, lasts: float, repeats: int) -> list[Row]:
    # What makes it faster is the last step but one; every other does nothing.
    truth = Truth(slowdowns={"d": 1 / ratio}, noise=noise, autocorrelation=lasts)
    kind = f"noise that lasts ({lasts:g})" if lasts else "independent noise"
    rows = []
    for scheme, is_first in (("headline first", True), ("blocks alone", False)):
        name = f"ladder, {scheme}, equal trials differ by {words}, {kind}, {ratio:g}× faster"
        made, first_seed = study(is_first=is_first), zlib.crc32(name.encode())
        runs = [found_by(made, truth, first_seed + at) for at in range(repeats)]
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


# Of the six steps of slow-42k: about what two processors showed.
_SLOWDOWNS = {"a": 1.0, "b": 1.1, "c": 1.7, "d": 10.0, "e": 3500.0, "f": 1.0}
_BESIDES_S = 12  # that a trial of it takes beside its load


def slow_study(*, is_former: bool = False) -> Study:
    """Return slow-42k's demo as it is, or as it was before it had replicates."""
    made = simulated_ladder(*_SLOWDOWNS, replicates=1 if is_former else 2)
    load = replace(made.load, warm_up_s=5, measure_s=10, budget_s=55)
    if is_former:
        load = replace(made.load, warm_up_s=8, measure_s=20, budget_s=60)
    made = replace(made, load=load)
    return made.with_design("ladder", baseline_repeats=3 if is_former else 1)


def _slow(words: str, noise: float, repeats: int) -> list[Row]:
    rows = []
    truth = Truth(slowdowns=_SLOWDOWNS, noise=noise)
    for scheme, is_former in (("two replicates", False), ("each step once", True)):
        name = f"ladder whose last steps hardly commit, {scheme}, equal trials differ by {words}"
        made, first_seed = slow_study(is_former=is_former), zlib.crc32(name.encode())
        runs = [find(_run(made, truth, first_seed + at)) for at in range(repeats)]
        wholes = [one.rungs[-1].to_baseline for one in runs]
        decided = sum(x is not None and x.verdict is Verdict.SLOWER for x in wholes)
        steps = [one.rungs[3].to_previous for one in runs]  # of "c": all four share one noise
        found = [x.slowdown for x in steps if x is not None]
        covered = sum(x.low <= _SLOWDOWNS["c"] <= x.high for x in found)
        factor = median(math.sqrt(x.high / x.low) for x in found)
        took_s = fmean(
            sum(
                _BESIDES_S + x.trial.load.warm_up_s + x.measurement.elapsed_s
                for x in one.run.results
                if x.measurement is not None
            )
            for one in runs
        )
        rows += [
            share_row(f"{name}: headline told", decided, repeats, ">= 0.99"),
            share_row(
                f"{name}: interval of a step covers it",
                covered,
                repeats,
                _goal(">= 0.94", not is_former),
            ),
            value_row(
                f"{name}: interval of a step, a factor of, median",
                factor,
                _goal(f"<= {_SLOW_FACTOR[words]:g}", not is_former),
            ),
            value_row(f"{name}: trials, mean", fmean(len(one.run.results) for one in runs)),
            value_row(f"{name}: minutes, mean", took_s / 60),
        ]
    return rows


def _run(made: Study, truth: Truth, seed: int) -> RunRecord:
    return run_blocks(made, SimulatedTrialRunner(truth, seed=seed), seed=seed)


_SLOW_FACTOR = {"1.3×": 2.5, "1.14×": 1.7}

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
