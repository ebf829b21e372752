"""Does the length of the hold decide, or what grows with it: old versions, chains, buffers, bloat?

Within a hold all of them grow together. After a release the length is 0 at once, while what the hold left
behind stays until it is cleaned up: those intervals, and variants that differ in how fast these grow,
separate the two. Rank correlations are used, since no law of any of them is known; all intervals of a
trial are drawn together, since they are not independent.

Source: Kendall 1942 (partial rank correlation); Davison and Hinkley 1997, section 3.8 (drawing
clusters); Hesterberg 2015 (quantiles further out for few clusters).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from pgdrag.findings.dose.findings import Decider, DecidersFinding, DeciderVerdict
from pgdrag.findings.dose.variants import Variant
from pgdrag.findings.holds.levels import held_for
from pgdrag.model import Result
from pgdrag.model.measurement import Measurement
from pgdrag.stats.batches import samples_within
from pgdrag.stats.curve_fit import CONFIDENCE, Values
from pgdrag.stats.distributions import normal_beyond, t_multiplier
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
_POINTS_MIN = 3  # of a series that is interpolated
_DRAWS = 1000


@dataclass(frozen=True)
class _Row:
    """One interval of one trial."""

    trial: int
    log_rate: float
    held_s: float
    growing: Mapping[str, float]


def deciders(variant: Variant) -> DecidersFinding | None:
    """Return what decides over all trials of the variant; None where nothing that grows was seen."""
    rows = [row for rung in variant.rungs for pair in rung.measured for row in _rows(*pair)]
    seen = {name: [row for row in rows if name in row.growing] for name in GROWING}
    missing = tuple(name for name, known in seen.items() if len(known) < _INTERVALS_MIN)
    found = [
        _decider(name, known)
        for name, known in seen.items()
        if name not in missing and len({row.trial for row in known}) >= _TRIALS_MIN
    ]
    if not found:
        return None
    trials = len({row.trial for row in rows})
    return DecidersFinding(variant.name, len(rows), trials, tuple(_with_all(found, rows)), missing)


def _rows(result: Result, measured: Measurement) -> list[_Row]:
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
        known = {
            name: float(np.interp(middle_s, one.times_s, one.values))
            for name, one in series.items()
            # The first point may lie a little behind the first interval's middle.
            if len(one.times_s) >= _POINTS_MIN
            and one.times_s[0] - _INTERVAL_S <= middle_s <= one.times_s[-1] + _INTERVAL_S
        }
        held_s = held_for(result, measured, middle_s)
        rows.append(_Row(result.trial.number, math.log(committed / lasted_s), held_s, known))
    return rows


def _decider(name: str, rows: Sequence[_Row]) -> Decider:
    def partials(r: Values) -> Values:
        return np.array([_partial(r[0, 2], r[0, 1], r[1, 2]), _partial(r[0, 1], r[0, 2], r[1, 2])])

    with_length, (this, length) = _bootstrapped(rows, [name], partials)
    return Decider(name, GROWING[name], with_length, this, length, _verdict(with_length, this, length))  # fmt: skip


def _with_all(found: Sequence[Decider], rows: Sequence[_Row]) -> Sequence[Decider]:
    """Add the correlation of each with all others held constant too."""
    names = [one.name for one in found]
    known = [row for row in rows if all(name in row.growing for name in names)]
    if len(names) < 2 or len(known) < _INTERVALS_MIN:
        return found

    def given_all(correlations: Values) -> Values:
        inverse = np.linalg.pinv(correlations, rcond=1e-6)
        scale = np.sqrt(np.maximum(np.diag(inverse), 1e-12))
        return np.asarray(np.clip(-inverse[0] / (scale[0] * scale), -1.0, 1.0)[2:])

    _, intervals = _bootstrapped(known, names, given_all)
    return [
        replace(one, this_given_all=interval)
        for one, interval in zip(found, intervals, strict=True)
    ]


def _bootstrapped(
    rows: Sequence[_Row], names: Sequence[str], of: Callable[[Values], Values]
) -> tuple[float, list[Interval]]:
    """Return the rank correlation of the length with the first quantity, and intervals of `of`.

    Args:
        of: takes the rank correlations of the log rate, the length held so far and the quantities.
    """
    columns = [[row.log_rate for row in rows], [row.held_s for row in rows]]
    columns += [[row.growing[name] for row in rows] for name in names]
    ranks = scipy.stats.rankdata(columns, axis=1)
    trials = np.array([row.trial for row in rows])
    by_trial = [np.flatnonzero(trials == number) for number in np.unique(trials)]
    count = len(by_trial)
    rng = np.random.default_rng(len(trials))
    draws = rng.integers(0, count, (_DRAWS, count))
    drawn = np.array(
        [of(_correlations(ranks[:, np.concatenate([by_trial[at] for at in lot])])) for lot in draws]
    )
    # Few clusters vary too little when drawn again: the quantiles lie further out by as much.
    wider = math.sqrt(count / (count - 1)) * t_multiplier(CONFIDENCE, count - 1)
    rest = normal_beyond(wider)
    own = _correlations(ranks)
    lows, highs = np.quantile(drawn, [rest, 1 - rest], axis=0)
    intervals = [
        Interval(min(low, x), x, max(high, x), CONFIDENCE, "trials drawn with replacement")
        for low, x, high in zip(lows.tolist(), of(own).tolist(), highs.tolist(), strict=True)
    ]
    return float(own[1, 2]), intervals


def _correlations(ranks: NDArray[np.float64]) -> Values:
    centered = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centered**2).sum(axis=1))
    lengths[lengths == 0] = np.inf  # a constant correlates with nothing
    return np.asarray(centered @ centered.T / np.outer(lengths, lengths))


def _partial(direct: float, with_other: float, between: float) -> float:
    rest = (1 - with_other**2) * (1 - between**2)
    if rest < 1e-12:
        return 0.0
    return float(np.clip((direct - with_other * between) / math.sqrt(rest), -1.0, 1.0))


def _verdict(with_length: float, this: Interval, length: Interval) -> DeciderVerdict:
    if abs(with_length) >= _SAME:
        return "cannot be separated"
    # Only a negative correlation counts as a cost.
    does_this, does_length = this.high < 0, length.high < 0
    if does_this and does_length:
        return "both"
    if does_length:
        return "the length, not this"
    return "this, not the length" if does_this else "inconclusive"
