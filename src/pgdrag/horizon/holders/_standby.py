"""Where does a real standby come from? A base backup of the throw-away cluster, a throw-away itself.

It lies in the same scratch directory and is swept like any other cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import psycopg

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import WATCHER_NAME, HoldPlace
from pgdrag.horizon.holders._settings import whole, word
from pgdrag.horizon.holders.session import HeldSession, open_session, wait_until_seen, words_of
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import full_disk
from pgdrag.servers.server_log import is_full_disk
from pgdrag.servers.spawn import run

if TYPE_CHECKING:
    from pgdrag.servers.spawn import Finished

BACKUP_TIMEOUT_S = 600.0
START_TIMEOUT_S = 120.0
APPLICATION_NAME = "pgdrag standby"
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


def refusal(settings: Mapping[str, str]) -> str:
    """Return why a server with these settings can have no standby: a clause, or ""."""
    if word(settings, "wal_level") == "minimal":
        return "wal_level = minimal leaves nothing for a standby to follow"
    senders = whole(settings, "max_wal_senders")
    if senders is not None and senders < _SENDERS:
        return f"max_wal_senders is {senders}, and a standby takes {_SENDERS} to be made"
    return ""


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
        done = _copy(primary, standby)
        if is_full_disk(done.output):
            raise full_disk("copy the server for a standby", standby.directory)
        if done.status != 0:
            lines = done.output.strip().splitlines()
            raise ServerError(
                f"could not copy the server for a standby: {lines[-1] if lines else 'no reason given'}",
                detail="\n".join(lines[-20:]) or None,
            )
        standby.configure({**_SETTINGS, **_sizes(place), **_stream(primary, slot)})
        standby.scratch.write_private(standby.data_directory / "standby.signal", "")
        standby.start(timeout_s=START_TIMEOUT_S)
        _wait_for_feedback(place, slot)
    except BaseException:
        standby.remove()
        raise
    return standby


def hold_on(standby: Cluster, place: HoldPlace, *, slot: str | None = None) -> HeldSession:
    """Take a snapshot on a standby that lasts, and return when its primary keeps what that may want.

    Raises:
        ServerError: one of the two refuses, or the feedback does not arrive.
    """
    there = HoldPlace(standby.conninfo(), place.longest_s)
    connection = open_session(there)
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        (oldest,) = connection.execute(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::numeric"
        ).fetchone() or (0,)
        # The feedback that was there before is older, so that it is held from the first moment.
        wait_until_seen(
            place,
            _FEEDBACK_OF_SLOT if slot else _FEEDBACK,
            {"name": slot or APPLICATION_NAME, "oldest": str(int(oldest) % 2**32)},
            "the standby's feedback",
        )
        who = f"replication slot {slot}" if slot else _walsender(place)
    except psycopg.Error as error:
        connection.close()
        raise ServerError(f"could not hold on the standby: {words_of(error)}") from error
    except BaseException:
        connection.close()
        raise
    return HeldSession(connection, who)


_FEEDBACK = """
    SELECT count(*) > 0 FROM pg_stat_replication
     WHERE application_name = %(name)s AND age(backend_xmin) >= age(%(oldest)s::xid)
"""
_FEEDBACK_OF_SLOT = """
    SELECT count(*) > 0 FROM pg_replication_slots
     WHERE slot_name = %(name)s AND age(xmin) >= age(%(oldest)s::xid)
"""
_ANY_FEEDBACK = """
    SELECT count(*) > 0 FROM pg_stat_replication
     WHERE application_name = %(name)s AND backend_xmin IS NOT NULL
"""
_ANY_FEEDBACK_OF_SLOT = """
    SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = %(name)s AND xmin IS NOT NULL
"""


def _walsender(place: HoldPlace) -> str:
    with open_session(place, application_name=WATCHER_NAME) as connection:
        (pid,) = connection.execute(
            "SELECT pid FROM pg_stat_replication WHERE application_name = %s", [APPLICATION_NAME]
        ).fetchone() or ("unknown",)
    return f"standby {pid}"


def _copy(primary: Cluster, standby: Cluster) -> Finished:
    return run(
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


def _sizes(place: HoldPlace) -> dict[str, str]:
    try:
        with open_session(place, application_name=WATCHER_NAME) as connection:
            rows = connection.execute(
                "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [list(_AT_LEAST)]
            ).fetchall()
    except psycopg.Error as error:
        raise ServerError(f"could not ask the primary: {words_of(error)}") from error
    return dict(rows)


def _stream(primary: Cluster, slot: str | None) -> dict[str, str]:
    found = {"primary_conninfo": primary.conninfo(application_name=APPLICATION_NAME)}
    return {**found, "primary_slot_name": slot} if slot else found


def _wait_for_feedback(place: HoldPlace, slot: str | None) -> None:
    wait_until_seen(
        place,
        _ANY_FEEDBACK_OF_SLOT if slot else _ANY_FEEDBACK,
        {"name": slot or APPLICATION_NAME},
        "feedback of the standby",
    )
