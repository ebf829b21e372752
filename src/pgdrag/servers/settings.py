"""What does one server version say of its settings, and would it take this value?

A `SettingsCatalog` is made of the rows of pg_settings, so it can be asked without a server, for
instance whether a setting is known to PostgreSQL 18 but not to 15.  Strings are taken as they
come: what a server checks in them (a time zone, a directory) only that server can tell.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdrag.adapters import adapter_of
from pgdrag.english import capital
from pgdrag.errors import SettingError
from pgdrag.passwords import has_password
from pgdrag.servers.conf import fold, is_name
from pgdrag.servers.former_settings import Former, former_setting, translated
from pgdrag.units import (
    HIDDEN_SWITCHES,
    format_bytes,
    format_duration,
    parse_bool,
    parse_bytes,
    parse_seconds,
    to_base_integer,
    to_base_real,
)

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
CATALOG_SQL = """
SELECT name, vartype, unit, min_val, max_val, enumvals, context, category, boot_val, short_desc
  FROM pg_catalog.pg_settings
 ORDER BY name
"""


# What shared_preload_libraries can name: the files of the server's own directory, without their suffix.
LIBRARIES_SQL = """
SELECT regexp_replace(file, '\\.(so|dylib|dll)$', '')
  FROM pg_catalog.pg_config, pg_catalog.pg_ls_dir(setting) AS file
 WHERE name = 'PKGLIBDIR' AND file ~ '\\.(so|dylib|dll)$'
"""


class UnknownSetting(SettingError):
    """This server version has no setting of that name."""


class NotInThisBuild(SettingError):
    """A value that this version takes where it is built with a library, or for another system."""


class PasswordInSetting(SettingError):
    """A value that has a password in it, which would be stored and shown with the results."""


_LARGER = {"B": "kB", "kB": "MB", "MB": "GB", "GB": "TB"}


_TAKES_EFFECT = {
    "postmaster": "restart",
    "sighup": "reload",
    "superuser-backend": "new session",
    "backend": "new session",
    "superuser": "session",
    "user": "session",
}


@dataclass(frozen=True)
class Setting:
    """One row of pg_settings without its current value; None where the server has NULL."""

    name: str
    vartype: str
    unit: str | None
    min_value: str | None
    max_value: str | None
    enumvals: tuple[str, ...]
    context: str
    category: str
    boot_value: str | None
    short_desc: str

    @property
    def takes_effect(self) -> str:
        """When a new value is in force: after a "restart" or a "reload", in a "new session", or in the "session" that sets it."""
        return _TAKES_EFFECT.get(self.context, "never")

    def readable(self, shown: str) -> str:
        """Return a value of pg_settings in units that people read; 0 and -1 mean something else."""
        if not self.unit or not shown.isdecimal() or int(shown) == 0:
            return shown
        base = self.unit.lstrip("0123456789")
        amount = int(shown) * int(self.unit[: -len(base)] or 1)
        if base in _BYTE_UNITS:
            return format_bytes(parse_bytes(f"{amount}{base}"))
        return format_duration(parse_seconds(f"{amount}{base}"))

    def written(self, number: float) -> str:
        """Return a number of its base unit as postgresql.conf takes it, exactly: "8MB", "1.5", "-1"."""
        base = (self.unit or "").lstrip("0123456789")
        if not base or number <= 0 or not math.isfinite(number):
            return f"{number:.6g}" if self.vartype == "real" else f"{number:.0f}"
        if self.vartype == "real":
            return f"{number:.6g}{base}"
        amount = int(number) * int((self.unit or "")[: -len(base)] or 1)
        while base in _LARGER and amount % 1024 == 0:
            amount, base = amount // 1024, _LARGER[base]
        return f"{amount}{base}"

    def canonical(self, value: str) -> str:
        """Return the value as pg_settings.setting would show it: base unit, on/off, spelling.

        Raises:
            SettingError: not a boolean, a number, one of the allowed words, or out of range.
        """
        return _canonical(self, value)


@dataclass(frozen=True)
class SettingsCatalog:
    """Every setting of one server version.

    Attributes:
        server_version_num: as the server says it: 180006 is 18.6.
        settings: by the name in lower case (`fold`).
        libraries: what it can load, as shared_preload_libraries names it; none: not known.
        is_throw_away: it is a throw-away server, on which pgdrag decides where the log goes and what it says.
    """

    server_version_num: int
    settings: Mapping[str, Setting]
    libraries: frozenset[str] = frozenset()
    is_throw_away: bool = True

    @classmethod
    def from_rows(
        cls, server_version_num: int, rows: Iterable[Sequence[Any]], libraries: Iterable[str] = ()
    ) -> SettingsCatalog:
        """Make the catalogue from the rows of `CATALOG_SQL` and of `LIBRARIES_SQL`."""
        settings = [
            Setting(name, vartype, unit, low, high, tuple(enumvals or ()), *rest)
            for name, vartype, unit, low, high, enumvals, *rest in rows
        ]
        by_name = {fold(setting.name): setting for setting in settings}
        return cls(server_version_num, by_name, frozenset(libraries))

    def find(self, name: str) -> Setting:
        """Return the setting of that name, in any case, or by a former name that still works.

        A custom name (`a.b`) that no loaded extension defines is a string that any user can set.

        Raises:
            UnknownSetting: this version has none.
        """
        folded = fold(name)
        for candidate in (folded, _FORMER_NAMES.get(folded, "")):
            if candidate in self.settings:
                return self.settings[candidate]
        if "." in name and is_name(name):
            return Setting(
                name, "string", None, None, None, (), "user", "Customized Options", None, ""
            )
        hint = None
        if removed := self.why_removed(name):
            hint = f"{capital(removed)}."
        elif close := difflib.get_close_matches(folded, self.settings, n=1):
            hint = f'The nearest name it knows is "{self.settings[close[0]].name}".'
        version = version_text(self.server_version_num)
        raise UnknownSetting(f'PostgreSQL {version} has no setting "{name}"', hint=hint)

    def why_removed(self, name: str) -> str:
        """Return a clause on a setting that an older version had and this one has not, or ""."""
        folded = fold(name)
        former = former_setting(folded)
        if former is None or folded in self.settings or not self._is_after(former):
            return ""
        see = f" (see {former.successor})" if former.successor else ""
        return f"removed in PostgreSQL {former.version}{see}"

    def _is_after(self, former: Former) -> bool:
        return self.server_version_num / 10_000 >= former.number

    def same_as(self, name: str, value: str) -> tuple[str, str] | None:
        """Return name and value of this version's setting that does what another version's does.

        None: there is none, or this version has a setting of that name itself.
        """
        folded = fold(name)
        if folded in self.settings:
            return None
        found = translated(self.server_version_num, folded, value)
        return found if found[0] in self.settings else None

    def instead(self, name: str, value: str) -> str:
        """Return sentences on what to write instead of a setting that this version has not, or ""."""
        former = former_setting(fold(name))
        if same := self.same_as(name, value):
            is_removed = former is not None and self._is_after(former)
            where = (
                f"Removed in PostgreSQL {former.version}" if former and is_removed else "Renamed"
            )
            return f"{where}: write {same[0]} = {same[1]}."
        if former is None or fold(name) in self.settings or not self._is_after(former):
            return ""
        carried = former.carried(value)
        if former.successor in self.settings and carried and former.bytes_each:
            end = f": write {former.successor} = {carried}, about the same."
        else:
            end = f"; see {former.successor}." if former.successor else ": remove the line."
        return f"Removed in PostgreSQL {former.version}{end} {former.advice}".rstrip()

    def check(self, name: str, value: str) -> Setting:
        """Return the setting, if the value has its type and is within its bounds.

        The few rules that a server keeps to itself (buffers of the commit log come in sixteens,
        a build may lack SSL) are not known here: such a value passes, and the server refuses it.

        Raises:
            UnknownSetting: there is no such setting.
            SettingError: not a boolean, a number, one of the allowed words, or out of range; or the
                setting only reports something and cannot be set; or the value has a password in it.
        """
        try:
            setting = self.find(name)
        except UnknownSetting as error:
            error.hint = self.instead(name, value) or error.hint
            raise
        if has_password(value):
            raise PasswordInSetting(
                f'value of parameter "{setting.name}" has a password in it',
                detail="Settings are stored in the journal and shown in reports.",
                hint="Leave it out, or name a password file: passfile=/path/to/pgpass.",
            )
        if setting.context == "internal":
            raise SettingError(
                f'parameter "{setting.name}" cannot be changed', detail=f"{setting.short_desc}"
            )
        _canonical(setting, value)
        return setting

    def canonical(self, name: str, value: str) -> str:
        """Return the value as pg_settings.setting would show it: base unit, on/off, spelling.

        A string is returned as given, although the server may show another form of it.  Errors
        are those of `check`, of which this is the other half.
        """
        return _canonical(self.check(name, value), value)

    def to_json(self) -> str:
        """Return the catalogue as JSON, for a cache; `from_json` reads it back."""
        return adapter_of(SettingsCatalog).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> SettingsCatalog:
        """Return the catalogue that `to_json` wrote.

        Raises:
            ValueError: the text is not such a catalogue; the cache is then rebuilt.
        """
        return adapter_of(SettingsCatalog).validate_json(text)


def version_text(server_version_num: int) -> str:
    """Return 18.6 for 180006."""
    return f"{server_version_num // 10_000}.{server_version_num % 10_000}"


# The server still takes these names (map_old_guc_names in guc_tables.c).
_FORMER_NAMES = {
    "sort_mem": "work_mem",
    "vacuum_mem": "maintenance_work_mem",
    "ssl_ecdh_curve": "ssl_groups",
}

# What an enum takes only where the server is built with a library, or for the system that has it.
_BUILD_WORDS = {
    "default_toast_compression": ("lz4",),
    "dynamic_shared_memory_type": ("sysv", "windows"),
    "io_method": ("io_uring",),
    "shared_memory_type": ("sysv", "windows"),
    "wal_compression": ("lz4", "zstd"),
    "wal_sync_method": ("fsync_writethrough", "open_datasync", "open_sync"),
}


def _canonical(setting: Setting, value: str) -> str:
    match setting.vartype:
        case "bool":
            is_on = parse_bool(value)
            if is_on is None:
                message = f'parameter "{setting.name}" requires a Boolean value, not "{value}"'
                raise SettingError(message)
            return "on" if is_on else "off"
        case "integer" | "real":
            return _canonical_number(setting, value)
        case "enum":
            return _canonical_enum(setting, value)
        case _:
            return value


def _canonical_number(setting: Setting, value: str) -> str:
    is_integer = setting.vartype == "integer"
    try:
        number = (to_base_integer if is_integer else to_base_real)(value, setting.unit)
    except SettingError as error:
        raise _invalid(setting, value, error.hint) from None
    # These show their bits as chmod does.
    is_mode = setting.name in ("data_directory_mode", "log_file_mode", "unix_socket_permissions")
    shown = f"{number:04o}" if is_mode else str(number) if is_integer else f"{number:g}"
    if not _bound(setting.min_value) <= number <= _bound(setting.max_value):
        low, high = (setting.written(float(x or 0)) for x in (setting.min_value, setting.max_value))
        # The server has it in its own unit: "1342177280 8kB" is not a good name for 10TB.
        typed = value.strip()
        is_bare = setting.unit and typed.lstrip("+-").replace(".", "", 1).isdecimal()
        meant = f" ({setting.written(number)})" if is_bare and number > 0 else ""
        raise SettingError(
            f'{typed}{meant} is outside the valid range for parameter "{setting.name}" ({low} .. {high})'
        )
    return shown


def _bound(text: str | None) -> float:
    # pg_settings shows six digits of DBL_MAX, which is a little less than DBL_MAX.
    number = float(text or 0)
    return math.copysign(math.nextafter(math.inf, 0), number) if abs(number) > 1.79e308 else number


def _canonical_enum(setting: Setting, value: str) -> str:
    spelled = {word.lower(): word for word in setting.enumvals}
    word = value.lower()
    if word not in spelled:
        word = _hidden_word(word, setting)
    is_hidden_level = word == "info" and "debug5" in spelled
    if word not in spelled and not is_hidden_level:
        allowed = ", ".join(setting.enumvals)
        if word in _BUILD_WORDS.get(setting.name, ()):
            raise NotInThisBuild(
                f'this PostgreSQL is built without "{word}" for parameter "{setting.name}"',
                hint=f"Available values: {allowed}. Choose another PostgreSQL with --postgres.",
            )
        raise _invalid(setting, value, f"Available values: {allowed}.")
    if (setting.name, word) == ("wal_compression", "on"):
        word = "pglz"
    return spelled.get(word, word)


def _hidden_word(word: str, setting: Setting) -> str:
    """Return the listed word that means the same as a word that pg_settings.enumvals leaves out."""
    if {"on", "off"} <= set(setting.enumvals):
        return HIDDEN_SWITCHES.get(word, word)
    if setting.name == "wal_level" and word in ("archive", "hot_standby"):
        return "replica"
    return "debug2" if word == "debug" else word


def _invalid(setting: Setting, value: str, hint: str | None) -> SettingError:
    message = f'invalid value for parameter "{setting.name}": "{value}"'
    return SettingError(message, hint=hint)
