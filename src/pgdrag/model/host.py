"""The machine that trials run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """The machine that a run was made on; runs on different hosts are not compared."""

    cpu_model: str
    cpu_count: int
    memory_bytes: int
    kernel: str
    file_system: str
