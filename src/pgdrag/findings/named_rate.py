"""What is the rate called that a workload's own rules count?"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.stats.interval import Interval


@dataclass(frozen=True)
class NamedRate:
    """Transactions of one kind committed per minute, under the name that the workload has for it: "tpmC"."""

    label: str
    per_min: Interval
