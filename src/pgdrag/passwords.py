"""Is there a password in a text, and how does the text read without it?

A last line of defence: what pgdrag itself writes has no password in it, but what a person typed, or what
libpq and the server make of it, is quoted in errors.
"""

from __future__ import annotations

import re

_HIDDEN = "***"
# password=…, as libpq's connection strings have it, also within quotes, PGPASSWORD=… and --password …; and
# user:password@ of a URI.
_KEYWORD = re.compile(
    r"""((?:\b[\w-]*passw(?:or)?d\s*=\s*|--[\w-]*passw(?:or)?d\s+(?!-)))"""
    r"""(?:'(?:[^'\\]|\\.|'')*(?:'|$)|"[^"]*"|(?:[^\s"&\\]|\\.)+)""",
    re.IGNORECASE,
)
# The password may have a @ or a / that should have been encoded: up to the last @ of the word.
_URI = re.compile(r"""(\bpostgres(?:ql)?(?:\+\w+)?://[^\s:/@"']*:)[^\s"']+@""", re.IGNORECASE)
# What a shell puts something else in the place of; and nothing, as in "PGPASSWORD= psql".
_REFERENCE = re.compile(r"""["']?\$(?:\w+|\{\w+\}|\([^()]*\))["']?|(?<=\w=)(?=\s|$)""")


def has_password(text: str) -> bool:
    """Whether a text names a password as a connection string does."""
    return without_passwords(text) != text


def has_password_in_command(text: str) -> bool:
    """Whether a shell's command names a password, and not only a variable or a file that has one."""
    return has_password(_REFERENCE.sub(_HIDDEN, text))


def without_passwords(text: str) -> str:
    """Return a text with *** in place of the passwords of connection strings and URIs."""
    hidden = _KEYWORD.sub(rf"\1{_HIDDEN}", text)
    return _URI.sub(rf"\1{_HIDDEN}@", hidden)
