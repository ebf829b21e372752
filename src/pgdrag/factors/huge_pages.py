"""How many huge pages does the kernel keep ready for servers that ask for them (huge_pages = on)?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgdrag.factors import Example, Here, Problem
from pgdrag.factors.kernel_files import Batch, KernelFiles, Writing, untouchable
from pgdrag.model import Level

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

ROOT = Path("/sys/kernel/mm/hugepages")
_FILE = "nr_hugepages"
_NAME = re.compile(r"hugepages-\d+kB")


class HugePages(KernelFiles):
    """The kernel's pools of huge pages, one for each size; a server takes its own at its start."""

    name = "huge_pages"
    not_while_running = "a server takes them at its start, and they go back only when it has ended"
    summary = 'huge pages kept ready: "hugepages-2048kB" = 300'
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            Level(name, "hugepages-2048kB", "3"),
            "3",
            Level(name, "hugepages-2048kB", "-3"),
            needs_root=True,
        ),
    )

    def problem(self, level: Level, here: Here) -> Problem | None:
        what = f'huge_pages "{level.name}"'
        if not _NAME.fullmatch(level.name):
            hint = f'Write it as {ROOT} does, such as "hugepages-2048kB".'
            return Problem(level, True, f"{what} is not a size of huge pages", hint)
        if not level.value.strip().isdecimal():
            message = f'{what} cannot be "{level.value}", which is not a number of pages'
            return Problem(level, True, message, "Write a whole number.")
        path = ROOT / level.name / _FILE
        if not path.is_file():
            offered = ", ".join(sorted(x.name for x in ROOT.glob("*"))) or "none"
            return Problem(level, False, f"{what} is not on this machine", f"It has: {offered}.")
        return untouchable(level, what, [path])

    def file_of(self, name: str, here: Here) -> Path | None:
        return ROOT / name / _FILE

    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        for name, value in sorted(levels.items()):
            yield Batch((Writing(name, value, (ROOT / name / _FILE,)),))

    def undo(self, cluster: Cluster) -> None:
        """Put the number of pages back; those that a server has can only go when it has ended."""
        if self.has_applied:
            cluster.stop()
        super().undo(cluster)

    def note(self, writing: Writing, shown: str) -> str:
        return f"the kernel found {shown} of {writing.value} pages"
