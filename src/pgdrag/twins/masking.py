"""How is a confidential text masked? It keeps its length, with `x` for letters and `0` for digits; other characters stay."""

from __future__ import annotations

import re

from pgdrag.literals import sql_tokens, without_literals
from pgdrag.twins import constants as sql
from pgdrag.twins.tokens import finite, is_small

# What functions of the server's own take for keywords.
_WORDS = frozenset(
    [
        "epoch",
        "day",
        "month",
        "year",
        "hour",
        "minute",
        "second",
        "week",
        "quarter",
        "dow",
        "doy",
        "isodow",
        "isoyear",
        "century",
        "decade",
        "millennium",
        "milliseconds",
        "microseconds",
        "timezone",
        "timezone_hour",
        "timezone_minute",
        "hex",
        "base64",
        "escape",
        "utc",
        "gmt",
        "sha224",
        "sha256",
        "sha384",
        "sha512",
        "md5",
        "utf8",
        "insert",
        "update",
        "delete",
        "truncate",
        "before",
        "after",
        "row",
        "statement",
        "a",
        "b",
        "c",
        "d",
        "g",
        "i",
        "gi",
        "gin",
        "default",
    ]
)
_FORMATS = frozenset({"to_char", "to_date", "to_timestamp", "to_number"})
_CONFIGURATIONS = frozenset(
    [
        "simple",
        "arabic",
        "armenian",
        "basque",
        "catalan",
        "danish",
        "dutch",
        "english",
        "estonian",
        "finnish",
        "french",
        "german",
        "greek",
        "hindi",
        "hungarian",
        "indonesian",
        "irish",
        "italian",
        "lithuanian",
        "nepali",
        "norwegian",
        "portuguese",
        "romanian",
        "russian",
        "serbian",
        "spanish",
        "swedish",
        "tamil",
        "turkish",
        "yiddish",
    ]
)
_FORMAT = re.compile(r"(?:[YyMmDdHhIiSsWwQqJj]|MON|Mon|mon|DAY|Day|day|24|12|US|MS|TZ|FM|TH|th|AM|PM|9|0|[-/:., GDLVPR])+")  # fmt: skip
_PLANNED = frozenset(["select", "insert", "update", "delete", "merge", "values", "with", "table"])
# Of other statements that are of use to a twin; of all others the first words.
_KEPT_WHOLE = frozenset(
    [
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "copy",
        "call",
        "declare",
        "fetch",
        "move",
        "close",
        "lock",
        "truncate",
        "vacuum",
        "analyze",
        "refresh",
        "reindex",
        "cluster",
        "checkpoint",
        "discard",
        "deallocate",
        "execute",
    ]
)
_SECOND_WORDS = frozenset({"role", "user", "table", "index", "view", "function", "schema", "session", "local", "all", "select", "database", "extension", "type", "sequence", "trigger", "unique", "or", "system"})  # fmt: skip
CUT_LIST = "/*, ... */"  # PostgreSQL 18 cuts lists of constants short


def masked(text: str) -> str:
    """Return a text of the same shape."""
    return "".join("0" if x.isdigit() else "x" if x.isalpha() else x for x in text)


# Of a path: a key in quotes, a flag of a pattern, another text, a number. `$."a b" ? (@ like_regex "x" flag "i")`
_PATH_PART = re.compile(r"""((?:\.\s*|\bflag\s*)"(?:[^"\\]|\\.)*"|[^\W\d][\w$]*)|("(?:[^"\\]|\\.)*"?)|(\d[\w.]*)""", re.DOTALL)  # fmt: skip
_PATH_ESCAPE = re.compile(r"\\(?:u\{[^}]*\}|u.{4}|x..|.)", re.DOTALL)


def masked_path(path: str) -> str:
    """Return a path into JSON documents with its keys, and without the texts and numbers that it compares with."""

    def written(found: re.Match[str]) -> str:
        name, text, number = found.groups()
        if name is not None:
            return str(name)
        if text is not None:
            return masked(_PATH_ESCAPE.sub("x", text))
        value = finite(number)
        return str(number) if value is not None and is_small(value) else "0"

    return _PATH_PART.sub(written, path)


def is_word_of_the_server(value: str, function: str) -> bool:
    """Whether a constant is a keyword of the function that it is given to, or of the server's triggers."""
    word = value.lower()
    if function in _FORMATS:
        return _FORMAT.fullmatch(value) is not None
    if function.startswith(("to_ts", "ts_", "websearch", "phraseto", "plainto")) or "." in word:
        word = word.rpartition(".")[2]
        return word in _CONFIGURATIONS
    return word in _WORDS


def without_comments(text: str) -> str:
    """Return an SQL text without comments; its lines stay."""
    return "".join(
        "" if x.kind == "comment" else "\n" if x.text.startswith("--") else x.text
        for x in sql_tokens(text)
    )


def is_plannable(statement: str) -> bool:
    """Whether a statement has a plan."""
    return _first_word(statement) in _PLANNED


def masked_statement(statement: str) -> str:
    """Return a statement of pg_stat_statements on one line without what is left in it of constants.

    One that has a plan can still be read by the server. Lists that PostgreSQL 18 has cut short stay marked.
    """
    text = " ".join(_without_other_comments(statement).split())
    if not is_plannable(text):
        return _utility(text)
    found = []
    for constant in sql.constants(text):
        number = finite(constant.value) if constant.is_number else None
        if number is not None and (is_small(number) or sql.is_modifier(constant)):
            continue
        words = "0" if constant.is_number else sql.string_constant(masked(constant.value))
        found.append((constant, words))
    return sql.replaced(text, found)


def _utility(text: str) -> str:
    if _first_word(text) in _KEPT_WHOLE:
        return without_literals(text)
    # GRANT, CREATE ROLE, SET …: names of people and their settings.
    words = [x.text for x in sql_tokens(text) if x.kind == "word"][:2]
    return f"{' '.join(words if words[1:] and words[1].lower() in _SECOND_WORDS else words[:1])} …"


def _without_other_comments(text: str) -> str:
    pieces = []
    for token in sql_tokens(text):
        if token.kind == "comment":
            pieces.append(CUT_LIST if token.text == CUT_LIST else " ")
        else:
            pieces.append(" " if token.kind == "blank" else token.text)
    return "".join(pieces)


def _first_word(text: str) -> str:
    return next((x.text.lower() for x in sql_tokens(text) if x.kind == "word"), "")
