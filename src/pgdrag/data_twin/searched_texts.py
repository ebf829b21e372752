"""Which texts does the server make search vectors of, and how are texts made that have the same lexemes as often?

A column that is generated with `to_tsvector`, or an index of that expression, has statistics of its lexemes; the text
itself may have none of its words. So its values end with lexemes, each as frequent as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdrag.data_twin.columns import ColumnHere, Key
from pgdrag.data_twin.documents import Lexemes
from pgdrag.data_twin.domains import Codes, Domain, Form, WrittenOtherwise
from pgdrag.data_twin.tables import TableName
from pgdrag.literals import sql_tokens
from pgdrag.twins.model import ColumnStatistics, Twin

_MAKES_VECTORS = "to_tsvector"


def searched_texts(
    twin: Twin, columns: Mapping[Key, ColumnHere], rows: Mapping[TableName, int]
) -> dict[Key, Lexemes]:
    """Return the lexemes of each text column that search vectors are made of; of several in one vector, of the widest."""
    known = {
        (x.schema, x.relation, x.column): x
        for x in twin.statistics
        if x.elements and not x.is_inherited
    }
    widths = {(x.schema, x.relation, x.column): x.width for x in twin.statistics}
    found = {}
    for table, expression, one in _vectors(twin, known):
        names = {x.text.strip('"') for x in sql_tokens(expression) if x.kind in ("word", "name")}
        texts = [x.key for x in columns.values() if x.key[:2] == table and x.name in names and x.kind == "text"]  # fmt: skip
        if texts and table in rows:
            widest = max(texts, key=lambda x: widths.get(x, 0))
            # What tells the values of each text apart is a rare lexeme of its own.
            found[widest] = Lexemes(one, rows[table], others=len(texts))
    return found


def _vectors(
    twin: Twin, known: Mapping[Key, ColumnStatistics]
) -> Iterator[tuple[TableName, str, ColumnStatistics]]:
    """Yield the table, the expression and the statistics of each search vector that is made of texts."""
    for table in twin.schema.tables:
        for column in table.columns:
            key = (table.schema, table.name, column.name)
            if _MAKES_VECTORS in column.default and key in known:
                yield key[:2], column.default, known[key]
    for index in twin.schema.indexes:
        for expression in (x for x in index.keys if _MAKES_VECTORS in x):
            own = [x for x in known.values() if (x.schema, x.relation) == (index.schema, index.name)]  # fmt: skip
            if len(own) == 1:
                yield (index.schema, index.table), expression, own[0]


class SearchedTexts(WrittenOtherwise):
    """Texts that end with lexemes, as far as there is room; the same value has the same ones everywhere."""

    def __init__(self, inner: Domain, lexemes: Lexemes) -> None:
        super().__init__(inner)
        self._lexemes = lexemes

    def texts(self, codes: Codes, form: Form) -> list[str]:
        """Return values as the server reads them."""
        words = self._lexemes.of(codes)
        inner = super().texts(codes, form)
        return [
            " ".join((x, *y))[: form.longest or None] for x, y in zip(inner, words, strict=True)
        ]
