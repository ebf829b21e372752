"""Which statements take longer, or read more, for each call than in observations that were kept?

Each number is for one call, so that neither the load nor the mix of statements matters. What a statement takes in
a look is compared with parts of the observations that are as long as the look: what differs among those, however they
resemble their neighbours, is no news. Where the whole server is slower, a statement must be slower than the others are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdrag.english import cut
from pgdrag.findings.doctor import Diagnosis
from pgdrag.model.live import LiveWindow
from pgdrag.model.observed import MOST_TEXT, StatementTotals
from pgdrag.model.recordings import StatementUse
from pgdrag.stats.distributions import student_beyond
from pgdrag.stats.multiple_testing import false_discovery_rates
from pgdrag.units import format_duration, format_number

LEAST_PARTS = 5  # as long as the look, of the observations
LEAST_RISE = 1.5  # what rises by less is no news on a server whose load is not pgdrag's
MOST_FALSE = 0.01  # of the statements that are named
NAMED = 3
_LEAST_CALLS = 10
_LEAST_SHARE = 0.02  # of the time of all statements
# As a logarithm: what never varied in a few parts still does a little.
_LEAST_SPREAD = 0.05
_ENOUGH_FOR_COMMON = 5  # statements, to tell what all of them share
_NOW = -1  # among the numbers of parts

Part = Mapping[str, StatementTotals]


@dataclass(frozen=True)
class StatementRise:
    """A statement that takes or reads more for a call than it did.

    Attributes:
        statement: its text without constants.
        calls: in the look.
        time_before_s, time_now_s: for a call; the first is the typical one of the parts.
        blocks_before, blocks_now: found and read, for a call.
        is_slower, reads_more: which of the two rose.
        share: of all statements' time in the look that it takes longer.
    """

    statement: str
    calls: int
    time_before_s: float
    time_now_s: float
    blocks_before: float
    blocks_now: float
    is_slower: bool
    reads_more: bool
    share: float


@dataclass(frozen=True)
class _Quantity:
    """What is counted of a statement, and the smallest amount per call that matters."""

    of: Callable[[StatementTotals | StatementUse], float]
    least: float

    def each(self, one: StatementTotals | StatementUse) -> float:
        return self.of(one) / one.calls

    def logarithm(self, one: StatementTotals | StatementUse) -> float:
        return math.log(max(self.each(one), self.least))


_TIME = _Quantity(lambda one: one.exec_s, 1e-9)
_BLOCKS = _Quantity(lambda one: one.blocks_hit + one.blocks_read, 1.0)


@dataclass(frozen=True)
class _Tested:
    """A statement of the look, and what it took in the parts of the observations, by their numbers."""

    use: StatementUse
    parts: Mapping[int, StatementTotals]

    def before(self, what: _Quantity) -> float:
        """Return the typical one of the parts, for a call."""
        return math.exp(statistics.fmean(map(what.logarithm, self.parts.values())))

    def rise(self, what: _Quantity) -> float:
        """Return the logarithm of how many times as much it is now."""
        return what.logarithm(self.use) - math.log(self.before(what))

    def rarity(self, what: _Quantity, common: Mapping[int, float]) -> tuple[float, float]:
        """Return by how much it rose beyond what all statements share, and how likely that is of one more part.

        Source: the prediction interval of Student's t, on logarithms.
        """
        before = [what.logarithm(one) - common.get(at, 0.0) for at, one in self.parts.items()]
        rise = what.logarithm(self.use) - common.get(_NOW, 0.0) - statistics.fmean(before)
        spread = max(statistics.stdev(before), _LEAST_SPREAD)
        # Few calls vary more than many: at most as if each call were independent.
        fewer = max(statistics.median(x.calls for x in self.parts.values()) / self.use.calls, 1.0)
        error = spread * math.sqrt(fewer + 1 / len(before))
        return rise, student_beyond(rise / error, len(before) - 1)


def statement_rises(parts: Sequence[Part], now: Iterable[StatementUse]) -> list[StatementRise]:
    """Return the statements that clearly rose, those first that take most of the time.

    Args:
        parts: the observations, each as long as the look or longer.
        now: what each statement took in the look.
    """
    uses = list(now)
    whole_s = sum(one.exec_s for one in uses)
    tested = list(_tested(parts, uses, whole_s))
    common = _common(tested)
    slower = [one.rarity(_TIME, common) for one in tested]
    larger = [one.rarity(_BLOCKS, {}) for one in tested]
    adjusted = false_discovery_rates([chance for _, chance in (*slower, *larger)])
    found = []
    for at, one in enumerate(tested):
        rise = min(one.rise(_TIME), slower[at][0])
        is_slower = _is_news(adjusted[at], rise)
        reads_more = _is_news(adjusted[len(tested) + at], larger[at][0])
        if is_slower or reads_more:
            found.append(_rise(one, whole_s, is_slower=is_slower, reads_more=reads_more))
    return sorted(found, key=lambda one: -one.share)


def rise_diagnoses(rises: Sequence[StatementRise], parts: int, file: str) -> Iterator[Diagnosis]:
    """Yield the statements that rose as findings.

    Args:
        parts: how many the observations have.
        file: their name.
    """
    for one in rises[:NAMED]:
        text = cut(" ".join(one.statement.split()), 100)
        if one.is_slower:
            times = one.time_now_s / one.time_before_s
            says = f"takes {format_duration(one.time_now_s)} a call, {format_number(times)} times as long as in {file}"
        else:
            times = one.blocks_now / one.blocks_before
            says = f"reads {format_number(one.blocks_now)} blocks a call, {format_number(times)} times as many as in {file}"
        yield Diagnosis(
            "statement-regression",
            f"a statement {says}: {text}",
            f"Time of a call {format_duration(one.time_before_s)} → {format_duration(one.time_now_s)}, blocks "
            f"{format_number(one.blocks_before)} → {format_number(one.blocks_now)}; {one.calls:,} calls "
            "(pg_stat_statements).",
            "EXPLAIN (ANALYZE, BUFFERS) it: its plan has changed (a dropped index, missing statistics), its table has grown, "
            "or it is called with other parameters."
            if one.reads_more
            else "The blocks per call have not risen significantly, so look at what it waits for: a lock, the disk, or a "
            "processor.",
            f"The rise is at least {LEAST_RISE:g}-fold and exceeds the variation among {parts} periods of {file}, each at "
            "least as long as this one.",
            one.share,
            max(one.share, 0.2),
            {
                "time_before_s": one.time_before_s,
                "time_now_s": one.time_now_s,
                "blocks_before": one.blocks_before,
                "blocks_now": one.blocks_now,
                "calls": one.calls,
            },
        )


def not_compared(parts: Sequence[Part], window: LiveWindow, file: str) -> str:
    """Return why statements could not be compared, in a sentence; "" where they were."""
    if missing := window.recordings.missing.get("statements"):
        why = missing
    elif not any(parts):
        why = f"{file} has no statements of this database over a period as long as this window"
    elif len(parts) < LEAST_PARTS:
        why = f"{file} is less than {LEAST_PARTS} times as long as this window"
    elif not compared_count(parts, window.recordings.of(StatementUse)):
        why = (
            f"none that takes {_LEAST_SHARE:.0%} of the time in this window, with {_LEAST_CALLS} calls or more, is in "
            f"{LEAST_PARTS} periods of {file}"
        )
    else:
        return ""
    return f"Statements were not compared: {why}."


def compared_count(parts: Sequence[Part], now: Iterable[StatementUse]) -> int:
    """Return how many statements can be compared; arguments as for `statement_rises`."""
    uses = list(now)
    return sum(1 for _ in _tested(parts, uses, sum(one.exec_s for one in uses)))


def _tested(
    parts: Sequence[Part], uses: Iterable[StatementUse], whole_s: float
) -> Iterator[_Tested]:
    for use in uses:
        if use.calls < _LEAST_CALLS or use.exec_s < _LEAST_SHARE * whole_s:
            continue
        text = use.query[:MOST_TEXT]
        before = {at: part[text] for at, part in enumerate(parts) if text in part}
        before = {at: one for at, one in before.items() if one.calls}
        if len(before) >= LEAST_PARTS:
            yield _Tested(use, before)


def _common(tested: Sequence[_Tested]) -> dict[int, float]:
    """Return by how much all statements were slower in each part, and are now, as logarithms."""
    rises: dict[int, list[float]] = {}
    for one in tested:
        before = math.log(one.before(_TIME))
        taken: dict[int, StatementTotals | StatementUse] = {**one.parts, _NOW: one.use}
        for at, some in taken.items():
            rises.setdefault(at, []).append(_TIME.logarithm(some) - before)
    enough = {at: each for at, each in rises.items() if len(each) >= _ENOUGH_FOR_COMMON}
    return {at: statistics.median(each) for at, each in enough.items()}


def _is_news(chance: float, rise: float) -> bool:
    return chance <= MOST_FALSE and rise >= math.log(LEAST_RISE)


def _rise(one: _Tested, whole_s: float, *, is_slower: bool, reads_more: bool) -> StatementRise:
    time_before_s, time_now_s = one.before(_TIME), _TIME.each(one.use)
    longer_s = max(time_now_s - time_before_s, 0.0) * one.use.calls
    return StatementRise(
        statement=one.use.query,
        calls=one.use.calls,
        time_before_s=time_before_s,
        time_now_s=time_now_s,
        blocks_before=one.before(_BLOCKS),
        blocks_now=_BLOCKS.each(one.use),
        is_slower=is_slower,
        reads_more=reads_more,
        share=min(longer_s / whole_s, 1.0) if whole_s else 0.0,
    )
