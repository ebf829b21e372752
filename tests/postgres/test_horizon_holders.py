"""Holders of every kind hold a real server's horizon, as it says itself, and let go of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdrag.errors import ServerError
from pgdrag.horizon.holders import (
    APPLICATION_NAME,
    Holder,
    HoldPlace,
    all_holders,
    session,
    standby,
)
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.cluster import Cluster
from pgdrag.testing.conformance_holders import HolderConformance, seen_in

pytestmark = pytest.mark.postgres
TIMEOUT_S = 30.0


@pytest.fixture(scope="module", params=["18", "14"])
def held_cluster(
    request: pytest.FixtureRequest, new_cluster: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A running cluster whose horizon each test leaves as it found it."""
    with new_cluster(request.param) as cluster:
        cluster.configure({"autovacuum": "off", "max_prepared_transactions": "2"})
        cluster.start()
        yield cluster


@pytest.fixture
def place(held_cluster: Cluster) -> HoldPlace:
    return HoldPlace(held_cluster.conninfo(), longest_s=60, cluster=held_cluster)


class TestEveryHolder(HolderConformance):
    @pytest.fixture(params=list(all_holders().values()), ids=list(all_holders()))
    def holder_class(self, request: Any) -> type[Holder]:
        return request.param

    @pytest.fixture
    def cluster(self, held_cluster: Cluster) -> Cluster:
        return held_cluster


@pytest.mark.parametrize("name", ["cursor", "query", "snapshot", "transaction"])
def test_a_session_that_holds_is_known_by_its_name_and_missed_when_it_is_ended(
    name: str, place: HoldPlace, held_cluster: Cluster
) -> None:
    held = all_holders()[name]().hold(place)
    [seen] = [x for x in seen_in(held_cluster) if x.who == held.who]
    state = "active" if name == "query" else "idle in transaction"
    assert (seen.state, seen.application) == (state, APPLICATION_NAME)
    assert (seen.xid is not None) == (name == "transaction")
    with held_cluster.connect() as client:
        client.execute("SELECT pg_terminate_backend(%s)", [seen.name])
    assert wait_until(lambda: held.lost() != "", TIMEOUT_S)
    assert held.lost() == "terminating connection due to administrator command"
    held.release()


def test_the_server_itself_ends_a_hold_that_is_longer_than_the_longest(
    held_cluster: Cluster,
) -> None:
    # A query is not seen to hold once it has ended, and a busy machine may take a while to look.
    for name, longest_s, words in (
        ("snapshot", 0.2, "idle-in-transaction timeout"),
        ("query", 3.0, "has ended"),
    ):
        held = all_holders()[name]().hold(HoldPlace(held_cluster.conninfo(), longest_s=longest_s))
        assert wait_until(lambda held=held: held.lost() != "", TIMEOUT_S)
        assert words in held.lost()
        held.release()


def test_a_server_without_prepared_transactions_says_what_to_set(
    shared_cluster: Cluster,
) -> None:
    place = HoldPlace(shared_cluster.conninfo())
    with pytest.raises(ServerError, match="prepared transactions are disabled") as caught:
        all_holders()["prepared"]().hold(place)
    assert "max_prepared_transactions" in (caught.value.hint or "")


def test_a_place_without_a_server_is_an_error_that_says_so(open_directory: Path) -> None:
    place = HoldPlace(f"host={open_directory} port=5432")
    with pytest.raises(ServerError, match="could not open session"):
        all_holders()["transaction"]().hold(place)


def test_a_transaction_time_out_of_the_server_does_not_end_a_hold(
    cluster: Cluster,
) -> None:
    times = {"statement_timeout": "1s", "idle_in_transaction_session_timeout": "1s"}
    cluster.configure({**times, "idle_session_timeout": "1s", "transaction_timeout": "1s"})
    cluster.start()
    place = HoldPlace(cluster.conninfo())
    held = all_holders()["transaction"]().hold(place)
    with psycopg.connect(cluster.conninfo(), autocommit=True) as impatient:
        # Its own time is over before the holder's would have been.
        assert wait_until(lambda: _is_ended(impatient), TIMEOUT_S)
    assert held.lost() == ""
    held.release()


def _nobody_holds(place: HoldPlace) -> bool:
    assert place.cluster is not None
    return seen_in(place.cluster) == []


def _is_ended(connection: psycopg.Connection) -> bool:
    try:
        connection.pgconn.consume_input()
        connection.pgconn.is_busy()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return False


@pytest.mark.parametrize("name", sorted(all_holders()))
def test_a_server_that_goes_away_in_the_middle_is_an_error_that_says_so(
    name: str, place: HoldPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = all_holders()[name]()
    opened = session.open_session

    def lost(place: HoldPlace, **names: str) -> psycopg.Connection:
        connection = opened(place, **names)
        if names:  # not the one that holds, but one that sees to it
            connection.execute("SELECT 1")
            connection.pgconn.finish()
        return connection

    holder.prepare(place)
    with monkeypatch.context() as patch:
        for module in (session, standby):
            patch.setattr(module, "open_session", lost)
        with pytest.raises(ServerError):
            holder.hold(place)
    holder.close()
    assert wait_until(lambda: _nobody_holds(place), TIMEOUT_S)
