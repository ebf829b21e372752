"""A database like a twin's original: its schema, rows that fit its statistics, and its load.

`making.restore_rows` makes schema and rows in an empty database; `load/` makes what the driver does there. What is found
out meanwhile is kept in the database, in the schema `OWN_SCHEMA`. Whoever only asks how large it will be (`sizes.py`)
needs no server and no arrays.
"""

from collections.abc import Callable

OWN_SCHEMA = "pgdrag_twin"
# What is done, how far it is, and how far it goes: rows of "populate", steps of everything else.
Step = Callable[[str, int, int], None]
