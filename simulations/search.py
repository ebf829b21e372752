"""How many trials does a search take, is its claim true, and does it get on with noise and with a minefield?

Its goals are a median of 25 trials to 90 % of the best log gain (90th percentile 50), at most 0.4 of those of random
search and 0.67 of those of TPE, and noise of 5 % that costs 1.5 times the trials at most. They are not reached yet, so
that these rows are for information.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.designs.search.procedure import Procedure, Stage
from pgdrag.designs.search.proof import differences, mean_gain
from simulations.rows import Row, share_row, value_row
from simulations.surfaces import Machine, Surface, surface

SURFACES = 60
NOISE = 0.05
TRIALS = 100  # of a search that may go on until it has the best
MOST = 400  # of a sampler that does not get there
ENOUGH = 0.9  # of the best log gain
REFUSED = 0.6
_NAME = "search, 115 settings"


@dataclass(frozen=True)
class Search:
    """What one search came to.

    Attributes:
        to_enough: trials until its best had 90 % of the log gain there is; infinite: never.
        claimed, true, proved_low, proved_high: log gains of what it found.
        share: of the best log gain.
        settings: in the file.
        failed: share of trials that did not start.
    """

    to_enough: float
    claimed: float
    true: float
    proved_low: float
    proved_high: float
    share: float
    settings: int
    failed: float


def simulate(scale: float) -> list[Row]:
    """Return what searches of many surfaces find."""
    count = max(round(SURFACES * scale), 6)
    noisy = [_search(surface(seed), NOISE, seed, TRIALS) for seed in range(count)]
    calm = [_search(surface(seed), 0.001, seed, TRIALS) for seed in range(count)]
    short = [_search(surface(seed), NOISE, seed, 48) for seed in range(count)]
    mined = [_search(surface(seed, refused=REFUSED), NOISE, seed, 48) for seed in range(count)]
    own, without_noise = _trials(noisy), _trials(calm)
    name = f"{_NAME}, noise of 5 %"
    return [
        value_row(f"{name}: trials to 90 % of the log gain, median", median(own)),
        value_row(f"{name}: the same, 90th percentile", float(np.quantile(own, 0.9))),
        value_row(
            f"{name}: trials to 90 %, in those without noise",
            median(own) / median(without_noise),
        ),
        *_sampler_rows(count, median(own)),
        value_row(
            f"{name}, 48 trials: share of the log gain, median", median(x.share for x in short)
        ),
        value_row(
            f"{name}, 48 trials: settings in the file, median", median(x.settings for x in short)
        ),
        value_row(
            f"{name}, 48 trials: claimed less true gain, median",
            median(math.expm1(x.claimed - x.true) for x in short),
            "<= 0.03",
        ),
        value_row(
            f"{name}, 48 trials: the same, worst",
            max(math.expm1(abs(x.claimed - x.true)) for x in short),
            "<= 0.1",
        ),
        share_row(
            f"{name}, 48 trials: the proof's interval covers the true gain",
            sum(x.proved_low <= x.true <= x.proved_high for x in short),
            count,
            "0.93 .. 0.99",
        ),
        value_row(
            f"{_NAME}, {REFUSED:.0%} of them with a value that is refused: trials that did not start, mean share",
            fmean(x.failed for x in mined),
        ),
        value_row(
            f"{_NAME}, {REFUSED:.0%} of them with a value that is refused: share of the log gain, median",
            median(x.share for x in mined),
        ),
    ]


def _trials(found: list[Search]) -> list[float]:
    return [min(one.to_enough, MOST) for one in found]


def _search(of: Surface, noise: float, seed: int, trials: int) -> Search:
    machine, best = Machine(of, noise, seed), of.best
    parameters = SearchParameters(
        dimensions=of.space.dimensions, max_trials=trials, redeployments=10, seed=seed
    )
    procedure = Procedure(of.space, parameters)
    to_enough = math.inf
    while procedure.request is not None:
        machine.answer(procedure, procedure.request)
        is_exploring = procedure.stage is Stage.EXPLORING and bool(procedure.course)
        if math.isinf(to_enough) and is_exploring:
            reached = of.gain(procedure.course[-1].point) >= ENOUGH * best
            to_enough = machine.trials if reached else math.inf
    point = procedure.found or of.space.start
    true = of.gain(point)
    whole = [one for one in procedure.history if not one.is_brief]
    proof = mean_gain(differences(whole, point, of.space.start))
    failures = sum(one.value is None for one in procedure.history)
    return Search(
        to_enough=to_enough,
        claimed=procedure.claim.gain if procedure.claim else 0.0,
        true=true,
        proved_low=math.log(proof.low) if proof else 0.0,
        proved_high=math.log(proof.high) if proof else 0.0,
        share=true / best,
        settings=len(of.space.changed(point)),
        failed=failures / len(procedure.history),
    )


# --- other samplers: what they try is theirs, what is best is the best number seen ------------


def _sampler_rows(count: int, own: float) -> list[Row]:
    samplers: dict[str, Callable[[Surface, int], float]] = {"random search": _random}
    if importlib.util.find_spec("optuna"):
        samplers["Optuna's TPE"] = _tpe
    rows = []
    for name, sample in samplers.items():
        trials = median(sample(surface(seed), seed) for seed in range(count))
        words = f"{_NAME}, noise of 5 %: trials in those of {name}, which stops at {MOST}"
        rows.append(value_row(words, own / trials))
    return rows


def _random(of: Surface, seed: int) -> float:
    rng = np.random.default_rng([seed, 2])
    machine, highest, target = Machine(of, NOISE, seed), -math.inf, ENOUGH * of.best
    sizes = [len(one.values) for one in of.space.dimensions]
    while machine.trials < MOST:
        point = tuple(int(rng.integers(size)) for size in sizes)
        [seen] = machine.run([point])
        if seen.value is not None and seen.value > highest:
            highest = seen.value
            if of.gain(point) >= target:
                break
    return float(machine.trials)


def _tpe(of: Surface, seed: int) -> float:
    import optuna  # type: ignore[import-not-found, unused-ignore]

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, multivariate=False)
    )
    names = [one.name for one in of.space.dimensions]
    for point in (of.space.start, of.space.rule):
        study.enqueue_trial(dict(zip(names, point, strict=True)))
    machine, highest, target = Machine(of, NOISE, seed), -math.inf, ENOUGH * of.best
    while machine.trials < MOST:
        trial = study.ask()
        point = tuple(
            trial.suggest_int(one.name, 0, len(one.values) - 1) for one in of.space.dimensions
        )
        [seen] = machine.run([point])
        study.tell(trial, seen.value)
        if seen.value is not None and seen.value > highest:
            highest = seen.value
            if of.gain(point) >= target:
                break
    return float(machine.trials)
