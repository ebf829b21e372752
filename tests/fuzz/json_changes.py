"""How does JSON change into other JSON? Of bytes changed at random, hardly any are JSON still, so that nothing behind the parser is reached."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

FOREIGN = (
    None, True, False, 0, 1, -1, 7, 0.5, -0.0, 1e308, -1e308, 2**31, 2**63, -(2**63), 10**400, float("nan"), float("inf"),
    "", "x", "0", "-1", "1e999", "\0", "\ud800", "Ω" * 300, "2026-01-01", [], {}, [[]], [None], [0, ""], {"": None}, {"kind": []},
)  # fmt: skip


def changed_json(content: bytes, draw: random.Random) -> bytes | None:
    """Return a document, or one of several on a line each, with one to three of its values changed; None: it is none."""
    documents = _documents(content)
    if not documents:
        return None
    change_documents(documents, draw)
    return b"\n".join(json.dumps(x, separators=(",", ":")).encode() for x in documents)


def change_documents(documents: list[Any], draw: random.Random) -> None:
    """Change one to three values, each of a list or an object, which may be the whole of a document."""
    for _ in range(draw.randint(1, 3)):
        _change(documents, draw)


def _documents(content: bytes) -> list[Any]:
    found = []
    for text in (content, *content.splitlines()):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            if isinstance(document, list | dict):
                found.append(document)
        if found and text is content:
            break
    return found


def _change(documents: list[Any], draw: random.Random) -> None:
    containers = list(_containers(documents))
    within = draw.choice([x for x in containers if x])
    key = draw.choice(list(within)) if isinstance(within, dict) else draw.randrange(len(within))
    match draw.randrange(6):
        case 0 if within is not documents:
            del within[key]
        case 1:
            elsewhere = draw.choice([x for x in containers if x])
            values = list(elsewhere.values()) if isinstance(elsewhere, dict) else elsewhere
            within[key] = copy.deepcopy(draw.choice(values))
        case 2 if isinstance(within, list):
            within.insert(key, copy.deepcopy(within[key]))
        case 3 if isinstance(within[key], int | float) and abs(within[key]) < 1e9:
            within[key] = draw.choice((-1, 0, 10, 0.1)) * within[key] + draw.choice((-1, 0, 1))
        case 4 if isinstance(within, dict):
            within[draw.choice(("", "x", key + "x", "kind"))] = within.pop(key)
        case _:
            within[key] = copy.deepcopy(draw.choice(FOREIGN))


def _containers(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | dict):
            yield one
            waiting += one.values() if isinstance(one, dict) else one
