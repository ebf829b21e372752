"""By how much did counters grow over the window? Two readings, and their difference.

The server's sessions add up their own counters and hand them in at most once a second, and when
they end. The second reading therefore waits until the window's sessions have ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, LiteralString

from pgdrag.collectors import Amounts, Collector, Observer, Unseen, Window, attempt, known
from pgdrag.collectors._metric import NO_READING, of_kind, series_of
from pgdrag.driver.process import WATCH_NAME
from pgdrag.horizon.holders import APPLICATION_NAME, CLEANUP_NAME, WATCHER_NAME
from pgdrag.host.clock import CLOCK
from pgdrag.host.process_alive import wait_until
from pgdrag.model.recordings import Recordings

Counters = Mapping[str, int]

_FLUSH_TIMEOUT_S = 1.5
# Before, a process of its own wrote the statistics into a file, and not again for half a second.
SHARED_STATISTICS_SINCE = 150000
ANY_VERSION = 10**7
_FILE_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class Drawn:
    """A rate to be drawn over the window: of one or several counters, added up.

    Attributes:
        unit_size: the size of one count in the rate's unit: 512 for a sector of a disk.
        each: by these counters it is divided, and not by time; 0 where they did not grow.
        less: these are taken off; what then is less than nothing is 0.
    """

    name: str
    label: str
    unit: Literal["1/s", "bytes/s", "count", "s", "ratio"]
    counters: tuple[str, ...]
    unit_size: float = 1
    each: tuple[str, ...] = ()
    less: tuple[str, ...] = ()

    def between(self, then: Counters, now: Counters, length_s: float) -> float | None:
        """Return its value over the time between two readings; None where a counter is not in both, or fell."""
        names = (*self.counters, *self.each, *self.less)
        if not all(name in then and name in now for name in names):
            return None
        moved = {name: now[name] - then[name] for name in names}
        if min(moved.values()) < 0:
            return None
        times = sum(moved[name] for name in self.each) if self.each else length_s
        return self.unit_size * self.grown(moved) / times if times else 0.0

    def grown(self, moved: Counters) -> float:
        """Return by how much it grew, by the growth of each counter."""
        less = sum(moved[name] for name in self.less)
        return max(sum(moved[name] for name in self.counters) - less, 0)


class CounterCollector(Collector):
    """A collector of the server's counters: a subclass says what to read, and what it means.

    Attributes:
        drawn: what is read within the window, too, about once a second; reading must be cheap then.
        is_of_machine: what is drawn is of all that runs on the server's machine.
        observed_s: time between the readings. It is a little longer than the window, since clients
            connect and end in it, and what they do then is counted, too.
        unfinished_sessions: how many were still there at the second reading.
        titles: for people, by the keys of kinds of counters.
    """

    drawn: ClassVar[tuple[Drawn, ...]] = ()
    # The query that reads the counters, by the server version from which on it holds. Each column is a
    # counter of its name. A column "key" makes each row a kind of its own, "COLUMN KEY", which a column
    # "title" names for people. A null is a counter that this server does not keep.
    queries: ClassVar[Mapping[int, LiteralString]] = {}
    # Why no query is for this server.
    too_old: ClassVar[str] = ""
    # Server versions before this one count nothing while track_counts is off.
    track_counts_before: ClassVar[int] = 0

    def __init__(self) -> None:
        self._samples: list[tuple[float, Counters]] = []
        self._sessions: frozenset[int] | Unseen = NO_READING
        self._before: Counters | Unseen = NO_READING
        self._after: Counters | Unseen = NO_READING
        self._read_at_s = 0.0
        self.observed_s = 0.0
        self.unfinished_sessions = 0
        self.server_version_num = 0
        self.titles: dict[str, str] = {}

    def read(self, observer: Observer) -> Counters:
        """Read every counter, whole numbers that only grow; by default those of `queries`.

        Raises:
            Unseen: they cannot be read here.
        """
        version = self.server_version_num = observer.server_version_num
        since = max((x for x in self.queries if x <= version), default=None)
        if since is None:
            raise Unseen(self.too_old)
        if version < self.track_counts_before:
            require_track_counts(observer)
        counters: dict[str, int] = {}
        for row in observer.table(self.queries[since]):
            key, title = row.pop("key", None), row.pop("title", None)
            if title is not None:
                self.titles[key] = title
            for column, count in row.items():
                if count is not None:
                    counters[column if key is None else f"{column} {key}"] = count
        return counters

    def read_drawn(self, observer: Observer) -> Counters:
        """Read what is drawn; override it where the rest is expensive.

        Raises:
            Unseen: it cannot be read here.
        """
        return self.read(observer)

    def before(self, observer: Observer) -> None:
        # On a server that others use, there is always one that has not ended.
        if observer.cluster.is_throw_away:
            self._sessions = attempt(lambda: _other_sessions(observer))
        attempt(lambda: _wait_for_statistics(observer, "began"))
        self._before = attempt(lambda: self.read(observer))
        self._read_at_s = time.monotonic()

    def sample(self, observer: Observer) -> None:
        """Take a reading for the series, where there are any."""
        if self.drawn:
            found = attempt(lambda: self.read_drawn(observer))
            if not isinstance(found, Unseen):
                self._samples.append((CLOCK.unix_s(), found))

    def recordings(self, window: Window) -> Recordings:
        return drawn_over(self.drawn, self._samples, window, is_of_machine=self.is_of_machine)

    def after(self, observer: Observer) -> None:
        """Wait until the window's sessions have handed in their counters; take the second reading."""
        if isinstance(self._sessions, frozenset):
            self.unfinished_sessions = _wait_for_end(observer, self._sessions)
        attempt(lambda: _wait_for_statistics(observer, "ended"))
        self._after = attempt(lambda: self.read(observer))
        self.observed_s = time.monotonic() - self._read_at_s

    def moved(self) -> Counters:
        """By how much each counter grew between the readings; one that is new counts from 0.

        Raises:
            Unseen: a reading is missing, or a counter fell.
        """
        return growth(known(self._before), known(self._after))

    def amounts(self, window: Window) -> Amounts:
        """Return by how much each counter grew, and a "warning" where sessions had not ended."""
        warning = (
            f" {self.unfinished_sessions} of the window's sessions had not ended;"
            " up to a second of theirs may be missing."
        )
        return {**self.moved(), "warning": warning if self.unfinished_sessions else ""}

    def seconds(self, window: Window) -> float:
        return self.observed_s

    def titled(self, amounts: Amounts, kind: str) -> dict[str, float]:
        """Return the amounts of one kind by their titles."""
        return {self.titles.get(x, x): amount for x, amount in of_kind(amounts, kind).items()}


def drawn_over(
    rates: Sequence[Drawn],
    readings: Sequence[tuple[float, Counters]],
    window: Window,
    *,
    is_of_machine: bool = False,
) -> Recordings:
    """Return a series of each rate: differences of neighbouring readings, each by its own time.

    Args:
        readings: of all their counters, each with its moment by `CLOCK`.
    """
    return Recordings(
        series
        for drawn in rates
        for series in series_of(
            drawn.name,
            drawn.label,
            drawn.unit,
            (
                (now_s, drawn.between(then, now, now_s - then_s))
                for (then_s, then), (now_s, now) in pairwise(readings)
                if now_s > then_s
            ),
            window,
            is_of_machine=is_of_machine,
        )
    )


def require_track_counts(observer: Observer) -> None:
    """Refuse to read counters that stay 0 because the server does not keep them.

    Raises:
        Unseen: track_counts is off.
    """
    if observer.query("SELECT current_setting('track_counts')") != [("on",)]:
        raise Unseen("track_counts is off")


def require_sight_of_others(observer: Observer, what: str) -> None:
    """Refuse to observe other sessions with a role to which they would look idle.

    Raises:
        Unseen: the role is neither a superuser nor a member of pg_read_all_stats.
    """
    if observer.query("SELECT pg_has_role('pg_read_all_stats', 'USAGE')") != [(True,)]:
        raise Unseen(f"this role may not see {what} of others; it takes pg_read_all_stats")


def growth(before: Counters, after: Counters) -> Counters:
    """The differences of two readings.

    Raises:
        Unseen: one of them is negative.
    """
    moved = {name: value - before.get(name, 0) for name, value in after.items()}
    if any(value < 0 for value in moved.values()):
        raise Unseen("the server's counters were reset within the window")
    return moved


def _other_sessions(observer: Observer) -> frozenset[int]:
    rows = observer.query(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        # The watch is the instrument's own, and goes on until its collector ends it; who holds the
        # horizon goes on until the trial's end.
        " AND coalesce(application_name, '') <> ALL (%s)"
        # Null for sessions of other users that this one may not look at: then they count, too.
        " AND coalesce(backend_type, 'client backend') = 'client backend'",
        [WATCH_NAME, APPLICATION_NAME, WATCHER_NAME, CLEANUP_NAME],
    )
    return frozenset(pid for (pid,) in rows)


def _wait_for_end(observer: Observer, before: frozenset[int]) -> int:
    """Wait until all sessions except those of before have ended; return how many have not."""

    def left() -> frozenset[int]:
        sessions = attempt(lambda: _other_sessions(observer))
        return frozenset() if isinstance(sessions, Unseen) else sessions - before

    return 0 if wait_until(lambda: not left(), _FLUSH_TIMEOUT_S) else len(left())


def _wait_for_statistics(observer: Observer, moment: Literal["began", "ended"]) -> None:
    """Wait until the server's statistics are no older than that; once for all collectors."""
    if observer.server_version_num >= SHARED_STATISTICS_SINCE:
        return
    if moment not in observer.moments:
        [(observer.moments[moment],)] = observer.query("SELECT clock_timestamp()")
    is_new = "SELECT pg_stat_get_snapshot_timestamp() >= %s"
    wait_until(
        lambda: observer.query(is_new, observer.moments[moment]) != [(False,)], _FILE_TIMEOUT_S
    )
