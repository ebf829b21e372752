"""What do the clients of a data twin do? The statements of the original, in its mix, at its pace.

`prepare_load` is run once, when the rows are there, and keeps in the database what it finds out: for each statement a pool
of values that make it do as much as in the original, and the driver's job. Modules, in the order of the work:

- `mix`: the transactions, how often, in which order; `following`: those that are always run right after another one
- `conditions`, `texts`, `statements`: what a statement does with each of its parameters
- `parameters`, `written`, `free`: values from rows, for what is compared, for what is written, and without any;
  `sampling`, `fresh`: rows that belong together, and values that no row has yet
- `calibration`, `work`, `effort`: which of them make a statement do as much as the original's, and how much is tried
- `pools`: of which rows the driver takes a statement's values from; `preparing`: those of all statements, `kept_job`: and the job
- `growth`: what the load itself has inserted halfway through the window
- `constants`, `owned`: values that a session keeps, and rows that nobody else changes
- `links`, `dead_ends`, `leading`, `scripts`: a transaction as a script of the driver's

While the load runs it is the time of the capture: see `clock.py` beside this package.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdrag.data_twin.load.constants import CLIENTS
from pgdrag.data_twin.load.job import job, known_mix, transactions
from pgdrag.twins.model import Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from pgdrag.driver.contract import Line
    from pgdrag.driver.process import Driver, Driving, Target
    from pgdrag.model.load import LoadProfile

# Raised when the same twin gets another load: datasets that were prepared before are made again.
LOAD_VERSION = 29

__all__ = ["LOAD_VERSION", "driving_load", "job", "prepare_load", "transactions"]


def prepare_load(
    connection: psycopg.Connection,
    twin: Twin,
    *,
    seed: int,
    step: Callable[[str, int, int], None] = lambda *_: None,
    warn: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[str, ...]:
    """Find out what the statements of a twin need, and keep it in the database.

    Args:
        connection: of the role that drives the load, in autocommit.
        step: is told how many statements are done.
        warn: is told, in a clause, if there was too little time.
        clock: tells seconds that only grow.

    Returns:
        A clause on each thing that is not as in the original.

    Raises:
        psycopg.OperationalError: the server is gone.
    """
    from pgdrag.data_twin.load.preparing import prepare

    return prepare(connection, twin, known_mix(twin), seed=seed, step=step, warn=warn, clock=clock)  # fmt: skip


@contextmanager
def driving_load(
    twin: Twin,
    driver: Driver,
    target: Target,
    load: LoadProfile,
    *,
    seed: int,
    listen: Callable[[Line], None],
) -> Iterator[Driving]:
    """Start driving the load on a database that `prepare_load` has seen.

    Raises:
        DriverError: it has not seen it, or the database cannot be reached.
    """
    from pgdrag.data_twin.load.kept_job import begin_load

    found = begin_load(target, twin.now)
    found["variables"] = {"fresh": "-1", "clients": str(load.connections)}
    for pool in found["pools"].values():  # type: ignore[attr-defined]
        pool["query"] = pool["query"].replace(CLIENTS, str(load.connections))
    with driver.driving(target, found, load, seed=seed, listen=listen) as driving:
        yield driving
