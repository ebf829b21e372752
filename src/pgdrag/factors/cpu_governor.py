"""How fast may the processors run, and who decides it: /sys/devices/system/cpu/cpufreq."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from pgdrag.factors import Example, Here, Problem
from pgdrag.factors.kernel_files import Batch, KernelFiles, Writing, untouchable, unwritable_value
from pgdrag.host.undo.written_value import shown_value
from pgdrag.model import Level

ROOT = Path("/sys/devices/system/cpu/cpufreq")
_GOVERNOR = "scaling_governor"
_PREFERENCE = "energy_performance_preference"
# What each takes is listed in the file beside it.
_OFFERED = {
    _GOVERNOR: "scaling_available_governors",
    _PREFERENCE: "energy_performance_available_preferences",
    "scaling_min_freq": None,
    "scaling_max_freq": None,
}


class CpuGovernor(KernelFiles):
    """The kernel's policies for the processors' frequency: one level for all processors."""

    name = "cpu_governor"
    summary = 'frequency of all processors: scaling_governor = "performance", scaling_max_freq …'
    # Virtual machines have no frequency of their own, so that a test cannot rely on any.
    examples: ClassVar[tuple[Example, ...]] = ()

    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {
        _GOVERNOR: ("performance", "powersave", "schedutil", "ondemand")
    }

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return another name as a mistake; what this machine lacks as untestable."""
        what = f'cpu_governor "{level.name}"'
        if level.name not in _OFFERED:
            return Problem(
                level, True, f"{what} is not one of its levels", f"It has {', '.join(_OFFERED)}."
            )
        paths = _paths(level.name)
        if not paths:
            hint = f"There is no {ROOT}/policy*/{level.name}."
            return Problem(level, False, f"{what} is not available on this machine", hint)
        return (
            _not_offered(level, what, paths[0])
            or unwritable_value(level, what, shown_value(paths[0]))
            or untouchable(level, what, paths)
        )

    def file_of(self, name: str, here: Here) -> Path | None:
        """Return that of the first processor; others may differ."""
        return next(iter(_paths(name)), None)

    def batches(self, data_directory: Path, levels: Mapping[str, str]) -> Iterable[Batch]:
        """Return each level for all processors; a governor may have preferences of its own."""
        left = {name: Writing(name, value, _paths(name)) for name, value in levels.items()}
        if _GOVERNOR in left:
            linked = tuple(left.pop(name) for name in (_GOVERNOR, _PREFERENCE) if name in left)
            kept = (*_paths(_GOVERNOR), *_paths(_PREFERENCE))
            yield Batch(linked, kept, is_linked=True)
        for _, writing in sorted(left.items()):
            yield Batch((writing,))


def _paths(name: str) -> tuple[Path, ...]:
    return tuple(sorted(ROOT.glob(f"policy*/{name}")))


def _not_offered(level: Level, what: str, path: Path) -> Problem | None:
    beside = _OFFERED[level.name]
    if beside is None:
        return None
    try:
        offered = (path.parent / beside).read_text().split()
    except OSError:
        return None
    if level.value in offered:
        return None
    message = f'{what} cannot be "{level.value}" here'
    return Problem(level, False, message, f"This machine offers {', '.join(offered)}.")
