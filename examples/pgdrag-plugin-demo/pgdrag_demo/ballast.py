"""Does it matter how full the disk is? A factor: a file of a given size lies on it while a trial runs.

An experiment file uses it as `ballast = { size = "64MB" }`: the class's name is the table, its keys are
levels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pgdrag.errors import StorageError, UsageError
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.host.undo import NotedChange, UndoJournal
from pgdrag.host.undo.created import MadeFile
from pgdrag.model import Applied, Level
from pgdrag.servers.cluster import Cluster
from pgdrag.units import format_bytes, parse_bytes

SIZE = "size"


class Ballast(Factor):
    """A file in the scratch directory. One instance serves one trial."""

    name = "ballast"
    summary = 'disk space taken by a file in the scratch directory: size = "64MB"'
    # The conformance suite applies the level, reads it back, undoes it, and refuses the mistake.
    examples = (Example(Level(name, SIZE, "8MB"), "8 MB", Level(name, SIZE, "heavy")),)

    def __init__(self) -> None:
        self._noted: NotedChange | None = None

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Refuse, before anything runs, what is not a size and what the disk has no room for."""
        if level.name != SIZE:
            return Problem(level, True, f'ballast has no "{level.name}"', f'Write {SIZE} = "64MB".')
        try:
            size = parse_bytes(level.value)
        except UsageError as error:
            message = f'ballast "{SIZE}" cannot be {level.value}: {error.message}'
            return Problem(level, True, message, error.hint or "")
        if size == 0:
            return Problem(level, True, f'ballast "{SIZE}" must be over 0', "Leave it out instead.")
        found = os.statvfs(here.scratch_root)
        free = found.f_bavail * found.f_frsize
        if size > free:
            # No mistake: another machine has the room. The trial is reported as untestable here.
            return Problem(
                level, False, f"ballast of {level.value} does not fit: {format_bytes(free)} free"
            )
        return None

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Note the file in the undo journal, then make it.

        Whatever happens to this process from here on, the file is removed: by `undo`, at exit, by the
        next pgdrag, or by `pgdrag restore`.
        """
        if SIZE not in levels:
            return
        path = _path(cluster)
        self._noted = UndoJournal.open().note(MadeFile(str(path)))
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, int(parse_bytes(levels[SIZE])))
        except OSError as error:
            raise StorageError(f'could not make "{path}": {error.strerror}') from error

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return what lies on the disk, not what was asked for."""
        path = _path(cluster)
        shown = format_bytes(path.stat().st_size if path.exists() else 0)
        return [Applied(Level(self.name, *level), shown, default="0 B") for level in levels.items()]

    def undo(self, cluster: Cluster) -> None:
        """Remove the file; without one there is nothing to do."""
        noted, self._noted = self._noted, None
        if noted is not None:
            UndoJournal.open().restore(noted)


def _path(cluster: Cluster) -> Path:
    return cluster.scratch.root / f"pgdrag-ballast-{os.getpid()}"
