"""How does a statement of pg_stat_statements become one that the grammar takes?

It has parameters where constants were, also where the grammar wants a constant: `interval $1`.
"""

from __future__ import annotations

import re

GENERIC_SINCE = 160000  # the server version from which EXPLAIN takes statements with parameters

_TYPED_CONSTANT = re.compile(
    r"\b(interval|date|time|timestamp|timestamptz)\s+(\$\d+)", re.IGNORECASE
)
_EXTRACT = re.compile(r"\bextract\s*\(\s*(\$\d+)\s+FROM\s+", re.IGNORECASE)


def mended_text(text: str) -> str:
    """Return a text that the grammar takes where pg_stat_statements left one that it does not; "": there is nothing to mend."""
    mended = _TYPED_CONSTANT.sub(lambda found: f"{found[2]}::{found[1]}", text)
    mended = _EXTRACT.sub(lambda found: f"date_part({found[1]}, ", mended)
    return mended if mended != text else ""
