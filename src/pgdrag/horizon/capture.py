"""How long, how often and by what is a live server's horizon held? Sampled, and never changed.

Each sample is one statement in a read-only session, so that the capture holds the horizon only for the
milliseconds that it takes. Its cost is measured and reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString

import psycopg

from pgdrag.driver.connection_string import SOON_LOST, Server
from pgdrag.errors import ServerError, ServerLost
from pgdrag.findings.holds.distribution import Capture, HoldDistribution
from pgdrag.horizon.sampling import HolderSample, make_read_only, sample_holders
from pgdrag.horizon.tracking import HoldTracker
from pgdrag.host.error_words import words_of
from pgdrag.host.interrupts import uninterrupted
from pgdrag.units import format_duration, significant

APPLICATION_NAME = "pgdrag capture horizon"
SAMPLE_TIMEOUT_S = 5.0
# A capture gives up on a server that is unreachable for this long, and keeps what it has.
GIVE_UP_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0

_SEES_ALL: LiteralString = """
SELECT current_user::text, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
"""


@dataclass(frozen=True)
class CaptureProgress:
    """Progress of a capture.

    Attributes:
        elapsed_s: since it began.
        samples: how many were taken.
        holding: number of current holders; None: the server is unreachable.
        oldest: age of the oldest of them in transactions.
        seen: holds so far, of any length.
        trouble: why it is unreachable, or "".
    """

    elapsed_s: float
    samples: int
    holding: int | None
    oldest: int
    seen: int
    trouble: str = ""


Listener = Callable[[CaptureProgress], None]


class HorizonCapture:
    """One capture: `run` takes the samples, and `found` returns the result so far."""

    def __init__(self, server: Server, *, every_s: float, with_applications: bool = False) -> None:
        self._server = server
        self._every_s = every_s
        self._with_applications = with_applications
        self._tracker = HoldTracker(every_s)
        self._began = datetime.now(UTC)
        self._sample_s: list[float] = []
        self._hidden_from = ""
        self._connection: psycopg.Connection | None = None
        self.notes: list[str] = []

    def run(self, for_s: float, listen: Listener) -> None:
        """Take samples until the time is over; reconnect, but give up after `GIVE_UP_S` without the server.

        Raises:
            ServerLost: the server became unreachable before the second sample.
        """
        began_s = seen_s = time.monotonic()
        pause_s, trouble = _FIRST_PAUSE_S, ""
        try:
            while True:
                now_s = time.monotonic()
                if trouble and now_s - seen_s > GIVE_UP_S:
                    break
                if now_s - began_s >= for_s and (trouble or self._tracker.samples >= 2):
                    break
                try:
                    found = self._sample()
                except (psycopg.Error, ServerLost) as error:
                    self._disconnect()
                    trouble = words_of(error) if isinstance(error, psycopg.Error) else error.message
                    listen(self._progress(time.monotonic() - began_s, (), trouble))
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                    continue
                seen_s, pause_s, trouble = time.monotonic(), _FIRST_PAUSE_S, ""
                elapsed_s = seen_s - began_s
                listen(self._progress(elapsed_s, found, ""))
                # On a fixed schedule, so that the samples' own duration does not add up.
                time.sleep(self._every_s - elapsed_s % self._every_s)
        finally:
            self._disconnect()
        if trouble and self._tracker.samples < 2:
            raise ServerLost(f"the server became unreachable before the second sample: {trouble}")
        if trouble:
            blind = format_duration(round(time.monotonic() - seen_s))
            self.notes.append(f"The server was unreachable for the last {blind}: {trouble}.")

    def found(self) -> HoldDistribution:
        """Return the distribution so far.

        Raises:
            ServerError: there were fewer than two.
        """
        tracker = self._tracker
        if tracker.samples < 2 or tracker.captured_s <= 0:
            raise ServerError(
                "nothing was captured: at least two samples are needed",
                hint="Capture for longer, or sample more often (--every).",
            )
        capture = Capture(
            server=self._server.name,
            postgres=self._server.version,
            began=self._began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            captured_s=significant(tracker.captured_s),
            every_s=significant(tracker.interval_s),
            looks=tracker.samples,
            shortest_s=significant(tracker.shortest_s),
            blind_s=significant(tracker.blind_s),
            look_s=significant(sum(self._sample_s) / len(self._sample_s)),
            cannot_see=self.cannot_see(),
        )
        return HoldDistribution(
            capture,
            tracker.kinds(with_applications=self._with_applications),
            gaps=tracker.gaps(),
            at_once=tracker.at_once(),
        )

    def cannot_see(self) -> tuple[str, ...]:
        """Return what this role cannot see, in sentences."""
        if not self._hidden_from:
            return ()
        return (
            f'Role "{self._hidden_from}" cannot see the details of other roles\' sessions, so their holds start and end '
            "somewhere between two samples, and cursors count as snapshots. Members of pg_monitor see them.",
        )

    def cost(self) -> str:
        """Return the cost of the samples, in a sentence."""
        if not self._sample_s:
            return "No sample was taken."
        mean_s = sum(self._sample_s) / len(self._sample_s)
        share = mean_s / self._tracker.interval_s
        return (
            f"{len(self._sample_s):,} samples took {format_duration(mean_s)} on average, {format_duration(max(self._sample_s))} "
            f"at most: {share:.2%} of the time, in one session that held nothing between them."
        )

    def _sample(self) -> Sequence[HolderSample]:
        if self._connection is None:
            self._connection = self._server.connect(application_name=APPLICATION_NAME, **SOON_LOST)
            make_read_only(self._connection, timeout_s=SAMPLE_TIMEOUT_S)
            ((role, sees_all),) = self._connection.execute(_SEES_ALL).fetchall()
            self._hidden_from = "" if sees_all else str(role)
        began_s = time.monotonic()
        seen = sample_holders(self._connection, self._tracker.pids)
        sample_s = time.monotonic() - began_s
        if seen:
            at_s = seen[0].at_s
        else:
            query = "SELECT extract(epoch FROM clock_timestamp())::float8"
            ((at_s,),) = self._connection.execute(query).fetchall()
        # Those that hold back this database, and those that no longer hold anything.
        database = self._server.target.database
        found = [x for x in seen if x.age is None or x.concerns(database)]
        with uninterrupted():  # a sample is recorded completely or not at all
            self._sample_s.append(sample_s)
            self._tracker.add(at_s, found)
        return found

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _progress(
        self, elapsed_s: float, found: Sequence[HolderSample], trouble: str
    ) -> CaptureProgress:
        tracker = self._tracker
        holding = None if trouble else tracker.holding
        oldest = max((x.age for x in found if x.age is not None), default=0)
        return CaptureProgress(elapsed_s, tracker.samples, holding, oldest, tracker.seen, trouble)
