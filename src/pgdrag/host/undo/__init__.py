"""How are changes that outlive a process undone, even after kill -9?

Before pgdrag changes anything that would outlive it (a sysctl, a block device, a mount), the change and the
state before it are written to the undo journal and synced. The change is undone at the end, on an error, on a
signal, and after kill -9 by the guardian (`host.guardian`), the next pgdrag or `pgdrag restore`. The journal
is locked: one process per host may make such changes at a time.

Each concrete subclass of `Change` in this folder is registered.
"""

from __future__ import annotations

from pgdrag.host.undo._change import Change as Change
from pgdrag.host.undo._change import NotedChange as NotedChange
from pgdrag.host.undo._change import RestoreResult as RestoreResult
from pgdrag.host.undo._change import all_changes as all_changes
from pgdrag.host.undo._journal import UNDO_VARIABLE as UNDO_VARIABLE
from pgdrag.host.undo._journal import UndoJournal as UndoJournal
from pgdrag.host.undo._journal import close_journals as close_journals
from pgdrag.host.undo._journal import take_warnings as take_warnings
from pgdrag.host.undo._journal import undo_directory as undo_directory
