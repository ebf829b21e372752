"""Which treatments does a screening run, and which row of its design is each?"""

from __future__ import annotations

import hashlib

from pgdrag.designs.screen.effects import screening_matrix
from pgdrag.model import Treatment
from pgdrag.model.changes import changes_between, with_changes

Row = tuple[int, ...]


def screen_treatments(
    reference: Treatment, target: Treatment, *, is_folded: bool
) -> tuple[tuple[Treatment, Row], ...]:
    """Return each treatment with its row: 1 for a change that is made, -1 for one that is not.

    Where nothing differs, the reference alone, with an empty row.
    """
    changes = changes_between(reference, target)
    if not changes:
        return ((reference, ()),)
    runs: dict[Row, Treatment] = {}
    for line in screening_matrix(len(changes), is_folded=is_folded):
        row = tuple(int(one) for one in line)
        made = [change for change, one in zip(changes, row, strict=True) if one > 0]
        if len(made) in (0, len(changes)):
            runs[row] = target if made else reference
            continue
        digest = hashlib.sha256(repr(row).encode()).hexdigest()[:6]
        name = f"{len(made)} of {len(changes)} changes ({digest})"
        runs[row] = with_changes(reference, made, name)
    return tuple((treatment, row) for row, treatment in runs.items())
