"""Where are an extension's functions in the workload's database? On a cluster of pgdrag's own they are made there.

They go into a schema of pgdrag's own, so that no name of the workload's means anything else by them. On
any other server nothing is created: a missing extension is a reason, not an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from pgdrag.collectors import Observer, Unseen
from pgdrag.errors import ServerLost
from pgdrag.servers.cluster import Cluster

# Not the superuser's name: a schema of that name is looked into, and written to, before "public".
SCHEMA = "pgdrag_extensions"
_FOUND = """
SELECT extname::text, quote_ident(nspname)
  FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
 WHERE extname = ANY (%s)
"""


def extension_schemas(observer: Observer, names: Sequence[str]) -> dict[str, str]:
    """Return the schema of each extension, quoted, in the workload's database; made first where that may be.

    Raises:
        Unseen: one is not there, and is not pgdrag's to make, or cannot be made.
    """
    found = _schemas(observer, names)
    lacking = [name for name in names if name not in found]
    if not lacking:
        return found
    if not isinstance(observer.cluster, Cluster):
        raise Unseen(
            f"extension {lacking[0]} is not in the workload's database:"
            f" CREATE EXTENSION {lacking[0]} makes it"
        )
    _make(observer.cluster, lacking)
    return _schemas(observer, names)


def _schemas(observer: Observer, names: Sequence[str]) -> dict[str, str]:
    return dict(observer.query(_FOUND, list(names)))


def _make(cluster: Cluster, names: Sequence[str]) -> None:
    made = [f"CREATE EXTENSION IF NOT EXISTS {name} SCHEMA {SCHEMA}" for name in names]
    with making_extensions(cluster, names, f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}", *made):
        pass


@contextmanager
def making_extensions(
    cluster: Cluster, names: Sequence[str], *statements: str, dbname: str = ""
) -> Iterator[psycopg.Connection]:
    """Yield a session in which these statements have made extensions.

    Args:
        names: of the extensions.
        dbname: where, if not in the workload's database.

    Raises:
        Unseen: they cannot be made.
    """
    try:
        conninfo = cluster.conninfo(application_name="pgdrag collectors")
        with psycopg.connect(
            conninfo, dbname=dbname or cluster.database, autocommit=True
        ) as connection:
            # The treatment's defaults must not prevent it.
            connection.execute("SET statement_timeout = '15s'")
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("SET client_min_messages = warning")
            for statement in statements:
                connection.execute(statement.encode())
            yield connection
    except (psycopg.Error, ServerLost) as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise Unseen(f"extension {names[0]} cannot be created: {message}") from error
