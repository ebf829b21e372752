"""In what do two configurations differ by meaning: 1024MB is 1GB, and what neither sets may differ by version?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pgdrag.errors import SettingError
from pgdrag.servers.conf import fold
from pgdrag.servers.former_settings import name_in
from pgdrag.servers.settings import Setting, SettingsCatalog, version_text

# Whoever builds a server decides these defaults, and which of these settings there are.
OF_THE_BUILD = frozenset(
    [
        "dynamic_library_path",
        "extension_control_path",
        "extension_destdir",
        "krb_server_keyfile",
        "ssl_ciphers",
        "ssl_ecdh_curve",
        "ssl_groups",
        "ssl_tls13_ciphers",
        "unix_socket_directories",
    ]
)


class Why(StrEnum):
    """What a difference comes from."""

    SET = "set"  # by one side or both
    DEFAULT = "default"  # neither sets it, and the versions' defaults differ
    BUILD = "build"  # neither sets it, and the defaults differ by who built the server
    ADDED = "added"  # neither sets it, and only the second version has it
    REMOVED = "removed"  # neither sets it, and only the first version has it


@dataclass(frozen=True)
class Shown:
    """The effective value of a setting on one side.

    Attributes:
        value: as people read it; None: that server has no such setting, and its file names none.
        is_default: the server's own: nothing sets it.
    """

    value: str | None
    is_default: bool


@dataclass(frozen=True)
class Side:
    """One configuration, and the server that it is for.

    Attributes:
        values: as they are written, by name.
    """

    label: str
    values: Mapping[str, str]
    catalog: SettingsCatalog

    @cached_property
    def of_setting(self) -> Mapping[str, str]:
        """The values by the names that this server has for the settings, in lower case."""
        found = {}
        for name, value in self.values.items():
            known, meant = self.catalog.same_as(name, value) or (name, value)
            setting = self.setting(known)
            found[fold(known if setting is None else setting.name)] = meant
        return found

    @property
    def version(self) -> str:
        """The server's version, such as "18.6"."""
        return version_text(self.catalog.server_version_num)

    def name_here(self, name: str) -> str:
        """Return what this server calls a setting of another version, in lower case."""
        folded = fold(name)
        is_known = folded in self.catalog.settings
        known = folded if is_known else name_in(self.catalog.server_version_num, folded)
        setting = self.setting(known)
        return fold(known if setting is None else setting.name)

    def setting(self, name: str) -> Setting | None:
        """Return this server's description of a setting; None if it has no setting of that name."""
        try:
            return self.catalog.find(name)
        except SettingError:
            return None

    def shown(self, name: str) -> Shown:
        """Return the effective value of a setting here, by its name in this version."""
        setting, written = self.setting(name), self.of_setting.get(name)
        if setting is None:
            return Shown(written, is_default=False)
        if written is None:
            known = setting.boot_value
            return Shown(None if known is None else setting.readable(known), is_default=True)
        try:
            return Shown(setting.readable(setting.canonical(written)), is_default=False)
        except SettingError:
            return Shown(written, is_default=False)


@dataclass(frozen=True)
class ConfDifference:
    """A setting that is not the same on both sides.

    Attributes:
        name: as the second side's server spells it, or the first's.
        before, after: as people read them; None: that server has no such setting.
        note: what there is to say besides, or "".
        category: the server's.
    """

    name: str
    before: str | None
    after: str | None
    why: Why
    is_default_before: bool
    is_default_after: bool
    note: str
    category: str


@dataclass(frozen=True)
class ConfDiff:
    """What differs, by name, and what is written differently, or once only, and means the same."""

    differences: tuple[ConfDifference, ...]
    same: tuple[str, ...]


def conf_diff(first: Side, second: Side) -> ConfDiff:
    """Return in what two configurations differ; of different versions also in what neither of them sets."""
    differences, same = [], []
    for one, other in _names(first, second):
        before, after = first.shown(one), second.shown(other)
        if not _is_same(other, before.value, after.value):
            differences.append(_difference(first, second, one, other))
        elif first.of_setting.get(one) != second.of_setting.get(other):
            same.append(other)
    return ConfDiff(tuple(differences), tuple(same))


# Built in with 8 MB before PostgreSQL 15; initdb always writes another value.
BY_INITDB = "shared_buffers"


def _is_same(name: str, before: str | None, after: str | None) -> bool:
    # A list of what to log since 18: an empty one is the former off.
    if name == "log_connections" and {before, after} == {"off", ""}:
        return True
    return before == after


def _difference(first: Side, second: Side, one: str, other: str) -> ConfDifference:
    before, after = first.shown(one), second.shown(other)
    known = second.setting(other) or first.setting(one)
    return ConfDifference(
        name=other if known is None else known.name,
        before=before.value,
        after=after.value,
        why=_why(first, second, one, other),
        is_default_before=before.is_default,
        is_default_after=after.is_default,
        note="; ".join(dict.fromkeys(_notes(first, second, one, other))),
        category="" if known is None else known.category,
    )


def _names(first: Side, second: Side) -> list[tuple[str, str]]:
    """Return what may differ, by the names that either server has for it."""
    pairs = {(x, second.name_here(x)) for x in first.of_setting}
    pairs |= {(first.name_here(x), x) for x in second.of_setting}
    if first.catalog.server_version_num != second.catalog.server_version_num:
        pairs |= {(x, second.name_here(x)) for x in _settable(first)}
        pairs |= {(first.name_here(x), x) for x in _settable(second)}
    return sorted(pairs, key=lambda pair: pair[1])


def _settable(side: Side) -> Iterator[str]:
    return (name for name, one in side.catalog.settings.items() if one.context != "internal")


def _why(first: Side, second: Side, one: str, other: str) -> Why:
    if one in first.of_setting or other in second.of_setting:
        return Why.SET
    if other in OF_THE_BUILD:
        return Why.BUILD
    if first.setting(one) is None:
        return Why.ADDED
    return Why.REMOVED if second.setting(other) is None else Why.DEFAULT


def _notes(first: Side, second: Side, one: str, other: str) -> Iterator[str]:
    if one != other:
        yield f"{one} in {first.version}"
    if other == BY_INITDB and _why(first, second, one, other) is Why.DEFAULT:
        yield "built in; initdb writes 128 MB into a new server's postgresql.conf in either version"
    for side, name in ((first, one), (second, other)):
        written = side.of_setting.get(name)
        if side.setting(name) is None:
            yield side.catalog.why_removed(name) or f"not in {side.version}"
        elif written is not None and _why_invalid(side, name, written):
            yield f"{side.label}: {_why_invalid(side, name, written)}"


def _why_invalid(side: Side, name: str, written: str) -> str:
    try:
        side.catalog.check(name, written)
    except SettingError as error:
        return error.message
    return ""
