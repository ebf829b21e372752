"""Which dataset does a load find on a server that exists, and what is done to it between trials?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgdrag.driver.connection_string import Server
from pgdrag.english import listed
from pgdrag.errors import UsageError
from pgdrag.existing.refusals import refusals_told
from pgdrag.host.undo.reaching import firm_options
from pgdrag.workloads import Workload, all_workloads

SESSION = "pgdrag upkeep"


def existing_tables(server: Server, names: Sequence[str]) -> list[str]:
    """Return which of these tables are on the server's search path."""
    with asking_about(server) as connection:
        rows = connection.execute(_TABLES, (list(names),)).fetchall()
    return [name for (name,) in rows]


def rows_of(server: Server, table: str) -> int | None:
    """Return how many rows a table has; None if there is no such table."""
    if not existing_tables(server, (table,)):
        return None
    with asking_about(server) as connection:
        command = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        ((count,),) = connection.execute(command).fetchall()
    return int(count)


def may_read(server: Server, table: str) -> bool:
    """Whether a table is there, and the role may read it."""
    with asking_about(server) as connection:
        ((found,),) = connection.execute(_MAY_READ, [table]).fetchall()
    return bool(found)


def size_there(server: Server, kind: type[Workload]) -> int | None:
    """Return the size of a workload's dataset in the server's database; None: it is not there."""
    size = kind.dataset_size
    return rows_of(server, size.counted) or None if size is not None and size.counted else None


def require_kinds(server: Server) -> list[str]:
    """Return the workloads whose datasets are in the server's database.

    Raises:
        UsageError: there is none, with how to make one.
    """
    kinds = all_workloads()
    found = [name for name, kind in kinds.items() if size_there(server, kind) is not None]
    if not found:
        names = " or ".join(sorted(name for name, kind in kinds.items() if kind.tables))
        raise UsageError(f"{server.name} has no dataset of {names}", hint=_NO_DATASET)
    return found


@dataclass(frozen=True)
class Upkeep:
    """What is done before each trial, the same for all treatments: nothing restores the dataset.

    Attributes:
        tables: that are vacuumed.
        has_checkpoint: a checkpoint is written.
    """

    tables: tuple[str, ...] = ()
    has_checkpoint: bool = False

    @property
    def commands(self) -> tuple[sql.Composed, ...]:
        """The statements."""
        vacuums = [sql.SQL("VACUUM {}").format(sql.Identifier(table)) for table in self.tables]
        return (*vacuums, *([sql.Composed([sql.SQL("CHECKPOINT")])] if self.has_checkpoint else []))

    @property
    def words(self) -> str:
        """Return what is done, as a clause: "VACUUM of pgbench_accounts and a CHECKPOINT"."""
        parts = [f"VACUUM of {listed(self.tables)}"] if self.tables else []
        return " and ".join(parts + ["a CHECKPOINT"] * self.has_checkpoint) or "nothing"

    def run(self, server: Server) -> None:
        """Do it.

        Raises:
            ServerLost: the server refuses one.
        """
        with asking_about(server) as connection:
            for command in self.commands:
                connection.execute(command)


def upkeep_of(server: Server, workload: Workload) -> Upkeep:
    """Return what this role may do there between the trials of a workload."""
    return Upkeep(tuple(existing_tables(server, workload.tables)), may_checkpoint(server))


def may_checkpoint(server: Server) -> bool:
    """Whether the role may have the server write a checkpoint."""
    with asking_about(server) as connection:
        ((found,),) = connection.execute(_MAY_CHECKPOINT).fetchall()
    return bool(found)


@contextmanager
def asking_about(server: Server) -> Iterator[psycopg.Connection]:
    """Yield a session for questions, whose refusals are errors that a person understands.

    Raises:
        ServerLost: the server refuses, or does not answer.
    """
    with (
        refusals_told(server),
        server.connect(application_name=SESSION, **firm_session(server)) as connection,
    ):
        yield connection


def firm_session(server: Server) -> dict[str, str]:
    """Return what a treatment does not reach: its limits do not hold, tables can be written, and no lock is waited for
    for long. A pooler knows no options."""
    if server.pooler is not None:
        return {}
    version_num = int(server.version.partition(".")[0]) * 10000
    return {"options": firm_options(server.conninfo(), version_num, is_limited=False)}


def require_dataset(server: Server, workload: Workload) -> None:
    """Refuse a workload whose dataset is not in the database.

    Raises:
        UsageError: with how to make it.
    """
    size = workload.dataset_size
    if size is None or not size.counted:
        raise UsageError(
            f"workload {workload.name} needs a dataset of its own",
            hint="Let pgdrag make a database for it with --allow-change database; it is dropped afterwards.",
        )
    wanted, there = getattr(workload, size.parameter), size_there(server, type(workload))
    if there is None:
        raise UsageError(
            f"{server.name} has no dataset of {workload.name}",
            detail=f"Its tables are {listed(workload.tables)}.",
            hint=_NO_DATASET,
        )
    if there != wanted:
        raise UsageError(
            f"the dataset on {server.name} is {size.describe(there)}, not {size.describe(wanted)}",
            hint=f"Omit --{size.option.replace('_', '-')}.",
        )


_NO_DATASET = (
    'Name the database that has one, make one there with "pgdrag bench -i" or "pgdrag tpcc load", run scripts of your '
    "own with -f, or let pgdrag make a database with --allow-change database; it is dropped afterwards."
)
_TABLES = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL"
_MAY_READ = "SELECT has_table_privilege(to_regclass(%s), 'SELECT')"
# pg_checkpoint is a role since PostgreSQL 15.
_MAY_CHECKPOINT = """
SELECT rolsuper OR EXISTS (
    SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = 'pg_checkpoint' AND pg_catalog.pg_has_role(r.oid, 'USAGE'))
  FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
