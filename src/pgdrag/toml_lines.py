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
_STRINGS = (
    # A closing delimiter may follow upon one or two quotes of the text itself.
    re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}"),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
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
        self._skip_space()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = yield from self._header()
            else:
                yield from self._pair(table)
            self._skip_space()

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

    def _pair(self, table: KeyPath) -> Iterator[_Found]:
        parts = self._key()
        self._at += 1  # "="
        self._skip_space()
        path = table
        for part, key_at in parts[:-1]:
            path = (*path, part)
            yield path, key_at, None
        last, key_at = parts[-1]
        path = (*path, last)
        yield path, key_at, self._text_begin()
        yield from self._value(path)

    def _value(self, path: KeyPath) -> Iterator[_Found]:
        match self._text[self._at]:
            case "[":
                yield from self._array(path)
            case "{":
                yield from self._inline_table(path)
            case '"' | "'":
                self._string()
            case _:
                self._at = _end(_OTHER_VALUE, self._text, self._at)

    def _array(self, path: KeyPath) -> Iterator[_Found]:
        self._at += 1
        self._skip_space()
        index = 0
        while self._text[self._at] != "]":
            yield (*path, index), self._at, self._text_begin()
            yield from self._value((*path, index))
            self._skip_comma()
            index += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> Iterator[_Found]:
        self._at += 1
        self._skip_space()
        while self._text[self._at] != "}":
            yield from self._pair(path)
            self._skip_comma()
        self._at += 1

    def _key(self) -> list[tuple[str, int]]:
        """Read a key, dotted or not, and the space around it: each part, and where it begins."""
        parts = []
        while True:
            self._skip_space()
            begin = self._at
            if self._text[begin] in "\"'":
                # tomllib knows the escapes; a quoted key has the syntax of a string.
                parts.append((tomllib.loads(f"key = {self._string()}")["key"], begin))
            else:
                self._at = _end(_BARE_KEY, self._text, begin)
                parts.append((self._text[begin : self._at], begin))
            self._skip_space()
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _string(self) -> str:
        begin = self._at
        for kind in _STRINGS:
            found = kind.match(self._text, begin)
            if found is not None:
                self._at = found.end()
                break
        return self._text[begin : self._at]

    def _text_begin(self) -> int | None:
        quotes = _OPENING_QUOTES.match(self._text, self._at)
        return None if quotes is None else quotes.end()

    def _skip_comma(self) -> None:
        self._skip_space()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_space()

    def _skip_space(self) -> None:
        self._at = _end(_SPACE, self._text, self._at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    assert found is not None, f"TOML that tomllib would not accept, at character {at}"
    return found.end()
