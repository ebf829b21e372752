"""Which holds do samples show: when did each start and end, and how exactly is that known?

A transaction with an xid holds from its start to its end. One that only reads holds as long as it keeps its
snapshot: a statement's, or the whole transaction's if it keeps it between statements. A slot and a standby
hold as long as their xmin stays the same. The end is exact where a session shows since when it has been idle;
elsewhere it lies between two samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pgdrag.findings.holds.distribution import FEWEST_GAPS, KindOfHolds, Steps, steps_of
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.sampling import HolderSample, ObjectType
from pgdrag.stats.hold_lengths import (
    BoundedHold,
    LengthEstimate,
    SeenHold,
    estimate_lengths,
    product_limit,
)

# Shorter holds are left out: fewer than one in ten of them is sampled.
SHORTEST_OF_INTERVAL = 0.1
# After this many intervals without a sample the server counts as unreachable.
_GAP_INTERVALS = 3.0
_CURSOR_VERBS = frozenset({"DECLARE", "FETCH", "MOVE"})
_WITH_PID = (ObjectType.SESSION, ObjectType.STANDBY)
_ENDING_VERBS = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE"})


@dataclass
class _Hold:
    """One hold while it is followed.

    Attributes:
        begin_s: None: unknown.
        stretch: the run of samples in which it was first seen.
        begin_slack_s: its start may be this much earlier or later.
        end_s: latest possible; None: it is still held, or was when last seen.
        is_end_exact: the server showed it.
    """

    kind: HolderKind
    begin_s: float | None
    first: HolderSample
    last: HolderSample
    stretch: int
    oldest: int = 0
    begin_slack_s: float = 0.0
    end_s: float | None = None
    is_end_exact: bool = False
    is_lost: bool = False

    @property
    def length_s(self) -> float:
        """How long it has lasted at most; inf where its begin is unknown."""
        if self.begin_s is None:
            return math.inf
        return (self.last.at_s if self.end_s is None else self.end_s) - self.begin_s


@dataclass
class _Stretch:
    """Consecutive samples without a gap."""

    first_s: float
    last_s: float
    samples: int = 1


@dataclass
class HoldTracker:
    """Follows holds from sample to sample; `every_s` is the intended interval."""

    every_s: float
    _stretches: list[_Stretch] = field(default_factory=list)
    _held: dict[tuple[ObjectType, str], _Hold] = field(default_factory=dict)
    _over: list[_Hold] = field(default_factory=list)
    _at_once: Counter[int] = field(default_factory=Counter)

    def add(self, at_s: float, found: Sequence[HolderSample]) -> None:
        """Add one sample of the server."""
        last = self._stretches[-1] if self._stretches else None
        is_blind = last is not None and at_s - last.last_s > _GAP_INTERVALS * self.every_s + 1
        if last is None or is_blind:
            self._stretches.append(_Stretch(at_s, at_s))
        else:
            last.last_s, last.samples = at_s, last.samples + 1
        holders = {(x.object_type, x.name): x for x in found if x.holds}
        others = {(x.object_type, x.name): x for x in found if not x.holds}
        for key, hold in list(self._held.items()):
            now = holders.get(key)
            if now is not None and _goes_on(hold, now):
                _follow(hold, now)
            else:
                del self._held[key]
                _end(hold, now or others.get(key), at_s, is_blind=is_blind)
                # A busy server has thousands that are too short to count.
                if hold.length_s > self.every_s * SHORTEST_OF_INTERVAL / 2:
                    self._over.append(hold)
        for key, now in holders.items():
            if key not in self._held:
                self._held[key] = self._begun(now)
        self._at_once[len(holders)] += 1

    @property
    def pids(self) -> list[int]:
        """Sessions to sample again even if they no longer hold anything."""
        return [int(name) for kind, name in self._held if kind in _WITH_PID]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(x.samples for x in self._stretches)

    @property
    def captured_s(self) -> float:
        """Time from the first to the last sample, without gaps."""
        return math.fsum(x.last_s - x.first_s for x in self._stretches)

    @property
    def blind_s(self) -> float:
        """How long the server was unreachable."""
        return math.fsum(b.first_s - a.last_s for a, b in pairwise(self._stretches))

    @property
    def interval_s(self) -> float:
        """Mean time between samples."""
        intervals = self.samples - len(self._stretches)
        return self.captured_s / intervals if intervals and self.captured_s > 0 else self.every_s

    @property
    def shortest_s(self) -> float:
        """Shorter holds are left out."""
        return self.interval_s * SHORTEST_OF_INTERVAL

    @property
    def holding(self) -> int:
        """Number of current holders."""
        return len(self._held)

    @property
    def seen(self) -> int:
        """Number of holds seen, of any length."""
        return len(self._held) + len(self._over)

    def at_once(self) -> dict[str, float]:
        """Return how many held at the same time, and in which share of the samples."""
        total = self._at_once.total()
        return {str(n): round(self._at_once[n] / total, 6) for n in sorted(self._at_once)}

    def kinds(self, *, with_applications: bool = False) -> dict[HolderKind, KindOfHolds]:
        """Return what was found of each kind of holder that was seen."""
        by_kind: dict[HolderKind, list[_Hold]] = {}
        for hold in self._counted():
            by_kind.setdefault(hold.kind, []).append(hold)
        return {
            kind: self._kind(holds, with_applications=with_applications)
            for kind, holds in sorted(by_kind.items())
        }

    def gaps(self) -> Steps:
        """Return the times from the start of one hold to that of the next; () if there are too few."""
        holds = [x for x in self._counted() if self._began_in_sight(x)]
        estimate = self._estimate(holds)
        # Unsampled holds start between sampled ones.
        scale = estimate.met_share
        found = []
        for at, stretch in enumerate(self._stretches):
            begins = sorted(x.begin_s or 0.0 for x in holds if x.stretch == at)
            found += [(b - a, True) for a, b in pairwise(begins)]
            found += [(stretch.last_s - begins[-1], False)] if begins else []
        ended = sum(has_ended for _, has_ended in found)
        if ended < FEWEST_GAPS:
            return ()
        least_s = self.shortest_s / 1000  # two that begin at once are still two
        gaps = [SeenHold(max(length * scale, least_s), ended) for length, ended in found]
        return steps_of(product_limit(gaps))

    def _begun(self, now: HolderSample) -> _Hold:
        kind = kind_of(now)
        begin_s = begin_of(now, kind)
        stretch = self._stretches[-1]
        hold = _Hold(kind, begin_s, now, now, len(self._stretches) - 1, oldest=now.age or 0)
        if begin_s is None and stretch.samples > 1:  # since the previous sample
            hold.begin_slack_s = self.every_s / 2
            hold.begin_s = now.at_s - hold.begin_slack_s
        return hold

    def _counted(self) -> Iterator[_Hold]:
        """Yield the holds that are not too short to count."""
        for hold in (*self._over, *self._held.values()):
            if hold.length_s > self.shortest_s:
                yield hold

    def _began_in_sight(self, hold: _Hold) -> bool:
        stretch = self._stretches[hold.stretch]
        return hold.begin_s is not None and hold.begin_s >= stretch.first_s

    def _bounded(self, hold: _Hold) -> BoundedHold | None:
        """Return the bounds of a hold's length; None if unknown, or if it started too late to be sampled for certain."""
        stretch = self._stretches[hold.stretch]
        if hold.begin_s is None:
            return None
        last_s, slack_s = hold.last.at_s - hold.begin_s, hold.begin_slack_s
        low_s, high_s = max(last_s - slack_s, 0.0), math.inf
        if hold.end_s is not None:
            high_s = max(hold.end_s - hold.begin_s + slack_s, low_s)
        if hold.is_end_exact and not slack_s:
            low_s = high_s
        if not self._began_in_sight(hold):
            entry_s = max(hold.first.at_s - hold.begin_s, 0.0)
            return BoundedHold(low_s, high_s, entry_s) if high_s > entry_s else None
        # Of holds that started after the last sample but one only some were sampled, and none was seen to end.
        is_late = hold.begin_s > stretch.last_s - self.interval_s
        return None if is_late else BoundedHold(low_s, high_s)

    def _estimate(self, holds: Iterable[_Hold]) -> LengthEstimate:
        bounded = [x for hold in holds if (x := self._bounded(hold)) is not None]
        return estimate_lengths(bounded, every_s=self.interval_s, shortest_s=self.shortest_s)

    def _kind(self, holds: Sequence[_Hold], *, with_applications: bool) -> KindOfHolds:
        estimate = self._estimate(holds)
        in_sight_s = self.captured_s - self.interval_s * len(self._stretches)
        names = Counter(hold.first.application for hold in holds if hold.first.application)
        curve = estimate.curve
        return KindOfHolds(
            seen=len(holds),
            per_hour=_rounded(3600 * estimate.number / in_sight_s) if in_sight_s > 0 else 0.0,
            in_progress_at_begin=sum(
                x.begin_s is None or x.begin_s < self._stretches[0].first_s for x in holds
            ),
            in_progress_at_end=sum(x.end_s is None and not x.is_lost for x in holds),
            begin_unknown=sum(x.begin_s is None for x in holds),
            ends_between_looks=sum(x.end_s is not None and not x.is_end_exact for x in holds),
            estimated_share=_rounded(1 - estimate.met_share),
            open_share=_rounded(curve.open_share) if curve else 0.0,
            oldest_transactions=max(x.oldest for x in holds),
            longer_than=steps_of(curve),
            applications=dict(names.most_common()) if with_applications else {},
        )


def kind_of(now: HolderSample) -> HolderKind:
    """Return which kind of holder a sighting shows."""
    if now.object_type != ObjectType.SESSION:
        return HolderKind(now.object_type)
    if now.xid is not None:
        return HolderKind.TRANSACTION
    return HolderKind.CURSOR if now.verb in _CURSOR_VERBS else HolderKind.SNAPSHOT


def begin_of(now: HolderSample, kind: HolderKind) -> float | None:
    """Return since when it has held, by the server's clock; None if unknown."""
    if kind in (HolderKind.SLOT, HolderKind.STANDBY):
        return None
    # A walsender that copies tables shows only its statement's start.
    if now.since_s is not None and (
        kind in (HolderKind.TRANSACTION, HolderKind.PREPARED) or now.is_between_statements
    ):
        return now.since_s
    return now.statement_since_s if now.statement_since_s is not None else now.since_s


def _goes_on(hold: _Hold, now: HolderSample) -> bool:
    before = hold.last
    if now.object_type == ObjectType.PREPARED:
        return now.since_s == before.since_s
    if now.since_s is not None and now.since_s != before.since_s:
        return False
    if before.xid is not None:
        return now.xid == before.xid
    if now.xid is not None and now.since_s is not None:
        return True
    # The same snapshot, possibly now with an xid, is the same hold.
    return now.xmin == before.xmin


def _follow(hold: _Hold, now: HolderSample) -> None:
    kind = kind_of(now)
    is_grown = kind == HolderKind.TRANSACTION and hold.kind != kind
    is_kept = now.is_between_statements and hold.kind == HolderKind.SNAPSHOT
    if kind == HolderKind.CURSOR and hold.kind == HolderKind.SNAPSHOT:
        hold.kind = kind
    elif (is_grown or is_kept) and now.since_s is not None:
        hold.kind = kind if is_grown else hold.kind
        hold.begin_s = now.since_s
    hold.last = now
    hold.oldest = max(hold.oldest, now.age or 0)


def _end(hold: _Hold, now: HolderSample | None, at_s: float, *, is_blind: bool) -> None:
    """Record the end of a hold as exactly as it is known.

    Args:
        hold: which ended.
        now: the same session in this sample.
        at_s: when this sample was taken.
        is_blind: there was a gap before this sample.
    """
    last = hold.last
    if now is not None and now.changed_s is not None and last.at_s < now.changed_s <= now.at_s:
        is_same = now.statement_since_s == last.statement_since_s
        is_idle = now.state == "idle" and (is_same or now.verb in _ENDING_VERBS)
        if is_idle or (last.xid is None and is_same and now.is_between_statements):
            hold.end_s, hold.is_end_exact = now.changed_s, True
            return
    if is_blind:
        hold.is_lost = True
        return
    # Whatever it started since, it started after the end.
    starts = (now.since_s, now.statement_since_s, now.changed_s) if now is not None else ()
    hold.end_s = min((x for x in starts if x is not None and last.at_s < x < at_s), default=at_s)


def _rounded(number: float) -> float:
    return float(f"{max(number, 0.0):.6g}")
