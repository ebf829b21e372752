"""pgdrag's side of the TPC-C comparisons, and how the server counts for both sides."""

from __future__ import annotations

from benchmarks import driver_job, population
from benchmarks.clients import Counter, Measured, measure_window, run_to_end
from benchmarks.contest import Contestant, Setting
from benchmarks.stage import Stage

WAREHOUSES = 4
LOAD_TIMEOUT_S = 900.0
# pgdrag's driver is at full speed at once; the server's plans and caches want a moment.
DRIVER_WARM_UP_S = 3.0
# New-Orders that were committed have moved d_next_o_id, Payments have left a row in history: 88 % of
# the mix, the same part for all contestants. What else writes or reads leaves nothing to count.
COUNT = "SELECT (SELECT sum(d_next_o_id) FROM district) + (SELECT count(*) FROM history)"
WORK = "order or payment"


def load(setting: Setting, stage: Stage, database: str) -> None:
    """Make and fill BenchBase's tables with pgdrag."""
    command = driver_job.load_command(
        setting.driver,
        stage,
        driver_job.tpcc(WAREHOUSES, "prepared"),
        database=database,
        parallelism=population.PARALLELISM,
    )
    run_to_end(command, timeout_s=LOAD_TIMEOUT_S)


def contestant(
    setting: Setting, stage: Stage, database: str, count: Counter, statements: str
) -> Contestant:
    """Return pgdrag in one of its statement modes; over TCP, since the peers know no Unix sockets."""

    def run(number: int) -> Measured:
        command = driver_job.run_command(
            setting.driver,
            stage,
            driver_job.tpcc(WAREHOUSES, statements),
            database=database,
            connections=setting.connections,
            threads=setting.threads,
            duration_s=DRIVER_WARM_UP_S + setting.window_s + 60,
            seed=setting.seed + number,
            over_tcp=True,
        )
        return measure_window(command, count, warm_up_s=DRIVER_WARM_UP_S, window_s=setting.window_s)

    return Contestant(
        f"pgdrag {statements}",
        f"{setting.subject}, {statements}",
        run,
        DRIVER_WARM_UP_S + setting.window_s + 3,
    )
