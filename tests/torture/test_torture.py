"""Two rounds of the torture, always the same ones; `make torture` runs as many as one likes."""

from __future__ import annotations

from pgdrag.host.undo import UndoJournal
from torture import torture


def test_killed_at_two_moments_all_is_as_before_after_the_next_start(
    host_alone: UndoJournal,
) -> None:
    host_alone.release()
    said: list[str] = []
    found = torture(rounds=2, seed=5, say=said.append, whole_s=6.0)
    assert found == [], "\n".join(found)
    assert [line.rpartition(": ")[2] for line in said] == ["as before", "as before"]
