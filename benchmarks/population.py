"""How close does pgdrag's population of TPC-C come to the limit?

The limit is what the server needs for rows that lie ready: binary COPY from files on the server's
own disk into bare tables, over as many sessions, then the same keys and indexes, then the same foreign keys,
then ANALYZE, with the same settings of the server and the sessions. pgdrag makes the rows as well, and sends
them through a socket.
"""

from __future__ import annotations

import queue
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from benchmarks.contest import Setting
from benchmarks.rounds import orders, paired_ratio
from benchmarks.rows import Row, measured_row, missing_row
from benchmarks.stage import Stage, stage
from pgdrag.driver.process import Driver, Target
from pgdrag.workloads.tpcc import Tpcc

GOAL = ">= 0.85"
WAREHOUSES = (4, 10)
# As many sessions as there are processors on the machine that the goal was set for.
PARALLELISM = 2
ROUNDS = 4
DATABASE = "population"
SECONDS_PER_WAREHOUSE = 2.0
TIMEOUT_S = 1800.0
# Largest first, so that the sessions end evenly.
TABLES = (
    "order_line",
    "stock",
    "customer",
    "history",
    "oorder",
    "item",
    "new_order",
    "district",
    "warehouse",
)
# What pgdrag sets in its own sessions.
SESSION = """
    SET maintenance_work_mem = '256MB';
    SET enable_nestloop = off; SET enable_sort = off; SET jit = off
"""
# The keys and constraints are read from the catalog of the tables that pgdrag made: the same there as here.
_KEYS = """
    SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname,
        pg_get_constraintdef(oid)), conrelid::regclass::text, contype
    FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND connamespace = 'public'::regnamespace
    UNION ALL
    SELECT pg_get_indexdef(indexrelid), indrelid::regclass::text, 'i'
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""


@dataclass(frozen=True)
class Took:
    """Seconds of one population.

    Attributes:
        constrained_s: from nothing to the last foreign key.
        whole_s: with ANALYZE of all tables as well.
        bytes: of the rows, as COPY takes them.
    """

    constrained_s: float
    whole_s: float
    bytes: int


@dataclass
class ReadyMade:
    """A dataset as files, and the statements that make tables and constraints of it."""

    directory: Path
    columns: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    foreign_keys: list[str] = field(default_factory=list)

    def keep(self, place: Stage) -> None:
        """Write the tables that pgdrag has made to files, in the form that COPY reads."""
        place.execute(f"COPY (SELECT) TO PROGRAM 'mkdir -p {self.directory}'")
        for table in TABLES:
            place.execute(
                f"COPY {table} TO '{self.directory}/{table}' (FORMAT binary)", database=DATABASE
            )
            self.columns[table] = str(
                place.execute(
                    "SELECT string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod), "
                    "CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END), ', ' ORDER BY attnum) "
                    f"FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0",
                    database=DATABASE,
                )[0][0]
            )
        found = [
            (str(sql), str(table), str(kind))
            for sql, table, kind in place.execute(_KEYS, database=DATABASE)
        ]
        # Largest table first; the second key of a table waits for the first.
        found.sort(key=lambda each: (each[2] != "p", TABLES.index(each[1])))
        self.keys = [sql for sql, _, kind in found if kind != "f"]
        self.foreign_keys = [sql for sql, _, kind in found if kind == "f"]

    def populate(self, place: Stage) -> Took:
        """Make the same dataset of the files, as fast as the server can."""
        started = time.monotonic()
        create = [f"CREATE TABLE {name} ({columns})" for name, columns in self.columns.items()]
        copies = [
            [
                f"BEGIN; TRUNCATE {table}; "
                f"COPY {table} FROM '{self.directory}/{table}' (FORMAT binary, FREEZE); COMMIT",
                f"VACUUM {table}",
            ]
            for table in TABLES
        ]
        _execute(place, [create], 1)
        _execute(place, copies, PARALLELISM)
        _execute(place, [[sql] for sql in self.keys], PARALLELISM)
        _execute(place, [[sql] for sql in self.foreign_keys], PARALLELISM)
        constrained_s = time.monotonic() - started
        _execute(place, [[f"ANALYZE {table}"] for table in TABLES], PARALLELISM)
        whole_s = time.monotonic() - started
        sizes = sum(int(str(place.execute(_size(self.directory / name))[0][0])) for name in TABLES)
        return Took(constrained_s, whole_s, sizes)


def populate(place: Stage, driver: Driver, warehouses: int, seed: int) -> Took:
    """Let pgdrag make the dataset."""
    target = Target(place.host, place.port, place.user, DATABASE)
    started = time.monotonic()
    load = driver.load(
        target,
        Tpcc(warehouses=warehouses).job(),
        seed=seed,
        parallelism=PARALLELISM,
        timeout_s=TIMEOUT_S,
    )
    whole_s = time.monotonic() - started
    # The phases overlap, and each is counted up to its own end: the last is what ANALYZE
    # takes when all constraints are there.
    return Took(whole_s - load.phases_s["analyze"], whole_s, load.bytes)


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    runs = 2 * _rounds(setting) + 2  # the first makes the files
    return sum(runs * SECONDS_PER_WAREHOUSE * scale for scale in _scales(setting))


def run(setting: Setting) -> Iterator[Row]:
    """Yield two rows a scale: up to the last constraint, and with ANALYZE."""
    for scale in _scales(setting):
        took: dict[str, list[Took]] = {"pgdrag": [], "limit": []}
        if not setting.is_interrupted:
            with stage() as place:
                try:
                    _rounds_of(setting, place, scale, took)
                except KeyboardInterrupt:
                    setting.is_interrupted = True
        yield from _rows(setting, scale, took["pgdrag"], took["limit"])


def _rounds_of(setting: Setting, place: Stage, scale: int, took: dict[str, list[Took]]) -> None:
    """Populate in turns, in an order that changes; only whole rounds are added to `took`."""
    driver = Driver(setting.driver)
    ready_made = ReadyMade(place.directory / "data" / "ready-made")
    ways: dict[str, Callable[[], Took]] = {
        "pgdrag": lambda: populate(place, driver, scale, setting.seed),
        "limit": lambda: ready_made.populate(place),
    }
    planned_s = SECONDS_PER_WAREHOUSE * scale
    with setting.progress.step(f"population of {scale} warehouses: make files", 2 * planned_s):
        place.create_database(DATABASE)
        ways["pgdrag"]()
        ready_made.keep(place)
    for number, order in enumerate(orders(list(ways), _rounds(setting), setting.seed), 1):
        done = {}
        for name in order:
            label = f"population of {scale} warehouses: round {number}, {name}"
            with setting.progress.step(label, planned_s):
                place.create_database(DATABASE)
                place.execute("CHECKPOINT")
                done[name] = ways[name]()
        for name, each in done.items():
            took[name].append(each)


def _rows(
    setting: Setting, scale: int, own: Sequence[Took], limit: Sequence[Took]
) -> Iterator[Row]:
    kinds: dict[str, Callable[[Took], float]] = {
        "all constraints": lambda each: each.constrained_s,
        "all constraints and ANALYZE": lambda each: each.whole_s,
    }
    peer = "COPY from files"
    for what, seconds_of in kinds.items():
        name = f"population of {scale} warehouses, {what}: speed, pgdrag / limit"
        if not own:
            note = "interrupted before the first round was done"
            yield missing_row(name, setting.subject, peer, GOAL, note)
            continue
        mine, best = ([seconds_of(each) for each in took] for took in (own, limit))
        rates = (own[0].bytes / statistics.median(mine), limit[0].bytes / statistics.median(best))
        yield measured_row(
            name,
            setting.subject,
            peer,
            paired_ratio([1 / taken for taken in mine], [1 / taken for taken in best]),
            GOAL,
            values=(60 * scale / statistics.median(mine), 60 * scale / statistics.median(best)),
            unit="warehouses/min",
            note=f"{rates[0] / 1e6:.0f} MB/s of rows, the limit being {rates[1] / 1e6:.0f} MB/s",
        )


def _scales(setting: Setting) -> tuple[int, ...]:
    return WAREHOUSES[:1] if setting.is_quick else WAREHOUSES


def _rounds(setting: Setting) -> int:
    return min(ROUNDS, setting.rounds)


def _size(path: Path) -> str:
    return f"SELECT size FROM pg_stat_file('{path}')"


def _execute(place: Stage, tasks: Sequence[Sequence[str]], parallelism: int) -> None:
    """Execute tasks of one or more statements over so many sessions, first come, first served."""
    left: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
    for task in tasks:
        left.put(task)

    def work(_: int) -> None:
        with psycopg.connect(
            host=place.host, port=place.port, user=place.user, dbname=DATABASE, autocommit=True
        ) as connection:
            connection.execute(SESSION)
            while True:
                try:
                    task = left.get_nowait()
                except queue.Empty:
                    return
                for sql in task:
                    connection.execute(sql.encode())

    with ThreadPoolExecutor(parallelism) as pool:
        for _ in pool.map(work, range(parallelism)):
            pass
