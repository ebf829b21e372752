"""Which values does a server's database have? Those that statistics show, and those of some rows: to search a twin for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from pgdrag.capture.schema import OURS
from pgdrag.capture.statistics import read_statistics
from pgdrag.collectors import Observer, Unseen, attempt
from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError
from pgdrag.live.server import ExistingServer
from pgdrag.twins.array_text import array_elements
from pgdrag.twins.json_tokens import leaves
from pgdrag.twins.range_text import bounds_of
from pgdrag.twins.tokens import finite, moment_of

APPLICATION_NAME = "pgdrag twin show"
_TABLES: LiteralString = (
    "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND has_table_privilege(c.oid, 'SELECT') AND "
    + OURS
)
_ENUMS: LiteralString = "SELECT enumlabel::text FROM pg_enum"
_SESSION: LiteralString = """
SELECT set_config(name, value, false)
  FROM (VALUES ('DateStyle', 'ISO, YMD'), ('TimeZone', 'UTC'), ('bytea_output', 'hex'), ('extra_float_digits', '1'),
               ('application_name', 'pgdrag twin show')) AS wanted (name, value)
"""


def original_values(server: Server, *, rows: int = 0) -> set[str]:
    """Return values of a database: those in pg_stats, and the text of up to `rows` rows of each table.

    Numbers and dates of rows are not among them: of many rows any number is one's.

    Raises:
        ServerLost: the server does not answer.
        ServerError: it refuses.
    """
    connection = server.connect(application_name=APPLICATION_NAME)
    try:
        observer = Observer(ExistingServer(server, connection), connection)
        observer.query("SELECT 1")
        observer.query(_SESSION)
        return set(_values(observer, rows))
    except Unseen as unseen:
        raise ServerError(f"could not read {server.name}: {unseen.reason}") from unseen
    finally:
        connection.close()


def _values(observer: Observer, rows: int) -> Iterator[str]:
    for one in read_statistics(observer):
        for text in (
            one.most_common,
            one.histogram,
            one.elements,
            one.range_bounds,
            one.range_lengths,
        ):
            yield from _parts(text)
    for (label,) in observer.query(_ENUMS):
        yield label
    tables = [name for (name,) in observer.query(_TABLES.replace("%%", "%"))] if rows else []
    for name in tables:
        # Its name is from the catalogs, and quoted there.
        sql: LiteralString = f"SELECT value FROM (SELECT * FROM {name} LIMIT {rows}) AS t, jsonb_each_text(to_jsonb(t)) AS f(key, value)"
        found = attempt(lambda sql=sql: observer.query(sql))  # type: ignore[misc]
        for (value,) in () if isinstance(found, Unseen) else found:
            if value is not None:
                yield from (x for x in _part(value) if finite(x) is None and moment_of(x) is None)


def _parts(text: str | None) -> Iterator[str]:
    if not text:
        return
    try:
        for element in array_elements(text):
            if element is not None:
                yield from _part(element)
    except ValueError:
        yield text


def _part(value: str) -> Iterator[str]:
    """Yield a value, and what is in it: elements of arrays, strings of documents."""
    yield value
    yield from bounds_of(value)
    if value[:1] in ("{", "["):
        try:
            yield from leaves(value)
        except ValueError:
            yield from (x for x in _elements(value) if x != value)


def _elements(value: str) -> list[str]:
    try:
        return [x for x in array_elements(value) if x is not None]
    except ValueError:
        return []
