"""What was run, and what came of it? Every run, trial, attempt and sample, durably, in one SQLite file.

The road's only memory: a trial's result is on disk before the next trial begins, so that a run can
go on where it stopped. The file opens in any SQLite tool; `_file.SCHEMA` says what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

if TYPE_CHECKING:
    from pgdrag.journal._reading import TrialLine
    from pgdrag.journal._writing import Journal

__all__ = ["Journal", "TrialLine", "home_directory"]


def __getattr__(name: str) -> Any:
    """Import what knows the types of all that a run has when it is first used: a list of runs does without."""
    if name == "Journal":
        from pgdrag.journal._writing import Journal

        return Journal
    if name == "TrialLine":
        from pgdrag.journal._reading import TrialLine

        return TrialLine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def home_directory() -> Path:
    """Return where the journal and the reports are: $PGDRAG_HOME, or the user's data directory."""
    chosen = os.environ.get("PGDRAG_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("pgdrag"))
