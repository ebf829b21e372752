"""How does a statement of pg_stat_statements become one that the grammar takes, and one that is explained?

It has parameters where constants were, also where the grammar wants a constant: `interval $1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pgdrag.literals import sql_tokens

GENERIC_SINCE = 160000  # the server version from which EXPLAIN takes statements with parameters

_TYPED_CONSTANT = re.compile(
    r"\b(interval|date|time|timestamp|timestamptz)\s+(\$\d+)", re.IGNORECASE
)
_EXTRACT = re.compile(r"\bextract\s*\(\s*(\$\d+)\s+FROM\s+", re.IGNORECASE)

_OPERAND = re.compile(r"(?<=[-+*/%] )\$\d+\b(?!\s*::)|\$\d+\b(?=\s*[-+*/%] )(?!\s*::)")
_LIMITING = re.compile(
    r"\b(?P<word>LIMIT|OFFSET|FETCH\s+(?:FIRST|NEXT))\s+\(?\$(?P<number>\d+)\)?", re.IGNORECASE
)
# Words of the grammar for the present moment, as calls of a function, which a schema on the search_path can have, too.
_MOMENTS = {
    "current_timestamp": ("now()", "timestamptz"),
    "localtimestamp": ("now()::timestamp", "timestamp"),
    "current_date": ("now()::date", "date"),
}


@dataclass(frozen=True)
class Limiting:
    """A parameter that limits rows.

    Attributes:
        number: the parameter's.
        begin, end: where its clause is in the text: `LIMIT $1`, `FETCH FIRST ($2)`.
        words: the clause's words without the parameter: "FETCH FIRST".
    """

    number: int
    begin: int
    end: int
    words: str

    @property
    def is_offset(self) -> bool:
        """Whether it is how many rows are left out."""
        return self.words.upper() == "OFFSET"


def limiting(text: str) -> list[Limiting]:
    """Return the parameters that limit a statement's rows, in the text's order."""
    return [Limiting(int(x["number"]), *x.span(), x["word"]) for x in _LIMITING.finditer(text)]


def explaining(
    text: str, name: str, parameters: int, *, is_generic: bool, options: str = ""
) -> str:
    """Return the EXPLAIN of a statement's plan for any values of its parameters.

    Args:
        name: of the prepared statement that is this text, with plan_cache_mode = force_generic_plan; it is explained where
            EXPLAIN takes no parameters.
        is_generic: it does (`GENERIC_SINCE`).
        options: of EXPLAIN, besides its format: "VERBOSE, ".
    """
    if is_generic:
        return f"EXPLAIN (GENERIC_PLAN, {options}FORMAT JSON) {text}"
    nulls = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    return f"EXPLAIN ({options}FORMAT JSON) EXECUTE {name}{nulls}"


def mended_text(text: str) -> str:
    """Return a repaired text where pg_stat_statements left one that does not parse; "" if nothing needs repair."""
    mended = _TYPED_CONSTANT.sub(lambda found: f"{found[2]}::{found[1]}", text)
    mended = _EXTRACT.sub(lambda found: f"date_part({found[1]}, ", mended)
    return mended if mended != text else ""


def typed_texts(text: str) -> Iterator[str]:
    """Yield texts in which operands of +, -, *, / and % that have no type get one, as whole numbers had that were constants.

    `date $1 - $2` is a number of days for the server, where the original was a date.
    """
    for type_ in ("integer", "interval", "numeric"):
        typed = _OPERAND.sub(lambda found: f"{found[0]}::{type_}", text)  # noqa: B023
        if typed != text:
            yield typed


def with_calls_of_now(text: str) -> str:
    """Return a text that has `now()` in the place of CURRENT_TIMESTAMP, LOCALTIMESTAMP and CURRENT_DATE."""
    tokens = [*sql_tokens(text)]
    pieces = []
    for at, token in enumerate(tokens):
        known = _MOMENTS.get(token.text.lower()) if token.kind == "word" else None
        if known is None or (at and tokens[at - 1].text == "."):
            pieces.append(token.text)
            continue
        call, type_ = known
        # CURRENT_TIMESTAMP(3)
        has_precision = at + 1 < len(tokens) and tokens[at + 1].text == "("
        pieces.append(f"now()::{type_}" if has_precision else call)
    return "".join(pieces)
