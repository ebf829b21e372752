"""What do the trials on fresh clusters prove? Ratios of blocks, each with a trial of both."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pgdrag.designs.search.aims import Aim
from pgdrag.designs.search.space import Point
from pgdrag.designs.search.trials import Observed
from pgdrag.stats.effects import effect_of
from pgdrag.stats.interval import Interval

_CONFIDENCE = 0.95


def differences(
    trials: Iterable[Observed], point: Point | str, over: Point | str, aim: Aim
) -> list[float]:
    """Return the log gain of a point, or of a rival by its name, over another in each block that has a number of both."""
    by_block: dict[int, dict[Point | str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in trials:
        if one.values is not None:
            by_block[one.block][one.point].append(aim.value(one.values))
    return [
        fmean(values[point]) - fmean(values[over])
        for _, values in sorted(by_block.items())
        if values.keys() >= {point, over}
    ]


def mean_gain(gains: Sequence[float]) -> Interval | None:
    """Return the mean ratio of the blocks' log gains with its t interval; None for fewer than two blocks."""
    if len(gains) < 2:
        return None
    return _interval(fmean(gains), _sd(gains) / math.sqrt(len(gains)), len(gains) - 1, len(gains))


def mean_gains(of_each: Mapping[int, Sequence[float]]) -> dict[int, Interval]:
    """Return the same of several differences in the same blocks, whose noise is estimated together."""
    known = {at: gains for at, gains in of_each.items() if gains}
    dof = sum(len(gains) - 1 for gains in known.values())
    if dof < 1:
        return {}
    squares = sum((len(gains) - 1) * _sd(gains) ** 2 for gains in known.values() if len(gains) > 1)
    sd = math.sqrt(squares / dof)
    return {
        at: _interval(fmean(gains), sd / math.sqrt(len(gains)), dof, len(gains))
        for at, gains in known.items()
    }


def _sd(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1))


def _interval(center: float, se: float, dof: int, blocks: int) -> Interval:
    found = effect_of(center, se, dof)
    method = f"t interval, {blocks} blocks"
    return Interval.of_logs(found.low, found.center, found.high, _CONFIDENCE, method)
