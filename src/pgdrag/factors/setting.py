"""A server setting, as postgresql.conf takes it: checked by pg_settings, read back from pg_settings."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from pgdrag.errors import ServerLost, SettingError
from pgdrag.factors import Example, Factor, Here, Phase, Problem
from pgdrag.model import Applied, Level
from pgdrag.servers.former_settings import translated
from pgdrag.servers.settings import NotInThisBuild, SettingsCatalog, UnknownSetting
from pgdrag.servers.side_effects import why_not_applied
from pgdrag.units import same_value, with_base_unit

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

# Of search_path pgdrag's own role has a value of its own; other sessions begin with the file's.
READ_BACK_SQL = """
    SELECT name, CASE WHEN name <> 'search_path' THEN reset_val ELSE coalesce(
               (SELECT setting FROM pg_file_settings WHERE name = 'search_path' AND applied), boot_val)
           END, unit, vartype, boot_val
      FROM pg_settings WHERE lower(name) = ANY (%s)
"""
# A treatment's own time-outs must not end the look at it; `reset_val` still shows them.
NO_TIMEOUT_SQL = ("SET statement_timeout = 0", "SET transaction_timeout = 0")
TRIES = 20


class Setting(Factor):
    """PostgreSQL's own settings, by their own names."""

    name = "setting"
    phase = Phase.SETTINGS
    summary = "a server setting (postgresql.conf)"
    examples = (
        Example(
            Level(name, "shared_buffers", "16MB"), "16384kB", Level(name, "shared_bufers", "16MB")
        ),
        Example(
            Level(name, "random_page_cost", "1e300"),
            "1e+300",
            Level(name, "random_page_cost", "cheap"),
        ),
    )

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return typos and values out of every range as mistakes; what needs consent, and the rest, as untestable."""
        refusal = _refusal(level, here.settings)
        if refusal is None:
            return _without_consent(level, here)
        by_newest = _refusal(level, here.newest_settings)
        is_mistake = by_newest is not None and not isinstance(by_newest, NotInThisBuild)
        hint = _hint(here, refusal) if by_newest is None else refusal.hint or ""
        return Problem(level, is_mistake, refusal.message, hint)

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Write the whole postgresql.conf, so that no other value is left from an earlier trial."""
        notes = cluster.configure(dict(_by_names_in(cluster, levels).values()))
        self._notes = {note.name: note.why for note in notes}

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return what pg_settings shows, with its unit."""
        known = _by_names_in(cluster, levels)
        names = [name for name, _ in known.values()]
        try:
            with cluster.connect(application_name="pgdrag read back") as connection:
                _without_timeout(connection)
                rows = {row[0].lower(): row for row in connection.execute(READ_BACK_SQL, [names])}
        except psycopg.Error as error:
            raise ServerLost(f"could not read the settings back: {error}") from error
        return [
            self._applied(Level(self.name, name, value), known[name][1], rows.get(known[name][0]))
            for name, value in levels.items()
        ]

    def _applied(self, level: Level, asked: str, row: tuple[Any, ...] | None) -> Applied:
        why = self._notes.get(level.name.lower(), "")
        if row is None:
            return Applied(level, None, why or "the running server does not show this setting")
        _, shown, unit, vartype, default = row
        is_same = same_value(asked, shown, vartype=vartype, unit=unit)
        note = why if why or is_same else "the server runs with another value than it was asked for"
        return Applied(
            level, with_base_unit(shown, unit), note, with_base_unit(default or "", unit)
        )


def _by_names_in(cluster: Cluster, levels: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return name and value of each level as the cluster's version has them: arms of a comparison may be of two."""
    version = cluster.binaries.version_num
    return {name: translated(version, name.lower(), value) for name, value in levels.items()}


def _without_timeout(connection: psycopg.Connection) -> None:
    for command in NO_TIMEOUT_SQL:
        # transaction_timeout is unknown before PostgreSQL 17.
        with contextlib.suppress(psycopg.errors.UndefinedObject):
            _execute_in_the_end(connection, command)


def _execute_in_the_end(connection: psycopg.Connection, command: LiteralString) -> None:
    for _ in range(TRIES - 1):
        try:
            connection.execute(command)
        except psycopg.errors.QueryCanceled:
            continue  # even this takes longer than a time-out of 1 ms, sometimes
        return
    connection.execute(command)


def _without_consent(level: Level, here: Here) -> Problem | None:
    why = why_not_applied(level.name, level.value, allowed=here.allowed)
    if not why:
        return None
    message = f'setting "{level.name}" is not applied in the laboratory: {why}'
    return Problem(level, False, message, f"To apply it, add --allow-change {level.name}.")


def _refusal(level: Level, catalog: SettingsCatalog) -> SettingError | None:
    try:
        name, value = catalog.same_as(level.name, level.value) or (level.name, level.value)
        catalog.check(name, value)
    except SettingError as error:
        return error
    return None


def _hint(here: Here, refusal: SettingError) -> str:
    newest = here.newest_settings.server_version_num // 10000
    what = "has it" if isinstance(refusal, UnknownSetting) else "accepts it"
    return f"PostgreSQL {newest} {what}."
