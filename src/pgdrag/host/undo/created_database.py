"""A database that pgdrag created on an existing server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.host.undo import RestoreResult
from pgdrag.host.undo.reaching import (
    AnotherServer,
    ServerChange,
    Unreachable,
    end_sessions,
    failed,
    undoing,
)

_NAME = re.compile(r"pgdrag_[0-9a-f]{16}")


@dataclass(frozen=True)
class CreatedDatabase(ServerChange):
    """A database that only pgdrag creates: its name is random, and its comment says that it is pgdrag's.

    Attributes:
        database: its name.
    """

    name: ClassVar[str] = "created_database"
    clause: ClassVar[str] = 'database "{database}" was made on {where}'

    database: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.database):
            raise ValueError(f'"{self.database}" is not a database of pgdrag\'s')
        super().__post_init__()

    @property
    def mark(self) -> str:
        """Its comment."""
        return f"made by pgdrag for {self.session}; it is dropped when the run ends"

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Drop it, if it has its comment or has been given none yet."""
        try:
            with undoing(self.system_identifier, self.conninfo) as connection:
                end_sessions(connection, self.session)
                found = connection.execute(_COMMENT, [self.database]).fetchall()
                if not found:
                    return RestoreResult(
                        "already restored", f'There is no database "{self.database}".'
                    )
                if found[0][0] not in (None, self.mark) and not overwrite:
                    return RestoreResult(
                        "changed since",
                        f'Database "{self.database}" of {self.where} has another comment than pgdrag gave it, so it '
                        'was left alone. To drop it, run "pgdrag restore --overwrite".',
                    )
                connection.execute(_PATIENT)
                name = sql.Identifier(self.database)
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        except (Unreachable, AnotherServer, psycopg.Error) as error:
            return failed(f'Database "{self.database}" of {self.where} could not be dropped', error)
        return RestoreResult("restored", f'Database "{self.database}" of {self.where} was dropped.')


# It waits for a checkpoint.
_PATIENT = "SET statement_timeout = '10min'"
_COMMENT = """
SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM pg_catalog.pg_database WHERE datname = %s
"""
