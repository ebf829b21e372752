"""TPC-C, pipelined: pgdrag on BenchBase's tables against go-tpc on its own, which have no foreign keys.

In two databases of one server, over TCP on the loopback interface.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import go_tpc, tpcc
from benchmarks.clients import Counter, Measured, measure_window, run_to_end
from benchmarks.contest import Contest, Contestant, Pair, Setting, missing_rows
from benchmarks.peers import Missing, Peer
from benchmarks.rows import Row
from benchmarks.stage import Stage, stage

LOAD_S = 40.0
WARM_UP_S = 5.0
DATABASE = "go_tpc"
NOTE = "go-tpc works on tables of its own, without foreign keys"
PAIRS = (Pair("TPC-C", "pgdrag pipelined", "go-tpc", ">= 1.50", "<= 0.20", NOTE, work=tpcc.WORK),)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    if isinstance(setting.peers.go_tpc, Missing):
        return 0.0
    own_s = tpcc.DRIVER_WARM_UP_S + setting.window_s + 3
    return LOAD_S + setting.rounds * (own_s + WARM_UP_S + setting.window_s + 3)


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows of the comparison with go-tpc."""
    peer = setting.peers.go_tpc
    if isinstance(peer, Missing):
        yield from missing_rows(PAIRS, setting, peer.name, peer.note)
        return
    with stage() as server:
        with setting.progress.step("TPC-C: load, pgdrag and go-tpc", LOAD_S):
            tpcc.load(setting, server, server.database)
            _load(setting, server, peer)
        with (
            server.counting(tpcc.COUNT, database=server.database) as own_count,
            server.counting(tpcc.COUNT, database=DATABASE) as peer_count,
        ):
            contest = Contest(
                "TPC-C against go-tpc",
                [
                    _go_tpc(setting, server, peer, peer_count),
                    tpcc.contestant(setting, server, server.database, own_count, "pipelined"),
                ],
                before_run=lambda: _tidy(server),
            )
            contest.run(setting)
    yield from contest.rows(PAIRS)


def _tidy(server: Stage) -> None:
    for database in (server.database, DATABASE):
        server.tidy(database)


def _load(setting: Setting, server: Stage, peer: Peer) -> None:
    server.create_database(DATABASE)
    command = go_tpc.load_command(
        peer,
        server,
        database=DATABASE,
        warehouses=tpcc.WAREHOUSES,
        connections=setting.connections,
    )
    run_to_end(command, timeout_s=tpcc.LOAD_TIMEOUT_S)


def _go_tpc(setting: Setting, server: Stage, peer: Peer, count: Counter) -> Contestant:
    def run(_: int) -> Measured:
        command = go_tpc.run_command(
            peer,
            server,
            database=DATABASE,
            warehouses=tpcc.WAREHOUSES,
            connections=setting.connections,
            duration_s=WARM_UP_S + setting.window_s + 60,
        )
        return measure_window(command, count, warm_up_s=WARM_UP_S, window_s=setting.window_s)

    return Contestant("go-tpc", peer.version, run, WARM_UP_S + setting.window_s + 3)
