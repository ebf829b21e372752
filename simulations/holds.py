"""Are dose curves, deciders and recoveries found where they are planted, and rarely elsewhere?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.together import rung_decay
from pgdrag.findings.dose.analysis import horizon_finding
from pgdrag.findings.dose.findings import HorizonFinding
from pgdrag.findings.holds.levels import FACTOR, HOLD, HOLDER
from pgdrag.model import Level, Result, Rung, Treatment
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import HOLD_EVENT, Event, Recordings, Series
from simulations.decay import result_of
from simulations.expecto import noise
from simulations.rows import Row, share_row

REPEATS = 200
HOLDS_S = (0.0, 10.0, 15.0, 20.0, 30.0, 40.0)
WINDOW_S = 60
NOISE, MEMORY = 0.05, 0.3
BETWEEN = 0.02  # standard deviation of the log rate from trial to trial
_RATE = 5000.0
_HALF_DOSE_S = 30.0
_CLEANED_S = 4.0  # after a release, until 1/e of the cost is left
# Log rate, of the time held so far, of how long it was held in the end, and of the time since.
Law = Callable[[float, float, float], float]


def nothing(held_s: float, whole_s: float, since_s: float) -> float:
    """Let no hold cost anything."""
    return 0.0


def by_length(held_s: float, whole_s: float, since_s: float) -> float:
    """Let the time held cost, and nothing after it."""
    return -math.log1p(held_s / _HALF_DOSE_S)


def by_bloat(held_s: float, whole_s: float, since_s: float) -> float:
    """Let what was left behind cost: after the release it stays."""
    return -math.log1p((held_s or (whole_s if since_s > 0 else 0.0)) / _HALF_DOSE_S)


def cleaned(held_s: float, whole_s: float, since_s: float) -> float:
    """Let the cost of the hold go after it, by and by."""
    left = whole_s * math.exp(-since_s / _CLEANED_S) if since_s > 0 else 0.0
    return -math.log1p((held_s or left) / _HALF_DOSE_S)


def simulate(scale: float) -> list[Row]:
    """Return how often each analysis is right, and how often it finds what is not there."""
    repeats = max(round(REPEATS * scale), 40)
    rng = np.random.default_rng(37)
    found = {
        law.__name__: [run(rng, law) for _ in range(repeats)]
        for law in (nothing, by_length, by_bloat, cleaned)
    }
    lengths = {name: [finds_length(one) for one in runs] for name, runs in found.items()}
    bloats = {name: [finds_bloat(one) for one in runs] for name, runs in found.items()}
    back = [one for run_ in found["cleaned"] for one in _recoveries_held(run_)]
    return [
        share_row(
            "holds cost nothing: a dose curve falls", falls(found["nothing"]), repeats, "<= 0.05"
        ),
        share_row("half-dose of 30 s covered", covered(found["by_length"]), repeats, ">= 0.9"),
        share_row(
            "holds cost nothing: bloat is reported", sum(bloats["nothing"]), repeats, "<= 0.05"
        ),
        share_row(
            "holds cost nothing: the length is reported",
            sum(lengths["nothing"]),
            repeats,
            "<= 0.05",
        ),
        share_row(
            "the length costs: bloat is reported", sum(bloats["by_length"]), repeats, "<= 0.05"
        ),
        share_row("the length costs: it is reported", sum(lengths["by_length"]), repeats, ">= 0.8"),
        share_row(
            "bloat costs: the length is reported", sum(lengths["by_bloat"]), repeats, "<= 0.05"
        ),
        share_row("bloat costs: it is reported", sum(bloats["by_bloat"]), repeats, ">= 0.8"),
        share_row("recovery time lies in its range", sum(back), len(back), ">= 0.9"),
    ]


def run(rng: np.random.Generator, law: Law) -> HorizonFinding:
    """Return what is found of two trials of each hold."""
    every = [_trials(rng, law, at, held_s) for at, held_s in enumerate(HOLDS_S)]
    decays = {one.rung.name: rung_decay(one) for one in every}
    found = horizon_finding(every, {name: x for name, x in decays.items() if x is not None})
    assert found is not None
    return found


def falls(runs: list[HorizonFinding]) -> int:
    """Count runs whose dose curve falls."""
    return sum(one.doses[0].verdict == "falls" for one in runs)


def covered(runs: list[HorizonFinding]) -> int:
    """Count runs whose interval holds the planted half-dose."""
    halves = [one.doses[0].half_dose_s for one in runs]
    return sum(x is not None and x.low <= _HALF_DOSE_S <= x.high for x in halves)


def finds_length(found: HorizonFinding) -> bool:
    """Tell whether throughput is said to go with the length of the hold."""
    return found.deciders[0].deciders[0].verdict in ("the length, not this", "both")


def finds_bloat(found: HorizonFinding) -> bool:
    """Tell whether throughput is said to go with bloat."""
    return found.deciders[0].deciders[0].verdict in ("this, not the length", "both")


def _recoveries_held(found: HorizonFinding) -> list[bool]:
    hits = []
    for one in found.recoveries:
        # The mean of the five seconds from then on: what is left of the cost in their middle.
        left = 1 / one.share - 1
        truth = _CLEANED_S * math.log(max(one.held_s / _HALF_DOSE_S / left, 1.0))
        hits.append(one.back_s.low - 1 <= max(truth - 2.5, 0.0) <= one.back_s.high + 1)
    return hits


def _trials(rng: np.random.Generator, law: Law, at: int, held_s: float) -> RungTrials:
    name = f"H{at}"
    levels = (Level(FACTOR, HOLDER, "transaction"), Level(FACTOR, HOLD, f"{held_s:g}s"))
    treatment = Treatment(name, levels if held_s else ())
    results = tuple(
        _result(rng, law, treatment, 2 * at + replicate, held_s) for replicate in (1, 2)
    )
    return RungTrials(Rung(name, "", treatment), results)


def _result(
    rng: np.random.Generator, law: Law, treatment: Treatment, number: int, held_s: float
) -> Result:
    logs = NOISE * noise(rng, WINDOW_S, MEMORY) + BETWEEN * rng.standard_normal()
    times = [at + 0.5 for at in range(WINDOW_S)]
    planted = [law(t_s if t_s <= held_s else 0.0, held_s, max(t_s - held_s, 0.0)) for t_s in times]
    rates = [_RATE * math.exp(one + float(log)) for one, log in zip(planted, logs, strict=True)]
    samples = tuple(Sample(at + 1.0, 1.0, round(rate)) for at, rate in enumerate(rates))
    bloat = tuple(1 + min(t_s, held_s) / 10 for t_s in times)
    series = Series("bloat_ratio", "bloat", "count", tuple(times), bloat)
    events = (Event(HOLD_EVENT, 0.0, held_s, "transaction"),) if held_s else ()
    result = result_of(number, samples, treatment)
    return replace(result, recordings=Recordings((series, *events)))
