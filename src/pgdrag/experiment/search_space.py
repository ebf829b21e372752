"""Which settings may a search change, and which values may each have?

Every setting of a server is a dimension or excluded for a reason.  The tables below decide; a setting of a
later version that none of them knows is a dimension if it is a switch or a list of words, and excluded if it is
a number.  Ranges have all that the server starts with where the goal is to be slow, and sensible values where it
is to be fast; their upper ends leave memory for what runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pgdrag.designs.search.parameters import Dimension, Goal
from pgdrag.english import capital
from pgdrag.errors import UsageError
from pgdrag.experiment.rules_of_thumb import rules_of_thumb
from pgdrag.experiment.setting_conditions import CONDITIONS, does_nothing_why
from pgdrag.findings.durability import Loss, loss_of
from pgdrag.host.allowance import Allowance
from pgdrag.servers.channel import PLACE, channel_settings
from pgdrag.servers.settings import Setting, SettingsCatalog, UnknownSetting
from pgdrag.units import to_base_real

_MOST_VALUES = 11  # of a scale, beside special ones, the start and the rule of thumb
_WIDE = 32.0  # from the ratio of a range's ends above this, values lie 4 times apart, else twice
_ALIKE = 1.4  # of two values that are nearer than this ratio, the start or the rule of thumb stays
_EVEN_VALUES = 5  # of a range that is spaced evenly

_OBSERVED = "part of the observation channel, which is the same for all trials"
_RESTART = "needs a restart"
_NOT_NAMED = "not among the settings to search"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- excluded ------------------------------------------------------------------------------

# By the beginning of a category, except for the settings in _RANGES and _ANYWAY.
_CATEGORIES: Mapping[str, str] = {
    "Client Connection Defaults / Locale": "changes how values are shown",
    "Client Connection Defaults / Other Defaults": "changes what statements mean or return",
    "Client Connection Defaults / Shared Library": "loads a library",
    "Client Connection Defaults / Statement": "changes what statements mean or return",
    "Connections and Authentication": "only decides who may connect and how",
    "Customized Options": "belongs to an extension",
    "Developer Options": "meant for developers of PostgreSQL",
    "Error Handling": "only matters after a crash or an error",
    "File Locations": "a place of the server's files",
    "Preset Options": "cannot be changed",
    "Replication": "there are no standbys and subscribers here",
    "Reporting and Logging / Where": "pgdrag reads the log where it is",
    "Version and Platform": "changes what statements mean or return",
    "Write-Ahead Log / Archiv": "nothing is archived or restored here",
    "Write-Ahead Log / Recovery": "there is nothing to recover here",
}
# These have to do with speed, whatever category they are in.
_ANYWAY = _names("""default_toast_compression jit_expressions jit_tuple_deforming synchronize_seqscans
    track_commit_timestamp vacuum_truncate""")
# So have these, for whoever wants to be slow: the manual advises against them in production.
_ANYWAY_TO_BE_SLOW = _names("""debug_io_direct debug_parallel_query ignore_system_indexes
    wal_consistency_checking""")
_NAMES: Mapping[str, str] = {
    "cancels work that takes long or much": """
        idle_in_transaction_session_timeout idle_session_timeout lock_timeout old_snapshot_threshold
        statement_timeout temp_file_limit transaction_timeout""",
    "changes what the workload's transactions guarantee": """
        default_transaction_deferrable default_transaction_isolation default_transaction_read_only
        transaction_deferrable transaction_isolation transaction_read_only""",
    "the load needs its connections": "max_connections",
    "only refuses work beyond a limit": """
        autovacuum_worker_slots max_locks_per_transaction max_notify_queue_pages
        max_pred_locks_per_transaction max_prepared_transactions max_stack_depth""",
    "there are no standbys and subscribers here": """
        log_recovery_conflict_waits log_replication_commands logical_decoding_work_mem""",
    "pgdrag decides where its servers live and listen": " ".join(PLACE),
    "a server that is killed would leave its memory behind": "shared_memory_type",
    "cannot be on with the other log_*_stats settings": "log_statement_stats",
    "only matters while the server starts": "log_startup_progress_interval",
    "only matters with wal_level = minimal": "wal_skip_threshold",
    "only matters to CREATE DATABASE": "file_copy_method",
    "only matters to those who read statistics": "stats_fetch_consistency",
    "only decides how long files are kept": "wal_summary_keep_time",
    "only writes a warning": "checkpoint_warning",
    "only the seed of a random choice": "geqo_seed",
    "sizes are the kernel's, and others keep the server from starting": "huge_page_size",
}
_WHY_NOT = {name: why for why, names in _NAMES.items() for name in names.split()}
# Trials are too short to show what a server without these loses.
_LATER = frozenset({"autovacuum", "track_counts"})
_WHY_LATER = "without it tables bloat, which shows only after the trials"
# Settings that cost time and never save any: a search for speed can only turn off what is on.
_COSTS = ("Process Title", "Reporting and Logging", "Statistics")
_COSTS_TOO = frozenset({"summarize_wal", "track_commit_timestamp", "wal_level", "wal_log_hints"})
_COSTS_BY_DEFAULT = frozenset({"compute_query_id", "track_activities", "update_process_title"})

# Words that mean the same as others here, that keep a server from starting or that hide its log.
_NO_WORDS: Mapping[str, frozenset[str]] = {
    "compute_query_id": frozenset({"regress"}),
    "debug_parallel_query": frozenset({"regress"}),
    "dynamic_shared_memory_type": frozenset({"sysv", "windows"}),  # as shared_memory_type
    "huge_pages": frozenset({"on"}),  # "try" where there are any
    "log_min_messages": frozenset({"fatal", "panic"}),
    "synchronous_commit": frozenset({"local", "remote_apply", "remote_write"}),  # no standbys
    "wal_level": frozenset({"minimal"}),  # needs max_wal_senders = 0
}
# Values to try of settings that are free text.
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "debug_io_direct": ("", "data", "wal", "data,wal"),
    "wal_consistency_checking": ("", "all"),
}
_ORDERED = _names("""log_error_verbosity log_min_error_statement log_min_messages log_statement track_functions
    wal_level""")

# --- numbers -------------------------------------------------------------------------------

# Name, least and greatest value; after a bar, the same for the goal to be slow where that differs.  "60%" is of
# the memory, "25%/c" of that divided by the connections, "80kB*c" times the connections (what initdb.c thinks the
# least that works: with fewer, sessions end with "no unpinned buffers available"), "2p" twice the processors.  From 0,
# and within a factor of 2, values are evenly spaced, else on a scale of ratios with 0 and -1 before it where the
# setting takes them.
_RANGES: Mapping[str, str] = dict(
    line.split(maxsplit=1)
    for line in """
    autovacuum_analyze_scale_factor 0.01 1 | 0.001 100
    autovacuum_analyze_threshold 10 10000 | 1 100000
    autovacuum_freeze_max_age 10000000 2000000000 | 100000 2000000000
    autovacuum_max_workers 1 8
    autovacuum_multixact_freeze_max_age 10000000 2000000000 | 10000 2000000000
    autovacuum_naptime 5s 10min | 1s 1h
    autovacuum_vacuum_cost_delay 0.1ms 20ms | 0.1ms 100ms
    autovacuum_vacuum_cost_limit 100 10000 | 1 10000
    autovacuum_vacuum_insert_scale_factor 0.01 1 | 0.001 100
    autovacuum_vacuum_insert_threshold 100 100000 | 1 100000
    autovacuum_vacuum_max_threshold 10000 100000000 | 1 100000000
    autovacuum_vacuum_scale_factor 0.01 1 | 0.001 100
    autovacuum_vacuum_threshold 10 10000 | 1 100000
    autovacuum_work_mem 16MB 3% | 64kB 3%
    backend_flush_after 8kB 2MB
    bgwriter_delay 10ms 1s | 10ms 10s
    bgwriter_flush_after 8kB 2MB
    bgwriter_lru_maxpages 10 10000 | 1 100000
    bgwriter_lru_multiplier 0 10
    checkpoint_completion_target 0 1
    checkpoint_flush_after 8kB 2MB
    checkpoint_timeout 30s 1h
    commit_delay 10 2000 | 10 100000
    commit_siblings 1 128
    commit_timestamp_buffers 128kB 0.5%
    cpu_index_tuple_cost 0.001 0.1 | 0.001 100000
    cpu_operator_cost 0.0005 0.05 | 0.001 100000
    cpu_tuple_cost 0.001 0.1 | 0.001 100000
    cursor_tuple_fraction 0 1
    deadlock_timeout 100ms 10s | 1ms 1min
    default_statistics_target 10 1000 | 1 10000
    effective_cache_size 10% 100% | 8kB 100%
    effective_io_concurrency 1 1000
    from_collapse_limit 1 20
    geqo_effort 1 10
    geqo_generations 10 1000
    geqo_pool_size 10 1000
    geqo_selection_bias 1.5 2
    geqo_threshold 2 20
    gin_pending_list_limit 64kB 64MB
    hash_mem_multiplier 1 8
    io_combine_limit 8kB 1MB
    io_max_combine_limit 8kB 1MB
    io_max_concurrency 4 256 | 1 256
    io_workers 1 32
    jit_above_cost 100 10000000
    jit_inline_above_cost 100 10000000
    jit_optimize_above_cost 100 10000000
    join_collapse_limit 1 20
    log_min_duration_sample 1ms 10s
    log_min_duration_statement 1ms 10s
    log_parameter_max_length 64B 64kB
    log_parameter_max_length_on_error 64B 64kB
    log_statement_sample_rate 0 1
    log_transaction_sample_rate 0 1
    maintenance_io_concurrency 1 1000
    maintenance_work_mem 16MB 6% | 64kB 6%
    max_files_per_process 64 4000
    max_parallel_maintenance_workers 1 2p
    max_parallel_workers 1 2p
    max_parallel_workers_per_gather 1 2p
    max_pred_locks_per_page 1 64
    max_pred_locks_per_relation 1 1000
    max_wal_size 64MB 16GB | 32MB 16GB
    max_worker_processes 1 2p
    min_dynamic_shared_memory 16MB 2%
    min_parallel_index_scan_size 64kB 1GB | 8kB 1GB
    min_parallel_table_scan_size 64kB 1GB | 8kB 1GB
    min_wal_size 32MB 4GB
    multixact_member_buffers 128kB 0.5%
    multixact_offset_buffers 128kB 0.5%
    notify_buffers 128kB 0.5%
    parallel_setup_cost 10 100000 | 0.001 100000
    parallel_tuple_cost 0.01 10 | 0.001 100000
    random_page_cost 0.5 16 | 0.001 100000
    recursive_worktable_factor 0.1 100 | 0.001 1000000
    seq_page_cost 0.1 8 | 0.001 100000
    serializable_buffers 128kB 0.5%
    shared_buffers 16MB 60% | 80kB*c 60%
    subtransaction_buffers 128kB 0.5%
    temp_buffers 1MB 5%/c | 800kB 5%/c
    track_activity_query_size 128B 64kB
    transaction_buffers 128kB 0.5%
    vacuum_buffer_usage_limit 128kB 1%
    vacuum_cost_delay 0.1ms 20ms | 0.1ms 100ms
    vacuum_cost_limit 100 10000 | 1 10000
    vacuum_cost_page_dirty 1 100 | 1 10000
    vacuum_cost_page_hit 1 100 | 1 10000
    vacuum_cost_page_miss 1 100 | 1 10000
    vacuum_failsafe_age 1000000 2000000000
    vacuum_freeze_min_age 10000 1000000000
    vacuum_freeze_table_age 10000 2000000000
    vacuum_max_eager_freeze_failure_rate 0 1
    vacuum_multixact_failsafe_age 1000000 2000000000
    vacuum_multixact_freeze_min_age 10000 1000000000
    vacuum_multixact_freeze_table_age 10000 2000000000
    wal_buffers 256kB 1% | 32kB 1%
    wal_writer_delay 1ms 1s | 1ms 10s
    wal_writer_flush_after 8kB 64MB
    work_mem 1MB 25%/c | 64kB 25%/c
    """.strip().splitlines()
)
# Where 0 is refused, or the same as another value.
_NO_ZERO = _names("autovacuum_vacuum_cost_limit autovacuum_work_mem io_max_concurrency wal_buffers")
# Steps of a plan: where they cost nothing, the planner cannot tell plans apart.
_NEVER_FREE = _names("""cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost random_page_cost
    seq_page_cost""")

# --- expected to matter --------------------------------------------------------------------

_EXPECTED: Mapping[Goal, frozenset[str]] = {
    # What PostgreSQL's manual, its wiki and PGTune name first.
    "maximize": _names("""autovacuum_naptime autovacuum_vacuum_cost_delay autovacuum_vacuum_scale_factor bgwriter_delay
        bgwriter_lru_maxpages checkpoint_timeout commit_delay commit_siblings default_statistics_target
        effective_cache_size effective_io_concurrency fsync full_page_writes huge_pages io_method io_workers
        jit max_parallel_workers_per_gather max_wal_size random_page_cost shared_buffers synchronous_commit
        wal_buffers wal_compression wal_init_zero wal_recycle wal_sync_method wal_writer_delay
        work_mem"""),
    # Those of catalog/slow-42k.toml, and some that it left alone.
    "minimize": _names("""autovacuum_analyze_scale_factor autovacuum_analyze_threshold autovacuum_naptime
        autovacuum_vacuum_insert_threshold autovacuum_vacuum_max_threshold autovacuum_vacuum_scale_factor
        autovacuum_vacuum_threshold checkpoint_completion_target checkpoint_flush_after checkpoint_timeout
        cpu_index_tuple_cost io_method io_workers maintenance_work_mem max_wal_size min_wal_size
        random_page_cost shared_buffers summarize_wal track_wal_io_timing vacuum_cost_limit
        vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss wal_level wal_log_hints
        wal_sync_method wal_writer_delay wal_writer_flush_after
        commit_delay commit_siblings debug_print_plan enable_bitmapscan enable_indexonlyscan
        enable_indexscan jit_above_cost log_min_messages log_statement work_mem"""),
}


@dataclass(frozen=True)
class Excluded:
    """A setting that a search leaves as it is, and why: a clause."""

    name: str
    reason: str


@dataclass(frozen=True)
class SearchSpace:
    """All settings of a server: those that a search may change, and the others; both by name."""

    dimensions: tuple[Dimension, ...]
    excluded: tuple[Excluded, ...]

    def __add__(self, other: SearchSpace) -> SearchSpace:
        return SearchSpace(self.dimensions + other.dimensions, self.excluded + other.excluded)


@dataclass(frozen=True)
class _Search:
    """What is asked of the space, and what values may use."""

    goal: Goal
    is_reload_only: bool
    is_unsafe_allowed: bool
    observed: frozenset[str]
    allowance: Allowance
    connections: int


def search_space(
    catalog: SettingsCatalog,
    start: Mapping[str, str],
    allowance: Allowance,
    *,
    connections: int,
    goal: Goal,
    only: Collection[str] = (),
    is_reload_only: bool = False,
    is_unsafe_allowed: bool = False,
) -> SearchSpace:
    """Return the settings that a search may change, with their values, and why not the others.

    Args:
        start: what the start names, as it is written; all other settings start at their defaults.
        allowance: what the server may use.
        connections: of the load.
        only: names of the settings to search; none: all that can be.
        is_reload_only: leave out what needs a restart.
        is_unsafe_allowed: settings and values with which a crash loses data, too.

    Raises:
        UsageError: a name in `only` is unknown, or that setting cannot be searched.
        SettingError: the start has a setting or a value that the server does not take.
    """
    observed = frozenset(channel_settings(Path(), catalog.server_version_num))
    search = _Search(goal, is_reload_only, is_unsafe_allowed, observed, allowance, connections)
    named = {_known(catalog, name) for name in only}
    given = {catalog.check(name, value).name: value for name, value in start.items()}
    rules = rules_of_thumb(allowance, connections)
    dimensions: list[Dimension] = []
    excluded: list[Excluded] = []
    for _, setting in sorted(catalog.settings.items()):
        own, rule = given.get(setting.name), rules.get(setting.name)
        found = _excluded_why(setting, own, search) or _dimension(setting, own, rule, search)
        if isinstance(found, str):
            excluded.append(Excluded(setting.name, found))
        elif named and setting.name not in named:
            excluded.append(Excluded(setting.name, _NOT_NAMED))
        else:
            dimensions.append(found)
    space = _conditioned(dimensions, excluded, catalog, given)
    for out in space.excluded:
        if out.name in named:
            _refuse(catalog.settings[out.name], out.reason)
    return space


def _conditioned(
    dimensions: Sequence[Dimension],
    excluded: Sequence[Excluded],
    catalog: SettingsCatalog,
    given: Mapping[str, str],
) -> SearchSpace:
    """Return the space with the conditions of its dimensions, without those that can do nothing in it."""
    of_name = {one.name: one for one in dimensions}
    kept, inert = [], []
    for one in dimensions:
        condition = CONDITIONS.get(one.name)
        if condition is not None and condition.other in of_name:
            values = tuple(filter(condition.is_met_by, of_name[condition.other].values))
            kept.append(one.model_copy(update={"needs": condition.other, "needs_values": values}))
        elif why := does_nothing_why(one.name, given, catalog):
            inert.append(Excluded(one.name, why))
        else:
            kept.append(one)
    left_out = sorted([*excluded, *inert], key=lambda x: x.name)
    return SearchSpace(tuple(kept), tuple(left_out))


def _known(catalog: SettingsCatalog, name: str) -> str:
    try:
        found = catalog.find(name)
    except UnknownSetting as error:
        raise UsageError(error.message, hint=error.hint) from None
    if found not in catalog.settings.values():
        raise UsageError(
            f'no loaded extension defines setting "{name}"',
            hint="Leave it out of the settings to search.",
        )
    return found.name


def _refuse(setting: Setting, reason: str) -> NoReturn:
    message = f'setting "{setting.name}" cannot be searched: {reason}'
    raise UsageError(message, hint=_hint(setting, reason))


def _hint(setting: Setting, reason: str) -> str:
    leave = f"leave {setting.name} out of the settings to search"
    if reason == _RESTART:
        return f"Allow restarts, or {leave}."
    if reason in set(Loss):
        return f"Allow unsafe settings, or {leave}."
    return f"{capital(leave)}."


def _excluded_why(setting: Setting, own: str | None, search: _Search) -> str:
    """Return why a setting cannot be searched whatever its values, or ""."""
    name = setting.name
    if setting.context == "internal":
        return _CATEGORIES["Preset Options"]
    if name in search.observed:
        return _OBSERVED
    if name in _WHY_NOT:
        return _WHY_NOT[name]
    is_slow_sought = search.goal == "minimize"
    if name not in _RANGES.keys() | _ANYWAY and not (is_slow_sought and name in _ANYWAY_TO_BE_SLOW):
        for category, why in _CATEGORIES.items():
            if setting.category.startswith(category):
                return why
    if setting.vartype == "string" and name not in _TEXTS:
        return "its values are free text"
    if search.is_reload_only and setting.context == "postmaster":
        return _RESTART
    return "" if is_slow_sought else _useless_why(setting, own)


def _useless_why(setting: Setting, own: str | None) -> str:
    """Return why a search for speed leaves a setting alone, or ""."""
    name = setting.name
    if name in _LATER:
        return _WHY_LATER
    is_cost = setting.category.startswith(_COSTS) or name in _COSTS_TOO
    default = _spelt(setting, setting.boot_value or "")
    is_default = own is None or _spelt(setting, own) == default
    if is_cost and is_default and name not in _COSTS_BY_DEFAULT:
        return "can only cost time, and its default costs the least"
    return ""


def _dimension(
    setting: Setting, own: str | None, rule: str | None, search: _Search
) -> Dimension | str:
    """Return a setting's dimension, or why it is not searched."""
    name = setting.name
    is_number = setting.vartype in ("integer", "real")
    if is_number and name not in _RANGES:
        return "no safe range of values is known"
    default = _spelt(setting, setting.boot_value or "")
    start = default if own is None else _spelt(setting, own)
    # Where no rule of thumb says otherwise, the default is one. All of them are for speed.
    is_for_speed = search.goal == "maximize"
    advised = (_spelt(setting, rule) if rule else default) if is_for_speed else start
    values = _numbers(setting, [start, advised], search) if is_number else _words(setting, start)
    safe = [x for x in values if x == start or search.is_unsafe_allowed or not loss_of(name, x)]
    if len(safe) < 2:
        losses = [loss for x in values if (loss := loss_of(name, x))]
        return str(losses[0]) if losses else "no other value is known to work here"
    return Dimension(
        name=name,
        values=tuple(safe),
        is_ordered=setting.vartype != "enum" or name in _ORDERED,
        start=start,
        rule=advised if advised != start and advised in safe else None,
        is_expected=name in _EXPECTED[search.goal] or start != default,
        group=setting.category,
    )


def _spelt(setting: Setting, value: str) -> str:
    """Return a value in the one spelling that all values of a dimension have."""
    shown = setting.canonical(value)
    return setting.written(float(shown)) if setting.vartype in ("integer", "real") else shown


def _words(setting: Setting, start: str) -> list[str]:
    if setting.vartype == "bool":
        return ["off", "on"]
    if setting.name in _TEXTS:
        return list(dict.fromkeys([*_TEXTS[setting.name], start]))
    left_out = _NO_WORDS.get(setting.name, frozenset()) - {start}
    words = dict.fromkeys(setting.canonical(word) for word in setting.enumvals)
    return [word for word in dict.fromkeys([*words, start]) if word not in left_out]


def _numbers(setting: Setting, kept: list[str], search: _Search) -> list[str]:
    """Return values over a setting's range, ascending, those that must be kept among them."""
    of_fast, _, of_slow = _RANGES[setting.name].partition("|")
    text = of_slow if of_slow and search.goal == "minimize" else of_fast
    low, high = (_bound(x, setting, search) for x in text.split())
    least, greatest = float(setting.min_value or 0), float(setting.max_value or math.inf)
    low, high = max(low, least), min(high, greatest)
    fixed = [float(setting.canonical(x)) for x in kept]
    is_even = low <= 0 or (setting.vartype == "real" and high < 2 * low)
    grid = _evenly(low, high) if is_even else _scale(setting, low, high)
    if not is_even:
        near = [x for x in fixed if x > 0]
        grid = [x for x in grid if all(max(x / y, y / x) > _ALIKE for y in near)]
        no_zero = _NO_ZERO if search.goal == "minimize" else _NO_ZERO | _NEVER_FREE
        specials = [-1.0] if setting.name in no_zero else [-1.0, 0.0]
        grid += [x for x in specials if least <= x]
    if setting.vartype == "integer":
        grid = [float(round(x)) for x in grid]
    return list(dict.fromkeys(setting.written(x) for x in sorted({*grid, *fixed})))


def _evenly(low: float, high: float) -> list[float]:
    return [low + (high - low) * step / (_EVEN_VALUES - 1) for step in range(_EVEN_VALUES)]


def _scale(setting: Setting, low: float, high: float) -> list[float]:
    """Return round numbers from low to high, each about the same ratio times the one before."""
    if high <= low:
        return [low]
    span = high / low
    ratio = 4.0 if span > _WIDE else 2.0
    steps = min(math.ceil(math.log(span, ratio) - 1e-9), _MOST_VALUES - 1)
    inner = (_rounded(setting, low * span ** (step / steps)) for step in range(1, steps))
    return [low, *(x for x in inner if low < x < high), high]


def _rounded(setting: Setting, number: float) -> float:
    """Return the power of two nearest to a size, and one digit of any other number."""
    if not (setting.unit or "").endswith("B"):
        return float(f"{number:.1g}")
    base = _base_bytes(setting)
    return float(2 ** round(math.log2(number * base)) / base)


def _bound(text: str, setting: Setting, search: _Search) -> float:
    """Return one end of a range in the setting's base unit."""
    if text.endswith("p"):
        return float(max(1, math.ceil(float(text[:-1]) * search.allowance.processors)))
    if text.endswith("*c"):
        return to_base_real(text[:-2], setting.unit) * max(1, search.connections)
    share, is_share, of_each = text.partition("%")
    if not is_share:
        return to_base_real(text, setting.unit)
    size = search.allowance.memory_bytes * float(share) / 100
    if of_each:
        size /= max(1, search.connections)
    # Down to 1, 1.25, 1.5 or 1.75 times a power of two, which reads well and is a whole number of blocks.
    step = 2.0 ** (math.floor(math.log2(size)) - 2)
    return size // step * step / _base_bytes(setting)


def _base_bytes(setting: Setting) -> float:
    return (1 << 30) / to_base_real("1GB", setting.unit)
