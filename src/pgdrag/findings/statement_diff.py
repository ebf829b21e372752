"""Which statements take the time that a change added? Two accounts of pg_stat_statements, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdrag.model.recordings import StatementUse


@dataclass(frozen=True)
class StatementShare:
    """What one statement costs per committed transaction.

    Attributes:
        time_s: in execution, and in planning where that is tracked.
        blocks: found in shared_buffers or read into them.
        blocks_read: those that were not there.
    """

    calls: float
    time_s: float
    blocks: float
    blocks_read: float
    wal_bytes: float


@dataclass(frozen=True)
class StatementChange:
    """One statement on two rungs, for each committed transaction; None where it was not seen."""

    query: str
    before: StatementShare | None
    after: StatementShare | None

    @property
    def added_s(self) -> float:
        """Return by how much longer a transaction spends in it; negative where it is shorter."""
        return _time(self.after) - _time(self.before)


def statement_changes(
    before: Sequence[StatementUse],
    committed_before: int,
    after: Sequence[StatementUse],
    committed_after: int,
) -> tuple[StatementChange, ...]:
    """Return all statements of both, what added most time first; of equal ones the longest first.

    Args:
        before: what was counted on the reference rung; empty where there is none.
        committed_before: transactions committed in the same window.
        after: what was counted on this rung.
        committed_after: transactions committed in the same window.
    """
    was, now = _shares(before, committed_before), _shares(after, committed_after)
    changes = [StatementChange(x, was.get(x), now.get(x)) for x in {**now, **was}]
    return tuple(sorted(changes, key=lambda x: (-x.added_s, -_time(x.after), x.query)))


def _shares(uses: Sequence[StatementUse], committed: int) -> Mapping[str, StatementShare]:
    if not committed:
        return {}
    return {
        use.query: StatementShare(
            calls=use.calls / committed,
            time_s=use.time_s / committed,
            blocks=(use.blocks_hit + use.blocks_read) / committed,
            blocks_read=use.blocks_read / committed,
            wal_bytes=use.wal_bytes / committed,
        )
        for use in uses
    }


def _time(share: StatementShare | None) -> float:
    return share.time_s if share is not None else 0.0
