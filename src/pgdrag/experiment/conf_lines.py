"""What does each line of a configuration mean to a server, and what is wrong with it?

Only what the server says of its settings, the documented meaning of a value, and what this process may use of the
machine: whether a line makes a workload slow, trials tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pgdrag.errors import SettingError
from pgdrag.experiment.applicable import applicable
from pgdrag.experiment.formats import Configuration, Given
from pgdrag.experiment.setting_conditions import does_nothing_why
from pgdrag.findings.durability import loss_of
from pgdrag.host.allowance import Allowance
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import NotInThisBuild, Setting, SettingsCatalog, UnknownSetting
from pgdrag.units import format_bytes, parse_bytes, with_base_unit

_OF_MEMORY = "Resource Usage / Memory"


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
    remarks: tuple[Remark, ...]


def conf_lines(
    configuration: Configuration, catalog: SettingsCatalog, allowance: Allowance
) -> tuple[ConfLine, ...]:
    """Return what every line of a configuration means, in its order; lines that a later one overrides, too."""
    _, skipped = applicable(configuration, catalog)
    why_not = {(one.place, fold(one.name)): one.why for one in skipped}
    lines = sorted((*configuration.given, *configuration.overridden), key=lambda one: one.place)
    last = {_key(one, catalog): one for one in lines}
    in_force = {name: one.value for name, one in last.items()}
    found = []
    for one in lines:
        setting = _found(one, catalog)
        remarks = [*_remarks(one, setting, catalog, allowance, in_force)]
        winner = last[_key(one, catalog)]
        if winner.place != one.place:
            where = f"line {winner.place.line}"
            if winner.place.file != one.place.file:
                where = f"{winner.place.file.name}, {where}"
            words = f"{where} sets it again, to {winner.value}, and counts"
            remarks.append(Remark(Severity.WARNING, words, "Remove one of the two lines."))
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
                remarks=tuple(remarks),
            )
        )
    return tuple(found)


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
) -> Iterator[Remark]:
    try:
        catalog.check(given.name, given.value)
    except NotInThisBuild as error:
        yield Remark(Severity.WARNING, error.message, error.hint or "")
        return
    except SettingError as error:
        yield Remark(Severity.MISTAKE, error.message, error.hint or "")
        return
    assert setting is not None, "it was checked"
    if fold(given.name) != fold(setting.name):
        yield Remark(Severity.NOTE, f"a former name of {setting.name}", f"Write {setting.name}.")
    now = setting.canonical(given.value)
    if loss := loss_of(setting.name, given.value):
        yield Remark(Severity.WARNING, str(loss))
    if why := does_nothing_why(setting.name, in_force, catalog):
        yield Remark(Severity.WARNING, why)
    if too_much := _beyond_memory(setting, now, allowance):
        yield Remark(Severity.WARNING, too_much)
    if setting.boot_value is not None and now == setting.boot_value:
        yield Remark(Severity.NOTE, "the server's own default")


def _beyond_memory(setting: Setting, now: str, allowance: Allowance) -> str:
    """Return that a size is beyond what this process may use, where it is a size of memory, or ""."""
    is_size = (setting.unit or "").endswith("B") and now.isdecimal()
    if not is_size or not setting.category.startswith(_OF_MEMORY):
        return ""
    size, most = parse_bytes(with_base_unit(now, setting.unit)), allowance.memory_bytes
    if size <= most:
        return ""
    return f"{format_bytes(size)}: this machine, or its control group, allows {format_bytes(most)}"
