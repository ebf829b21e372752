"""Which old samples become coarser when there is no more room, and what is kept of them?

As in a round-robin store: the newest samples are as fine as they were taken, older ones are averages over a
minute, then ten minutes, then an hour, and the oldest go. Sums are kept: what was counted in a minute is what
was counted in its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile

from pgdrag.model.observed import (
    NO_TOTALS,
    OTHER_STATEMENTS,
    Sample,
    Spread,
    Statement,
    StatementTotals,
    Wait,
)

# The length of a sample that was thinned once, twice, …
WIDTHS_S = (60.0, 600.0, 3600.0)
LEVELS = len(WIDTHS_S) + 1
# How many of all samples each level may have, the finest first.
SHARES = (0.5, 0.25, 0.15, 0.1)
MOST_STATEMENTS = 25
# Neighbours with more than this share of an interval between them are not one interval.
_GAP = 0.5

assert len(SHARES) == LEVELS


def level_to_thin(counts: Sequence[int]) -> int:
    """Return the level that has most samples for its share.

    Args:
        counts: samples of each level, at least one in all.
    """
    assert sum(counts) > 0, "there is something to thin"
    return max(range(LEVELS), key=lambda level: counts[level] / SHARES[level])


def bucket_end(began_unix_s: float, level: int) -> float:
    """Return where the interval ends in which a sample of a level becomes one of the next."""
    width_s = WIDTHS_S[level]
    return (began_unix_s // width_s + 1) * width_s


def first_run(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the first samples as far as each begins where the one before ends, nearly."""
    run = takewhile(lambda pair: is_next(*pair), pairwise(samples))
    return [samples[0], *(later for _, later in run)]


def is_next(sample: Sample, later: Sample) -> bool:
    """Whether a sample begins where another one ends, nearly."""
    gap_s = later.began_unix_s - sample.ended_unix_s
    return gap_s <= _GAP * (sample.ended_unix_s - sample.began_unix_s)


def merged(samples: Sequence[Sample], *, level: int) -> Sample:
    """Return neighbouring samples as one; sums over time stay what they were."""
    first, last = samples[0], samples[-1]
    observed_s = sum(one.observed_s for one in samples)
    return Sample(
        began_unix_s=first.began_unix_s,
        ended_unix_s=last.ended_unix_s,
        observed_s=observed_s,
        wall_unix_s=last.wall_unix_s,
        values=_values(samples),
        waits=mean_waits(samples, observed_s),
        statements=leading(added_up(one.statements for one in samples)),
        level=level,
    )


def _values(samples: Sequence[Sample]) -> dict[str, Spread]:
    by_name: dict[str, list[Spread]] = {}
    for sample in samples:
        for name, spread in sample.values.items():
            by_name.setdefault(name, []).append(spread)
    return {name: Spread.over(spreads) for name, spreads in by_name.items()}


def mean_waits(samples: Sequence[Sample], observed_s: float) -> dict[Wait, float]:
    """Return how many processes were in each wait on average over samples; the largest first."""
    time_s: dict[Wait, float] = {}
    for sample in samples:
        for wait, processes in sample.waits.items():
            time_s[wait] = time_s.get(wait, 0.0) + processes * sample.observed_s
    ranked = sorted(time_s, key=lambda wait: -time_s[wait])
    return {wait: time_s[wait] / observed_s for wait in ranked}


def added_up(
    parts: Iterable[Mapping[Statement, StatementTotals]],
) -> dict[Statement, StatementTotals]:
    """Return the sums of each statement."""
    whole: dict[Statement, StatementTotals] = {}
    for part in parts:
        for statement, totals in part.items():
            whole[statement] = whole.get(statement, NO_TOTALS) + totals
    return whole


def leading(
    statements: Mapping[Statement, StatementTotals], most: int = MOST_STATEMENTS
) -> dict[Statement, StatementTotals]:
    """Return the statements with most time; the others are added up under one name."""
    rest = Statement("", OTHER_STATEMENTS)
    ranked = sorted((x for x in statements if x != rest), key=lambda x: -statements[x].time_s)
    kept = {one: statements[one] for one in ranked[:most]}
    others = [statements[one] for one in ranked[most:]]
    if rest in statements:
        others.append(statements[rest])
    if others:
        whole = NO_TOTALS
        for one in others:
            whole += one
        kept[rest] = whole
    return kept
