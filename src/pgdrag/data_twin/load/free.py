"""Which value may a parameter have of which no row tells anything?"""

from __future__ import annotations

import re

from pgdrag.data_twin.load.statements import Analysed

NUMERIC = frozenset(["smallint", "integer", "bigint", "numeric", "real", "double precision"])
# What functions want to be told.
_UNIT = r"\bdate_trunc\s*\(\s*"
UNITS = ("day", "hour", "minute", "year")  # besides a month
_WORDS = (
    (_UNIT, "month"),
    (r"\bdate_part\s*\(\s*", "day"),
    (r"\bto_char\s*\([^$]*,\s*", "YYYY-MM"),
    (r"\btime\s+zone\s+", "UTC"),
)


def free_value(one: Analysed, number: int, now: str) -> str | None:
    """Return a value for a parameter of which no row tells anything."""
    for pattern, word in _WORDS:
        if re.search(rf"{pattern}\${number}\b", one.text, re.IGNORECASE):
            return word
    type_ = one.types[number - 1]
    name = type_.removesuffix("[]")
    if type_.endswith("[]"):
        return "{}"
    if name in NUMERIC or name == "oid":
        return "1"
    if name in ("text", "character varying", "character", "name", '"char"'):
        return "x"
    if name.startswith(("timestamp", "date")):
        return now
    known = {"boolean": "true", "interval": "1 day", "json": "{}", "jsonb": "{}", "time without time zone": "12:00", "regconfig": "simple"}  # fmt: skip
    return known.get(name)


def unit_parameters(one: Analysed) -> list[int]:
    """Return the parameters that say to which unit a time is rounded."""
    found = (re.search(rf"{_UNIT}\${x}\b", one.text, re.IGNORECASE) for x in one.parameters)
    return [number for number, is_unit in zip(one.parameters, found, strict=True) if is_unit]
