"""Does the length of the hold decide, or what grows with it: old versions, chains, buffers, bloat?

Within a hold all of them grow together. After a release the length is nothing at once, while what it
left behind stays until somebody cleans up: those intervals, and variants that differ in how fast
they grow, tell the two apart. Where they don't, that is said. Ranks are used, since no law of any of
them is known; all intervals of a trial are drawn together, since they are no independent news.

Source: Kendall 1942 (partial rank correlation); Davison and Hinkley 1997, section 3.8 (drawing
clusters); Hesterberg 2015 (quantiles further out for few clusters).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.english import listed
from pgdrag.findings.dose.findings import Decider, DecidersFinding, DeciderVerdict
from pgdrag.findings.dose.variants import HeldRung, Variant
from pgdrag.findings.holds.spans import held_for
from pgdrag.model import Result
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import Series
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE
from pgdrag.stats.distributions import normal_beyond, student_quantile
from pgdrag.stats.interval import Interval

# What grows with a hold, by the names of the series.
GROWING: Mapping[str, str] = {
    "dead_versions_per_row": "old versions per row",
    "hot_chain_length": "length of HOT chains",
    "index_entries_visited": "index entries visited",
    "buffers_per_update": "buffers per update",
    "bloat_ratio": "bloat ratio",
}
_INTERVAL_S = 5.0
_TRIALS_MIN, _INTERVALS_MIN = 4, 20
_SAME = 0.97  # rank correlation with the length from which on the two cannot be separated
_LOOKS_MIN = 3  # a series of fewer points says nothing of what lies between them
_DRAWS = 1000
Values = NDArray[np.float64]


@dataclass(frozen=True)
class _Row:
    """One interval of one trial."""

    trial: int
    log_rate: float
    held_s: float
    growing: Mapping[str, float]


def deciders(variant: Variant) -> DecidersFinding | None:
    """Return what decides over all trials of the variant; None where nothing that grows was seen."""
    rungs = [*([variant.free] if variant.free is not None else []), *variant.held]
    rows = [row for rung in rungs for row in _rows(rung)]
    names = [name for name in GROWING if sum(name in row.growing for row in rows) >= _INTERVALS_MIN]
    missing = tuple(name for name in GROWING if name not in names)
    found = []
    for name in names:
        known = [row for row in rows if name in row.growing]
        if len({row.trial for row in known}) >= _TRIALS_MIN:
            found.append(_decider(name, known))
    if not found:
        return None
    found = _with_all(found, rows)
    trials = len({row.trial for row in rows})
    sentence = _sentence(found)
    return DecidersFinding(variant.name, len(rows), trials, tuple(found), missing, sentence)


def _rows(rung: HeldRung) -> list[_Row]:
    return [row for result, measured in rung.measured for row in _of_trial(result, measured)]


def _of_trial(result: Result, measured: Measurement) -> list[_Row]:
    series = {one.name: one for one in result.recordings.series if one.name in GROWING}
    rows = []
    for at in range(int(measured.elapsed_s // _INTERVAL_S)):
        begin_s, end_s = at * _INTERVAL_S, (at + 1) * _INTERVAL_S
        within = samples_within(measured.samples, begin_s, end_s)
        committed = sum(one.committed for one in within)
        lasted_s = sum(one.duration_s for one in within)
        if not committed or lasted_s < _INTERVAL_S / 2:
            continue
        middle_s = (begin_s + end_s) / 2
        seen = {name: _at(one, middle_s) for name, one in series.items()}
        known = {name: value for name, value in seen.items() if value is not None}
        held_s = held_for(result, measured, middle_s)
        rows.append(_Row(result.trial.number, math.log(committed / lasted_s), held_s, known))
    return rows


def _at(series: Series, t_s: float) -> float | None:
    """Return a series at a moment, between two looks on a straight line; None beyond them."""
    if len(series.times_s) < _LOOKS_MIN:
        return None
    times = series.times_s
    # The first look may lie a little behind the first interval's middle.
    if t_s < times[0] - _INTERVAL_S or t_s > times[-1] + _INTERVAL_S:
        return None
    return float(np.interp(t_s, times, series.values))


def _decider(name: str, rows: Sequence[_Row]) -> Decider:
    columns = [
        [row.log_rate for row in rows],
        [row.held_s for row in rows],
        [row.growing[name] for row in rows],
    ]
    ranks = np.array([scipy.stats.rankdata(column) for column in columns])
    trials = np.array([row.trial for row in rows])
    with_length = float(_correlations(ranks)[1, 2])
    drawn = np.array([_partials(ranks[:, chosen]) for chosen in _draws(trials)])
    own = _partials(ranks)
    count = len(np.unique(trials))
    this, length = (_interval(own[at], drawn[:, at], count) for at in (0, 1))
    verdict = _verdict(with_length, this, length)
    return Decider(name, GROWING[name], with_length, this, length, verdict)


def _with_all(found: list[Decider], rows: Sequence[_Row]) -> list[Decider]:
    """Add what is left of each where all others are kept equal, too."""
    names = [one.name for one in found]
    known = [row for row in rows if all(name in row.growing for name in names)]
    if len(names) < 2 or len(known) < _INTERVALS_MIN:
        return found
    columns = [[row.log_rate for row in known], [row.held_s for row in known]]
    columns += [[row.growing[name] for row in known] for name in names]
    ranks = np.array([scipy.stats.rankdata(column) for column in columns])
    trials = np.array([row.trial for row in known])
    draws, count = _draws(trials), len(np.unique(trials))
    own = _given_all(ranks)
    drawn = np.array([_given_all(ranks[:, chosen]) for chosen in draws])
    return [
        replace(one, this_given_all=_interval(float(own[at]), drawn[:, at], count))
        for at, one in enumerate(found)
    ]


def _given_all(ranks: Values) -> Values:
    """Return the rate's partial correlation with each quantity, the length and all others kept equal."""
    inverse = np.linalg.pinv(_correlations(ranks), rcond=1e-6)
    scale = np.sqrt(np.maximum(np.diag(inverse), 1e-12))
    return np.asarray(np.clip(-inverse[0] / (scale[0] * scale), -1.0, 1.0)[2:])


def _draws(trials: Values) -> list[NDArray[np.int64]]:
    """Return the rows of trials drawn with replacement, many times."""
    numbers = np.unique(trials)
    rows = [np.flatnonzero(trials == number) for number in numbers]
    rng = np.random.default_rng(len(trials))
    lots = rng.integers(0, len(numbers), (_DRAWS, len(numbers)))
    return [np.concatenate([rows[at] for at in lot]) for lot in lots]


def _correlations(ranks: Values) -> Values:
    centered = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centered**2).sum(axis=1))
    lengths[lengths == 0] = np.inf  # what never changes goes with nothing
    return np.asarray(centered @ centered.T / np.outer(lengths, lengths))


def _partials(ranks: Values) -> tuple[float, float]:
    """Return the rate's partial correlation with the third given the second, and the other way round."""
    r = _correlations(ranks)
    return _partial(r[0, 2], r[0, 1], r[1, 2]), _partial(r[0, 1], r[0, 2], r[1, 2])


def _partial(direct: float, with_other: float, between: float) -> float:
    rest = (1 - with_other**2) * (1 - between**2)
    if rest < 1e-12:
        return 0.0
    return float(np.clip((direct - with_other * between) / math.sqrt(rest), -1.0, 1.0))


def _interval(own: float, drawn: Values, trials: int) -> Interval:
    # Few clusters drawn anew vary too little: the quantiles lie further out by as much.
    wider = math.sqrt(trials / (trials - 1)) * student_quantile((1 + CONFIDENCE) / 2, trials - 1)
    rest = normal_beyond(wider)
    low, high = (float(x) for x in np.quantile(drawn, [rest, 1 - rest]))
    return Interval(min(low, own), own, max(high, own), CONFIDENCE, "trials drawn with replacement")


def _verdict(with_length: float, this: Interval, length: Interval) -> DeciderVerdict:
    if abs(with_length) >= _SAME:
        return "cannot be separated"
    # Only what goes with less throughput is held to cost any.
    does_this, does_length = this.high < 0, length.high < 0
    if does_this and does_length:
        return "both"
    if does_length:
        return "the length, not this"
    return "this, not the length" if does_this else "inconclusive"


def _sentence(found: Sequence[Decider]) -> str:
    """Say what of all this decides, in the words of the published claim."""
    by_verdict: dict[str, list[str]] = {}
    for one in found:
        by_verdict.setdefault(one.verdict, []).append(one.label)
    words = {
        "the length, not this": "throughput goes with the length of the hold, and not with the {}",
        "this, not the length": "throughput goes with the {}, and not with the length of the hold",
        "both": "throughput goes with the length of the hold and with the {}",
        "inconclusive": "whether throughput goes with the length of the hold or with the {} cannot be told",
        "cannot be separated": "the length of the hold and the {} grew together in these trials and cannot be "
        "separated: add holds that end within the window, without a vacuum after",
    }
    return "; ".join(words[verdict].format(listed(names)) for verdict, names in by_verdict.items())
