"""A server opens a TCP port where a workload asks for it, and lets in one role with its password there, and nobody else."""

from __future__ import annotations

import socket
from dataclasses import replace

import psutil
import psycopg
import pytest

from pgdrag.driver.process import Target
from pgdrag.factors.programs import programs_of
from pgdrag.model import Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.tcp_port import LOOPBACK
from pgdrag.trial import ServerTrialRunner, run_trial

pytestmark = pytest.mark.postgres


def connect(target: Target) -> tuple[str, str]:
    """Return who a client is, and where the server says that it came in."""
    with psycopg.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        dbname=target.database,
        passfile="/nowhere",
    ) as connection:
        found = connection.execute("SELECT current_user, host(inet_server_addr())").fetchone()
    assert found is not None
    return found[0], found[1]


def addresses(port: int) -> list[str]:
    """Return the addresses at which anybody listens on a port; whose they are, not all may see."""
    listeners = (x for x in psutil.net_connections("inet") if x.status == psutil.CONN_LISTEN)
    return [x.laddr.ip for x in listeners if x.laddr.port == port]


def test_one_role_comes_in_with_its_password_and_nobody_else(any_cluster: Cluster) -> None:
    any_cluster.configure({"log_statement": "all", "default_transaction_read_only": "on"})
    any_cluster.open_tcp(any_cluster.load_role)
    taken = any_cluster.port
    # Another program listens there before the server does.
    with socket.socket() as other:
        other.bind((LOOPBACK, taken))
        other.listen()
        any_cluster.start()
    assert any_cluster.port != taken
    assert addresses(any_cluster.port) == [LOOPBACK]
    target = any_cluster.over_tcp(any_cluster.target)
    assert connect(target) == (any_cluster.load_role, LOOPBACK)
    for stranger, said in (
        (replace(target, password=None), "no password supplied"),
        (replace(target, password="guess"), "password authentication failed"),
        (replace(target, user=any_cluster.superuser), "no pg_hba.conf entry"),
    ):
        with pytest.raises(psycopg.OperationalError, match=said):
            connect(stranger)
    # Nor is it anywhere that others read.
    assert target.password is not None
    assert target.password not in repr(target) + repr(any_cluster.tcp) + any_cluster.log_tail(1000)
    any_cluster.stop()
    any_cluster.start()
    assert connect(any_cluster.over_tcp(any_cluster.target))[0] == any_cluster.load_role


COMMAND = """
set -e
test "$PGHOST" = 127.0.0.1
test "$PGDRAG_JDBC_URL" = "jdbc:postgresql://127.0.0.1:$PGPORT/$PGDATABASE"
test "$(psql -w "$PGDRAG_DSN" -Atc 'SELECT host(inet_server_addr()) FROM made_by_tcp')" = 127.0.0.1
test -d "$HOME" -a -w "$HOME"
if PGPASSWORD= psql -w -c 'SELECT 1'; then exit 3; fi
echo tps 5
"""


def test_a_workload_that_needs_tcp_has_it_in_setup_load_and_check(
    bench: ServerTrialRunner,
) -> None:
    parameters = {
        "tcp": True,
        "pattern": r"tps (?P<tps>\d+)",
        "dataset_mb": 70,
        "setup": "psql -w -c 'CREATE TABLE made_by_tcp AS SELECT inet_server_addr()'",
        "command": COMMAND,
        "check": 'test "$(psql -w -Atc "SELECT host(inet_server_addr())")" = "$PGHOST"; echo "$PGPASSWORD"; false',
    }
    spec = WorkloadSpec("command", parameters)
    bench.allow(x.key for x in programs_of(spec, ()))
    crippled = Treatment("crippled", (Level("setting", "statement_timeout", "1min"),))
    load = LoadProfile(connections=3, warm_up_s=0, measure_s=1, budget_s=1, min_commits=0)
    found = run_trial(Trial(1, 1, 1, crippled, spec, load, seed=7), bench)
    assert found.measurement is not None, found.reason
    assert found.measurement.total.committed == 5
    # What a program says goes into the journal, the password does not.
    assert (found.outcome, found.reason) == (Outcome.INVALID, "its check ended with status 1: ***")
