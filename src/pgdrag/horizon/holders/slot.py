"""A replication slot whose standby is gone: it remembers what that was last reading, for ever."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import LiteralString

import psycopg

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import WATCHER_NAME, Held, Holder, HoldPlace, _standby
from pgdrag.horizon.holders._settings import whole
from pgdrag.horizon.holders.session import open_session, wait_until_seen, words_of
from pgdrag.servers.cluster import Cluster

SLOT_PREFIX = "pgdrag_horizon_holder"
_DROP: LiteralString = """
    SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s
"""
_IDLE: LiteralString = """
    SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name = %(name)s AND active
"""
_LEFT_BEHIND: LiteralString = """
    SELECT count(*) > 0 FROM pg_replication_slots
     WHERE slot_name = %(name)s AND NOT active AND xmin IS NOT NULL
"""


class SlotHolder(Holder):
    """A physical slot with the xmin of a real standby that pgdrag stops."""

    name = "slot"
    summary = "a replication slot that a stopped standby with hot_standby_feedback has left behind"
    is_bounded_by_session = False
    needs_cluster = True
    is_repeatable = False  # its standby is gone

    def __init__(self) -> None:
        self._slot: _Slot | None = None
        self._standby: Cluster | None = None

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        """Return that there can be no standby, or no slot."""
        if whole(settings, "max_replication_slots") == 0:
            return "max_replication_slots is 0"
        return _standby.refusal(settings)

    def prepare(self, place: HoldPlace) -> None:
        """Make the slot, and start a standby that streams through it."""
        if self._slot is not None:
            return
        self._slot = _Slot(place, f"{SLOT_PREFIX}_{secrets.token_hex(4)}")
        try:
            self._slot.make()
            self._standby = _standby.make_standby(place, slot=self._slot.name)
        except BaseException:
            self.close()
            raise

    def hold(self, place: HoldPlace) -> Held:
        """Take a snapshot on the standby, and stop that."""
        self.prepare(place)
        assert self._slot is not None
        assert self._standby is not None
        assert self._standby.is_running(), "its standby is gone after the first hold"
        name = self._slot.name
        session = _standby.hold_on(self._standby, place, slot=name)
        # At once, so that it cannot say good-bye: the slot keeps what it heard last.
        self._standby.stop(fast_timeout_s=0)
        session.release()
        wait_until_seen(
            place, _LEFT_BEHIND, {"name": name}, f'that slot "{name}" holds the horizon'
        )
        return self._slot

    def close(self) -> None:
        """Remove the standby and the slot, as far as they are there."""
        if self._standby is not None:
            self._standby.remove()
            self._standby = None
        if self._slot is not None and self._slot.is_in_reach():
            self._slot.release()
        self._slot = None


class _Slot:
    def __init__(self, place: HoldPlace, name: str) -> None:
        self._place = place
        self.name = name
        self._is_there = False

    @property
    def who(self) -> str:
        return f"replication slot {self.name}"

    def make(self) -> None:
        # Reserved from now on, so that the WAL which the standby begins with stays.
        self._run("SELECT pg_create_physical_replication_slot(%s, true)", "make")
        self._is_there = True

    def lost(self) -> str:
        """Return "": without a session there is nothing that could be seen to break."""
        return ""

    def is_in_reach(self) -> bool:
        """Whether its server runs; else the slot goes with the cluster."""
        cluster = self._place.cluster
        return cluster is None or cluster.is_running()

    def release(self) -> None:
        if not self._is_there:
            return
        # The session of a standby that is gone may not have noticed yet.
        wait_until_seen(self._place, _IDLE, {"name": self.name}, f'slot "{self.name}" at rest')
        self._run(_DROP, "drop")
        self._is_there = False

    def _run(self, statement: LiteralString, verb: str) -> None:
        try:
            with open_session(self._place, application_name=WATCHER_NAME) as connection:
                connection.execute(statement, [self.name])
        except psycopg.Error as error:
            message = f'could not {verb} replication slot "{self.name}": {words_of(error)}'
            raise ServerError(message) from error
