"""How does a database of SQLite's change into another one? Of bytes changed at random, most say that the file is damaged."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from typing import Any

from json_changes import changed_json

FOREIGN = (
    None, 0, 1, -1, 7, 2**31, 2**62, 2**63 - 1, -(2**63), 0.0, 0.5, -1e-300, 1e12, 1e299, -1e299, float("inf"),
    "", "x", "7", "running", "measured", "\0", "\x1b[2J", "Ω" * 300, b"", b"\xff\xfe", "[]", "{}", '{"kind": []}',
)  # fmt: skip
_FORMAT_VERSIONS = slice(18, 20)  # of a file's header: 1 a rollback journal, 2 a write-ahead log
_IN_MEMORY = b"\1\1"  # where there can be no log


def changed_sqlite(content: bytes, draw: random.Random) -> bytes | None:
    """Return a database with one to three of its cells or rows changed; None: it is none, or empty."""
    if len(content) < 100:  # its header
        return None
    image = bytearray(content)
    image[_FORMAT_VERSIONS] = _IN_MEMORY
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        try:
            db.deserialize(bytes(image))
            tables = [
                x for (x,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            tables = [x for x in tables if db.execute(f"SELECT 1 FROM [{x}]").fetchone()]
            for _ in range(draw.randint(1, 3) if tables else 0):
                with suppress(
                    sqlite3.IntegrityError, sqlite3.InterfaceError
                ):  # a key that is there
                    _change(db, draw.choice(tables), draw)
        except (sqlite3.Error, ValueError, MemoryError, OverflowError):
            return None
        image = bytearray(db.serialize())
    image[_FORMAT_VERSIONS] = content[_FORMAT_VERSIONS]
    return bytes(image)


def _change(db: sqlite3.Connection, table: str, draw: random.Random) -> None:
    rows = db.execute(f"SELECT * FROM [{table}]").fetchall()
    columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info([{table}])")]
    if not rows:
        return
    row, at = list(draw.choice(rows)), draw.randrange(len(columns))
    whole = " AND ".join(f"[{x}] IS ?" for x in columns)
    if draw.random() < 0.1:
        db.execute(f"DELETE FROM [{table}] WHERE {whole}", row)
        return
    of_others = [x[at] for x in rows]
    value = _changed(row[at], of_others, draw)
    if draw.random() < 0.2:
        row[at] = value
        db.execute(f"INSERT INTO [{table}] VALUES ({', '.join('?' * len(row))})", row)
    else:
        db.execute(f"UPDATE [{table}] SET [{columns[at]}] = ? WHERE {whole}", (value, *row))


def _changed(value: Any, of_others: list[Any], draw: random.Random) -> Any:
    match draw.randrange(4):
        case 0:
            return draw.choice(of_others)
        case 1 if isinstance(value, int | float) and abs(value) < 1e15:
            return type(value)(draw.choice((-1, 0, 1, 10, 1000)) * value + draw.choice((-1, 0, 1)))
        case 1 if isinstance(value, str) and (other := changed_json(value.encode(), draw)):
            return other.decode()
        case _:
            # Most of another type are refused at once.
            same = [x for x in FOREIGN if isinstance(x, type(value))]
            return draw.choice(same if same and draw.random() < 0.8 else FOREIGN)
