"""Which settings do the server's sessions have? Those that diagnoses ask for, and what is set of the planner."""

from __future__ import annotations

from typing import ClassVar, LiteralString

from pgdrag.collectors import Amounts, Collector, Observer, Unseen, Window, attempt
from pgdrag.collectors._metric import NO_READING
from pgdrag.model.live import ServerSetting
from pgdrag.model.recordings import Recordings

# As other sessions have them: the observing one has values of its own.
_SETTINGS: LiteralString = """
SELECT name, coalesce(reset_val, ''), coalesce(unit, ''), coalesce(boot_val, ''), category
  FROM pg_settings
 WHERE name = ANY (%s) OR category LIKE 'Query Tuning%%' AND reset_val IS DISTINCT FROM boot_val
 ORDER BY name
"""
_ASKED_FOR = (
    *("shared_buffers", "work_mem", "max_wal_size", "checkpoint_timeout", "max_connections"),
    *("commit_delay", "commit_siblings", "synchronous_commit", "synchronous_standby_names"),
    *("deadlock_timeout", "autovacuum", "autovacuum_naptime", "autovacuum_freeze_max_age"),
    *("archive_mode", "log_statement", "log_min_duration_statement", "log_min_messages"),
    *("track_io_timing", "checkpoint_warning", "max_slot_wal_keep_size", "fsync", "full_page_writes"),
)  # fmt: skip


class LiveSettings(Collector):
    """Settings that diagnoses ask for."""

    name: ClassVar[str] = "live_settings"
    summary: ClassVar[str] = "settings as the server's sessions have them"

    def __init__(self) -> None:
        self._settings: list[ServerSetting] | Unseen = NO_READING

    def before(self, observer: Observer) -> None:
        """There is nothing to see before."""

    def after(self, observer: Observer) -> None:
        found = attempt(lambda: observer.query(_SETTINGS, list(_ASKED_FOR)))
        self._settings = (
            found if isinstance(found, Unseen) else [ServerSetting(*row) for row in found]
        )

    def amounts(self, window: Window) -> Amounts:
        return {}

    def recordings(self, window: Window) -> Recordings:
        if isinstance(self._settings, Unseen):
            return Recordings(missing={self.name: self._settings.reason})
        return Recordings(self._settings)
