"""On which line of a TOML document does each key stand?

`tomllib` keeps no positions. This reads a document that `tomllib` has accepted once more, for its
keys alone: it may therefore trust the syntax, and leaves the values to `tomllib`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Generator, Iterator

KeyPath = tuple[
    str | int, ...
]  # ("rungs", 0, "setting", "work_mem"): the index of an array's element


class KeyLines:
    """Where every key of a document stands; paths are those that one walks in tomllib's answer."""

    def __init__(self, text: str) -> None:
        """Read a document.

        Args:
            text: TOML that `tomllib.loads` accepts; anything else gives lines without meaning.
        """
        # tomllib takes \r\n for a newline; a newline is all that counts here.
        self._newlines = [at for at, character in enumerate(text) if character == "\n"]
        self._key_at: dict[KeyPath, int] = {}
        self._text_at: dict[KeyPath, int] = {}
        for path, key_at, text_at in _Scanner(text).found():
            self._key_at.setdefault(path, key_at)
            if text_at is not None:
                self._text_at.setdefault(path, text_at)

    def __contains__(self, path: KeyPath) -> bool:
        return path in self._key_at

    def line(self, path: KeyPath) -> int:
        """Return the line, from 1, of the key; of the nearest table around it if it is not there."""
        while path and path not in self._key_at:
            path = path[:-1]
        return self._line_of(self._key_at[path]) if path else 1

    def line_of_text(self, path: KeyPath) -> int:
        '''Return the line on which a string's text begins: after `"""` and a newline, the next.'''
        return self._line_of(self._text_at[path]) if path in self._text_at else self.line(path)

    def _line_of(self, at: int) -> int:
        return bisect_right(self._newlines, at - 1) + 1


_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    # A closing delimiter may follow upon one or two quotes of the text itself.
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_OPENING_QUOTES = re.compile(r"(?:\"\"\"|''')(?:\r?\n)?|[\"']")
_OTHER_VALUE = re.compile(r"[^,\]}\n#]*")

_Found = tuple[KeyPath, int, int | None]  # path, where the key begins, where a string's text begins


class _Scanner:
    """Goes through a document once, from the front to the back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._array_lengths: dict[KeyPath, int] = {}  # of the arrays of tables met so far

    def found(self) -> Iterator[_Found]:
        """Yield every key and array element in the order in which they stand."""
        table: KeyPath = ()
        while opening := self._next():
            if opening == "[":
                table = yield from self._header()
            else:
                yield from self._pair(table)

    def _header(self) -> Generator[_Found, None, KeyPath]:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        parts = self._key()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for number, (part, key_at) in enumerate(parts, start=1):
            path = (*path, part)
            yield path, key_at, None
            if is_array and number == len(parts):
                self._array_lengths[path] = self._array_lengths.get(path, 0) + 1
            if path in self._array_lengths:
                path = (*path, self._array_lengths[path] - 1)
                yield path, key_at, None
        return path

    def _pair(self, path: KeyPath) -> Iterator[_Found]:
        *outer, (last, last_at) = self._key()
        self._at += 1  # "="
        for part, key_at in outer:
            path = (*path, part)
            yield path, key_at, None
        yield from self._value((*path, last), last_at)

    def _value(self, path: KeyPath, key_at: int | None = None) -> Iterator[_Found]:
        """Read the value of a key, or an element of an array, which is where it begins itself."""
        opening = self._next()
        quotes = _OPENING_QUOTES.match(self._text, self._at)
        text_at = None if quotes is None else quotes.end()
        yield path, self._at if key_at is None else key_at, text_at
        if opening not in "[{":
            self._go_past(_OTHER_VALUE if quotes is None else _STRING)
            return
        self._at += 1
        index = 0
        while self._next() not in "]}":
            yield from self._value((*path, index)) if opening == "[" else self._pair(path)
            index += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _key(self) -> list[tuple[str, int]]:
        """Read a key, dotted or not, and the space around it: each part, and where it begins."""
        parts = []
        while True:
            is_quoted = self._next() in "\"'"
            begin = self._at
            word = self._go_past(_STRING if is_quoted else _BARE_KEY)
            # tomllib knows the escapes; a quoted key has the syntax of a string.
            parts.append((tomllib.loads(f"key = {word}")["key"] if is_quoted else word, begin))
            if self._next() != ".":
                return parts
            self._at += 1

    def _next(self) -> str:
        """Go past space and comments, and return the next character, or "" at the end."""
        self._go_past(_SPACE)
        return self._text[self._at : self._at + 1]

    def _go_past(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, f"TOML that tomllib would not accept, at character {self._at}"
        self._at = found.end()
        return found[0]
