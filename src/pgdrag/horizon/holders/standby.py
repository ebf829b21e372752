"""Holders that need a real standby: a long transaction on it, or the slot that it leaves behind.

The standby is a base backup of the throw-away cluster, and a throw-away cluster itself: it lies in the same
scratch directory and is swept like any other.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import LiteralString

import psycopg

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import WATCHER_NAME, Held, Holder, HoldPlace, whole_setting
from pgdrag.horizon.holders.session import HeldSession, open_session, wait_until_seen
from pgdrag.host.error_words import words_of
from pgdrag.host.spawn import run
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import full_disk
from pgdrag.servers.server_log import is_full_disk

BACKUP_TIMEOUT_S = 600.0
START_TIMEOUT_S = 120.0
APPLICATION_NAME = "pgdrag standby"
SLOT_PREFIX = "pgdrag_horizon_holder"
# Of these a standby must have as many as its primary.
_AT_LEAST = (
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
    "max_wal_senders",
    "max_worker_processes",
)
_SETTINGS = {
    "hot_standby_feedback": "on",
    # In seconds: how old what the primary knows of the standby's snapshots may be.
    "wal_receiver_status_interval": "1",
    # Rather let replay wait than end the transaction that holds.
    "max_standby_streaming_delay": "-1",
    "max_standby_archive_delay": "-1",
    # Nobody wants it back after a crash, and the disk is the primary's, too.
    "fsync": "off",
    "shared_buffers": "32MB",
}
_SENDERS = 2  # a base backup takes one for the data and one for the WAL
# What the primary keeps for a standby, by the standby's name or, where it streams through one, its slot's.
_FEEDBACK: LiteralString = """
SELECT count(*) > 0
  FROM (SELECT application_name, backend_xmin FROM pg_stat_replication
        UNION ALL
        SELECT slot_name, xmin FROM pg_replication_slots) AS feedback (name, xmin)
 WHERE name = %(name)s AND """
_SLOT_IDLE: LiteralString = """
    SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name = %(name)s AND active
"""
_SLOT_LEFT_BEHIND: LiteralString = """
    SELECT count(*) > 0 FROM pg_replication_slots
     WHERE slot_name = %(name)s AND NOT active AND xmin IS NOT NULL
"""


class StandbyHolder(Holder):
    """A long transaction on a real, living standby that pgdrag starts beside the cluster.

    The primary learns within a second that it has ended.
    """

    name = "standby"
    summary = "a long transaction on a real standby with hot_standby_feedback"
    is_bounded_by_session = False
    needs_cluster = True

    def __init__(self) -> None:
        self._standby: Cluster | None = None

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        if settings.get("wal_level", "").strip().lower() == "minimal":
            return "wal_level = minimal leaves nothing for a standby to follow"
        senders = whole_setting(settings, "max_wal_senders")
        if senders is not None and senders < _SENDERS:
            return f"max_wal_senders is {senders}, and a standby takes {_SENDERS} to be made"
        return ""

    def prepare(self, place: HoldPlace) -> None:
        if self._standby is None:
            self._standby = make_standby(place)

    def hold(self, place: HoldPlace) -> Held:
        """Take a snapshot there; the standby serves any number of them."""
        self.prepare(place)
        assert self._standby is not None
        return hold_on(self._standby, place)

    def close(self) -> None:
        if self._standby is not None:
            self._standby.remove()
            self._standby = None


class SlotHolder(StandbyHolder):
    """A physical slot with the xmin of a real standby that pgdrag stops: it keeps for ever what that was last reading."""

    name = "slot"
    summary = "a replication slot that a stopped standby with hot_standby_feedback has left behind"
    is_repeatable = False  # its standby is gone

    def __init__(self) -> None:
        super().__init__()
        self._name = f"{SLOT_PREFIX}_{secrets.token_hex(4)}"
        self._slot: Held | None = None
        self._primary: Cluster | None = None

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        if whole_setting(settings, "max_replication_slots") == 0:
            return "max_replication_slots is 0"
        return super().refusal(settings)

    def prepare(self, place: HoldPlace) -> None:
        if self._slot is not None:
            return
        # Reserved from now on, so that the WAL which the standby begins with stays.
        _of_slot(place, self._name, "make", "SELECT pg_create_physical_replication_slot(%s, true)")
        self._slot = Held(f"replication slot {self._name}", partial(_drop, place, self._name))
        self._primary = place.cluster
        try:
            self._standby = make_standby(place, slot=self._name)
        except BaseException:
            self.close()
            raise

    def hold(self, place: HoldPlace) -> Held:
        self.prepare(place)
        assert self._slot is not None
        assert self._standby is not None
        assert self._standby.is_running(), "its standby is gone after the first hold"
        session = hold_on(self._standby, place, slot=self._name)
        # At once, so that it cannot say good-bye: the slot keeps what it heard last.
        self._standby.stop(fast_timeout_s=0)
        session.release()
        what = f'that slot "{self._name}" holds the horizon'
        wait_until_seen(place, _SLOT_LEFT_BEHIND, {"name": self._name}, what)
        return self._slot

    def close(self) -> None:
        """Remove the standby and the slot, if they exist; if the server is down, its slot is gone with it."""
        super().close()
        slot, self._slot = self._slot, None
        if slot is not None and (self._primary is None or self._primary.is_running()):
            slot.release()


def make_standby(place: HoldPlace, *, slot: str | None = None) -> Cluster:
    """Return a standby of the place's cluster that runs, and whose feedback has arrived there.

    Args:
        slot: of the primary, through which it streams.

    Raises:
        ServerError: it cannot be made.
        StorageError: the disk is full.
    """
    primary = place.cluster
    assert primary is not None, "a standby is started beside a throw-away cluster alone"
    standby = Cluster.create(primary.scratch, primary.binaries)
    try:
        done = run(
            [
                primary.binaries.bin_dir / "pg_basebackup",
                *("--pgdata", standby.data_directory),
                *("--dbname", primary.conninfo(application_name="pgdrag base backup")),
                *("--wal-method", "stream", "--checkpoint", "fast", "--no-sync", "--no-manifest"),
            ],
            user=primary.scratch.user,
            cwd=standby.directory,
            timeout_s=BACKUP_TIMEOUT_S,
        )
        if is_full_disk(done.output):
            raise full_disk("copy the server for a standby", standby.directory)
        if done.status != 0:
            lines = done.output.strip().splitlines()
            raise ServerError(
                f"could not copy the server for a standby: {lines[-1] if lines else 'no reason given'}",
                detail="\n".join(lines[-20:]) or None,
            )
        with open_session(place, application_name=WATCHER_NAME) as connection:
            sizes = connection.execute(
                "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [list(_AT_LEAST)]
            ).fetchall()
        stream = {"primary_conninfo": primary.conninfo(application_name=APPLICATION_NAME)}
        if slot:
            stream["primary_slot_name"] = slot
        standby.configure({**_SETTINGS, **dict(sizes), **stream})
        standby.scratch.write_private(standby.data_directory / "standby.signal", "")
        standby.start(timeout_s=START_TIMEOUT_S)
        name = {"name": slot or APPLICATION_NAME}
        wait_until_seen(place, _FEEDBACK + "xmin IS NOT NULL", name, "feedback of the standby")
    except psycopg.Error as error:
        standby.remove()
        raise ServerError(f"could not ask the primary: {words_of(error)}") from error
    except BaseException:
        standby.remove()
        raise
    return standby


def hold_on(standby: Cluster, place: HoldPlace, *, slot: str | None = None) -> HeldSession:
    """Take a snapshot on a standby that lasts, and return when its primary keeps what that may want.

    Raises:
        ServerError: one of the two refuses, or the feedback does not arrive.
    """
    connection = open_session(HoldPlace(standby.conninfo(), place.longest_s))
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        (oldest,) = connection.execute(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::numeric"
        ).fetchone() or (0,)
        # The feedback that was there before is older, so that it is held from the first moment.
        wait_until_seen(
            place,
            _FEEDBACK + "age(xmin) >= age(%(oldest)s::xid)",
            {"name": slot or APPLICATION_NAME, "oldest": str(int(oldest) % 2**32)},
            "the standby's feedback",
        )
        who = f"replication slot {slot}"
        if slot is None:
            with open_session(place, application_name=WATCHER_NAME) as watcher:
                query = "SELECT pid FROM pg_stat_replication WHERE application_name = %s"
                (pid,) = watcher.execute(query, [APPLICATION_NAME]).fetchone() or ("unknown",)
            who = f"standby {pid}"
    except psycopg.Error as error:
        connection.close()
        raise ServerError(f"could not hold on the standby: {words_of(error)}") from error
    except BaseException:
        connection.close()
        raise
    return HeldSession(connection, who)


def _drop(place: HoldPlace, slot: str) -> None:
    # The session of a standby that is gone may not have noticed yet.
    wait_until_seen(place, _SLOT_IDLE, {"name": slot}, f'slot "{slot}" at rest')
    drop: LiteralString = (
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    )
    _of_slot(place, slot, "drop", drop)


def _of_slot(place: HoldPlace, slot: str, verb: str, statement: LiteralString) -> None:
    try:
        with open_session(place, application_name=WATCHER_NAME) as connection:
            connection.execute(statement, [slot])
    except psycopg.Error as error:
        message = f'could not {verb} replication slot "{slot}": {words_of(error)}'
        raise ServerError(message) from error
