"""How is whatever outlives a process put back as it was, whatever happens to the process?

Before anything is changed that would outlive pgdrag (a sysctl, a block device, a mount), the change is
noted here, durably: what it is, and what was there before. It is put back at the end, on an error, on a
signal, and after kill -9 by the next pgdrag or by `pgdrag restore`. One process on a host at a time may
change such things: the journal is locked.

A kind of change is one file of this folder: a concrete subclass of `Change` in it is registered.
"""

from __future__ import annotations

from pgdrag.host.undo._change import Change as Change
from pgdrag.host.undo._change import PutBack as PutBack
from pgdrag.host.undo._change import State as State
from pgdrag.host.undo._change import all_changes as all_changes
from pgdrag.host.undo._file import Noted as Noted
from pgdrag.host.undo._journal import UNDO_VARIABLE as UNDO_VARIABLE
from pgdrag.host.undo._journal import UndoJournal as UndoJournal
from pgdrag.host.undo._journal import take_warnings as take_warnings
from pgdrag.host.undo._journal import undo_directory as undo_directory
from pgdrag.host.undo._signals import uninterrupted as uninterrupted
