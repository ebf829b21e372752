"""How are rows written without the triggers of their table?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg import sql

_TRIGGERS: LiteralString = """
SELECT tgname::text, tgenabled = 'A' FROM pg_catalog.pg_trigger
 WHERE tgrelid = pg_catalog.to_regclass(%s) AND NOT tgisinternal AND tgenabled IN ('O', 'A')
"""


@contextmanager
def without_triggers(connection: psycopg.Connection, table: tuple[str, str]) -> Iterator[None]:
    """Let a table's triggers not fire, in one transaction, at whose end they are as before."""
    name = sql.Identifier(*table)
    triggers = connection.execute(_TRIGGERS, (name.as_string(),)).fetchall()
    alter = sql.SQL("ALTER TABLE {} {} TRIGGER {}")
    with connection.transaction():
        for trigger, _ in triggers:
            connection.execute(alter.format(name, sql.SQL("DISABLE"), sql.Identifier(trigger)))
        yield
        for trigger, is_always in triggers:
            enable = sql.SQL("ENABLE ALWAYS" if is_always else "ENABLE")
            connection.execute(alter.format(name, enable, sql.Identifier(trigger)))
