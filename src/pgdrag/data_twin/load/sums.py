"""What must a parameter be, so that what is computed with it comes to a value? `CURRENT_DATE + $1`, `tstzrange($1, $2)`.

Pure. All are expressions of SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgdrag.data_twin.load.conditions import Item, cells_of, items_of, parameters_of

_RANGE = re.compile(r"(?:pg_catalog\.)?(?:int4|int8|num|date|ts|tstz)range\s*", re.IGNORECASE)
_ONE = re.compile(r"\(*\s*\$(\d+)\s*\)*\s*(?:::[\w ]+)?")
_OPPOSITE = {"+": "-", "-": "+"}


def solved(number: int, expression: str, wanted: str) -> str:
    """Return what a parameter has to be in a sum that is to come to a value; where it is in no sum, the value.

    Other parameters of the sum are taken to be 0.
    """
    terms = [*_terms(items_of(expression), expression)]
    own = [sign for sign, term in terms if (x := _ONE.fullmatch(term)) and int(x[1]) == number]
    rest = [(sign, term) for sign, term in terms if not parameters_of(term)]
    if not own or not rest:
        return wanted
    if own[0] == "+":
        return f"({wanted})" + "".join(f" {_OPPOSITE[sign]} ({term})" for sign, term in rest)
    # Of moments none can be added to another: that which is added comes first.
    rest.sort(key=lambda x: x[0] != "+")
    first = "" if rest[0][0] == "+" else "-"
    return f"{first}({rest[0][1]})" + "".join(f" {sign} ({term})" for sign, term in rest[1:]) + f" - ({wanted})"  # fmt: skip


def is_sum(expression: str) -> bool:
    """Whether an expression adds up several parameters, and nothing else that has some: `$1 - $2 - 7`."""
    terms = [term for _, term in _terms(items_of(expression), expression)]
    is_alone = (_ONE.fullmatch(x) is not None for x in terms if parameters_of(x))
    return len(parameters_of(expression)) > 1 and all(is_alone)


def is_range(expression: str) -> bool:
    """Whether an expression makes a range of its bounds."""
    return bool(_bounds(expression))


def in_range(number: int, expression: str, low: str, high: str) -> str:
    """Return what a parameter has to be in the making of a range that is to have these bounds.

    Of several in one bound the first is where the range begins, and the last how long it is: `daterange($1, $1 + $2)`.
    """
    begins, ends, *_ = [*_bounds(expression), "", ""]
    for bound, value in ((begins, low), (ends, high)):
        if parameters_of(bound) == [number]:
            return solved(number, bound, value)
    for bound in (begins, ends):
        several = parameters_of(bound)
        if number in several[:1]:
            return solved(number, bound, low)
        if number in several:
            return f"({high}) - ({low})" if number == several[-1] else "'0'"
    return "'[)'"


def _bounds(expression: str) -> list[str]:
    """Return the arguments of what makes a range; [] of anything else."""
    items = items_of(expression)
    if not items or not items[-1].inner or not _RANGE.fullmatch(expression[: items[-1].begin]):
        return []
    cells = filter(None, cells_of(items[-1].inner))
    return [expression[x[0].begin : x[-1].end] for x in cells]


def _terms(items: Sequence[Item], text: str, sign: str = "+") -> Iterator[tuple[str, str]]:
    """Yield the terms of a sum, each with its sign."""
    ends = [at for at, x in enumerate(items) if at and x.kind == "sign" and x.text in _OPPOSITE]
    for begin, end in zip([0, *(x + 1 for x in ends)], [*ends, len(items)], strict=True):
        own = sign if not begin or items[begin - 1].text == "+" else _OPPOSITE[sign]
        term = items[begin:end]
        if len(term) == 1 and term[0].inner:
            yield from _terms(term[0].inner, text, own)
        elif term:
            yield own, text[term[0].begin : term[-1].end]
