"""What became of settings of other versions: renamed, replaced, or removed?

One table, for old files on new servers and new files on old servers. The versions are
those of the release notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdrag.errors import SettingError
from pgdrag.units import to_base_integer

SEGMENT_BYTES = 16 << 20  # of WAL, unless initdb was told otherwise


@dataclass(frozen=True)
class Former:
    """A setting that a version has no more.

    Attributes:
        version: the first that lacks it.
        successor: the setting that took its place, or "".
        bytes_each: what one of the former unit is of the successor's; 0: a value is carried over as it is.
        is_exact: the successor with that value does the same, so that one can replace the other.
        advice: sentences on what to do about it, or "".
    """

    name: str
    version: str
    successor: str
    bytes_each: int
    is_exact: bool
    advice: str

    @property
    def number(self) -> float:
        """The version as a number, to compare: 9.5, 13.0."""
        return float(self.version)

    def carried(self, value: str) -> str:
        """Return a value of the former setting as one of its successor; "" where there is none."""
        if not self.successor or not self.bytes_each:
            return value if self.successor else ""
        try:
            count = to_base_integer(value, None)
        except SettingError:
            return ""
        if count <= 0:
            return str(count)
        megabytes = count * self.bytes_each >> 20
        return f"{megabytes}MB" if megabytes % 1024 else f"{megabytes // 1024}GB"


def former_setting(name: str) -> Former | None:
    """Return what became of a setting, by its name in lower case; None: nothing is known of it."""
    return _FORMER.get(name)


def name_in(server_version_num: int, name: str) -> str:
    """Return what a version calls a setting, by its name in lower case, where only the name differs."""
    major = server_version_num // 10_000
    former = _FORMER.get(name)
    if former is not None and _is_renamed(former) and major >= former.number:
        return former.successor
    before = _BEFORE.get(name)
    if before is not None and major < before.number:
        return before.name
    return name


def translated(server_version_num: int, name: str, value: str) -> tuple[str, str]:
    """Return name and value of the setting that does the same in a version; as they are where there is none.

    Args:
        name: in lower case.
    """
    former = _FORMER.get(name)
    if former is not None and former.is_exact and server_version_num / 10_000 >= former.number:
        carried = former.carried(value)
        is_carried = bool(carried) or not former.bytes_each
        return (former.successor, carried) if is_carried else (name, value)
    return name_in(server_version_num, name), value


def _is_renamed(former: Former) -> bool:
    return former.is_exact and not former.bytes_each


def _former(line: str) -> Former:
    name, version, successor, how, advice = (part.strip() for part in line.split("|"))
    segments = how.removeprefix("about").removesuffix("segments").strip()
    return Former(
        name,
        version,
        successor,
        bytes_each=int(segments) * SEGMENT_BYTES if segments.isdecimal() else 0,
        is_exact=how == "same" or (bool(segments) and not how.startswith("about")),
        advice=advice,
    )


# Name, the first version without it, its successor, how a value is carried over ("same"; so many segments of
# WAL; "about": nearly; nothing: not at all), and advice.
_FORMER: Mapping[str, Former] = {
    one.name: one
    for one in map(
        _former,
        """
        add_missing_from | 9.0 | | |
        australian_timezones | 8.2 | timezone_abbreviations | |
        bgwriter_all_maxpages | 8.3 | | | The checkpointer spreads its writes by checkpoint_completion_target.
        bgwriter_all_percent | 8.3 | | | The checkpointer spreads its writes by checkpoint_completion_target.
        bgwriter_lru_percent | 8.3 | bgwriter_lru_multiplier | |
        checkpoint_segments | 9.5 | max_wal_size | about 3 segments |
        custom_variable_classes | 9.2 | | | Any name with a dot in it can be set since.
        db_user_namespace | 17 | | |
        default_with_oids | 12 | | | Tables have no OIDs since.
        escape_string_warning | 19 | | |
        explain_pretty_print | 8.4 | | |
        force_parallel_mode | 16 | debug_parallel_query | same |
        io_workers | 19 | io_max_workers | same | PostgreSQL 19 starts workers as they are needed, from io_min_workers to io_max_workers.
        krb_srvname | 9.4 | | |
        max_fsm_pages | 8.4 | | | The free space map needs no setting since.
        max_fsm_relations | 8.4 | | | The free space map needs no setting since.
        min_parallel_relation_size | 10 | min_parallel_table_scan_size | same |
        old_snapshot_threshold | 17 | | | To end sessions that hold back vacuum, see idle_in_transaction_session_timeout and transaction_timeout.
        operator_precedence_warning | 14 | | |
        promote_trigger_file | 16 | | | Promote a standby with pg_ctl promote or pg_promote().
        redirect_stderr | 8.3 | logging_collector | same |
        regex_flavor | 9.0 | | |
        replacement_sort_tuples | 11 | | | Sorting uses no replacement selection since.
        replication_timeout | 9.3 | wal_sender_timeout | same |
        silent_mode | 9.2 | | | Start the server with pg_ctl.
        sql_inheritance | 10 | | |
        ssl_ecdh_curve | 18 | ssl_groups | same |
        ssl_renegotiation_limit | 9.5 | | |
        standby_mode | 12 | | | Create the file standby.signal in the data directory.
        stats_block_level | 8.3 | track_counts | same |
        stats_command_string | 8.3 | track_activities | same |
        stats_reset_on_server_start | 8.3 | | | See pg_stat_reset().
        stats_row_level | 8.3 | track_counts | same |
        stats_start_collector | 8.3 | | | Statistics are always collected, as far as track_counts says.
        stats_temp_directory | 15 | | | Statistics are in shared memory since.
        trace_recovery_messages | 17 | | |
        trigger_file | 12 | | | Promote a standby with pg_ctl promote or pg_promote().
        unix_socket_directory | 9.3 | unix_socket_directories | same |
        vacuum_cleanup_index_scale_factor | 14 | | |
        vacuum_defer_cleanup_age | 16 | | | To spare a standby's queries, use hot_standby_feedback or a replication slot.
        wal_keep_segments | 13 | wal_keep_size | 1 segments |
        wal_sender_delay | 9.2 | | |
        """.strip().splitlines(),
    )
}
# By the new name; of two former names of a setting that servers still have, none is meant.
_BEFORE: Mapping[str, Former] = {
    one.successor: one for one in _FORMER.values() if _is_renamed(one) and one.number >= 15
}
