"""The server of `make bench`: who can reach it, and whether it counts what clients did."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from benchmarks import pgbench
from benchmarks.clients import Command, measure_whole, measure_window, run_to_end
from benchmarks.stage import Stage, stage
from pgdrag.servers.scratch import Scratch

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server(scratch: Scratch, binaries: object) -> Iterator[Stage]:
    with stage({"shared_buffers": "64MB"}, scratch=scratch) as made:
        run_to_end(pgbench.initialize_command(made, 1), timeout_s=120)
        yield made


def transactions(server: Stage, script: str, count: int) -> Command:
    arguments = ("--no-vacuum", "--builtin", script, "--client", "4", "--transactions", str(count))
    return Command(pgbench._argv(server, *arguments), own_count=pgbench.processed)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_over_tcp_nobody_gets_in_without_the_password(server: Stage, password: str | None) -> None:
    place = {"host": server.tcp_host, "port": server.port, "dbname": server.database}
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(**place, user=server.user, password=password)
    with psycopg.connect(**place, user=server.user, password=server.password) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_server_counts_each_select_of_a_client_that_has_ended(server: Stage) -> None:
    with server.counting_statistics(pgbench.SELECT_COUNT, database=server.database) as count:
        command = transactions(server, "select-only", 250)
        assert measure_whole(command, count, duration_s=1.0).transactions == 1000


def test_the_server_counts_each_transaction_that_wrote(server: Stage) -> None:
    with server.counting(pgbench.TPCB_COUNT, database=server.database) as count:
        command = transactions(server, "tpcb-like", 25)
        assert measure_whole(command, count, duration_s=1.0).transactions == 100


def test_a_window_of_a_running_client_has_transactions_and_cpu_time(server: Stage) -> None:
    with server.counting(pgbench.TPCB_COUNT, database=server.database) as count:
        command = transactions(server, "tpcb-like", 1_000_000)
        measured = measure_window(command, count, warm_up_s=0.2, window_s=0.5)
    assert measured.transactions > 0
    assert measured.cpu_s > 0


def test_pgbench_runs_the_pipelined_forms_of_its_own_scripts(server: Stage) -> None:
    for duel in pgbench._duels(server):
        if duel.flight is None:
            continue
        file = server.directory / "flight.sql"
        file.write_text(duel.flight.text, encoding="utf-8")
        counting = server.counting_statistics if duel.is_statistic else server.counting
        argv = pgbench._argv(
            server, "--no-vacuum", "--protocol=prepared", f"--file={file}", "--transactions=20"
        )
        with counting(duel.count, database=server.database) as count:
            before = count()
            run_to_end(Command(argv), timeout_s=60)
            assert count() - before == 20 * duel.flight_work
