"""Which holds do looks at intervals come to: since when, until when, and what of that is inferred?

A transaction with a number holds from its begin to its end. One that only reads holds as long as it
keeps its snapshot: a statement's, or, where it keeps it between statements, the whole transaction's. A
slot and a standby hold as long as their oldest transaction stays the same. Where a session shows that
it has been idle since, the end is known; elsewhere it lies between two looks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pgdrag.findings.holds.distribution import (
    FEWEST_GAPS,
    KindOfHolds,
    Steps,
    steps_of,
)
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.census import HolderSample, ObjectType
from pgdrag.stats.interval_censored import BoundedHold, LengthEstimate, estimate_lengths
from pgdrag.stats.product_limit import SeenHold, product_limit

# Shorter holds are left out: of those under a tenth of the interval not one in ten would be met.
SHORTEST_OF_INTERVAL = 0.1
# After so many intervals without a look the server was out of sight.
_BLIND_INTERVALS = 3.0
_CURSOR_VERBS = frozenset({"DECLARE", "FETCH", "MOVE"})
_WITH_PID = (ObjectType.SESSION, ObjectType.STANDBY)
_ENDING_VERBS = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE"})


@dataclass
class _Hold:
    """One hold while it is followed.

    Attributes:
        begin_s: None: nothing says.
        stretch: during which run of looks it was first seen.
        begin_slack_s: it may have begun so much earlier or later.
        end_s: None: it is held, or was when it went out of sight; else at the latest.
        is_end_told: by the server, and not only between which looks.
    """

    kind: HolderKind
    begin_s: float | None
    first: HolderSample
    last: HolderSample
    stretch: int
    oldest: int = 0
    begin_slack_s: float = 0.0
    end_s: float | None = None
    is_end_told: bool = False
    is_lost: bool = False


@dataclass
class _Stretch:
    """Looks without a gap between them."""

    first_s: float
    last_s: float
    looks: int = 1


@dataclass
class HoldTracker:
    """Follows holds from look to look; `every_s` is the interval that is aimed at."""

    every_s: float
    _stretches: list[_Stretch] = field(default_factory=list)
    _held: dict[tuple[ObjectType, str], _Hold] = field(default_factory=dict)
    _over: list[_Hold] = field(default_factory=list)
    _at_once: Counter[int] = field(default_factory=Counter)

    def look(self, at_s: float, samples: Sequence[HolderSample]) -> None:
        """Note what one look has found: who holds, and what became of those who did."""
        is_blind = self._note_look(at_s)
        holders = {(x.object_type, x.name): x for x in samples if x.holds}
        others = {(x.object_type, x.name): x for x in samples if not x.holds}
        for key, hold in list(self._held.items()):
            now = holders.get(key)
            if now is not None and _goes_on(hold, now):
                _follow(hold, now)
            else:
                del self._held[key]
                _end(hold, now or others.get(key), at_s, is_blind=is_blind)
                # A busy server has thousands that are too short ever to count.
                length_s = _length(hold)
                if length_s is None or length_s > self.every_s * SHORTEST_OF_INTERVAL / 2:
                    self._over.append(hold)
        for key, now in holders.items():
            if key not in self._held:
                self._held[key] = self._begun(now)
        self._at_once[len(holders)] += 1

    @property
    def pids(self) -> list[int]:
        """Sessions to look at again, even if they hold nothing any more."""
        return [int(name) for kind, name in self._held if kind in _WITH_PID]

    @property
    def looks(self) -> int:
        """How many looks there were."""
        return sum(x.looks for x in self._stretches)

    @property
    def captured_s(self) -> float:
        """From the first look to the last, without the time out of sight."""
        return math.fsum(x.last_s - x.first_s for x in self._stretches)

    @property
    def blind_s(self) -> float:
        """For how long the server was out of sight."""
        return math.fsum(b.first_s - a.last_s for a, b in pairwise(self._stretches))

    @property
    def interval_s(self) -> float:
        """From one look to the next, on average."""
        intervals = self.looks - len(self._stretches)
        return self.captured_s / intervals if intervals and self.captured_s > 0 else self.every_s

    @property
    def shortest_s(self) -> float:
        """Holds that were shorter are left out."""
        return self.interval_s * SHORTEST_OF_INTERVAL

    @property
    def holding(self) -> int:
        """How many hold now."""
        return len(self._held)

    @property
    def seen(self) -> int:
        """How many holds were seen, of any length."""
        return len(self._held) + len(self._over)

    def at_once(self) -> dict[str, float]:
        """Return how many held at the same time, and for which share of the looks."""
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
        """Return how long it takes from the begin of one hold to that of the next; () of too few."""
        holds = [x for x in self._counted() if self._began_in_sight(x)]
        estimate = self._estimate(holds)
        # Between two that were met lie the begins of those that were not.
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

    def _note_look(self, at_s: float) -> bool:
        last = self._stretches[-1] if self._stretches else None
        is_blind = last is not None and at_s - last.last_s > _BLIND_INTERVALS * self.every_s + 1
        if last is None or is_blind:
            self._stretches.append(_Stretch(at_s, at_s))
        else:
            last.last_s, last.looks = at_s, last.looks + 1
        return is_blind

    def _begun(self, now: HolderSample) -> _Hold:
        kind = kind_of(now)
        begin_s = begin_of(now, kind)
        stretch = self._stretches[-1]
        hold = _Hold(kind, begin_s, now, now, len(self._stretches) - 1, oldest=now.age or 0)
        if begin_s is None and stretch.looks > 1:  # since the last look
            hold.begin_slack_s = self.every_s / 2
            hold.begin_s = now.at_s - hold.begin_slack_s
        return hold

    def _counted(self) -> Iterator[_Hold]:
        """Yield the holds that are not too short to count, as far as they are known."""
        for hold in (*self._over, *self._held.values()):
            length_s = _length(hold)
            if length_s is None or length_s > self.shortest_s:
                yield hold

    def _began_in_sight(self, hold: _Hold) -> bool:
        stretch = self._stretches[hold.stretch]
        return hold.begin_s is not None and hold.begin_s >= stretch.first_s

    def _bounded(self, hold: _Hold) -> BoundedHold | None:
        """Return what the looks tell of a hold's length; None: it came too late to be met surely, or nothing."""
        stretch = self._stretches[hold.stretch]
        if hold.begin_s is None:
            return None
        last_s, slack_s = hold.last.at_s - hold.begin_s, hold.begin_slack_s
        low_s, high_s = max(last_s - slack_s, 0.0), math.inf
        if hold.end_s is not None:
            high_s = max(hold.end_s - hold.begin_s + slack_s, low_s)
        if hold.is_end_told and not slack_s:
            low_s = high_s
        if not self._began_in_sight(hold):
            entry_s = max(hold.first.at_s - hold.begin_s, 0.0)
            return BoundedHold(low_s, high_s, entry_s) if high_s > entry_s else None
        # Of those that began after the last look but one, the last has met some, and none has seen the end.
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
            ends_between_looks=sum(x.end_s is not None and not x.is_end_told for x in holds),
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
    """Return since when it has held, by the server's clock; None: nothing says."""
    if kind in (HolderKind.SLOT, HolderKind.STANDBY):
        return None
    # Of one that copies a database's tables by the replication protocol only its statement's begin is told.
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
    # What keeps its snapshot, or keeps it until it gets a number, is still the same hold.
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
    """Note the end of a hold as well as it is known.

    Args:
        hold: whose end it is.
        now: what the same session does at this look.
        at_s: when this look was.
        is_blind: for how long it went on out of sight nobody knows.
    """
    last_s = hold.last.at_s
    told_s = _told_end(hold, now)
    if told_s is not None:
        hold.end_s, hold.is_end_told = told_s, True
        return
    if is_blind:
        hold.is_lost = True
        return
    latest_s = at_s
    if now is not None:
        # What it has begun since, it has begun after the end.
        starts = (now.since_s, now.statement_since_s, now.changed_s)
        later = [x for x in starts if x is not None and last_s < x < at_s]
        latest_s = min(later, default=at_s)
    hold.end_s = latest_s


def _told_end(hold: _Hold, now: HolderSample | None) -> float | None:
    if now is None or now.changed_s is None or not hold.last.at_s < now.changed_s <= now.at_s:
        return None
    is_same = now.statement_since_s == hold.last.statement_since_s
    is_idle = now.state == "idle" and (is_same or now.verb in _ENDING_VERBS)
    is_snapshot_gone = hold.last.xid is None and is_same and now.is_between_statements
    return now.changed_s if is_idle or is_snapshot_gone else None


def _length(hold: _Hold) -> float | None:
    if hold.begin_s is None:
        return None
    end_s = hold.last.at_s if hold.end_s is None else hold.end_s
    return max(end_s - hold.begin_s, 0.0)


def _rounded(number: float) -> float:
    return float(f"{max(number, 0.0):.6g}")


def samples_of(found: Iterable[HolderSample], database: str) -> list[HolderSample]:
    """Return those that hold this database's rows back, and those that hold nothing any more."""
    return [x for x in found if x.age is None or x.concerns(database)]
