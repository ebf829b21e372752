"""A prepared transaction on an existing server; it outlives the session that prepared it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.host.error_words import words_of
from pgdrag.host.undo import Change, RestoreResult

GID_PREFIX = "pgdrag horizon holder"
_CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True)
class PreparedTransaction(Change):
    """A transaction that pgdrag prepared to hold the horizon, and that must not be committed.

    Attributes:
        gid: its identifier, drawn at random, so that no other server has one of that name.
        conninfo: libpq's, without a password: that is found in ~/.pgpass or PGPASSWORD again.
        where: the database, for people.
    """

    name: ClassVar[str] = "prepared_transaction"
    clause: ClassVar[str] = 'transaction "{gid}" was prepared in {where}'
    survives_boot: ClassVar[bool] = True
    # What this process was given; it is written nowhere.
    passwords: ClassVar[dict[str, str]] = {}

    gid: str
    conninfo: str
    where: str

    def __post_init__(self) -> None:
        if not self.gid.startswith(GID_PREFIX):
            raise ValueError(f'"{self.gid}" is not a prepared transaction of pgdrag\'s')

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Roll it back."""
        try:
            # psycopg leaves out a password of None.
            with psycopg.connect(
                self.conninfo,
                password=self.passwords.get(self.gid),
                application_name="pgdrag",
                connect_timeout=_CONNECT_TIMEOUT_S,
                autocommit=True,
            ) as connection:
                connection.execute("SET statement_timeout = '30s'")
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(self.gid))
        except psycopg.errors.UndefinedObject:
            return RestoreResult(
                "already restored", f'There is no prepared transaction "{self.gid}".'
            )
        except psycopg.Error as error:
            return RestoreResult(
                "failed",
                f'Prepared transaction "{self.gid}" may still hold the horizon of {self.where}: '
                f"{words_of(error)}. End it there with: ROLLBACK PREPARED {sql.quote(self.gid)}",
            )
        return RestoreResult("restored", f'Prepared transaction "{self.gid}" was rolled back.')
