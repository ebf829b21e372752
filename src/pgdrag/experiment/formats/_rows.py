"""Which rows of pg_settings were set for the whole server?"""

from __future__ import annotations

_NOT_SET = {
    "default": "at the default there",
    "client": "part of the session that asked",
    "session": "part of the session that asked",
    "override": "set by that server itself",
    "database": "for one database only",
    "user": "for one role only",
    "database user": "for one role in one database only",
}


def why_not_set(source: str) -> str:
    """Return why a row applies to one session only, from its column `source`; "" if it applies to all."""
    return _NOT_SET.get(source.lower(), "")
