"""Makes and releases the planned holds of one trial on time."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pgdrag.errors import PgdragError
from pgdrag.horizon.ages import AgeWatch
from pgdrag.horizon.cleanup import Cleanup
from pgdrag.horizon.holders import Held, Holder, HoldPlace, all_holders
from pgdrag.horizon.schedule import SHORTEST_S, Hold

_CHECK_EVERY_S = 0.5  # whether the holds in force are still there
_FREE_TIMEOUT_S = 5.0  # a standby's feedback comes every second
_POLL_S = 0.02
_SAME_S = 1e-3  # moments of a plan that are the same but for their last digits
_DIGITS = 3
_END_TIMEOUT_S = 20.0


@dataclass
class MadeHold:
    """A hold that was made.

    Attributes:
        xid: the next transaction's number when it was made: what it keeps is no younger;
            without the epoch.
        release_s: when it is due to be released, in seconds from the window's begin.
        ended_unix_s: None: it is in force.
        lost: why it ended before it was released; "": it did not.
    """

    planned: Hold
    held: Held
    xid: int
    began_unix_s: float
    release_s: float
    ended_unix_s: float | None = None
    lost: str = ""


class HoldRunner:
    """Makes and releases holds on its own thread.

    Attributes:
        watch: what the horizon's age was meanwhile.
        made: every hold that was made, in the order of their begins.
        failed: why holds were not made, or not released: clauses.
        making: the hold that is being made; None: none is.
        cleanup: what is run after the last hold; None: nothing.
    """

    def __init__(
        self, place: HoldPlace, holds: Sequence[Hold], cleanup: Cleanup | None = None
    ) -> None:
        self.made: list[MadeHold] = []
        self.failed: list[str] = []
        self.making: Hold | None = None
        self.cleanup = cleanup
        self.watch = AgeWatch(place, self._claimed)
        self._place = place
        self._waiting = deque(holds)
        self._begins = frozenset(round(hold.begin_s, _DIGITS) for hold in holds)
        self._holders: dict[str, Holder] = {}
        self._in_force: list[MadeHold] = []
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._origin_s = 0.0
        self._thread = threading.Thread(target=self._run, name="pgdrag-holder", daemon=True)

    def prepare(self) -> None:
        """Make what takes time and holds nothing yet.

        Raises:
            ServerError: it cannot be made here; `end` removes the rest.
            StorageError: the disk is full.
        """
        for name in sorted({hold.holder for hold in self._waiting}):
            self._holders[name] = all_holders()[name]()
            self._holders[name].prepare(self._place)
        self.watch.begin()

    def begin(self, *, window_in_s: float = 0.0) -> None:
        """Start the holds and return at once; the window begins in `window_in_s` seconds."""
        self._origin_s = time.monotonic() + window_in_s
        self._thread.start()

    def wait_for_first(self, timeout_s: float) -> None:
        """Wait until all holds that are due were made or failed, at most `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self._due_in_s() <= 0 and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def end(self) -> list[str]:
        """Release all, remove what was prepared, and return the failures as clauses; safe to repeat.

        Bounded in time, also where the server does not answer.
        """
        self._has_ended.set()
        if self.cleanup is not None:
            self.cleanup.stop()
        troubles = []
        if self._thread.ident is not None:
            self._thread.join(_END_TIMEOUT_S)
            if self._thread.is_alive():
                troubles.append(f"holds were not released within {_END_TIMEOUT_S:g} s")
        self.watch.end()
        for holder in self._holders.values():
            try:
                holder.close()
            except PgdragError as error:
                troubles.append(error.message)
        return troubles

    def _claimed(self) -> int | None:
        with self._lock:
            return min((one.xid for one in self._in_force), default=None)

    def _run(self) -> None:
        try:
            while not self._has_ended.is_set() and (self._waiting or self._in_force):
                self._do_due()
                self._find_lost()
                self._has_ended.wait(min(max(self._due_in_s(), 0.0), _CHECK_EVERY_S))
        finally:
            is_all_done = not self._waiting and not self._in_force
            for one in list(self._in_force):
                self._release(one)
        if is_all_done and self.cleanup is not None and self.made:
            self._wait_until_free(max(one.xid for one in self.made))
            if not self._has_ended.is_set():
                self.cleanup.run()

    def _now_s(self) -> float:
        return time.monotonic() - self._origin_s

    def _due_in_s(self) -> float:
        """Return the seconds until the next action; inf: none."""
        begin_s = self._waiting[0].begin_s if self._waiting else math.inf
        with self._lock:
            release_s = min((one.release_s for one in self._in_force), default=math.inf)
        return min(begin_s, release_s) - self._now_s()

    def _do_due(self) -> None:
        while not self._has_ended.is_set() and self._due_in_s() <= 0:
            first = min(self._in_force, key=lambda one: one.release_s, default=None)
            # Release before making: between two adjacent holds the horizon is free for a moment.
            if first is not None and (
                not self._waiting or first.release_s <= self._waiting[0].begin_s + _SAME_S
            ):
                self._release(first)
            else:
                self.making = self._waiting[0]
                self._hold(self.making)
                self._waiting.popleft()
                self.making = None

    def _hold(self, planned: Hold) -> None:
        try:
            held = self._holders[planned.holder].hold(self._place)
        except PgdragError as error:
            self.failed.append(error.message)
            return
        now_s = self._now_s()
        # Making it took a moment; it must still not overlap a hold planned for its end.
        is_followed = round(planned.end_s, _DIGITS) in self._begins
        end_s = planned.end_s if is_followed else now_s + planned.length_s
        release_s = max(end_s, now_s + SHORTEST_S)
        made = MadeHold(planned, held, 0, time.time(), release_s)
        try:
            made.xid = self.watch.next_xid()
        except PgdragError as error:
            self.failed.append(error.message)
        self.made.append(made)
        with self._lock:
            self._in_force.append(made)

    def _find_lost(self) -> None:
        for one in list(self._in_force):
            one.lost = one.held.lost()
            if one.lost:
                self._release(one)

    def _release(self, one: MadeHold) -> None:
        # Stop claiming it before it is released.
        with self._lock:
            self._in_force.remove(one)
        try:
            one.held.release()
        except PgdragError as error:
            self.failed.append(error.message)
        one.ended_unix_s = time.time()

    def _wait_until_free(self, xid: int) -> None:
        """Wait, at most `_FREE_TIMEOUT_S`, until the server keeps nothing for a hold made at `xid`."""
        deadline = time.monotonic() + _FREE_TIMEOUT_S
        while self.watch.is_kept_since(xid) and time.monotonic() < deadline:
            if self._has_ended.wait(_POLL_S):
                return
