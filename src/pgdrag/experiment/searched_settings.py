"""What is known of PostgreSQL's settings for a search: which are left out and why, and which values others may have."""

from __future__ import annotations

from collections.abc import Mapping

from pgdrag.designs.search.parameters import Goal
from pgdrag.servers.channel import PLACE


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --- excluded ------------------------------------------------------------------------------

# By the beginning of a category, except for the settings in RANGES and ANYWAY.
EXCLUDED_CATEGORIES: Mapping[str, str] = {
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
ANYWAY = _names("""default_toast_compression jit_expressions jit_tuple_deforming synchronize_seqscans
    track_commit_timestamp vacuum_truncate""")
# So have these, for whoever wants to be slow: the manual advises against them in production.
ANYWAY_TO_BE_SLOW = _names("""debug_io_direct debug_parallel_query ignore_system_indexes
    wal_consistency_checking""")
_EXCLUDED: Mapping[str, str] = {
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
EXCLUDED_WHY = {name: why for why, names in _EXCLUDED.items() for name in names.split()}
# Trials are too short to show what a server without these loses.
LOST_LATER = frozenset({"autovacuum", "track_counts"})
WHY_LOST_LATER = "without it tables bloat, which shows only after the trials"
# Settings that cost time and never save any: a search for speed can only turn off what is on.
COST_CATEGORIES = ("Process Title", "Reporting and Logging", "Statistics")
COSTS = frozenset({"summarize_wal", "track_commit_timestamp", "wal_level", "wal_log_hints"})
COSTS_BY_DEFAULT = frozenset({"compute_query_id", "track_activities", "update_process_title"})

# Words that mean the same as others here, that keep a server from starting or that hide its log.
WORDS_LEFT_OUT: Mapping[str, frozenset[str]] = {
    "compute_query_id": frozenset({"regress"}),
    "debug_parallel_query": frozenset({"regress"}),
    "dynamic_shared_memory_type": frozenset({"sysv", "windows"}),  # as shared_memory_type
    "huge_pages": frozenset({"on"}),  # "try" where there are any
    "log_min_messages": frozenset({"fatal", "panic"}),
    "synchronous_commit": frozenset({"local", "remote_apply", "remote_write"}),  # no standbys
    "wal_level": frozenset({"minimal"}),  # needs max_wal_senders = 0
}
# Values to try of settings that are free text.
TEXTS: Mapping[str, tuple[str, ...]] = {
    "debug_io_direct": ("", "data", "wal", "data,wal"),
    "wal_consistency_checking": ("", "all"),
}
ORDERED_WORDS = _names("""log_error_verbosity log_min_error_statement log_min_messages log_statement track_functions
    wal_level""")

# --- numbers -------------------------------------------------------------------------------

# Name, least and greatest value; after a bar, the same for the goal to be slow where that differs.  "60%" is of
# the memory, "25%/c" of that divided by the connections, "80kB*c" times the connections (what initdb.c thinks the
# least that works: with fewer, sessions end with "no unpinned buffers available"), "2p" twice the processors.  From 0,
# and within a factor of 2, values are evenly spaced, else on a scale of ratios with 0 and -1 before it where the
# setting takes them.
RANGES: Mapping[str, str] = dict(
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
NO_ZERO = _names("autovacuum_vacuum_cost_limit autovacuum_work_mem io_max_concurrency wal_buffers")
# Steps of a plan: where they cost nothing, the planner cannot tell plans apart.
NEVER_FREE = _names("""cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost random_page_cost
    seq_page_cost""")

# --- expected to matter --------------------------------------------------------------------

EXPECTED: Mapping[Goal, frozenset[str]] = {
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
