"""How does the server split one line of postgresql.conf into a name and a value?

Its rules are those of guc-file.l; `pgdrag.servers.conf` is the door to use from elsewhere.
"""

from __future__ import annotations

import re

Setting = tuple[str, str]

# Every byte from 0x80 is a letter to the server, so every character beyond ASCII is.  Classes are said by
# what is not in them: one that reaches to U+10FFFF takes `re` 5 to 40 ms, at each start of pgdrag.
_OTHERS = r"\x00-,;-@\[-\^`{-\x7f"  # neither in a word nor in a name
_NO_NAME = rf"{_OTHERS}\-./:"
IDENTIFIER = rf"[^{_NO_NAME}0-9][^{_NO_NAME}]*"
NAME = re.compile(rf"{IDENTIFIER}(?:\.{IDENTIFIER})?")
STRING = re.compile(r"'(?:[^'\\\n\0]|\\[^\n\0]|'')*'")
INCLUDES = ("include", "include_if_exists", "include_dir")

# The longest match wins, and among equals the first: hence `b.c` is a qualified name, which is no
# value, while `b.c.d` is a word, which is one.  NUL is left out of strings: the server would cut.
_TOKENS = [
    ("blank", re.compile(r"[ \t\r]+")),
    ("blank", re.compile(r"#[^\n]*")),
    ("id", re.compile(IDENTIFIER)),
    ("qualified", re.compile(rf"{IDENTIFIER}\.{IDENTIFIER}")),
    ("string", STRING),
    ("word", re.compile(rf"[^{_NO_NAME}0-9][^{_OTHERS}]*")),
    ("integer", re.compile(r"[-+]?[0-9]+[A-Za-z]*")),
    ("integer", re.compile(r"[-+]?0x[0-9a-fA-F]+[A-Za-z]*")),
    ("real", re.compile(r"[-+]?[0-9]*\.[0-9]*(?:[Ee][-+]?[0-9]+)?")),
    ("equals", re.compile("=")),
]
VALUE_KINDS = ("id", "string", "integer", "real", "word")


class LineError(Exception):
    """Why one line cannot be read; an include is told apart from a syntax error."""

    def __init__(self, message: str, *, is_include: bool = False, hint: str | None = None) -> None:
        super().__init__(message)
        self.is_include = is_include
        self.hint = hint


def fold(name: str) -> str:
    """Return the form in which two names of the same setting are equal (ASCII lower case)."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)


def lex(source: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each token of one line; a character that fits nowhere is "error"."""
    tokens, at = [], 0
    while at < len(source):
        kind, text = "error", source[at]
        longest = 0
        for candidate, pattern in _TOKENS:
            match = pattern.match(source, at)
            if match and len(match[0]) > longest:
                kind, text, longest = candidate, match[0], len(match[0])
        at += len(text)
        if kind != "blank":
            tokens.append((kind, text))
        if kind == "error":
            break
    return tokens


def parse_line(source: str) -> Setting | None:
    """Return (name, value) as the server reads the line, or None for an empty one."""
    tokens = lex(source)
    if not tokens:
        return None
    rest = iter([*tokens, ("end", "")])
    kind, name = next(rest)
    if kind not in ("id", "qualified"):
        raise _syntax_error(kind, name)
    kind, value = next(rest)
    if kind == "equals":
        kind, value = next(rest)
    if kind not in VALUE_KINDS:
        raise _syntax_error(kind, value)
    after, text = next(rest)
    if after != "end":
        raise _syntax_error(after, text)
    if fold(name) in INCLUDES:
        raise LineError(name, is_include=True)
    return name, unescape(value) if kind == "string" else value


def _syntax_error(kind: str, text: str) -> LineError:
    near = "near end of line" if kind == "end" else f'near token "{text}"'
    return LineError(f"syntax error {near}")


_ESCAPE = re.compile(r"''|\\([0-7]{1,3})|\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescape(quoted: str) -> str:
    """Return what stands between the quotes; octal escapes are bytes, and a NUL ends the value."""

    def character(match: re.Match[str]) -> str:
        octal, letter = match.groups()
        if octal is not None:
            byte = int(octal, 8) & 0xFF
            # A lone byte stays a surrogate until its neighbours are known.
            return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)
        return "'" if letter is None else _ESCAPED.get(letter, letter)

    value = _ESCAPE.sub(character, quoted[1:-1])
    if "\\" in quoted:
        value = _SURROGATES.sub(_join_bytes, value)
    return value.split("\0", 1)[0]


_SURROGATES = re.compile(r"[\udc80-\udcff]+")


def _join_bytes(match: re.Match[str]) -> str:
    return match[0].encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
