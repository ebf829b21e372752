"""Looks at sessions, slots and prepared transactions come to holds: since when, until when, of what kind."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import pytest

from pgdrag.findings.holds.distribution import KindOfHolds
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.sampling import HolderSample, ObjectType
from pgdrag.horizon.tracking import HoldTracker
from pgdrag.stats.hold_lengths import TOLERANCE, SeenHold, log_wasserstein, product_limit

WRITER = HolderSample(
    0.0, ObjectType.SESSION, "7", state="idle in transaction", xid="900", age=5, since_s=0.5
)
READER = HolderSample(
    0.0, "session", "8", state="active", xmin="800", age=9, since_s=0.2, statement_since_s=0.7
)
SLOT = HolderSample(0.0, ObjectType.SLOT, "left", state="not in use physical", xmin="700", age=90)
STANDBY = HolderSample(0.0, ObjectType.STANDBY, "5", state="active", xmin="700", age=0)
NOBODY = HolderSample(0.0, ObjectType.SESSION, "9")


def tracked(
    *looks: list[HolderSample], every_s: float = 1.0, at: list[float] | None = None
) -> HoldTracker:
    """Return what follows one look a second, or looks at these times."""
    tracker = HoldTracker(every_s)
    times = at or [every_s * number for number in range(len(looks))]
    for at_s, seen in zip(times, looks, strict=True):
        tracker.add(at_s, [replace(one, at_s=at_s) for one in seen])
    return tracker


def lasted(found: KindOfHolds) -> tuple[float, float]:
    """Return the least and the most that holds lasted, as far as looks tell; alike where the end was told."""
    assert found.curve is not None
    return found.curve.lengths_s[0], found.curve.lengths_s[-1]


def near(low_s: float, high_s: float) -> tuple[object, object]:
    return pytest.approx(low_s, rel=0.03), pytest.approx(high_s, rel=0.03)


def only(tracker: HoldTracker) -> tuple[HolderKind, KindOfHolds]:
    [found] = tracker.kinds().items()
    return found


def test_the_server_tells_when_a_session_has_been_idle_since() -> None:
    over = HolderSample(
        0, ObjectType.SESSION, "7", state="idle", since_s=None, changed_s=2.25, verb="COMMIT"
    )
    kind, found = only(tracked([], [WRITER], [WRITER], [over], [], []))
    assert (kind, found.seen, found.ends_between_looks) == ("transaction", 1, 0)
    assert found.longer_than == ((1.75, 0.0),)


def test_a_session_that_is_gone_ended_between_two_looks() -> None:
    kind, found = only(tracked([], [WRITER], [WRITER], [], [], []))
    assert (kind, found.ends_between_looks) == ("transaction", 1)
    assert lasted(found) == near(1.5, 2.5)


def test_what_a_session_has_begun_since_bounds_the_end() -> None:
    again = replace(WRITER, xid="950", since_s=2.2)
    tracker = tracked([], [WRITER], [WRITER], [again], [], [], [])
    _, found = only(tracker)
    assert found.seen == 2
    assert lasted(found) == near(1.5, 1.7)  # and not up to the 2.5 s of the next look
    assert tracker.at_once() == {"0": pytest.approx(4 / 7), "1": pytest.approx(3 / 7)}


def test_statements_of_their_own_snapshots_are_holds_of_their_own() -> None:
    next_statement = replace(READER, xmin="850", statement_since_s=1.9)
    kind, found = only(tracked([], [READER], [next_statement], [], [], []))
    assert (kind, found.seen) == ("snapshot", 2)


def test_a_snapshot_kept_between_statements_is_the_transactions() -> None:
    idle = replace(READER, state="idle in transaction", statement_since_s=1.5)
    kind, found = only(tracked([], [READER], [idle], [idle], [], [], []))
    assert (kind, found.seen) == ("snapshot", 1)
    assert lasted(found) == near(2.8, 3.8)


def test_a_fetch_tells_a_cursor() -> None:
    fetching = replace(READER, verb="FETCH", state="idle in transaction")
    assert only(tracked([], [fetching], [fetching], [], []))[0] == "cursor"


def test_a_reader_that_begins_to_write_is_one_transaction() -> None:
    writing = replace(READER, xid="901", state="idle in transaction")
    kind, found = only(tracked([], [READER], [writing], [], [], []))
    assert (kind, found.seen) == ("transaction", 1)


def test_a_slot_counts_from_where_it_moved_on() -> None:
    moved = replace(SLOT, xmin="750", age=40)
    kind, found = only(tracked([SLOT], [SLOT], [moved], [moved], [moved], []))
    assert (kind, found.seen, found.begin_unknown) == ("slot", 2, 1)
    # From somewhere between two looks to somewhere between two others.
    assert lasted(found) == near(2.0, 4.0)


def test_a_standby_or_slot_of_a_quiet_server_holds_nothing_until_a_transaction_begins() -> None:
    """It goes on reporting the next transaction's number as the oldest that it may want."""
    assert tracked([STANDBY], [STANDBY], [replace(SLOT, age=0)], []).kinds() == {}
    busy = replace(STANDBY, age=3)
    moved = replace(STANDBY, xmin="703", age=0)
    kind, found = only(tracked([STANDBY], [busy], [busy], [moved], [moved], []))
    assert (kind, found.seen, found.begin_unknown, found.in_progress_at_end) == ("standby", 1, 0, 0)
    assert lasted(found) == near(1.0, 3.0)


def test_who_copies_a_database_by_the_replication_protocol_holds_since_its_statement() -> None:
    """The server does not tell when its transaction began."""
    copying = replace(READER, since_s=None, state="idle in transaction", verb="CREATE")
    kind, found = only(tracked([], [copying], [copying], [], [], []))
    assert (kind, found.begin_unknown) == ("snapshot", 0)
    assert lasted(found) == near(1.3, 2.3)


def test_what_was_there_before_and_after_is_truncated_and_censored() -> None:
    old = replace(WRITER, since_s=-100.0)
    _, found = only(tracked([old], [old], [old]))
    assert (found.in_progress_at_begin, found.in_progress_at_end) == (1, 1)
    assert (found.longer_than, found.open_share) == (((102.0, 0.0),), 1.0)
    assert found.per_hour == 0


def test_what_ended_out_of_sight_is_not_an_end() -> None:
    tracker = tracked([], [WRITER], [WRITER], [], [], at=[0.0, 1.0, 2.0, 60.0, 61.0])
    _, found = only(tracker)
    assert (tracker.blind_s, tracker.captured_s, tracker.samples) == (58.0, 3.0, 5)
    assert found.in_progress_at_end == 0
    assert found.open_share == 1


def test_a_hidden_session_began_between_two_looks() -> None:
    hidden = HolderSample(0, ObjectType.SESSION, "7", xid="900", age=3)
    _, found = only(tracked([], [hidden], [hidden], [hidden], [], [], []))
    assert found.begin_unknown == 0
    assert lasted(found) == near(2.0, 4.0)


def test_catalogs_alone_are_no_hold() -> None:
    assert tracked([replace(SLOT, age=None, catalog_age=9)], []).kinds() == {}


@dataclass
class Session:
    """A session that holds now and then, and tells what a real one would."""

    name: str
    begin_s: float
    end_s: float
    number: int = 0

    def seen(self, at_s: float, *, is_pooled: bool) -> HolderSample | None:
        if self.begin_s <= at_s < self.end_s:
            state = "idle in transaction"
            xid = f"{self.name}.{self.number}"
            return HolderSample(
                at_s,
                ObjectType.SESSION,
                self.name,
                state=state,
                xid=xid,
                age=1,
                since_s=self.begin_s,
            )
        if is_pooled or at_s < self.end_s:
            return None  # it is gone, or has gone on to something else
        return HolderSample(
            at_s, ObjectType.SESSION, self.name, state="idle", changed_s=self.end_s, verb="COMMIT"
        )


def simulated(
    rng: random.Random, every_s: float, *, looks: int, sessions: int, is_pooled: bool
) -> tuple[HoldTracker, list[float]]:
    """Return what looks see of sessions that hold for a second or nine, and the lengths of all holds."""
    found: list[float] = []

    def next_of(session: Session) -> None:
        session.number += 1
        length_s = (1.0 if rng.random() < 0.75 else 9.0) * math.exp(rng.gauss(0, 0.05))
        session.begin_s = session.end_s + rng.expovariate(0.2)
        session.end_s = session.begin_s + length_s
        found.append(length_s)

    tracker = HoldTracker(every_s)
    crowd = [Session(str(name), -50.0, -50.0) for name in range(sessions)]
    for session in crowd:
        next_of(session)
    for look in range(looks):
        at_s = look * every_s
        seen = []
        for session in crowd:
            one = session.seen(at_s, is_pooled=is_pooled)
            while session.end_s < at_s:
                next_of(session)
            # One that went on at once is seen in its next hold.
            now = session.seen(at_s, is_pooled=True)
            if (now or one) is not None:
                seen.append(now or one)
        tracker.add(at_s, [one for one in seen if one is not None])
    return tracker, found


@pytest.mark.parametrize(("every_s", "is_pooled"), [(0.5, True), (2.0, True), (3.0, False)])
def test_two_modes_that_looks_met_are_recovered_within_the_tolerance(
    every_s: float, is_pooled: bool
) -> None:
    """Also where the ends are known between two looks only, or but one in three short holds is met."""
    tracker, lengths_s = simulated(
        random.Random(5), every_s, looks=150, sessions=12, is_pooled=is_pooled
    )
    _, found = only(tracker)
    truth = product_limit([SeenHold(x) for x in lengths_s])
    assert truth is not None
    assert found.curve is not None
    assert math.exp(log_wasserstein(truth, found.curve)) < TOLERANCE
    assert found.curve.longer_than(4.0) == pytest.approx(0.25, abs=0.06)
    in_an_hour = 3600 * len(lengths_s) / (150 * every_s + 50)
    assert found.per_hour == pytest.approx(in_an_hour, rel=0.15)
    assert (found.estimated_share > 0.3) == (every_s > 1.5)
