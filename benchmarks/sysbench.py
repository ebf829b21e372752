"""sysbench's OLTP point select and read-write on its own table: pgdrag against sysbench.

pgdrag runs the same statements as a script in pgbench's language, prepared as sysbench's are, through
the Unix socket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks import scripted
from benchmarks.clients import BenchmarkError, Command, Counter, run_to_end
from benchmarks.contest import Contest, Contestant, Pair, Setting, missing_rows
from benchmarks.driver_job import Script
from benchmarks.peers import Missing, Peer
from benchmarks.rows import Row
from benchmarks.stage import Stage, stage

ROWS = 100_000
LOAD_S = 10.0
NO_LOWER = ">= 0.98"
CPU_GOAL = "<= 1.00"
RANGE = 100  # rows of a range query


def point_select() -> str:
    """Return sysbench's oltp_point_select in pgbench's language."""
    return f"\\set id random(1, {ROWS})\nSELECT c FROM sbtest1 WHERE id=:id;\n"


def read_write() -> str:
    """Return sysbench's oltp_read_write in pgbench's language, with its default numbers.

    The language has no strings: digits are drawn as numbers, and the server joins them to the same form.
    """
    ids = [f"p{i}" for i in range(10)] + ["r0", "r1", "r2", "r3", "k", "u", "d"]
    draws = [f"\\set {name} random(1, {ROWS})" for name in [*ids, "new_k"]]
    c_update, c_update_draws = _digits("a", 10)
    c_insert, c_insert_draws = _digits("b", 10)
    pad, pad_draws = _digits("e", 5)
    ends = [f"\\set s{i} :r{i} + {RANGE - 1}" for i in range(4)]
    between = [f"id BETWEEN :r{i} AND :s{i}" for i in range(4)]
    statements = [
        "BEGIN",
        *(f"SELECT c FROM sbtest1 WHERE id=:p{i}" for i in range(10)),
        f"SELECT c FROM sbtest1 WHERE {between[0]}",
        f"SELECT SUM(k) FROM sbtest1 WHERE {between[1]}",
        f"SELECT c FROM sbtest1 WHERE {between[2]} ORDER BY c",
        f"SELECT DISTINCT c FROM sbtest1 WHERE {between[3]} ORDER BY c",
        "UPDATE sbtest1 SET k=k+1 WHERE id=:k",
        f"UPDATE sbtest1 SET c={c_update} WHERE id=:u",
        "DELETE FROM sbtest1 WHERE id=:d",
        f"INSERT INTO sbtest1 (id, k, c, pad) VALUES (:d, :new_k, {c_insert}, {pad})",
        "COMMIT",
    ]
    lines = [*draws, *ends, *c_update_draws, *c_insert_draws, *pad_draws]
    return "\n".join([*lines, *(f"{statement};" for statement in statements), ""])


def _digits(prefix: str, groups: int) -> tuple[str, list[str]]:
    names = [f"{prefix}{i}" for i in range(groups)]
    draws = [f"\\set {name} random(10000000000, 99999999999)" for name in names]
    return " || '-' || ".join(f":{name}" for name in names), draws


@dataclass(frozen=True)
class Test:
    """One of sysbench's tests.

    Attributes:
        name: what sysbench calls it.
        script: the same for pgdrag.
        count: query on the server's statistics that grows by one with each transaction.
    """

    name: str
    script: str
    count: str

    def pair(self) -> Pair:
        """Return what is compared."""
        what = f"sysbench {self.name}, prepared"
        return Pair(what, "pgdrag", "sysbench", NO_LOWER, CPU_GOAL)


_STATISTICS = "FROM pg_stat_user_tables WHERE relname = 'sbtest1'"
TESTS = (
    Test("oltp_point_select", point_select(), f"SELECT idx_scan {_STATISTICS}"),
    Test("oltp_read_write", read_write(), f"SELECT n_tup_ins {_STATISTICS}"),
)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    if isinstance(setting.peers.sysbench, Missing):
        return 0.0
    return LOAD_S + setting.rounds * 2 * len(TESTS) * scripted.planned_s(setting)


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows of the comparison with sysbench."""
    peer = setting.peers.sysbench
    if isinstance(peer, Missing):
        yield from missing_rows([test.pair() for test in TESTS], setting, peer.name, peer.note)
        return
    with stage() as server:
        with setting.progress.step("sysbench: prepare", LOAD_S):
            run_to_end(_command(setting, server, peer, "oltp_read_write", "prepare"), timeout_s=300)
        for test in TESTS:
            if setting.is_interrupted:
                return
            with server.counting_statistics(test.count, database=server.database) as count:
                contest = Contest(
                    f"sysbench {test.name}",
                    [
                        _sysbench(setting, server, peer, count, test),
                        scripted.pgdrag(
                            # sysbench has a thread for each connection.
                            replace(setting, threads=setting.connections),
                            server,
                            count,
                            Script(test.name, test.script),
                            name="pgdrag",
                            statements="prepared",
                            scale=1,
                        ),
                    ],
                    before_run=lambda: server.tidy(server.database),
                )
                contest.run(setting)
            yield from contest.rows([test.pair()])


def _sysbench(
    setting: Setting, server: Stage, peer: Peer, count: Counter, test: Test
) -> Contestant:
    def command(number: int) -> Command:
        return _command(setting, server, peer, test.name, "run", seed=setting.seed + number)

    return scripted.contestant(setting, "sysbench", f"{peer.version}, {test.name}", command, count)


def _command(
    setting: Setting, server: Stage, peer: Peer, test: str, action: str, *, seed: int = 1
) -> Command:
    argv = [
        *(str(peer.path), test, "--db-driver=pgsql"),
        *(f"--pgsql-host={server.host}", f"--pgsql-port={server.port}"),
        *(f"--pgsql-user={server.user}", f"--pgsql-db={server.database}"),
        *("--tables=1", f"--table-size={ROWS}", "--rand-type=uniform", f"--rand-seed={seed}"),
        *(f"--threads={setting.connections}", f"--time={scripted.duration_s(setting):.0f}"),
        action,
    ]
    return Command(argv, own_count=transactions if action == "run" else None)


def transactions(output: str) -> int:
    """Return how many transactions sysbench says that it did.

    Raises:
        BenchmarkError: it does not say.
    """
    found = re.search(r"transactions:\s+(\d+)", output)
    if found is None:
        raise BenchmarkError("sysbench does not say what it did", detail=output[-500:].strip())
    return int(found[1])
