"""`pgdrag horizon show` and `pgdrag capture horizon` where standbys and readers of slots hold the horizon."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from commands import dsn
from living import reload
from watching import asked

from in_process import pgdrag
from pgdrag.driver.connection_string import Server, reach
from pgdrag.findings.holds.distribution import KindOfHolds
from pgdrag.horizon.capture import CaptureProgress, HorizonCapture
from pgdrag.horizon.holders import HoldPlace
from pgdrag.horizon.holders.standby import hold_on, make_standby
from pgdrag.horizon.sampling import read_holders
from pgdrag.horizon.state import HorizonHolder, HorizonState, horizon_state
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres
TIMEOUT_S = 30.0
UPDATES = 20
SLOT = "of_a_standby"
EVERY_S = 0.1
STEADY = {"autovacuum": "off", "wal_level": "logical"}


@pytest.fixture(scope="module", params=["18", "14"])
def primary(
    request: pytest.FixtureRequest, new_cluster: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A running cluster whose horizon each test leaves as it found it."""
    with new_cluster(request.param) as cluster:
        cluster.configure(STEADY)
        cluster.start()
        with cluster.connect() as client:
            client.execute("CREATE ROLE guest LOGIN")
            client.execute("CREATE TABLE hot AS SELECT 0 AS n")
        yield cluster


@pytest.fixture(scope="module")
def standby(primary: Cluster) -> Iterator[Cluster]:
    """A standby with feedback, and without a slot."""
    standby = make_standby(HoldPlace(primary.conninfo(), cluster=primary))
    yield standby
    standby.remove()


@pytest.fixture
def standby_with_slot(primary: Cluster) -> Iterator[Cluster]:
    """Another one, that streams through a slot."""
    asked(primary, f"SELECT pg_create_physical_replication_slot('{SLOT}', true)")
    standby = make_standby(HoldPlace(primary.conninfo(), cluster=primary), slot=SLOT)
    yield standby
    standby.remove()
    drop = "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots"
    assert wait_until(lambda: asked(primary, _IS_UNUSED), TIMEOUT_S)
    asked(primary, drop)


_FEEDBACK = "SELECT max(backend_xmin::text::bigint) FROM pg_stat_replication"
_IS_UNUSED = "SELECT count(*) = 0 FROM pg_replication_slots WHERE active"


def update(cluster: Cluster, times: int = UPDATES) -> None:
    with cluster.connect() as client:
        for _ in range(times):
            client.execute("UPDATE hot SET n = n + 1")


def reached(cluster: Cluster, user: str = "pgdrag") -> Server:
    return reach(dsn(cluster, user))


def shown(cluster: Cluster, user: str = "pgdrag") -> HorizonState:
    return horizon_state(reached(cluster, user))


def holders(cluster: Cluster, kind: str, user: str = "pgdrag") -> list[HorizonHolder]:
    return [x for x in shown(cluster, user).holders if x.kind == kind]


def age_of_standby(cluster: Cluster) -> int:
    found: int = asked(
        cluster, "SELECT coalesce(max(age(backend_xmin)), 0) FROM pg_stat_replication"
    )
    return found


def replication_session(cluster: Cluster) -> psycopg.Connection:
    """As a subscription opens one to copy a table."""
    return psycopg.connect(f"{cluster.conninfo()} replication=database", autocommit=True)


class _Over(Exception):
    """What ends a capture."""


class Looking:
    """A capture that looks in the background until its result is asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._capture = HorizonCapture(reached(cluster), every_s=EVERY_S)
        self._looks = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Looking:
        self._thread.start()
        self.look_again()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def look_again(self, times: int = 2) -> None:
        """Wait for looks that have begun from now on; the one that is under way may not see what is now."""
        wanted = self._looks + times
        assert wait_until(lambda: self._looks >= wanted, TIMEOUT_S)

    def found(self) -> dict[str, KindOfHolds]:
        """Return what was found of each kind."""
        self.look_again()
        self.__exit__()
        return dict(self._capture.found().kinds)

    def _run(self) -> None:
        with suppress(_Over):
            self._capture.run(600, self._heard)

    def _heard(self, progress: CaptureProgress) -> None:
        self._looks = progress.samples
        if self._is_over:
            raise _Over


@contextmanager
def writing(cluster: Cluster) -> Iterator[None]:
    """Transactions go on, so that whatever holds grows old."""
    over = threading.Event()

    def write() -> None:
        with cluster.connect() as client:
            while not over.wait(0.02):
                client.execute("SELECT pg_current_xact_id()")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_standby_is_named_and_what_ends_it_is_said_to_be_there(
    primary: Cluster, standby: Cluster
) -> None:
    held = hold_on(standby, HoldPlace(primary.conninfo()))
    update(primary)
    status, out, err = pgdrag("horizon", "show", dsn(standby))
    [holder], there = holders(primary, "standby"), shown(standby)
    assert f"standby {holder.name}" == held.who
    assert (holder.is_here, holder.database, holder.doing) == (True, "", "active, pgdrag standby")
    assert holder.age is not None
    assert holder.age >= UPDATES
    assert (holder.held_s, holder.ended_by) == (None, "")
    assert "end the longest transaction on the standby" in holder.remark
    # There it is a session, and what is said to end it ends the hold here, too.
    assert (there.is_standby, there.has_feedback) == (True, True)
    assert (status, err) == (0, "")
    assert "holders here also hold back the primary's horizon" in out
    [session] = there.holders
    assert session.kind == "snapshot"
    assert session.held_s
    asked(standby, session.ended_by)
    assert wait_until(lambda: age_of_standby(primary) < UPDATES, TIMEOUT_S)
    held.release()


def test_a_standby_without_a_query_keeps_nothing_of_a_quiet_server(
    primary: Cluster, standby: Cluster
) -> None:
    assert wait_until(lambda: age_of_standby(primary) == 0, TIMEOUT_S)
    [holder] = holders(primary, "standby")
    assert holder.age == 0
    assert "holds nothing back now" in holder.remark
    with Looking(primary) as looking:
        assert looking.found() == {}


def test_a_role_without_rights_is_told_a_standby_from_a_session(
    primary: Cluster, standby: Cluster
) -> None:
    [holder] = holders(primary, "standby", user="guest")
    assert (holder.database, holder.ended_by) == ("", "")


def test_a_captured_hold_on_a_standby_is_as_long_as_it_was(
    primary: Cluster, standby: Cluster
) -> None:
    with writing(primary), Looking(primary) as looking:
        # What a standby holds at the first look has a begin that nobody saw.
        reported = asked(primary, _FEEDBACK)
        assert wait_until(lambda: asked(primary, _FEEDBACK) != reported, TIMEOUT_S)
        looking.look_again()
        began_s = time.monotonic()
        held = hold_on(standby, HoldPlace(primary.conninfo()))
        holds_s = time.monotonic()
        time.sleep(4)
        old = age_of_standby(primary)
        looking.look_again()
        released_s = time.monotonic()
        held.release()
        assert wait_until(lambda: age_of_standby(primary) < old, TIMEOUT_S)
        over_s = time.monotonic()
        found = looking.found()["standby"]
    length_s = max(x for x, _ in found.longer_than)
    # On a busy machine looks are late.
    assert (released_s - holds_s) / 1.5 < length_s < (over_s - began_s) * 1.5
    assert found.oldest_transactions >= old
    # Without a query it holds what it last reported, until it reports again.
    assert found.seen > 1


def test_a_standby_that_goes_away_lets_go_and_its_hold_has_ended(
    primary: Cluster, standby: Cluster
) -> None:
    with writing(primary), Looking(primary) as looking:
        held = hold_on(standby, HoldPlace(primary.conninfo()))
        looking.look_again()
        standby.stop(fast_timeout_s=0)
        held.release()
        assert wait_until(lambda: not age_of_standby(primary), TIMEOUT_S)
        found = looking.found()["standby"]
    standby.start()
    assert found.in_progress_at_end == 0
    assert found.ends_between_looks >= 1


def test_a_slot_is_named_for_its_standby_and_kept_when_that_is_gone(
    primary: Cluster, standby_with_slot: Cluster
) -> None:
    with Looking(primary) as looking:
        held = hold_on(standby_with_slot, HoldPlace(primary.conninfo()), slot=SLOT)
        update(primary)
        [in_use] = holders(primary, "slot")
        looking.look_again()
        standby_with_slot.stop(fast_timeout_s=0)
        held.release()
        assert wait_until(lambda: asked(primary, _IS_UNUSED), TIMEOUT_S)
        update(primary)
        [left] = holders(primary, "slot")
        found = looking.found()["slot"]
    assert (in_use.name, in_use.doing) == (SLOT, "in use physical, pgdrag standby")
    assert (in_use.ended_by, in_use.held_s, in_use.held_least_s) == ("", None, None)
    assert "It is in use: end the longest transaction on the standby" in in_use.remark
    assert (left.name, left.doing, left.database) == (SLOT, "not in use physical", "")
    assert in_use.age is not None
    assert left.age is not None
    assert left.age >= in_use.age + UPDATES
    # Since when nobody has used it a server says from 17 on.
    assert (left.held_least_s is None) == (primary.binaries.major < 17)
    # One hold goes on when its standby is gone, and is still there.
    assert found.in_progress_at_end == 1
    assert found.oldest_transactions >= 2 * UPDATES
    asked(primary, left.ended_by)
    assert holders(primary, "slot") == []


def test_a_lost_slot_is_not_named_for_it_keeps_nothing(
    primary: Cluster, standby_with_slot: Cluster
) -> None:
    held = hold_on(standby_with_slot, HoldPlace(primary.conninfo()), slot=SLOT)
    standby_with_slot.stop(fast_timeout_s=0)
    held.release()
    assert wait_until(lambda: asked(primary, _IS_UNUSED), TIMEOUT_S)
    primary.configure({**STEADY, "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB"})
    reload(primary)
    with primary.connect() as client:
        for _ in range(4):
            client.execute("UPDATE hot SET n = n + 1")
            client.execute("SELECT pg_switch_wal()")
        client.execute("CHECKPOINT")
        ((status, is_shown),) = client.execute(
            "SELECT wal_status, xmin IS NOT NULL FROM pg_replication_slots"
        ).fetchall()
        names = [x.name for x in read_holders(lambda sql: client.execute(sql).fetchall())]
        said: list[str] = []
        client.add_notice_handler(
            lambda notice: said.append(f"{notice.message_primary} {notice.message_detail}")
        )

        def are_all_removed() -> bool:
            said.clear()
            client.execute("VACUUM (VERBOSE) hot")
            none = r"\b0 (?:are dead but not yet|dead row versions cannot)"
            return re.search(none, "".join(said)) is not None

        # The other standby may keep them for a moment.
        is_vacuumed = wait_until(are_all_removed, TIMEOUT_S)
    primary.configure(STEADY)
    reload(primary)
    assert (status, is_shown) == ("lost", True)
    assert is_vacuumed, said
    assert SLOT not in names
    assert holders(primary, "slot") == []


def test_a_logical_slot_holds_catalogs_alone_and_names_its_reader(primary: Cluster) -> None:
    asked(
        primary, "SELECT slot_name FROM pg_create_logical_replication_slot('feed', 'test_decoding')"
    )
    reader = subprocess.Popen(
        [
            primary.binaries.bin_dir / "pg_recvlogical",
            *("--dbname", primary.conninfo(application_name="a feed")),
            *("--slot", "feed", "--start", "--no-loop", "--file", "-"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(lambda: not asked(primary, _IS_UNUSED), TIMEOUT_S)
        with Looking(primary) as looking:
            update(primary)
            [holder] = holders(primary, "slot")
            assert "slot" not in looking.found()
        assert (holder.is_here, holder.age, holder.database) == (False, None, "")
        assert holder.catalog_age
        assert (holder.doing, holder.ended_by) == ("in use logical of pgdrag, a feed", "")
        assert "on the standby" not in holder.remark
        [terminate, drop] = re.findall(r"SELECT [^;]*;", holder.remark)
        asked(primary, terminate)
        reader.wait(TIMEOUT_S)
        assert wait_until(lambda: asked(primary, _IS_UNUSED), TIMEOUT_S)
        # From whichever database.
        with psycopg.connect(primary.conninfo(), dbname="postgres", autocommit=True) as other:
            other.execute(drop.encode())
    finally:
        reader.kill()
        reader.wait()
    assert holders(primary, "slot") == []


def test_who_copies_tables_by_the_replication_protocol_is_a_session(primary: Cluster) -> None:
    """A subscription does at first, and that may take hours."""
    copying = psycopg.connect(f"{primary.conninfo()} replication=database", autocommit=True)
    copying.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    how = "(SNAPSHOT 'use')" if primary.binaries.major >= 15 else "USE_SNAPSHOT"
    copying.execute(f"CREATE_REPLICATION_SLOT copy TEMPORARY LOGICAL test_decoding {how}".encode())
    with Looking(primary) as looking:
        update(primary)
        found = shown(primary).holders
        captured = looking.found()["snapshot"]
    # Autovacuum may hold one, too, meanwhile.
    own = str(copying.info.backend_pid)
    [session] = [x for x in found if x.kind == "snapshot" and x.name == own]
    [slot] = [x for x in found if x.kind == "slot"]
    assert (session.is_here, session.database) == (True, "pgdrag")
    assert session.age is not None
    assert session.age >= UPDATES
    assert session.held_s
    assert (captured.begin_unknown, captured.in_progress_at_end) == (0, 1)
    assert session.ended_by == f"SELECT pg_terminate_backend({session.name});"
    # Its slot goes with it.
    assert (slot.name, slot.ended_by) == ("copy", session.ended_by)
    asked(primary, slot.ended_by)
    assert wait_until(lambda: holders(primary, "slot") == [], TIMEOUT_S)
    assert holders(primary, "snapshot") == []
    copying.close()
