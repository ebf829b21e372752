"""Which roles does a throw-away cluster have, what may each do, and who has a password?"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import Connection, sql

# pgdrag's own sessions, which look up no name in a schema that others may write to.
SUPERUSER = "pgdrag"
DATABASE = "pgdrag"
# The workload's sessions. It may do nothing beyond the database, which is not its own, since an owner decides
# what settings the superuser's sessions begin with: SQL of an experiment is not to run programs by COPY.
LOAD_ROLE = "load"
# Those of a workload that says that it needs more.
LOAD_SUPERUSER = "load_superuser"
# Those of collectors that run the workload's statements: with its rights, but neither logged nor tracked.
PROBE_ROLE = "load_looked_at"
# Not the superuser's name: a schema of that name would be looked into before "public".
EXTENSIONS_SCHEMA = "pgdrag_extensions"
# What keeps a session's statements out of the log and of pg_stat_statements, if a superuser says so.
QUIET_SETTINGS: Mapping[str, str] = {
    "log_min_messages": "fatal",
    "log_lock_waits": "off",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_duration": "off",
    "pg_stat_statements.track": "none",
}
# Of a session that must write, whatever the treatment sets, and wait for no standby.
_ABLE_TO_WRITE = {
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "synchronous_commit": "off",
}
_SINCE_17 = {"transaction_timeout": "0"}


def roles_sql() -> str:
    """Return the statements, one a line, that make the roles and the database in a new cluster."""
    quiet = (
        f"ALTER ROLE {PROBE_ROLE} SET {name} = '{value}'" for name, value in QUIET_SETTINGS.items()
    )
    return "".join(
        f"{statement}\n"
        for statement in (
            f"ALTER ROLE {SUPERUSER} SET search_path = pg_catalog",
            f"CREATE ROLE {LOAD_ROLE} LOGIN",
            f"CREATE ROLE {LOAD_SUPERUSER} SUPERUSER LOGIN",
            f"CREATE ROLE {PROBE_ROLE} LOGIN IN ROLE {LOAD_ROLE}",
            f"ALTER ROLE {PROBE_ROLE} SET role = {LOAD_ROLE}",
            *quiet,
            # In the database from which that of the workload is made.
            f"ALTER SCHEMA public OWNER TO {LOAD_ROLE}",
            # Whoever makes it owns what is made in it by the superuser, or has put something there before.
            f"CREATE SCHEMA {EXTENSIONS_SCHEMA}",
            f"CREATE DATABASE {DATABASE}",
            f"GRANT CREATE ON DATABASE {DATABASE} TO {LOAD_ROLE}",
        )
    )


def settings_to_write(version_num: int) -> Mapping[str, str]:
    """Return the settings with which a session can write without waiting, whatever the treatment sets."""
    return {**_ABLE_TO_WRITE, **(_SINCE_17 if version_num >= 170000 else {})}


def set_password(connection: Connection, role: str, password: str) -> None:
    """Give a role its password, as a verifier.

    Raises:
        psycopg.Error: the server refuses it.
    """
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    name, secret = sql.Identifier(role), sql.Literal(verifier.decode())
    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, secret))
