"""Which rows came to a table since ANALYZE? They are there, and the planner does not know of them.

So they are written after ANALYZE has seen the others: queries for the latest rows are planned as in the original, ranges of BRIN
indexes and pages are as nobody has looked at them since.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from psycopg import sql

from pgdrag.data_twin.filling import Fill
from pgdrag.data_twin.rows import Rows


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
        of = self.rows.columns[self.column]
        [until] = of.domain.texts(np.array([self.until]), of.form)
        self.fill.connection.execute(
            sql.SQL("DELETE FROM {} WHERE {} > {}").format(
                sql.Identifier(*self.fill.table.name), sql.Identifier(self.column), until
            )
        )

    def put_back(self) -> None:
        """Write them again."""
        self.fill.add(self.rows)
