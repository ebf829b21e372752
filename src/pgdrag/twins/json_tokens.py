"""What takes the place of a JSON document? One of the same shape, with tokens for its strings, keys and numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Any

from pgdrag.twins.tokens import number_tokens, text_tokens


class JsonTokens:
    """Tokens of all documents of a class; keys and strings that are equal have equal tokens."""

    def __init__(
        self,
        documents: Iterable[str],
        rng: random.Random,
        *,
        kept_keys: Collection[str] = frozenset(),
        avoid: Collection[str] = frozenset(),
        avoided_numbers: Collection[Decimal] = frozenset(),
    ) -> None:
        """Make them.

        Args:
            kept_keys: that the schema names.
        """
        self._keys: dict[str, str] = {}
        self._strings: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        for document in documents:
            self._gather(_read(document))
        free = sorted(set(self._keys) - set(kept_keys))
        self._keys = text_tokens(free, avoid=avoid, is_free=True) | {x: x for x in kept_keys}
        self._strings = text_tokens(sorted(self._strings), avoid=avoid, is_free=True)
        # Amounts with cents say nothing of where small counts must go.
        whole = {x for x in self._numbers if x.lstrip("-").isdecimal()}
        self._numbers = number_tokens(whole, rng, avoid=avoided_numbers) | number_tokens(
            set(self._numbers) - whole, rng, avoid=avoided_numbers
        )

    def of(self, document: str) -> str:
        """Return the token of a document, as jsonb is written."""
        return self._written(_read(document))

    def _gather(self, value: Any) -> None:
        match value:
            case dict():
                for key, inner in value.items():
                    self._keys[key] = key
                    self._gather(inner)
            case list():
                for inner in value:
                    self._gather(inner)
            case str():
                self._strings[value] = value
            case Decimal():
                self._numbers[str(value)] = ""

    def _written(self, value: Any) -> str:
        match value:
            case dict():
                pairs = (
                    f"{_string(self._keys[key])}: {self._written(inner)}"
                    for key, inner in value.items()
                )
                return "{" + ", ".join(pairs) + "}"
            case list():
                return "[" + ", ".join(map(self._written, value)) + "]"
            case str():
                return _string(self._strings[value])
            case Decimal():
                return self._numbers.get(str(value), "0")
            case _:
                return json.dumps(value)


def is_document(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    if text[:1] not in ("{", "["):
        return False
    try:
        _read(text)
    except ValueError:
        return False
    return True


def leaves(document: str) -> set[str]:
    """Return all strings and numbers of a document as text, without its keys."""
    found: set[str] = set()

    def gather(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                gather(inner)
        elif isinstance(value, str | Decimal):
            found.add(str(value))

    gather(_read(document))
    return found


def _read(document: str) -> Any:
    return json.loads(document, parse_float=Decimal, parse_int=Decimal)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
