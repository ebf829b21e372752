"""How does the server read a line of postgresql.conf, and how is a file written for it?

The rules are those of guc-file.l. Which settings exist, `pgdrag.servers.settings` knows; what people write
instead of what the server reads, `pgdrag.experiment.pasted`.

Text goes in and comes out as `str`; the caller reads and writes the file as UTF-8 with
`errors="surrogateescape"` and `newline=""`, so that no byte is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_lowercase, ascii_uppercase

from pgdrag.errors import ConfError

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


def is_name(text: str) -> bool:
    """Tell whether a file can set something of this name: `work_mem`, or `my_app.user_id`."""
    return NAME.fullmatch(text) is not None


def quote(value: str) -> str:
    """Return a value in quotes, as postgresql.conf has them.

    Raises:
        ConfError: the value has a newline (ALTER SYSTEM refuses it, too) or a NUL.
    """
    for character, what in (("\n", "a newline"), ("\0", "a NUL character")):
        if character in value:
            raise ConfError(f"value {value!r} must not contain {what}")
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def write_conf(
    settings: Mapping[str, str], *, header: str = "", comments: Mapping[str, str] | None = None
) -> str:
    """Return a postgresql.conf of these settings, every value quoted, below header as a comment.

    Args:
        comments: by name, what to write above a setting's line.

    Raises:
        ConfError: a name or value that the server could not read back, or one setting twice.
    """
    lines = [f"# {line}".rstrip() for line in header.split("\n")] if header else []
    seen: dict[str, str] = {}
    for name, value in settings.items():
        if not is_name(name):
            raise ConfError(f'"{name}" cannot be the name of a setting')
        if fold(name) in INCLUDES:
            raise ConfError(f'cannot write "{name}": all settings must be in this file')
        if fold(name) in seen:
            raise ConfError(f'"{seen[fold(name)]}" and "{name}" are the same setting')
        seen[fold(name)] = name
        lines += [f"# {line}" for line in (comments or {}).get(name, "").splitlines()]
        lines.append(f"{name} = {quote(value)}")
    return "".join(line + "\n" for line in lines)


class LineError(Exception):
    """Why one line cannot be read."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(name: str) -> str:
    """Return the form in which two names of the same setting are equal (ASCII lower case)."""
    return name.translate(_LOWER)


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
    """Return (name, value) as the server reads the line, or None for an empty one.

    A directive of `INCLUDES` and the path after it look the same.

    Raises:
        LineError: the server would refuse the line, in its words.
    """
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
