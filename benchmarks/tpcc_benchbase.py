"""TPC-C with BenchBase's statements: pgdrag, one round trip each and pipelined, against BenchBase itself.

All run on the same tables, which pgdrag loaded, over TCP on the loopback interface.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import benchbase, tpcc
from benchmarks.clients import Counter, Measured, measure_window
from benchmarks.contest import Contest, Contestant, Pair, Setting, missing_rows
from benchmarks.peers import Missing, Peer
from benchmarks.rows import Row
from benchmarks.stage import Stage, stage

LOAD_S = 15.0
START_S = 5.0
PAIRS = (
    Pair("TPC-C", "pgdrag prepared", "BenchBase", ">= 1.10", "<= 0.60", work=tpcc.WORK),
    Pair("TPC-C", "pgdrag pipelined", "BenchBase", ">= 1.90", "<= 0.12", work=tpcc.WORK),
)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    if isinstance(setting.peers.benchbase, Missing):
        return 0.0
    own_s = 2 * (tpcc.DRIVER_WARM_UP_S + setting.window_s + 3)
    peer_s = START_S + setting.warm_up_s + setting.window_s
    return LOAD_S + setting.rounds * (own_s + peer_s)


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows of the comparison with BenchBase."""
    peer = setting.peers.benchbase
    if isinstance(peer, Missing):
        yield from missing_rows(PAIRS, setting, peer.name, peer.note)
        return
    with stage() as server:
        with setting.progress.step("TPC-C: load", LOAD_S):
            tpcc.load(setting, server, server.database)
        with server.counting(tpcc.COUNT, database=server.database) as count:
            contest = Contest(
                "TPC-C against BenchBase",
                [
                    _benchbase(setting, server, peer, count),
                    tpcc.contestant(setting, server, server.database, count, "prepared"),
                    tpcc.contestant(setting, server, server.database, count, "pipelined"),
                ],
                before_run=lambda: server.tidy(server.database),
            )
            contest.run(setting)
    yield from contest.rows(PAIRS)


def _benchbase(setting: Setting, server: Stage, peer: Peer, count: Counter) -> Contestant:
    def run(_: int) -> Measured:
        with benchbase.run_command(
            peer,
            setting.peers.java,
            server,
            database=server.database,
            warehouses=tpcc.WAREHOUSES,
            connections=setting.connections,
            duration_s=setting.warm_up_s + setting.window_s + 60,
        ) as command:
            # Java compiles while it runs: without a long warm-up that would be counted as its cost.
            return measure_window(
                command, count, warm_up_s=setting.warm_up_s, window_s=setting.window_s
            )

    planned_s = START_S + setting.warm_up_s + setting.window_s
    return Contestant("BenchBase", f"{peer.version}, READ COMMITTED", run, planned_s)
