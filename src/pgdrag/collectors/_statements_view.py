"""Where is pg_stat_statements? In the schema that its extension was made in."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from pgdrag.collectors import Observer

EXTENSION = "pg_stat_statements"
_EXTENSION: LiteralString = """
SELECT quote_ident(nspname), extversion
  FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
 WHERE extname = 'pg_stat_statements'
"""


class Extension(NamedTuple):
    """pg_stat_statements, as a database has it.

    Attributes:
        view: with its schema, quoted where necessary.
        version: of the extension, which is not the server's: (1, 11).
    """

    view: str
    version: tuple[int, ...]


def find_extension(observer: Observer) -> Extension | None:
    """Return where pg_stat_statements is in the observer's database; None: nowhere.

    Raises:
        Unseen: see `Observer.query`.
    """
    found = observer.query(_EXTENSION)
    if not found:
        return None
    schema, version = found[0]
    return Extension(f"{schema}.{EXTENSION}", tuple(int(x) for x in version.split(".")))
