"""How fast are the tables of TPC-C filled? pgdrag against BenchBase and go-tpc, through TCP on loopback.

pgdrag and BenchBase make the same tables with the same ten foreign keys; go-tpc's have none.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import psycopg

from benchmarks import benchbase, driver_job, go_tpc, population, tpcc
from benchmarks.clients import BenchmarkError, Command, run_to_end
from benchmarks.contest import Setting
from benchmarks.peers import Missing
from benchmarks.rounds import orders, paired_ratio
from benchmarks.rows import Row, measured_row, missing_row
from benchmarks.stage import Stage, stage

WAREHOUSES = 4
DATABASE = "population"
# Each of a warehouse's 30,000 customers begins with one row.
FILLED = "SELECT count(*) / 30000 FROM history"
ROUNDS = 2  # each lasts more than a minute, and the ratios are far from their goals
OWN_S = 15.0
GO_TPC_S = 35.0
BENCHBASE_S = 55.0
GOALS = {"go-tpc": ">= 3.00", "BenchBase": ">= 6.00"}


@dataclass
class _Loader:
    title: str
    command: Callable[[Stage], AbstractContextManager[Command]]
    seconds: float
    took_s: list[float] = field(default_factory=list)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    return _rounds(setting) * sum(loader.seconds for loader in _loaders(setting).values())


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows on the speed of population, all constraints included."""
    loaders = _loaders(setting)
    with stage() as server, contextlib.suppress(_Interrupted):
        for number, order in enumerate(orders(list(loaders), _rounds(setting), setting.seed), 1):
            took_s = _round(setting, server, loaders, order, number)
            for name, taken in took_s.items():
                loaders[name].took_s.append(taken)
    for name, goal in GOALS.items():
        yield _row(setting, loaders, name, goal)


class _Interrupted(Exception):
    """Ctrl-C: the rounds that were done are kept."""


def _round(
    setting: Setting, server: Stage, loaders: dict[str, _Loader], order: list[str], number: int
) -> dict[str, float]:
    took_s = {}
    try:
        for name in order:
            loader = loaders[name]
            label = f"population: round {number} of {_rounds(setting)}, {loader.title}"
            with setting.progress.step(label, loader.seconds):
                server.create_database(DATABASE)
                server.execute("CHECKPOINT")
                with loader.command(server) as command:
                    taken, output = run_to_end(command, timeout_s=tpcc.LOAD_TIMEOUT_S)
                _expect_filled(server, loader.title, output)
                took_s[name] = taken
    except KeyboardInterrupt:
        setting.is_interrupted = True
        raise _Interrupted from None
    return took_s


def _expect_filled(server: Stage, title: str, output: str) -> None:
    """Refuse a program that ends without an error, and without the rows.

    Raises:
        BenchmarkError: as said, also where there are no tables.
    """
    try:
        filled = server.execute(FILLED, database=DATABASE)[0][0]
    except psycopg.errors.UndefinedTable:
        filled = 0
    if filled != WAREHOUSES:
        message = f"{title} filled {filled} of {WAREHOUSES} warehouses"
        raise BenchmarkError(message, detail=output[-500:].strip())


def _row(setting: Setting, loaders: dict[str, _Loader], name: str, goal: str) -> Row:
    title = f"population of {WAREHOUSES} warehouses: speed, pgdrag / {name}"
    peer = setting.peers.go_tpc if name == "go-tpc" else setting.peers.benchbase
    if isinstance(peer, Missing):
        return missing_row(title, setting.subject, name, goal, peer.note)
    own, other = (
        [60 * WAREHOUSES / taken for taken in loaders[each].took_s] for each in ("pgdrag", name)
    )
    if not own:
        note = "interrupted before the first round was done"
        return missing_row(title, setting.subject, peer.version, goal, note)
    return measured_row(
        title,
        setting.subject,
        peer.version,
        paired_ratio(own, other),
        goal,
        values=(statistics.median(own), statistics.median(other)),
        unit="warehouses/min",
        note="go-tpc's tables have no foreign keys" if name == "go-tpc" else "",
    )


def _loaders(setting: Setting) -> dict[str, _Loader]:
    peers, connections = setting.peers, setting.connections
    loaders = {"pgdrag": _Loader(setting.subject, lambda server: _own(setting, server), OWN_S)}
    if not isinstance(go := peers.go_tpc, Missing):
        found = go
        loaders["go-tpc"] = _Loader(
            go.version,
            lambda server: nullcontext(
                go_tpc.load_command(
                    found,
                    server,
                    database=DATABASE,
                    warehouses=WAREHOUSES,
                    connections=connections,
                )
            ),
            GO_TPC_S,
        )
    if not isinstance(base := peers.benchbase, Missing):
        directory = base
        loaders["BenchBase"] = _Loader(
            base.version,
            lambda server: benchbase.load_command(
                directory,
                peers.java,
                server,
                database=DATABASE,
                warehouses=WAREHOUSES,
                connections=connections,
            ),
            BENCHBASE_S,
        )
    return loaders


def _own(setting: Setting, server: Stage) -> AbstractContextManager[Command]:
    return nullcontext(
        driver_job.load_command(
            setting.driver,
            server,
            driver_job.tpcc(WAREHOUSES, "prepared"),
            database=DATABASE,
            parallelism=population.PARALLELISM,
            over_tcp=True,
        )
    )


def _rounds(setting: Setting) -> int:
    return 1 if setting.is_quick else min(ROUNDS, setting.rounds)
