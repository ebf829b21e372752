"""In what do two configurations differ by meaning: 1024MB is 1GB, and what neither sets may differ by version?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pgdrag.errors import SettingError
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import Setting, SettingsCatalog, version_text


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
        return {self._name(name): value for name, value in self.values.items()}

    def _name(self, name: str) -> str:
        setting = self.setting(name)
        return fold(name if setting is None else setting.name)

    def setting(self, name: str) -> Setting | None:
        """Return what this server says of a setting; None: it has none of that name."""
        try:
            return self.catalog.find(name)
        except SettingError:
            return None

    def shown(self, name: str) -> str | None:
        """Return what a setting comes to here, as people read it; None: this server has none."""
        setting, written = self.setting(name), self.of_setting.get(name)
        if setting is None:
            return written
        if written is None:
            return None if setting.boot_value is None else setting.readable(setting.boot_value)
        try:
            return setting.readable(setting.canonical(written))
        except SettingError:
            return written


@dataclass(frozen=True)
class ConfDifference:
    """A setting that is not the same on both sides.

    Attributes:
        before, after: as people read them; None: that server has no such setting.
        note: why, where the files do not say it, or "".
    """

    name: str
    before: str | None
    after: str | None
    note: str


@dataclass(frozen=True)
class ConfDiff:
    """What differs, by name, and what is written differently, or once only, and means the same."""

    differences: tuple[ConfDifference, ...]
    same: tuple[str, ...]


def conf_diff(first: Side, second: Side) -> ConfDiff:
    """Return in what two configurations differ; of different versions also in what neither of them sets."""
    differences, same = [], []
    for name in _names(first, second):
        before, after = first.shown(name), second.shown(name)
        if before != after:
            spelt = (second.setting(name) or first.setting(name)) or None
            known = name if spelt is None else spelt.name
            differences.append(ConfDifference(known, before, after, _note(name, first, second)))
        elif first.of_setting.get(name) != second.of_setting.get(name):
            same.append(name)
    return ConfDiff(tuple(differences), tuple(same))


def _names(first: Side, second: Side) -> list[str]:
    named = {*first.of_setting, *second.of_setting}
    if first.catalog.server_version_num != second.catalog.server_version_num:
        for side in (first, second):
            named.update(x for x, one in side.catalog.settings.items() if one.context != "internal")
    return sorted(named)


def _note(name: str, first: Side, second: Side) -> str:
    return "; ".join(_clauses(name, first, second))


def _clauses(name: str, first: Side, second: Side) -> Iterator[str]:
    for side, other in ((first, second), (second, first)):
        version = version_text(side.catalog.server_version_num)
        written = side.of_setting.get(name)
        if side.setting(name) is None:
            yield side.catalog.why_removed(name) or f"not in {version}"
        elif written is not None and _why_invalid(side, name, written):
            yield f"{side.label}: {_why_invalid(side, name, written)}"
        elif written is None and name in other.of_setting:
            yield f"not set in {side.label}"
    is_set = name in first.of_setting or name in second.of_setting
    if not is_set and first.setting(name) is not None and second.setting(name) is not None:
        yield "the default changed"


def _why_invalid(side: Side, name: str, written: str) -> str:
    try:
        side.catalog.check(name, written)
    except SettingError as error:
        return error.message
    return ""
