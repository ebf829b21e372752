"""How does the server write a range as text, and what are its bounds?"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOUND = r'((?:"(?:[^"\\]|\\.|"")*"|[^"\\,()\[\]]|\\.)*)'
_RANGE = re.compile(rf"([\[(]){_BOUND},{_BOUND}([\])])", re.DOTALL)
_PLAIN = re.compile(r'[^"\\,()\[\]\s]+')


@dataclass(frozen=True)
class RangeText:
    """A range that is not empty.

    Attributes:
        lower, upper: None: without end on that side.
        brackets: "[)": whether each bound is part of it.
    """

    lower: str | None
    upper: str | None
    brackets: str

    def __str__(self) -> str:
        """Return it as the server reads it."""
        return f"{self.brackets[0]}{_written(self.lower)},{_written(self.upper)}{self.brackets[1]}"


def read_range(text: str) -> RangeText | None:
    """Return the range that a text is, such as `[1,5)` or `["2000-01-01 00:00:00+00",)`; None where it is none, or empty."""
    match = _RANGE.fullmatch(text)
    return RangeText(_bound(match[2]), _bound(match[3]), match[1] + match[4]) if match else None


def bounds_of(text: str) -> list[str]:
    """Return the bounds of a range; none of what is not a range, or an empty one."""
    found = read_range(text)
    return [] if found is None else [x for x in (found.lower, found.upper) if x is not None]


def _bound(text: str) -> str | None:
    if not text:
        return None
    inner = re.sub(r'^"(.*)"$', r"\1", text, flags=re.DOTALL).replace('""', '"')
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)


def _written(bound: str | None) -> str:
    if bound is None or _PLAIN.fullmatch(bound):
        return bound or ""
    return '"' + re.sub(r'(["\\])', r"\1\1", bound) + '"'
