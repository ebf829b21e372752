"""Does a configuration fit into the memory that a server may use here: the machine's, or its control group's?"""

from __future__ import annotations

from collections.abc import Mapping

from pgdrag.errors import SettingError
from pgdrag.host.allowance import Allowance
from pgdrag.servers.settings import Setting, SettingsCatalog
from pgdrag.units import format_bytes, parse_bytes, with_base_unit

_OF_MEMORY = "Resource Usage / Memory"
# What the planner takes for granted; nothing is allocated.
_ASSUMED = "effective_cache_size"
# What a server may need at once, where each session sorts or hashes once and each worker of autovacuum vacuums.
SUMMED = (
    "shared_buffers",
    "work_mem",
    "max_connections",
    "autovacuum_max_workers",
    "autovacuum_work_mem",
    "maintenance_work_mem",
)


def beyond_memory(setting: Setting, value: str, allowance: Allowance) -> str:
    """Return that a size is beyond what this process may use, where it is a size of memory, or "".

    Args:
        value: as the server shows it.
    """
    is_memory = setting.category.startswith(_OF_MEMORY) or setting.name == _ASSUMED
    size = _bytes(setting, value)
    if not is_memory or size is None or size <= allowance.memory_bytes:
        return ""
    allowed = format_bytes(allowance.memory_bytes)
    return f"{format_bytes(size)}: {allowance.memory_source} allows {allowed}"


def sum_beyond_memory(
    written: Mapping[str, str], catalog: SettingsCatalog, allowance: Allowance
) -> str:
    """Return that settings of memory are too much together, or "".

    One that is too large by itself is not reported again.

    Args:
        written: values by name, in lower case; the others have their defaults.
    """
    if not any(name in written for name in SUMMED):
        return ""
    shown = {name: _number(name, written, catalog) for name in SUMMED}
    sizes = {name: x for name, x in shown.items() if x is not None}
    if len(sizes) < len(SUMMED):
        return ""
    vacuum = "autovacuum_work_mem" if sizes["autovacuum_work_mem"] > 0 else "maintenance_work_mem"
    counted = (("max_connections", "work_mem"), ("autovacuum_max_workers", vacuum))
    total = sizes["shared_buffers"] + sum(sizes[x] * sizes[of] for x, of in counted)
    alone = ("shared_buffers", "work_mem", vacuum)
    most = allowance.memory_bytes
    if total <= most or any(sizes[name] > most for name in alone):
        return ""
    parts = [f"{sizes[x]} × {of} {format_bytes(sizes[of])}" for x, of in counted]
    return (
        f"shared_buffers {format_bytes(sizes['shared_buffers'])} + {' + '.join(parts)} = {format_bytes(total)}, "
        f"if each of max_connections sorts once and each worker of autovacuum vacuums: "
        f"{allowance.memory_source} allows {format_bytes(most)}"
    )


def _number(name: str, written: Mapping[str, str], catalog: SettingsCatalog) -> int | None:
    """Return a setting in bytes, or as a plain number where it is no size."""
    setting = catalog.settings.get(name)
    if setting is None:
        return None
    try:
        value = setting.canonical(written.get(name, setting.boot_value or ""))
    except SettingError:
        return None
    size = _bytes(setting, value)
    return size if size is not None else int(value)


def _bytes(setting: Setting, value: str) -> int | None:
    is_size = (setting.unit or "").endswith("B") and value.isdecimal()
    return parse_bytes(with_base_unit(value, setting.unit)) if is_size else None
