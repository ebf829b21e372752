"""How is a workload's own SQL run on its tables: what is added after loading, and what must hold after a trial?

psycopg is imported where SQL is run: reports need the workloads, and no server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pgdrag.errors import DriverError

if TYPE_CHECKING:
    import psycopg

    from pgdrag.driver.process import Target


def run_setup(sql: str, target: Target) -> None:
    """Run the statements of a text, in one transaction.

    Raises:
        DriverError: one of them is wrong.
    """
    import psycopg

    try:
        with connected(target, "pgdrag setup") as connection:
            # Without parameters a text may hold several statements; they are one transaction.
            connection.execute(sql.encode())
    except psycopg.Error as error:
        raise DriverError(
            f"the workload's setup failed: {error.diag.message_primary or str(error).strip()}",
            detail=error.diag.message_detail,
            hint="Fix setup in the experiment file; its statements must be able to run in a transaction.",
        ) from error


def violated(
    conditions: Mapping[str, tuple[str, str]], target: Target, *, timeout_s: float
) -> tuple[str, ...]:
    """Return a sentence for each condition that does not hold, all seen in one snapshot.

    Args:
        conditions: by name, what is wrong where one does not hold, and a query for how often.
        timeout_s: for each of them.

    Raises:
        DriverError: one could not be looked at.
    """
    counts = look_up([query for _, query in conditions.values()], target, timeout_s=timeout_s)
    return tuple(
        f"{name}: {message} ({count})"
        for (name, (message, _)), count in zip(conditions.items(), counts, strict=True)
        if count
    )


def look_up(queries: Sequence[str], target: Target, *, timeout_s: float) -> tuple[int, ...]:
    """Return the number that each query finds, all seen in one snapshot.

    Args:
        timeout_s: for each of them.

    Raises:
        DriverError: one could not be looked at.
    """
    import psycopg

    found = []
    try:
        with connected(target, "pgdrag check") as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(f"SET LOCAL statement_timeout = {round(1000 * timeout_s)}".encode())
            for query in queries:
                row = connection.execute(query.encode()).fetchone()
                assert row is not None, query
                found.append(int(row[0]))
    except psycopg.Error as error:
        why = error.diag.message_primary or str(error).strip()
        raise DriverError(f"the workload's check failed: {why}") from error
    return tuple(found)


def connected(target: Target, purpose: str, *, autocommit: bool = False) -> psycopg.Connection:
    """Return a session there; `purpose` is its name in pg_stat_activity.

    Raises:
        psycopg.OperationalError: the server cannot be reached.
    """
    import psycopg

    return psycopg.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        dbname=target.database,
        password=target.password,
        application_name=purpose,
        autocommit=autocommit,
    )
