"""What does each line of a configuration mean to a server, and what is wrong with it?

Only what the server says of its settings, the documented meaning of a value, and what this process may use of the
machine: whether a line makes a workload slow, trials tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pgdrag.errors import SettingError
from pgdrag.experiment.applicable import applicable
from pgdrag.experiment.formats import Configuration, Given
from pgdrag.experiment.memory_fit import beyond_memory
from pgdrag.experiment.setting_conditions import does_nothing_why
from pgdrag.findings.durability import loss_of
from pgdrag.host.allowance import Allowance
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import NotInThisBuild, Setting, SettingsCatalog, UnknownSetting
from pgdrag.units import near_number


class Severity(StrEnum):
    """How bad a remark is."""

    MISTAKE = "mistake"  # the server refuses the line
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Remark:
    """What there is to say of a line.

    Attributes:
        message: a clause.
        hint: what to do, or "".
    """

    severity: Severity
    message: str
    hint: str = ""


@dataclass(frozen=True)
class ConfLine:
    """A line that sets something.

    Attributes:
        name: as the server spells it; of a setting that it has not as it is written.
        value: as it is written.
        means: the value in units that people read; "" where the server refuses it.
        default: the server's own, in the same way.
        summary: what the setting is, by the server.
        category: the server's.
        takes_effect: see `Setting`; "" of a setting that the server has not.
        laboratory: why a throw-away server does not have it; "": it has.
        counts: no later line sets the same.
    """

    file: str
    line: int
    name: str
    value: str
    means: str
    default: str
    summary: str
    category: str
    takes_effect: str
    laboratory: str
    counts: bool
    remarks: tuple[Remark, ...]


def conf_lines(
    configuration: Configuration,
    catalog: SettingsCatalog,
    allowance: Allowance,
    newest: SettingsCatalog | None = None,
) -> tuple[ConfLine, ...]:
    """Return what every line of a configuration means, in its order; lines that a later one overrides, too.

    Args:
        newest: what the newest server says that is at hand: it may know a name that this one is too old for.
    """
    _, skipped = applicable(configuration, catalog)
    why_not = {(one.place, fold(one.name)): one.why for one in skipped}
    lines = sorted((*configuration.given, *configuration.overridden), key=lambda one: one.place)
    last = {_key(one, catalog): one for one in lines}
    in_force = {name: one.value for name, one in last.items()}
    # The server looks at the value of the last of lines that spell a name alike, and at no other.
    read = {one.name: one.place for one in lines}
    found = []
    for one in lines:
        setting = _found(one, catalog)
        remarks = [*_remarks(one, setting, catalog, allowance, in_force, newest)]
        if read[one.name] != one.place and setting is not None:
            remarks = [replace(x, severity=_at_most_warning(x.severity)) for x in remarks]
        winner = last[_key(one, catalog)]
        if winner.place != one.place:
            remarks.append(_overridden(one, winner, setting))
        found.append(
            ConfLine(
                file=str(one.place.file),
                line=one.place.line,
                name=one.name if setting is None else setting.name,
                value=one.value,
                means=_readable(setting, one.value),
                default="" if setting is None else setting.readable(setting.boot_value or ""),
                summary="" if setting is None else setting.short_desc,
                category="" if setting is None else setting.category,
                takes_effect="" if setting is None else setting.takes_effect,
                laboratory=why_not.get((one.place, fold(one.name)), ""),
                counts=winner.place == one.place,
                remarks=tuple(remarks),
            )
        )
    return tuple(found)


def _at_most_warning(severity: Severity) -> Severity:
    return Severity.WARNING if severity is Severity.MISTAKE else severity


def _overridden(one: Given, winner: Given, setting: Setting | None) -> Remark:
    where = f"line {winner.place.line}"
    if winner.place.file != one.place.file:
        where = f"{winner.place.file.name}, {where}"
    meant = _readable(setting, one.value)
    is_same = one.value == winner.value or (meant and meant == _readable(setting, winner.value))
    words = "to the same" if is_same else f"to {winner.value}, and counts"
    return Remark(
        Severity.WARNING, f"{where} sets it again, {words}", "Remove one of the two lines."
    )


def _key(given: Given, catalog: SettingsCatalog) -> str:
    """Return the name by which the server knows a setting, also where the line has a former one."""
    setting = _found(given, catalog)
    return fold(given.name if setting is None else setting.name)


def _found(given: Given, catalog: SettingsCatalog) -> Setting | None:
    try:
        return catalog.find(given.name)
    except UnknownSetting:
        return None


def _readable(setting: Setting | None, value: str) -> str:
    if setting is None:
        return ""
    try:
        return setting.readable(setting.canonical(value))
    except SettingError:
        return ""


def _remarks(
    given: Given,
    setting: Setting | None,
    catalog: SettingsCatalog,
    allowance: Allowance,
    in_force: Mapping[str, str],
    newest: SettingsCatalog | None,
) -> Iterator[Remark]:
    try:
        catalog.check(given.name, given.value)
    except UnknownSetting as error:
        yield Remark(Severity.MISTAKE, error.message, _hint_on(given, catalog, newest, error))
        return
    except NotInThisBuild as error:
        yield Remark(Severity.WARNING, error.message, error.hint or "")
        return
    except SettingError as error:
        is_number = setting is not None and setting.vartype in ("integer", "real")
        mended = near_number(given.value, setting.unit) if setting and is_number else ""
        hint = " ".join(filter(None, [mended and f"Write {mended}.", error.hint]))
        yield Remark(Severity.MISTAKE, error.message, hint)
        return
    assert setting is not None, "it was checked"
    if fold(given.name) != fold(setting.name):
        yield Remark(Severity.NOTE, f"a former name of {setting.name}", f"Write {setting.name}.")
    now = setting.canonical(given.value)
    if loss := loss_of(setting.name, given.value):
        yield Remark(Severity.WARNING, str(loss))
    if why := does_nothing_why(setting.name, in_force, catalog):
        yield Remark(Severity.WARNING, why)
    if too_much := beyond_memory(setting, now, allowance):
        yield Remark(Severity.WARNING, too_much)
    if setting.boot_value is not None and now == setting.boot_value:
        yield Remark(Severity.NOTE, "the server's own default")


def _hint_on(
    given: Given, catalog: SettingsCatalog, newest: SettingsCatalog | None, error: UnknownSetting
) -> str:
    """Return what to write instead; or that a newer server has it, to which no name of this one comes near."""
    is_newer = newest is not None and fold(given.name) in newest.settings
    if newest is not None and is_newer and not catalog.same_as(given.name, given.value):
        version = newest.server_version_num // 10_000
        return f"PostgreSQL {version} has it: remove the line, or use that version."
    return error.hint or ""
