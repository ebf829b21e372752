"""Which lines of a configuration are known to hurt, by what was measured?

A line is suspected if its value was measured, or one less extreme in the same direction. What was measured
without an effect, or as faster, is said, too; of the rest nothing is known, and nothing is said but how to find out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pgdrag.errors import SettingError
from pgdrag.experiment.conf_lines import ConfLine
from pgdrag.experiment.known_effects import KnownChange, KnownEffect
from pgdrag.experiment.memory_fit import beyond_memory, sum_beyond_memory
from pgdrag.findings.wording import slowdown_words
from pgdrag.host.allowance import Allowance
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import Setting, SettingsCatalog

MOST_FIGURES = 3  # of one line


class Reach(StrEnum):
    """How far a line goes, beside what was measured."""

    SAME = "same"
    FURTHER = "further"  # from the value before, beyond the one measured
    LESS = "less"  # not as far, or another way


@dataclass(frozen=True)
class Figure:
    """A measured effect that bears on lines of a configuration.

    Attributes:
        words: "1.3× slower (1.1× to 1.4×)".
        than: what that is compared with, as the server shows it: "shared_buffers 2 GB".
        is_further: a line goes beyond what was measured.
        verify: the command that measures it here.
    """

    effect: KnownEffect
    words: str
    than: str
    is_further: bool
    verify: str


@dataclass(frozen=True)
class Suspicion:
    """Lines that are known to hurt together, and the figures that say so: this machine's first, then the largest."""

    lines: tuple[ConfLine, ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class ConfDiagnosis:
    """What is known of a configuration's lines.

    Attributes:
        suspicions: the surest first.
        beyond_memory: what does not fit into the memory allowed here, as clauses, by the names of the settings.
        faster: names that were measured to be faster, each with the figure.
        no_effect: names that were measured without a significant effect, each with the most precise figure.
        at_default: names whose value is the server's own.
        unknown: names of which no measurement is known.
        own_runs: of this machine, that the figures come from.
    """

    suspicions: tuple[Suspicion, ...]
    beyond_memory: Mapping[str, str]
    faster: Mapping[str, Figure]
    no_effect: Mapping[str, Figure]
    at_default: tuple[str, ...]
    unknown: tuple[str, ...]
    own_runs: tuple[str, ...]


def diagnose(
    lines: Sequence[ConfLine],
    effects: Iterable[KnownEffect],
    catalog: SettingsCatalog,
    allowance: Allowance,
) -> ConfDiagnosis:
    """Return what measurements say of the lines that count."""
    known = {fold(x.name): x for x in lines if x.counts and x.means}
    # A run of this machine may also be in the shipped table.
    every = list({(x.source, x.changes, x.beside): x for x in reversed([*effects])}.values())[::-1]
    found = _Found()
    for one in every:
        found.add(one, known, catalog)
        found.add(one.turned, known, catalog, is_turned=True)
    suspicions = [
        Suspicion(tuple(known[x] for x in names), tuple(sorted(figures, key=_rank)[:MOST_FIGURES]))
        for names, figures in found.slower.items()
    ]
    suspected = {name for names in found.slower for name in names}
    at_default = {name for name, x in known.items() if x.means == x.default} - suspected
    faster = {name: x for name, x in found.faster.items() if name not in suspected}
    no_effect = {
        name: min(figures, key=_width)
        for name, figures in found.no_effect.items()
        if name not in suspected | faster.keys() | at_default
    }
    said = suspected | faster.keys() | no_effect.keys() | at_default
    return ConfDiagnosis(
        suspicions=tuple(sorted(suspicions, key=lambda x: _rank(x.figures[0]))),
        beyond_memory=_beyond_memory(known, catalog, allowance),
        faster=faster,
        no_effect=no_effect,
        at_default=tuple(sorted(at_default)),
        unknown=tuple(name for name in known if name not in said),
        own_runs=tuple(dict.fromkeys(x.source for x in every if x.is_own)),
    )


@dataclass
class _Found:
    """Figures that bear on the lines, by the names of the settings."""

    slower: dict[tuple[str, ...], list[Figure]] = field(default_factory=dict)
    faster: dict[str, Figure] = field(default_factory=dict)
    no_effect: dict[str, list[Figure]] = field(default_factory=dict)

    def add(
        self,
        effect: KnownEffect,
        known: Mapping[str, ConfLine],
        catalog: SettingsCatalog,
        *,
        is_turned: bool = False,
    ) -> None:
        """Add a figure where lines go as far as what it measured."""
        reach = _reach(effect, known, catalog)
        if reach is Reach.LESS:
            return
        changed = {fold(change.name) for change in effect.changes}
        names = tuple(name for name in known if name in changed)
        figure = _figure(effect, catalog, known, is_further=reach is Reach.FURTHER)
        is_alone = reach is Reach.SAME and len(changed) == 1
        if effect.interval.low > 1:
            self.slower.setdefault(names, []).append(figure)
        elif is_alone and effect.interval.high < 1:
            self.faster.setdefault(names[0], figure)
        elif is_alone and not is_turned:
            self.no_effect.setdefault(names[0], []).append(figure)


def _reach(effect: KnownEffect, known: Mapping[str, ConfLine], catalog: SettingsCatalog) -> Reach:
    """Return how far a configuration goes in what an effect changes: less, if it does in one of the settings.

    What no line sets has its default, but what all lines leave as it is by default says nothing of them.
    """
    lines = [known.get(fold(change.name)) for change in effect.changes]
    found = {
        _reach_of(change, line, catalog) for change, line in zip(effect.changes, lines, strict=True)
    }
    is_set = any(line is not None and line.means != line.default for line in lines)
    if not is_set or Reach.LESS in found:
        return Reach.LESS
    return Reach.FURTHER if Reach.FURTHER in found else Reach.SAME


def _reach_of(change: KnownChange, line: ConfLine | None, catalog: SettingsCatalog) -> Reach:
    setting = catalog.settings.get(fold(change.name))
    if setting is None:
        return Reach.LESS
    try:
        written, before, after = (
            setting.canonical(setting.boot_value or "" if x is None else x)
            for x in (None if line is None else line.value, change.before, change.after)
        )
    except SettingError:
        return Reach.LESS
    if written == after:
        return Reach.SAME
    if setting.vartype not in ("integer", "real"):
        return Reach.LESS
    value, start, end = float(written), float(before), float(after)
    # 0 and less often mean something else, such as a limit that is switched off: nothing goes further that way.
    is_way = 0 < value < end < start or (0 <= start < end < value)
    return Reach.FURTHER if is_way else Reach.LESS


def _figure(
    effect: KnownEffect,
    catalog: SettingsCatalog,
    known: Mapping[str, ConfLine],
    *,
    is_further: bool,
) -> Figure:
    than = ", ".join(
        f"{x.name} {_shown(catalog.settings.get(fold(x.name)), x.before)}" for x in effect.changes
    )
    verify = effect.verifying({name: x.value for name, x in known.items()})
    return Figure(effect, slowdown_words(effect.interval), than, is_further, verify)


def _shown(setting: Setting | None, value: str | None) -> str:
    if setting is None:
        return value or "default"
    try:
        shown = setting.readable(
            setting.canonical(setting.boot_value or "" if value is None else value)
        )
    except SettingError:
        return value or "default"
    return f"{shown or repr('')}{'' if value is not None else ' (default)'}"


def _width(figure: Figure) -> float:
    found = figure.effect.interval
    return found.high / found.low if found.low > 0 else math.inf


def _rank(figure: Figure) -> tuple[bool, float]:
    """Return what sorts figures: of this machine first, then by what the slowdown is at least."""
    return not figure.effect.is_own, -figure.effect.interval.low


def _beyond_memory(
    known: Mapping[str, ConfLine], catalog: SettingsCatalog, allowance: Allowance
) -> dict[str, str]:
    found = {}
    for name, line in known.items():
        setting = catalog.settings.get(name)
        if setting is not None and (
            why := beyond_memory(setting, setting.canonical(line.value), allowance)
        ):
            found[name] = why
    written = {name: line.value for name, line in known.items()}
    if together := sum_beyond_memory(written, catalog, allowance):
        found["in all"] = together
    return found
