"""How many trials does a search take, is its claim true, and does it get on with noise and with a minefield?

The best known log gain of a surface is the greatest of 125 trials of our search and of each other sampler. The goals
are a median of 25 trials to 90 % of it (90th percentile 50), at most 0.4 of those of random search and 0.67 of those of
TPE, and noise of 5 % that costs 1.5 times the trials at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from pgdrag.designs.search.aims import Aim
from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.designs.search.procedure import Procedure
from pgdrag.designs.search.proof import differences, mean_gain
from simulations.rows import Row, share_row, value_row
from simulations.samplers import Course, course_of, own_course, samplers
from simulations.surfaces import (
    Machine,
    Surface,
    fitted,
    pools,
    slow_surface,
    surface,
)

SURFACES = 60
NOISE = 0.05
TRIALS = 125  # of each sampler: the best of all is the best known
LONGER = 3 * TRIALS  # of the others, which may find it later
ENOUGH = 0.9  # of the best log gain
REFUSED = 0.6
_SHORT = 48  # trials of a search as the command has it
# What is promised of claims: less the true gain in the median and at worst, and how many intervals cover that.
_CLAIMS = ("<= 0.03", "<= 0.1", ">= 0.9")
_LOUD_CLAIMS = ("<= 0.03", "", ">= 0.9")
_NO_CLAIMS = ("", "", "")
_LOUD, _FEW = 0.13, 24  # noise and trials of a search with windows of 3 s on a real server
_WORTH_FINDING = math.log(1.02)  # a surface whose best known gain is less has nothing to find


@dataclass(frozen=True)
class Search:
    """What one search came to.

    Attributes:
        claimed, true, proved_low, proved_high: log gains of what it found.
        is_covered: the claim's interval holds the true one.
        settings: in the file.
        failed: share of trials that did not start.
    """

    claimed: float
    true: float
    proved_low: float
    proved_high: float
    is_covered: bool
    settings: int
    failed: float


def simulate(scale: float) -> list[Row]:
    """Return what searches of many surfaces find."""
    seeds = range(max(round(SURFACES * scale), 6))
    rows = _rows("search, 115 settings", [surface(seed) for seed in seeds])
    slow = [slow_surface(seed) for seed in seeds]
    rows += _rows("search for the slowest, 115 settings", slow, promises=_NO_CLAIMS)
    for pool in pools():
        of_pool = fitted(pool)
        name = f"search, {len(of_pool.space.dimensions)} settings fitted to trials of {pool}"
        rows += _rows(name, [of_pool for _ in seeds])
    loud = [_search(surface(seed), seed, noise=_LOUD, trials=_FEW) for seed in seeds]
    name = f"search, 115 settings, noise of {_LOUD:.0%}"
    rows += _claim_rows(name, loud, _LOUD_CLAIMS, trials=_FEW)
    mined = [surface(seed, refused=REFUSED) for seed in seeds]
    found = [_search(of, seed) for seed, of in enumerate(mined)]
    shares = [one.true / of.best for one, of in zip(found, mined, strict=True)]
    name = f"search, 115 settings, {REFUSED:.0%} of them with a value that is refused"
    return [
        *rows,
        value_row(f"{name}: trials that did not start, mean share", fmean(x.failed for x in found)),
        value_row(f"{name}: share of the log gain, median", median(shares)),
    ]


def _rows(
    name: str, surfaces: Sequence[Surface], *, promises: tuple[str, str, str] = _CLAIMS
) -> list[Row]:
    """Return the rows of some surfaces; claims of what is a thousand times slower are only as good as few commits are."""
    others = samplers()
    own, calm, shares = [], [], []
    theirs: dict[str, list[float]] = {who: [] for who in others}
    found = []
    for seed, of in enumerate(surfaces):
        course = own_course(of, NOISE, seed, TRIALS)
        courses = {
            who: course_of(sampler(of.space, seed), of, NOISE, seed, TRIALS, longer=LONGER)
            for who, sampler in others.items()
        }
        short = _search(of, seed)
        known = max(x.greatest for x in (course, *courses.values()))
        found.append(short)
        if known < _WORTH_FINDING:
            continue
        own.append(_trials(course, known, TRIALS))
        calm.append(_trials(own_course(of, 0.001, seed, TRIALS), known, TRIALS))
        shares.append(short.true / known)
        for who, one in courses.items():
            theirs[who].append(_trials(one, known, LONGER))
    return [
        *_course_rows(name, own, calm, theirs, shares),
        *_claim_rows(name, found, promises),
    ]


def _trials(course: Course, known: float, most: int) -> float:
    return min(course.trials_to(ENOUGH * known), most)


def _course_rows(
    name: str,
    own: Sequence[float],
    calm: Sequence[float],
    theirs: dict[str, list[float]],
    shares: Sequence[float],
) -> list[Row]:
    if not own:
        return [value_row(f"{name}: surfaces with something to find", 0)]
    return [
        value_row(
            f"{name}: trials of {TRIALS} to 90 % of the best known gain, median", median(own)
        ),
        value_row(f"{name}: the same, 90th percentile", float(np.quantile(own, 0.9))),
        value_row(f"{name}: in those without noise", median(own) / median(calm)),
        *(
            value_row(f"{name}: in those of {who}, {LONGER} at most", median(own) / median(trials))
            for who, trials in theirs.items()
        ),
        value_row(
            f"{name}: share of the best known gain by {_SHORT} trials, median", median(shares)
        ),
    ]


def _claim_rows(
    name: str, found: Sequence[Search], promises: tuple[str, str, str], *, trials: int = _SHORT
) -> list[Row]:
    gaps = [math.expm1(one.claimed - one.true) for one in found]
    within = f"{name}, {trials} trials"
    most, worst, least = promises
    return [
        value_row(f"{within}: settings in the file, median", median(x.settings for x in found)),
        value_row(f"{within}: claimed less true gain, median", median(gaps), most),
        value_row(f"{within}: the same, worst", max(map(abs, gaps)), worst),
        share_row(
            f"{within}: the claim's interval covers the true gain",
            sum(one.is_covered for one in found),
            len(found),
            least,
        ),
        share_row(
            f"{within}: the proof's interval covers the true gain",
            sum(one.proved_low <= one.true <= one.proved_high for one in found),
            len(found),
            "0.93 .. 0.99",
        ),
    ]


def _search(of: Surface, seed: int, *, noise: float = NOISE, trials: int = _SHORT) -> Search:
    machine = Machine(of, noise, seed)
    parameters = SearchParameters(
        goal=of.goal,
        dimensions=of.space.dimensions,
        max_trials=trials,
        redeployments=10,
        seed=seed,
    )
    procedure = Procedure(of.space, parameters)
    while procedure.request is not None:
        machine.answer(procedure, procedure.request)
    point = procedure.main.found or of.space.start
    true, claim = of.gain(point), procedure.main.claim
    whole = [one for one in procedure.history if not one.is_brief]
    proof = mean_gain(differences(whole, point, of.space.start, Aim()))
    failures = sum(one.values is None for one in procedure.history)
    return Search(
        claimed=claim.gain if claim else 0.0,
        true=true,
        proved_low=math.log(proof.low) if proof else 0.0,
        proved_high=math.log(proof.high) if proof else 0.0,
        is_covered=claim is None or claim.low <= true <= claim.high,
        settings=len(of.space.changed(point)),
        failed=failures / len(procedure.history),
    )
