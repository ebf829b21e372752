"""What does a live server's horizon go through in an hour? Looked at now and then, and changed in nothing.

Each look is one statement of its own in a read-only session: it keeps a snapshot for the milliseconds
that it takes, so that the capture never holds what it watches. What it costs is measured and told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString

import psycopg

from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError, ServerLost
from pgdrag.findings.holds.distribution import Capture, HoldDistribution
from pgdrag.horizon.census import HolderSample, make_read_only, sample_holders
from pgdrag.horizon.tracking import HoldTracker, samples_of
from pgdrag.host.undo import uninterrupted
from pgdrag.units import format_duration

APPLICATION_NAME = "pgdrag capture horizon"
LOOK_TIMEOUT_S = 5.0
# A server that is gone for so long is not waited for any more: what was captured counts.
LONGEST_BLIND_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0

_SEES_ALL: LiteralString = """
SELECT current_user::text, pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
"""


@dataclass(frozen=True)
class CaptureProgress:
    """How far a capture has come.

    Attributes:
        elapsed_s: since it began.
        looks: how many there were.
        holding: how many hold now; None: the server is out of sight.
        oldest: transactions that had begun since the oldest of those.
        seen: holds so far, of any length.
        trouble: why it is out of sight, or "".
    """

    elapsed_s: float
    looks: int
    holding: int | None
    oldest: int
    seen: int
    trouble: str = ""


Listener = Callable[[CaptureProgress], None]


class HorizonCapture:
    """One capture. `run` goes on until its time is over; `found` says what there is, at any time."""

    def __init__(self, server: Server, *, every_s: float, with_applications: bool = False) -> None:
        self._server = server
        self._every_s = every_s
        self._with_applications = with_applications
        self._tracker = HoldTracker(every_s)
        self._began = datetime.now(UTC)
        self._look_s: list[float] = []
        self._hidden_from = ""
        self._connection: psycopg.Connection | None = None
        self.notes: list[str] = []

    def run(self, for_s: float, listen: Listener) -> None:
        """Look until the time is over, or the server is gone for good; a lost connection is made again.

        Raises:
            ServerLost: the server was gone before it was looked at twice.
        """
        began_s = seen_s = time.monotonic()
        pause_s, trouble = _FIRST_PAUSE_S, ""
        try:
            while not self._is_over(began_s, seen_s, for_s, trouble):
                try:
                    found = self._look()
                except (psycopg.Error, ServerLost) as error:
                    self._disconnect()
                    trouble = _words(error)
                    listen(self._progress(time.monotonic() - began_s, (), trouble))
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                    continue
                seen_s, pause_s, trouble = time.monotonic(), _FIRST_PAUSE_S, ""
                elapsed_s = seen_s - began_s
                listen(self._progress(elapsed_s, found, ""))
                # By the clock, so that what a look takes does not add up.
                time.sleep(self._every_s - elapsed_s % self._every_s)
            if trouble:
                self._give_up(trouble, time.monotonic() - seen_s)
        finally:
            self._disconnect()

    def found(self) -> HoldDistribution:
        """Return what the looks so far have come to.

        Raises:
            ServerError: there were fewer than two.
        """
        tracker = self._tracker
        if tracker.looks < 2 or tracker.captured_s <= 0:
            raise ServerError(
                "nothing was captured: it takes two looks at least",
                hint="Capture for longer, or look more often (--every).",
            )
        capture = Capture(
            server=self._server.name,
            postgres=self._server.version,
            began=self._began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            captured_s=_rounded(tracker.captured_s),
            every_s=_rounded(tracker.interval_s),
            looks=tracker.looks,
            shortest_s=_rounded(tracker.shortest_s),
            blind_s=_rounded(tracker.blind_s),
            look_s=_rounded(sum(self._look_s) / len(self._look_s)),
            cannot_see=self.cannot_see(),
        )
        return HoldDistribution(
            capture,
            tracker.kinds(with_applications=self._with_applications),
            gaps=tracker.gaps(),
            at_once=tracker.at_once(),
        )

    def cannot_see(self) -> tuple[str, ...]:
        """Return what this role is not shown, in sentences."""
        if not self._hidden_from:
            return ()
        return (
            f'Since when sessions of other roles hold, role "{self._hidden_from}" is not shown: their begins '
            "and ends lie somewhere between two looks, and cursors are told from no other snapshots.",
        )

    def cost(self) -> str:
        """Return what the looks cost, in a sentence."""
        if not self._look_s:
            return "There was no look."
        mean_s = sum(self._look_s) / len(self._look_s)
        share = mean_s / self._tracker.interval_s
        return (
            f"{len(self._look_s):,} looks took {format_duration(mean_s)} each, {format_duration(max(self._look_s))} "
            f"at most: {share:.2%} of the time, in one session that held nothing in between."
        )

    def _is_over(self, began_s: float, seen_s: float, for_s: float, trouble: str) -> bool:
        now_s = time.monotonic()
        if trouble and now_s - seen_s > LONGEST_BLIND_S:
            return True
        return now_s - began_s >= for_s and (bool(trouble) or self._tracker.looks >= 2)

    def _look(self) -> Sequence[HolderSample]:
        if self._connection is None:
            self._connection = self._connected()
        began_s = time.monotonic()
        seen = sample_holders(self._connection, self._tracker.pids)
        look_s = time.monotonic() - began_s
        found = samples_of(seen, self._server.target.database)
        at_s = seen[0].at_s if seen else self._clock()
        with uninterrupted():  # a look counts as a whole, or not at all
            self._look_s.append(look_s)
            self._tracker.look(at_s, found)
        return found

    def _clock(self) -> float:
        assert self._connection is not None
        query = "SELECT extract(epoch FROM clock_timestamp())::float8"
        ((at_s,),) = self._connection.execute(query).fetchall()
        return float(at_s)

    def _connected(self) -> psycopg.Connection:
        # A server that vanishes without a word is noticed by the kernel.
        patience = {"connect_timeout": 10, "tcp_user_timeout": 15_000}
        connection = self._server.connect(application_name=APPLICATION_NAME, **patience)
        make_read_only(connection, timeout_s=LOOK_TIMEOUT_S)
        ((role, sees_all),) = connection.execute(_SEES_ALL).fetchall()
        self._hidden_from = "" if sees_all else str(role)
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, trouble: str, blind_s: float) -> None:
        if self._tracker.looks < 2:
            raise ServerLost(
                f"the server went out of sight before it was looked at twice: {trouble}"
            )
        self.notes.append(
            f"The server was out of sight for the last {format_duration(round(blind_s))}: {trouble}."
        )

    def _progress(
        self, elapsed_s: float, found: Sequence[HolderSample], trouble: str
    ) -> CaptureProgress:
        tracker = self._tracker
        holding = None if trouble else tracker.holding
        oldest = max((x.age for x in found if x.age is not None), default=0)
        return CaptureProgress(elapsed_s, tracker.looks, holding, oldest, tracker.seen, trouble)


def _words(error: psycopg.Error | ServerLost) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no reason is given"


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
