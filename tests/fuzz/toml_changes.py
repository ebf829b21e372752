"""How does TOML change into other TOML? Of bytes changed at random, hardly any still say something of an experiment."""

from __future__ import annotations

import json
import random
import tomllib
from typing import Any

from json_changes import change_documents


def changed_toml(content: bytes, draw: random.Random) -> bytes | None:
    """Return a document with one to three of its values changed, without its comments; None: it is none."""
    try:
        document = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    documents: list[Any] = [document]
    change_documents(documents, draw)
    # What came of the document itself may be no table, or two.
    tables = [x for x in documents if isinstance(x, dict)] or [{}]
    lines = [f"{json.dumps(key)} = {_written(value)}" for key, value in tables[-1].items()]
    return "\n".join(lines).encode(errors="replace")


def _written(value: Any) -> str:
    match value:
        case dict():
            return f"{{{', '.join(f'{json.dumps(x)} = {_written(y)}' for x, y in value.items())}}}"
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return str(value).lower()
        case None:
            return '""'  # TOML has none
        case _:  # numbers, dates
            return str(value)
