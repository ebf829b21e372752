"""How does the server write an array as text, and what is in it?"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEEDS_QUOTES = re.compile(r'[{}",\\\s]')
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^"\\{},]|\\.)+)', re.DOTALL)


def array_elements(text: str) -> list[str | None]:
    """Return the elements of an array of one dimension, such as `{a,"b c",NULL}`; None is NULL.

    Raises:
        ValueError: it has several dimensions, or is not an array.
    """
    begin = text.find("{") if text.startswith("[") else 0  # "[0:1]={a,b}"
    if not text.endswith("}") or text[begin : begin + 1] != "{":
        raise ValueError("not an array")
    found: list[str | None] = []
    at, end = begin + 1, len(text) - 1
    while at < end:
        match = _ELEMENT.match(text, at, end)
        if match is None:
            raise ValueError("an array of several dimensions")
        is_quoted = match[1] is not None
        element = match[1] if is_quoted else match[2]
        if "\\" in element:
            element = re.sub(r"\\(.)", r"\1", element, flags=re.DOTALL)
        found.append(None if not is_quoted and element.upper() == "NULL" else element)
        at = match.end()
        if at < end:
            if text[at] != ",":
                raise ValueError("not an array")
            at += 1
    return found


def array_text(elements: Iterable[str | None]) -> str:
    """Return elements as the server reads them as an array."""
    return "{" + ",".join("NULL" if x is None else _element(x) for x in elements) + "}"


def _element(text: str) -> str:
    if text and not _NEEDS_QUOTES.search(text) and text.upper() != "NULL":
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
