"""Settings made with ALTER ROLE for a role of an existing server, for its sessions in one database."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.host.auto_conf import set_statement
from pgdrag.host.undo import RestoreResult
from pgdrag.host.undo.reaching import (
    AnotherServer,
    SettingsChange,
    Unreachable,
    end_sessions,
    failed,
    refused,
    undoing,
)


@dataclass(frozen=True)
class AlteredRole(SettingsChange):
    """What a run has set with ALTER ROLE … IN DATABASE …, or is about to set.

    Attributes:
        role, database: whose sessions have it.
    """

    name: ClassVar[str] = "altered_role"

    role: str = field(kw_only=True)
    database: str = field(kw_only=True)

    def words(self) -> str:
        """Return the role and its settings."""
        return (
            f'{", ".join(self.before)} of role "{self.role}" in {self.where}, set with ALTER ROLE'
        )

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Restore the role's settings that nobody else has changed since."""
        who = f'Settings of role "{self.role}" in database "{self.database}" '
        try:
            with undoing(self.system_identifier, self.conninfo) as connection:
                end_sessions(connection, self.session)
                conf = read_role_conf(connection, self.role, self.database)
                if conf is None:
                    return RestoreResult("gone", f"{who}are gone with the role or the database.")
                changes, foreign = self.to_change(conf, overwrite=overwrite)
                left = refused(
                    connection, changes, partial(role_statement, self.role, self.database)
                )
        except (Unreachable, AnotherServer, psycopg.Error) as error:
            return failed(f"{who}could not be restored", error)
        if left:
            return RestoreResult("failed", f"{who}could not be restored: {'; '.join(left)}.")
        if foreign:
            return RestoreResult(
                "changed since",
                f"{who}were changed by someone else since pgdrag did, so they were left alone: "
                f'{", ".join(foreign)}. To restore them, run "pgdrag restore --overwrite".',
            )
        if not changes:
            return RestoreResult("already restored", f"{who}are as they were.")
        return RestoreResult("restored", f"{who}were restored: {', '.join(changes)}.")


def read_role_conf(
    connection: psycopg.Connection, role: str, database: str
) -> dict[str, str] | None:
    """Return the settings of a role in a database, by name; None: one of the two is not there."""
    found = connection.execute(_READ, [role, database]).fetchall()
    return dict(line.split("=", 1) for line in found[0][0] or ()) if found else None


def role_statement(role: str, database: str, name: str, value: str | None) -> sql.Composed:
    """Return the statement that gives a role a setting in a database, or with None takes it."""
    whose = sql.SQL("ALTER ROLE {} IN DATABASE {}").format(
        sql.Identifier(role), sql.Identifier(database)
    )
    return set_statement(name, value, command=whose)


_READ = """
SELECT s.setconfig
  FROM pg_catalog.pg_roles AS r CROSS JOIN pg_catalog.pg_database AS d
  LEFT JOIN pg_catalog.pg_db_role_setting AS s ON s.setrole = r.oid AND s.setdatabase = d.oid
 WHERE r.rolname = %s AND d.datname = %s
"""
