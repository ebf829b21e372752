"""Which rows came to a table since ANALYZE? They are there, and the planner does not know of them.

So they are written after ANALYZE has seen the others: queries for the latest rows are planned as in the original, ranges of BRIN
indexes and pages are as nobody has looked at them since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg import sql

from pgdrag.data_twin.filling import Fill
from pgdrag.data_twin.rows import Rows
from pgdrag.data_twin.triggers import without_triggers


@dataclass(frozen=True)
class LateRows:
    """Rows of a table that are later than all that ANALYZE saw.

    Attributes:
        fill: has written the table.
        column: of times.
        until: the latest that ANALYZE saw.
    """

    fill: Fill
    column: str
    until: int
    rows: Rows

    def take_out(self) -> None:
        """Delete them."""
        connection, table = self.fill.connection, self.fill.table.name
        of = self.rows.columns[self.column]
        [until] = of.domain.texts(np.array([self.until]), of.form)
        with without_triggers(connection, table):
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE {} > {}").format(
                    sql.Identifier(*table), sql.Identifier(self.column), until
                )
            )

    def put_back(self) -> Iterator[str]:
        """Write them again.

        Yields:
            A clause on rows that the server refuses.

        Raises:
            psycopg.Error: the server is gone.
        """
        try:
            self.fill.add(self.rows)
        except psycopg.Error as error:
            if self.fill.connection.closed:
                raise
            said = error.diag.message_primary or type(error).__name__
            yield f"table {'.'.join(self.fill.table.name)} has no rows that came since ANALYZE: {said}"
