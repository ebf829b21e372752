"""Whether the kernel gives processes large pages by itself: /sys/kernel/mm/transparent_hugepage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from pgdrag.factors import Example, Here, Problem
from pgdrag.factors.kernel_files import (
    Batch,
    KernelFiles,
    Writing,
    choices_of,
    untouchable,
    unwritable_value,
)
from pgdrag.host.undo.written_value import shown_value
from pgdrag.model import Level

ROOT = Path("/sys/kernel/mm/transparent_hugepage")
RESERVE = Path("/proc/sys/vm/min_free_kbytes")
_NAME = re.compile(r"(khugepaged/|hugepages-\d+kB/)?[a-z][a-z_]*")
# Of any kernel, to distinguish a typo from what this kernel does not offer.
_CHOICES = frozenset(
    (
        *("always", "madvise", "never", "inherit"),
        *("defer", "defer+madvise"),
        *("within_size", "advise", "deny", "force"),
    )
)


class TransparentHugepage(KernelFiles):
    """The kernel's switches for transparent huge pages; a server has them from its start on."""

    name = "transparent_hugepage"
    summary = 'transparent huge pages: enabled = "always", defrag, shmem_enabled …'
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            Level(name, "khugepaged/max_ptes_swap", "61"),
            "61",
            Level(name, "khugepaged/max_ptes_swap", "few"),
            needs_root=True,
        ),
    )

    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "defrag": ("always", "madvise", "never"),
        "enabled": ("always", "madvise", "never"),
        "shmem_enabled": ("always", "advise", "never"),
    }

    def problem(self, level: Level, here: Here) -> Problem | None:
        what = f'transparent_hugepage "{level.name}"'
        if not _NAME.fullmatch(level.name):
            hint = f'Write it as {ROOT} does, such as "enabled".'
            return Problem(level, True, f"{what} is not the name of a switch", hint)
        path = ROOT / level.name
        if not path.is_file():
            return Problem(level, False, f"{what} is not in this kernel", f"There is no {path}.")
        offered = choices_of(path)
        if offered and level.value not in offered:
            message = f'{what} cannot be "{level.value}"'
            is_mistake = level.value not in _CHOICES
            return Problem(level, is_mistake, message, f"This kernel offers {', '.join(offered)}.")
        return unwritable_value(level, what, shown_value(path)) or untouchable(level, what, [path])

    def file_of(self, name: str, here: Here) -> Path | None:
        return ROOT / name

    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        """Return each by itself; switching huge pages on or off makes the kernel reserve memory again."""
        for name, value in sorted(levels.items()):
            path = ROOT / name
            writing = Writing(name, value, (path,))
            is_switch = path.name.endswith("enabled")
            yield (
                Batch((writing,), (path, RESERVE), is_linked=True)
                if is_switch
                else Batch((writing,))
            )
