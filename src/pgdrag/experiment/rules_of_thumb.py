"""What do the documented rules of thumb give a machine of this size?

Sources: PostgreSQL's manual, "Resource Consumption" (shared_buffers); the PostgreSQL wiki, "Tuning Your
PostgreSQL Server" (effective_cache_size); the formulas that PGTune publishes (https://github.com/le0pard/pgtune)
for transactions (its type "oltp") on an SSD under Linux: all others. The cap of maintenance_work_mem is the
2GB that PGTune had for most of its life; since 2026 its cap is 8GB.
"""

from __future__ import annotations

import math

from pgdrag.host.allowance import Allowance
from pgdrag.host.control_groups import exact_bytes

_MB, _GB = 1 << 20, 1 << 30
# Whatever the size of the machine.
_FIXED = {
    "checkpoint_completion_target": "0.9",
    "default_statistics_target": "100",
    "effective_io_concurrency": "200",
    "jit": "off",  # short statements are over before their compilation pays
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "random_page_cost": "1.1",
}
_LEAST_PARALLEL_PROCESSORS = 4
_MOST_PARALLEL_WORKERS = 4
_DEFAULT_WORKER_PROCESSES = 8


def rules_of_thumb(allowance: Allowance, connections: int) -> dict[str, str]:
    """Return settings by name, as postgresql.conf takes them: "6GB", "1.1".

    Args:
        connections: as many as work at a time.
    """
    memory = allowance.memory_bytes
    shared = memory // 4
    parallel = _parallel(int(allowance.processors))
    workers = parallel.get("max_worker_processes", _DEFAULT_WORKER_PROCESSES)
    # A statement may sort or hash three times at once, in each session and each worker.
    work = max(4 * _MB, (memory - shared) // (3 * (connections + workers)))
    # The server's own rule for wal_buffers = -1 is a thirty-second; PGTune takes 3 % and rounds up near 16MB.
    wal = shared * 3 // 100
    wal = 16 * _MB if wal > 14 * _MB else max(wal, 32 << 10)
    return {
        **_FIXED,
        "effective_cache_size": _size(memory * 3 // 4),
        "huge_pages": "try" if shared >= 2 * _GB else "off",
        "maintenance_work_mem": _size(min(memory // 16, 2 * _GB)),
        "shared_buffers": _size(shared),
        "wal_buffers": _size(wal),
        "work_mem": _size(work),
        **{name: str(count) for name, count in parallel.items()},
    }


def _parallel(processors: int) -> dict[str, int]:
    """Return limits of parallel workers; a machine with few processors keeps the defaults."""
    if processors < _LEAST_PARALLEL_PROCESSORS:
        return {}
    workers = min(math.ceil(processors / 2), _MOST_PARALLEL_WORKERS)
    return {
        "max_parallel_maintenance_workers": workers,
        "max_parallel_workers": processors,
        "max_parallel_workers_per_gather": workers,
        "max_worker_processes": processors,
    }


def _size(size: int) -> str:
    """Return a size in whole MB, or in whole blocks where it is less than one, in the largest unit that fits."""
    step = _MB if size >= _MB else 8 << 10
    return exact_bytes(size // step * step)
