"""Settings that ALTER ROLE gave to a role of somebody's server, for its sessions in one database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import psycopg
from psycopg import sql

from pgdrag.host.auto_conf import same_name, same_text, set_statement
from pgdrag.host.error_words import words_of
from pgdrag.host.undo import Change, RestoreResult
from pgdrag.host.undo.reaching import (
    AnotherServer,
    Unreachable,
    end_sessions,
    failed,
    undoing,
)
from pgdrag.passwords import has_password


class RoleConf:
    """The settings of a role in a database, by name."""

    def __init__(self, lines: list[str] | None) -> None:
        parts = (line.partition("=") for line in lines or ())
        self.values = {name: value for name, _, value in parts}

    def value(self, name: str) -> str | None:
        """Return a setting's value, of a name in any case; None: it is not there."""
        known = same_name(self.values, name)
        return None if known is None else self.values[known]


@dataclass(frozen=True)
class AlteredRole(Change):
    """What a run has set with ALTER ROLE … IN DATABASE …, or is about to set.

    Attributes:
        role, database: whose sessions have it.
        system_identifier, conninfo, where, session, before, written: see `AlteredSystem`.
    """

    name: ClassVar[str] = "altered_role"
    survives_boot: ClassVar[bool] = True

    role: str
    database: str
    system_identifier: str
    conninfo: str
    where: str
    session: str
    before: Mapping[str, str | None]
    written: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if has_password(self.conninfo):
            raise ValueError("a connection string in the undo journal has no password")

    def words(self) -> str:
        """Return the role and its settings."""
        return (
            f'{", ".join(self.before)} of role "{self.role}" in {self.where}, set with ALTER ROLE'
        )

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Give the role the settings back that it had there, where nobody else has changed them."""
        who = f'Settings of role "{self.role}" in database "{self.database}" '
        left, foreign, changed = [], [], []
        try:
            with undoing(self.system_identifier, self.conninfo) as connection:
                end_sessions(connection, self.session)
                conf = read_role_conf(connection, self.role, self.database)
                if conf is None:
                    return RestoreResult("gone", f"{who}are gone with the role or the database.")
                for name, before in self.before.items():
                    now = conf.value(name)
                    if same_text(name, now, before):
                        continue
                    is_own = any(same_text(name, now, x) for x in self.written.get(name, ()))
                    if not is_own and not overwrite:
                        foreign.append(f"{name} is {'not set' if now is None else now}")
                        continue
                    try:
                        connection.execute(role_statement(self.role, self.database, name, before))
                        changed.append(name)
                    except psycopg.Error as error:
                        left.append(f"{name} ({words_of(error)})")
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
        if not changed:
            return RestoreResult("already restored", f"{who}are as they were.")
        return RestoreResult("restored", f"{who}were restored: {', '.join(changed)}.")


def read_role_conf(connection: psycopg.Connection, role: str, database: str) -> RoleConf | None:
    """Return what a role has in a database of its own; None: one of the two is not there."""
    found = connection.execute(_READ, [role, database]).fetchall()
    return RoleConf(found[0][0]) if found else None


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
