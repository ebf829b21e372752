"""What must every kind of holder do, whatever it holds with? A suite for pytest.

Subclass it in a test module; it asks for two fixtures::

    class TestEveryHolder(HolderConformance):
        @pytest.fixture(params=list(all_holders().values()), ids=list(all_holders()))
        def holder_class(self, request): ...             # type[Holder]
        @pytest.fixture
        def cluster(self): ...                           # a running Cluster that no one else uses

The cluster's autovacuum must be off, and what holders need (`Holder.settings`) be set. Nothing here needs
pytest to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pgdrag.horizon.holders as package
from pgdrag.horizon.holders import Holder, HoldPlace
from pgdrag.horizon.sampling import HolderSample, read_holders
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster

UPDATES = 30
_TIMEOUT_S = 30.0
_LONGEST_S = 300.0
# The second is how it is put before PostgreSQL 15.
_DEAD = r"(\d+) (?:are dead but not yet removable|dead row versions cannot be removed yet)"


class HolderConformance:
    """Claims about one kind of holder, on a server whose horizon each leaves as it has found it."""

    def test_it_says_what_it_is(self, holder_class: type[Holder]) -> None:
        assert re.fullmatch(r"[a-z][a-z_]*", holder_class.name)
        assert holder_class.summary
        assert "\n" not in holder_class.summary
        assert package.all_holders()[holder_class.name] is holder_class

    def test_a_server_as_it_comes_is_not_refused(self, holder_class: type[Holder]) -> None:
        assert holder_class.refusal({}) == ""
        assert holder_class.refusal(holder_class.settings) == ""

    def test_what_is_dead_is_kept_until_it_is_released(
        self, holder_class: type[Holder], cluster: Cluster
    ) -> None:
        """The age of what it holds grows, no vacuum removes what died since, and after the release one does."""
        with _place(cluster) as place:
            holder = holder_class()
            try:
                holder.prepare(place)
                assert dead_after_vacuum(cluster) == 0
                held = holder.hold(place)
                update(cluster)
                assert (age_of(cluster, held.who) or 0) >= UPDATES
                assert dead_after_vacuum(cluster) >= UPDATES
                assert held.lost() == ""
                held.release()
                held.release()
                assert held.lost() == ""
                # A standby lives on, and so does its feedback.
                assert wait_until(lambda: not age_of(cluster, held.who), _TIMEOUT_S)
                assert dead_after_vacuum(cluster) == 0
            finally:
                holder.close()

    def test_a_second_hold_takes_over_from_the_first(
        self, holder_class: type[Holder], cluster: Cluster
    ) -> None:
        if not holder_class.is_repeatable:
            return
        with _place(cluster) as place:
            holder = holder_class()
            try:
                first = holder.hold(place)
                update(cluster)
                # What a standby has yet to replay its second hold would keep as the first does.
                assert wait_until(lambda: is_replayed(cluster), _TIMEOUT_S)
                second = holder.hold(place)
                first.release()
                update(cluster)
                expected = range(UPDATES, 2 * UPDATES)
                assert wait_until(lambda: seen_in(cluster)[0].age in expected, _TIMEOUT_S)
                second.release()
            finally:
                holder.close()

    def test_a_close_leaves_nothing_and_again_is_fine(
        self, holder_class: type[Holder], cluster: Cluster
    ) -> None:
        """Of what was prepared and never held, too."""
        before = set(cluster.scratch.clusters.iterdir())
        with _place(cluster) as place:
            holder = holder_class()
            try:
                holder.prepare(place)
            finally:
                holder.close()
                holder.close()
        assert set(cluster.scratch.clusters.iterdir()) == before
        with cluster.connect() as client:
            assert client.execute("SELECT slot_name FROM pg_replication_slots").fetchall() == []


def update(cluster: Cluster) -> None:
    """Replace the one row `UPDATES` times, each time in a transaction of its own."""
    with cluster.connect(role=cluster.load_role) as client:
        for _ in range(UPDATES):
            client.execute("UPDATE held_counter SET n = n + 1")


def is_replayed(cluster: Cluster) -> bool:
    """Return whether every standby, if there is one, has replayed what was written until now."""
    with cluster.connect() as client:
        ((written,),) = client.execute("SELECT pg_current_wal_lsn()").fetchall()
        query = "SELECT count(*) FROM pg_stat_replication WHERE (replay_lsn >= %s) IS NOT TRUE"
        return client.execute(query, (written,)).fetchall() == [(0,)]


def dead_after_vacuum(cluster: Cluster) -> int:
    """Return how many row versions are dead, and stay after a vacuum."""
    said: list[str] = []
    with cluster.connect(role=cluster.load_role) as client:
        client.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        client.add_notice_handler(lambda notice: said.append(notice.message_detail or ""))
        client.execute("VACUUM (VERBOSE) held_counter")
    [dead] = re.findall(_DEAD, "\n".join(said))
    return int(dead)


def seen_in(cluster: Cluster) -> list[HolderSample]:
    """Return who holds the horizon back, the oldest first."""
    with cluster.connect() as client:
        return read_holders(lambda sql: client.execute(sql).fetchall())


def age_of(cluster: Cluster, who: str) -> int | None:
    """Return how old what somebody holds is; None: nobody of that name holds."""
    return next((one.age for one in seen_in(cluster) if one.who == who), None)


@contextmanager
def _place(cluster: Cluster) -> Iterator[HoldPlace]:
    with cluster.connect(role=cluster.load_role) as client:
        client.execute("DROP TABLE IF EXISTS held_counter")  # of a claim that failed
        client.execute("CREATE TABLE held_counter (n bigint)")
        client.execute("INSERT INTO held_counter VALUES (0)")
    yield HoldPlace(cluster.conninfo(), _LONGEST_S, cluster)
    assert wait_until(lambda: seen_in(cluster) == [], _TIMEOUT_S), "somebody holds still"
    with cluster.connect(role=cluster.load_role) as client:
        client.execute("DROP TABLE held_counter")
