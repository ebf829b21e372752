"""What do the clients of a data twin do? The statements of the original, in its mix, at its pace.

`prepare_load` is run once, when the rows are there, and keeps in the database what it finds out: statements with the
parameters that make them do as much as in the original. The driver's job is made of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgdrag.data_twin import Step
from pgdrag.twins.model import Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from pgdrag.driver.contract import Line
    from pgdrag.driver.process import Driver, Driving, Target
    from pgdrag.model.load import LoadProfile

# Raised when the same twin gets another load: datasets that were prepared before are made again.
LOAD_VERSION = 1


def prepare_load(
    connection: psycopg.Connection,
    twin: Twin,
    *,
    seed: int,
    step: Step = lambda *_: None,
) -> tuple[str, ...]:
    """Find out what the statements of a twin need, and keep it in the database.

    Args:
        connection: of the role that drives the load; each statement is committed.
        step: is told how far it is; its phases are not "populate".

    Returns:
        A clause on each thing that is not as in the original.
    """
    return ()


def transactions(twin: Twin) -> tuple[str, ...]:
    """Return the types of transactions that the driver counts, in its order."""
    return ("transaction",)


def job(twin: Twin) -> dict[str, object]:
    """Return the `workload` object of the driver's job, as far as the twin alone tells it."""
    return {"kind": "pgbench", "scripts": [{"name": "transaction", "text": "SELECT 1;\n"}]}


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
    """Start driving the load on a database that `prepare_load` has seen."""
    with driver.driving(target, job(twin), load, seed=seed, listen=listen) as driving:
        yield driving
