"""How does a statement's text read without the constants in it?

pg_stat_statements puts parameters in the place of constants, but not in all statements: passwords of roles,
connection strings of subscriptions and values of settings stay. What is kept or shown of a statement is
therefore read once more here, by the rules of the server's own scanner. Comments go, too: programs write into
them who asked, and for whom. Names of tables, columns and roles stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

HIDDEN = "?"
# As scan.l has them. What is cut off in the middle of a constant or a name ends with the text.
_TOKEN = re.compile(
    r"""
      (?P<blank>\s+|--[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\\?\Z))
    | (?P<string>(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*(?:'|\Z))
    | (?P<name>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<cut>")
    | (?P<tag>\$(?:[^\W\d]\w*)?\$)
    | (?P<parameter>\$\d+)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\.?\d(?:[eE][-+]?\d|[\w.$])*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_PART = re.compile(r"/\*|\*/")
# These set something to what may stand there as a bare word.
_SETS = re.compile(r"(?:SET|ALTER (?:SYSTEM|ROLE|USER|DATABASE))\b", re.IGNORECASE)
_VALUE = re.compile(r"(?:=|\bTO\b).*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class SqlToken:
    """A piece of a statement's text.

    Attributes:
        kind: "blank" (with `--` comments), "comment", "string" (however quoted), "number", "name" (in double quotes),
            "parameter", "word", "other" (one character), or "cut": from here on nothing is certain.
    """

    kind: str
    text: str


def sql_tokens(statement: str) -> Iterator[SqlToken]:
    """Yield the pieces of a statement, which are together its text."""
    at = 0
    while at < len(statement):
        token = _TOKEN.match(statement, at)
        assert token is not None, "any character is a token"
        begin, at, kind = at, token.end(), token.lastgroup or ""
        match kind:
            case "comment":
                at = _after_comment(statement, at)
            case "tag":
                end = statement.find(token[0], at)
                at = len(statement) if end < 0 else end + len(token[0])
                kind = "string"
            case "string" if "\\'" in token[0]:
                # With standard_conforming_strings off the quote behind the backslash does not end it.
                kind, at = "cut", len(statement)
            case "cut":
                at = len(statement)
            case "escaped":
                kind = "string"
        yield SqlToken(kind, statement[begin:at])


def without_literals(statement: str) -> str:
    """Return a statement on one line, with `?` for each constant and without comments.

    Where it cannot be told where a constant ends, all that follows is hidden.
    """
    parts = [
        " "
        if token.kind in ("blank", "comment")
        else HIDDEN
        if token.kind in ("string", "number", "cut")
        else token.text
        for token in sql_tokens(statement)
    ]
    line = " ".join("".join(parts).split())
    return (
        _VALUE.sub(lambda found: f"{found[0][: 1 if found[0][0] == '=' else 2]} {HIDDEN}", line)
        if _SETS.match(line)
        else line
    )


def _after_comment(statement: str, at: int) -> int:
    """Return where a comment ends whose beginning is before `at`; comments nest."""
    depth = 1
    while depth:
        found = _COMMENT_PART.search(statement, at)
        if found is None:
            return len(statement)
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at
