"""How often is a steady window called a trend, and do the intervals of slope and half-life cover the truth?"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.together import RungDecay, rung_decay, rung_decays
from pgdrag.model import Outcome, Result, Rung, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Counts, DriverCost, Measurement, Sample
from simulations.expecto import noise
from simulations.rows import Row, share_row

REPEATS = 1000  # of steady windows
FALLS = 200  # of falling ones, each of which takes three curves
LENGTHS = (20, 30, 60, 120)  # intervals of a window
NOISES = ((0.02, 0.0), (0.05, 0.3), (0.1, 0.6))  # size and autocorrelation
_RATE = 5000.0
_TREATMENT = Treatment("A0")
Curve = Callable[[float], float]  # log rate, less that at the beginning, at a share of the window


class Truth(NamedTuple):
    """A curve of log rates over a window, from 0 at its beginning, and where it has halved."""

    name: str
    curve: Curve
    half_life: float


def _floor(share: float, bend: float) -> Truth:
    return Truth(
        f"exponential toward {share:.0%}".replace("%", " %"),
        lambda u: math.log(share + (1 - share) * math.exp(-bend * u)),
        -math.log((0.5 - share) / (1 - share)) / bend,
    )


def _hyperbolic(tau: float) -> Truth:
    return Truth(f"hyperbolic, tau {tau:g} windows", lambda u: -math.log1p(u / tau), tau)


STEADY = Truth("steady", lambda u: 0.0, math.inf)
FALLING = (
    Truth("exponential, -50 %", lambda u: -math.log(2) * u, 1.0),
    _hyperbolic(1.2),
    _hyperbolic(0.25),
    _floor(0.4, 3.0),
)


def simulate(scale: float) -> list[Row]:
    """Return how often steady windows are called falling or rising, and what intervals cover."""
    repeats, falls = (max(round(count * scale), 60) for count in (REPEATS, FALLS))
    rng = np.random.default_rng(31)
    rows: list[Row] = []
    for length, (size, memory) in product(LENGTHS, NOISES):
        name = (
            f"decay, {length} intervals, noise {size:.0%} with autocorrelation {memory:g}".replace(
                "%", " %"
            )
        )
        false = false_alarms(rng, length, size, memory, repeats)
        rows.append(share_row(f"{name}: steady, called a trend", false, repeats, "<= 0.05"))
        for truth in FALLING:
            slope, half_life = covered(rng, truth, length, size, memory, falls)
            rows += [
                share_row(f"{name}, {truth.name}: slope covered", slope, falls, ">= 0.9"),
                share_row(f"{name}, {truth.name}: half-life covered", half_life, falls, ">= 0.9"),
            ]
    rows.append(_of_three_trials(rng, falls))
    for differ in (0.0, 0.2):
        hits = of_many_rungs(rng, differ, falls)
        name = f"decay, 6 rungs of 2 trials of 30 intervals whose slopes differ by {differ * 100:.0f} %"
        rows.append(share_row(f"{name}: mean slope covered", hits, 6 * falls, ">= 0.9"))
    return rows


def false_alarms(
    rng: np.random.Generator, length: int, size: float, memory: float, repeats: int
) -> int:
    """Count steady windows that are called falling or rising."""
    return sum(
        fitted(rng, STEADY, length, size, memory).direction in ("falling", "rising")
        for _ in range(repeats)
    )


def covered(
    rng: np.random.Generator, truth: Truth, length: int, size: float, memory: float, repeats: int
) -> tuple[int, int]:
    """Count windows whose intervals hold the true slope, and the true half-life."""
    slope = half_life = 0
    for _ in range(repeats):
        found = fitted(rng, truth, length, size, memory)
        slopes, halvings = found.slope(), found.halvings_per_s()
        slope += slopes.low <= truth.curve(1.0) * 60 / length <= slopes.high
        half_life += halvings.low <= 1 / (truth.half_life * length) <= halvings.high
    return slope, half_life


def _of_three_trials(rng: np.random.Generator, repeats: int) -> Row:
    """Return how often three trials whose slopes differ cover the slope that they differ around."""
    hits = 0
    for _ in range(repeats):
        falls = math.log(2) * (1 + 0.2 * rng.standard_normal(3))
        truths = [Truth("", lambda u, fall=fall: -fall * u, 1.0) for fall in falls]  # type: ignore[misc]
        found = _decay_of([window(rng, truth, 30, 0.05, 0.3) for truth in truths])
        slopes = found.slope()
        hits += slopes.low <= -math.log(2) * 2 <= slopes.high
    name = "decay, 3 trials of 30 intervals whose slopes differ by 20 %: mean slope covered"
    return share_row(name, hits, repeats, ">= 0.9")


def of_many_rungs(rng: np.random.Generator, differ: float, repeats: int) -> int:
    """Count slopes covered of six rungs with two trials each, whose slopes differ by such a share."""
    hits = 0
    for _ in range(repeats):
        rungs = [_two_trials(rng, f"A{at}", differ) for at in range(6)]
        for found in rung_decays(rungs).values():
            slopes = found.slope()
            hits += slopes.low <= -math.log(2) * 2 <= slopes.high
    return hits


def _two_trials(rng: np.random.Generator, name: str, differ: float) -> RungTrials:
    windows = []
    for _ in range(2):
        fall = math.log(2) * (1 + differ * rng.standard_normal())
        truth = Truth("", lambda u, fall=fall: -fall * u, 1.0)  # type: ignore[misc]
        windows.append(window(rng, truth, 30, 0.05, 0.3))
    results = tuple(result_of(at + 1, samples) for at, samples in enumerate(windows))
    return RungTrials(Rung(name, "", Treatment(name)), results)


def fitted(
    rng: np.random.Generator, truth: Truth, length: int, size: float, memory: float
) -> RungDecay:
    """Return what is found of one window."""
    return _decay_of([window(rng, truth, length, size, memory)])


def window(
    rng: np.random.Generator, truth: Truth, length: int, size: float, memory: float
) -> tuple[Sample, ...]:
    """Return the samples of one window, a second each."""
    logs = size * noise(rng, length, memory)
    return tuple(
        Sample(at + 1.0, 1.0, round(_RATE * math.exp(truth.curve((at + 0.5) / length) + logs[at])))
        for at in range(length)
    )


def _decay_of(windows: list[tuple[Sample, ...]]) -> RungDecay:
    results = tuple(result_of(at + 1, samples) for at, samples in enumerate(windows))
    found = rung_decay(RungTrials(Rung("A0", "", Treatment("A0")), results))
    assert found is not None
    return found


def result_of(
    number: int, samples: tuple[Sample, ...], treatment: Treatment = _TREATMENT
) -> Result:
    """Return a measured trial with these samples."""
    length_s = float(len(samples))
    load = LoadProfile(connections=8, warm_up_s=0, measure_s=length_s, budget_s=length_s)
    committed = sum(one.committed for one in samples)
    counts = {"simulated": Counts(scheduled=committed, committed=committed)}
    measured = Measurement(length_s, "deadline", counts, {}, samples, DriverCost(1.0, 1.0))
    trial = Trial(number, number, number, treatment, WorkloadSpec("simulated"), load, seed=1)
    return Result(trial, Outcome.MEASURED, 0.0, measurement=measured)
