"""What is the server, and how is it set? Nothing that names it, its host or its people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import LiteralString

import psutil

from pgdrag.collectors import Observer
from pgdrag.twins.model import Extension, RoleOptions, Setting, Source

# Of texts these tell nothing of a place or a person.
_SHOWN_TEXTS = frozenset({
    "DateStyle", "default_table_access_method", "default_text_search_config", "recovery_prefetch", "shared_preload_libraries", "session_preload_libraries",
    "server_encoding", "timezone_abbreviations", "wal_consistency_checking", "backtrace_functions", "search_path", "debug_io_direct",
    "jit_provider", "restrict_nonsystem_relation_kind", "createrole_self_grant", "plan_cache_mode",
})  # fmt: skip
_SETTINGS: LiteralString = """
SELECT name, coalesce(reset_val, setting), coalesce(unit, ''), vartype
  FROM pg_settings
 WHERE reset_val IS DISTINCT FROM boot_val AND (context <> 'internal' OR name IN ('data_checksums', 'wal_segment_size'))
   AND name NOT IN ('application_name', 'client_encoding') AND name !~ '(_file|_director(y|ies))$'
 ORDER BY name
"""
_KINDS: LiteralString = "SELECT lower(name), name, vartype, coalesce(unit, '') FROM pg_settings"
_OPTIONS: LiteralString = """
SELECT setrole::bigint, setdatabase <> 0, setconfig FROM pg_db_role_setting
 WHERE setdatabase = 0 OR setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
 ORDER BY setdatabase, setrole
"""
_EXTENSIONS: LiteralString = """
SELECT extname::text, extversion, nspname::text FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
 ORDER BY extname
"""
_DATABASE: LiteralString = """
SELECT current_setting('block_size')::int, (SELECT setting::int FROM pg_settings WHERE name = 'segment_size'),
       pg_encoding_to_char(encoding), to_jsonb(d), pg_is_in_recovery(),
       CASE WHEN has_database_privilege(d.oid, 'CONNECT') THEN pg_database_size(d.oid) END
  FROM pg_database AS d WHERE datname = current_database()
"""
_PROVIDERS = {"c": "libc", "i": "icu", "b": "builtin"}


def read_source(observer: Observer, version: str, roles: Mapping[int, str]) -> Source:
    """Return the server and its settings.

    Args:
        roles: what roles are called, by their numbers; of others the options are left out.

    Raises:
        Unseen: the server refused or did not answer.
    """
    [(block, segment, encoding, database, is_standby, size)] = observer.query(_DATABASE)
    is_here = observer.cluster.postmaster_pid is not None
    locale = database.get("datlocale") or database.get("daticulocale") or ""
    return Source(
        version,
        observer.server_version_num,
        block,
        segment,
        encoding,
        database["datcollate"],
        database["datctype"],
        _PROVIDERS.get(database.get("datlocprovider", "c"), "libc"),
        locale,
        is_standby,
        size,
        settings=tuple(
            _setting(name, value, unit, kind)
            for name, value, unit, kind in observer.query(_SETTINGS)
        ),
        options=_options(observer, roles),
        extensions=tuple(Extension(*row) for row in observer.query(_EXTENSIONS)),
        memory_bytes=psutil.virtual_memory().total if is_here else None,
        processors=os.cpu_count() if is_here else None,
    )


def search_paths(observer: Observer) -> dict[int, tuple[str, ...]]:
    """Return the search_path of each role in this database, by its number, and the server's.

    Raises:
        Unseen: the server refused or did not answer.
    """
    usual = ('"$user", public',)
    [(server,)] = observer.query("SELECT reset_val FROM pg_settings WHERE name = 'search_path'")
    of_role: dict[int, list[str]] = {}
    for role, is_of_database, options in observer.query(_OPTIONS):
        for name, _, value in (x.partition("=") for x in options or ()):
            if name == "search_path":
                of_role.setdefault(role, []).insert(0 if is_of_database else 1, value)
    everybody = [*of_role.pop(0, ()), server, *usual]
    schemas = [name for (name,) in observer.query(_PATH)]
    listed = ", ".join(schemas)
    roles = [role for (role,) in observer.query("SELECT oid::bigint FROM pg_roles")]
    return {
        role: tuple(dict.fromkeys((*of_role.get(role, ()), *everybody, listed))) for role in roles
    }


_PATH: LiteralString = """
SELECT quote_ident(nspname) FROM pg_namespace
 WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\\_%%' ORDER BY nspname
"""


def _options(observer: Observer, roles: Mapping[int, str]) -> tuple[RoleOptions, ...]:
    kinds = {row[0]: row[1:] for row in observer.query(_KINDS)}
    found = []
    for role, is_of_database, options in observer.query(_OPTIONS):
        if role and role not in roles:
            continue
        settings = []
        for name, _, value in (x.partition("=") for x in options or ()):
            # What the server does not know is an application's own.
            shown, kind, unit = kinds.get(name.lower(), (name, "string", ""))
            # As it was written, with a unit or without.
            settings.append(_setting(shown, value, unit if value.isdecimal() else "", kind))
        found.append(RoleOptions(roles.get(role, ""), is_of_database, tuple(settings)))
    return tuple(found)


def _setting(name: str, value: str, unit: str, kind: str) -> Setting:
    is_shown = kind != "string" or name in _SHOWN_TEXTS
    return Setting(name, value if is_shown else None, unit)
