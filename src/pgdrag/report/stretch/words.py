"""How are a stretch's times, numbers and gaps worded in all formats?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pgdrag.english import capital, counted
from pgdrag.model.observed import ObservedSeries, Quantity, Setting, Stretch
from pgdrag.report.series_words import value_words
from pgdrag.units import format_duration

LEAST_SHARE = 0.005  # of a table's whole: less is left out
# What the terminal and the compact text say of the load, in this order.
HEADLINES = (
    *("commits_per_s", "rollbacks_per_s", "sessions", "active_sessions", "idle_in_transaction_sessions"),
    *("on_cpu_sessions", "io_wait_sessions", "lwlock_wait_sessions", "lock_wait_sessions", "client_wait_sessions"),
    *("rows_read_per_s", "rows_changed_per_s", "blocks_hit_per_s", "blocks_read_per_s", "temp_bytes_per_s", "deadlocks_per_s"),
    *("wal_bytes_per_s", "full_page_images_per_s", "timed_checkpoints_per_s", "requested_checkpoints_per_s"),
    *("checkpoint_buffers_per_s", "dead_versions", "vacuums_per_s", "seq_tuples_per_s"),
    *("oldest_transaction_s", "horizon_age", "frozen_age", "replay_lag_bytes"),
    *("host_user_processors", "host_system_processors", "host_iowait_processors"),
    *("disk_read_bytes_per_s", "disk_written_bytes_per_s", "disk_read_wait_s", "disk_write_wait_s", "disk_busy_share"),
)  # fmt: skip


def span_words(stretch: Stretch) -> str:
    """Return from when to when it is, how long, and how much of it was observed."""
    missing_s = stretch.length_s - stretch.observed_s
    seen = f"{counted(stretch.samples, 'sample')}"
    if missing_s > 0.01 * stretch.length_s:
        seen += f", {format_duration(round(missing_s))} of it not observed"
    return (
        f"{clock_words(stretch.began_unix_s)} to {clock_words(stretch.ended_unix_s)} UTC, "
        f"{format_duration(round(stretch.length_s))}, {seen}"
    )


def resolution_sentences(stretch: Stretch) -> Iterator[str]:
    """Yield what was thinned, and what is gone."""
    for one in stretch.resolutions:
        if one.level:
            yield (
                f"{clock_words(one.began_unix_s)} to {clock_words(one.ended_unix_s)}: thinned to means over "
                f"{format_duration(round(one.interval_s))}, with the lowest and the highest of their samples."
            )
    if stretch.condensed > 1:
        yield f"Each interval shown is of {stretch.condensed} samples; CSV and Parquet have every sample."
    if stretch.dropped_until_unix_s is not None:
        yield (
            f"Samples from before {clock_words(stretch.dropped_until_unix_s)} were dropped to keep the file within its size."
        )


def mean_words(stretch: Stretch, name: str) -> str:
    """Return a quantity's mean with its lowest and highest value; "" where it was not observed."""
    series = stretch.of(name)
    if series is None:
        return ""
    return f"{shown_value(series.whole.mean, series)} ({shown_value(series.whole.low, series)} to {shown_value(series.whole.high, series)})"


def shown_value(value: float, series: ObservedSeries) -> str:
    """Return a value of a quantity with its unit."""
    return value_words(value, series.quantity.unit)


def label_words(quantity: Quantity) -> str:
    """Return what a quantity is called."""
    words = capital(quantity.label)
    return f"{words} (whole machine)" if quantity.is_of_machine else words


def not_built_in(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that differ from the server's built-in defaults."""
    return [one for one in settings if one.value != one.default]


def utc_words(unix_s: float) -> str:
    """Return a moment as `2026-11-25 14:00:05 UTC`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock_words(unix_s: float) -> str:
    """Return a moment, in UTC."""
    return utc_words(unix_s).removesuffix(" UTC")
