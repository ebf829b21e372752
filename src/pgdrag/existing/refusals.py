"""What does a person read where a server that exists refuses a statement, or goes away?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerLost
from pgdrag.host.error_words import words_of


def refusal(server: Server, error: psycopg.Error) -> ServerLost:
    """Return the server's or libpq's own words as an error that a person understands."""
    lacks_rights = isinstance(error, psycopg.errors.InsufficientPrivilege)
    return ServerLost(
        f"{server.name} refused: {words_of(error)}",
        detail=error.diag.message_detail,
        hint=f'Grant that to role "{server.target.user}", or connect as another one.'
        if lacks_rights
        else None,
    )


@contextmanager
def refusals_told(server: Server) -> Iterator[None]:
    """Turn what goes wrong in a block that asks a server into such an error.

    Raises:
        ServerLost: the server refuses, or does not answer.
    """
    try:
        yield
    except psycopg.Error as error:
        raise refusal(server, error) from None
