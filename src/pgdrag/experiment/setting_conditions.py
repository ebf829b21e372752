"""Which settings do nothing without another one?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdrag.errors import SettingError
from pgdrag.servers.settings import SettingsCatalog


@dataclass(frozen=True)
class Condition:
    """What a setting needs to do anything.

    Attributes:
        other: the setting that it needs.
        value: the value that this one must have, or must not have.
    """

    other: str
    value: str
    is_negated: bool

    def is_met_by(self, value: str) -> bool:
        """Tell whether a value of the other setting, as the server spells it, is enough."""
        return (value == self.value) is not self.is_negated


# Settings, then the one that they need, and the value that this must have; "!0": any but that.
CONDITIONS: Mapping[str, Condition] = {
    name: Condition(other, value.removeprefix("!"), value.startswith("!"))
    for names, other, value in (
        line.rsplit(maxsplit=2)
        for line in """
        autovacuum_vacuum_cost_limit autovacuum_vacuum_cost_delay !0
        bgwriter_delay bgwriter_flush_after bgwriter_lru_multiplier bgwriter_lru_maxpages !0
        commit_siblings commit_delay !0
        geqo_effort geqo_generations geqo_pool_size geqo_selection_bias geqo_threshold geqo on
        io_workers io_method worker
        jit_above_cost jit_expressions jit_inline_above_cost jit_optimize_above_cost jit_tuple_deforming jit on
        log_statement_sample_rate log_min_duration_sample !-1
        enable_gathermerge enable_parallel_append enable_parallel_hash max_parallel_workers min_parallel_index_scan_size min_parallel_table_scan_size parallel_leader_participation parallel_setup_cost parallel_tuple_cost max_parallel_workers_per_gather !0
        """.strip().splitlines()
    )
    for name in names.split()
}


def does_nothing_why(name: str, in_force: Mapping[str, str], catalog: SettingsCatalog) -> str:
    """Return why a setting does nothing, as a clause, or "".

    Args:
        in_force: values as they are written, by name; the others have their defaults.
    """
    condition = CONDITIONS.get(name)
    if condition is None or condition.other not in catalog.settings:
        return ""
    other = catalog.settings[condition.other]
    try:
        now = other.canonical(in_force.get(other.name, other.boot_value or ""))
    except SettingError:
        return ""
    if condition.is_met_by(now):
        return ""
    return f"does nothing while {other.name} = {other.readable(now)}"
