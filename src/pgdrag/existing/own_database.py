"""How does a workload get a database of its own on a server that exists? It is made, and dropped in the end."""

from __future__ import annotations

import secrets

import psycopg
from psycopg import sql

from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError
from pgdrag.existing.standing import Standing
from pgdrag.host.error_words import words_of
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.logins import Login, keep_login
from pgdrag.host.undo import NotedChange, RestoreResult, UndoJournal
from pgdrag.host.undo.created_database import CreatedDatabase


class OwnDatabase:
    """A database that pgdrag has made; it is in the undo journal before it is there.

    Attributes:
        server: the way to it.
    """

    def __init__(self, noted: NotedChange, server: Server) -> None:
        self._noted, self.server = noted, server

    @classmethod
    def make(cls, standing: Standing, restart_command: str = "") -> OwnDatabase:
        """Make an empty one.

        Raises:
            ServerError: the server refuses it.
        """
        server, name = standing.server, f"pgdrag_{secrets.token_hex(8)}"
        change = CreatedDatabase(
            standing.system_identifier,
            server.public_conninfo(),
            server.name,
            f"pgdrag makes {name}",
            name,
        )
        keep_login(standing.system_identifier, Login(server.conninfo(), restart_command))
        with uninterrupted():
            noted = UndoJournal.open().note(change)
            try:
                with server.connect(application_name=change.session) as connection:
                    database = sql.Identifier(name)
                    # Not template1, in which others may be at work, or have made what the workload does not know.
                    create = sql.SQL("CREATE DATABASE {} TEMPLATE template0")
                    connection.execute(create.format(database))
                    comment = sql.SQL("COMMENT ON DATABASE {} IS {}")
                    connection.execute(comment.format(database, sql.Literal(change.mark)))
            except psycopg.Error as error:
                UndoJournal.open().restore(noted)
                raise ServerError(
                    f"could not make a database on {server.name}: {words_of(error)}",
                    hint="Grant the role CREATEDB, or name a database that has the dataset.",
                ) from None
        return cls(noted, server.in_database(name))

    def drop(self) -> RestoreResult:
        """Drop it; a failure is returned, and stays in the undo journal."""
        return UndoJournal.open().restore(self._noted)
