"""Which settings does a server have, and which of their values may be kept? No secrets: of free texts only known ones."""

from __future__ import annotations

from typing import LiteralString

from pgdrag.collectors import Observer
from pgdrag.model.observed import Setting
from pgdrag.units import with_base_unit

HIDDEN = "***"
# As a new session of this role would have them, without what pgdrag's own session has set. What the server
# chooses by itself counts as built in.
_SETTINGS: LiteralString = """
SELECT name, vartype, unit, coalesce(reset_val, setting, ''),
       CASE WHEN source IN ('default', 'override') THEN coalesce(reset_val, setting, '')
            ELSE coalesce(boot_val, '') END
  FROM pg_settings
 WHERE source <> 'client' AND context <> 'internal' AND name NOT IN ('application_name', 'client_encoding')
 ORDER BY name
"""
# Names, formats and lists; any other text may be a command, a connection string or a secret of an extension's.
_KNOWN_TEXTS = frozenset(
    (
        *("DateStyle", "TimeZone", "log_timezone", "lc_messages", "lc_monetary", "lc_numeric", "lc_time"),
        *("client_encoding", "default_text_search_config", "default_table_access_method"),
        *("default_tablespace", "temp_tablespaces", "search_path", "timezone_abbreviations"),
        *("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"),
        *("log_destination", "log_line_prefix", "synchronous_standby_names", "debug_io_direct"),
        *("wal_consistency_checking", "createrole_self_grant", "restrict_nonsystem_relation_kind"),
        *("synchronized_standby_slots", "recovery_target_timeline", "jit_provider"),
    )
)  # fmt: skip


def read_settings(observer: Observer) -> list[Setting]:
    """Return all settings that the role may see, their values with units.

    Raises:
        Unseen: see `Observer.query`.
    """
    return [
        setting_of(name, vartype, unit, value, boot)
        for name, vartype, unit, value, boot in observer.query(_SETTINGS)
    ]


def setting_of(name: str, vartype: str, unit: str | None, value: str, boot: str) -> Setting:
    """Return one setting, its value hidden where it could be a secret."""
    if vartype == "string":
        is_harmless = name in _KNOWN_TEXTS or value == boot or not value
        return Setting(name, value if is_harmless else HIDDEN, boot)
    return Setting(name, with_base_unit(value, unit), with_base_unit(boot, unit))
