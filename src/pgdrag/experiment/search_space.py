"""Which settings may a search change, and which values may each have?

Every setting of a server is a dimension or excluded for a reason.  The tables of `searched_settings` decide; a setting of a
later version that none of them knows is a dimension if it is a switch or a list of words, and excluded if it is
a number.  Ranges have all that the server starts with where the goal is to be slow, and sensible values where it
is to be fast; their upper ends leave memory for what runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pgdrag.designs.search.parameters import Dimension, Goal
from pgdrag.english import capital
from pgdrag.errors import UsageError
from pgdrag.experiment.rules_of_thumb import rules_of_thumb
from pgdrag.experiment.searched_settings import (
    ANYWAY,
    ANYWAY_TO_BE_SLOW,
    COST_CATEGORIES,
    COSTS,
    COSTS_BY_DEFAULT,
    EXCLUDED_CATEGORIES,
    EXCLUDED_WHY,
    EXPECTED,
    LOST_LATER,
    NEVER_FREE,
    NO_ZERO,
    ORDERED_WORDS,
    RANGES,
    TEXTS,
    WHY_LOST_LATER,
    WORDS_LEFT_OUT,
)
from pgdrag.experiment.setting_conditions import CONDITIONS, does_nothing_why
from pgdrag.findings.durability import Loss, loss_of
from pgdrag.host.allowance import Allowance
from pgdrag.servers.channel import channel_settings
from pgdrag.servers.settings import Setting, SettingsCatalog, UnknownSetting
from pgdrag.units import to_base_real

_MOST_VALUES = 11  # of a scale, beside special ones, the start and the rule of thumb
_WIDE = 32.0  # from the ratio of a range's ends above this, values lie 4 times apart, else twice
_ALIKE = 1.4  # of two values that are nearer than this ratio, the start or the rule of thumb stays
_EVEN_VALUES = 5  # of a range that is spaced evenly

_OBSERVED = "part of the observation channel, which is the same for all trials"
_RESTART = "needs a restart"
_NOT_NAMED = "not among the settings to search"


@dataclass(frozen=True)
class Excluded:
    """A setting that a search leaves as it is, and why: a clause."""

    name: str
    reason: str


@dataclass(frozen=True)
class SearchSpace:
    """All settings of a server: those that a search may change, and the others; both by name."""

    dimensions: tuple[Dimension, ...]
    excluded: tuple[Excluded, ...]

    def __add__(self, other: SearchSpace) -> SearchSpace:
        return SearchSpace(self.dimensions + other.dimensions, self.excluded + other.excluded)


@dataclass(frozen=True)
class _Search:
    """What is asked of the space, and what values may use."""

    goal: Goal
    is_reload_only: bool
    is_unsafe_allowed: bool
    observed: frozenset[str]
    allowance: Allowance
    connections: int


def search_space(
    catalog: SettingsCatalog,
    start: Mapping[str, str],
    allowance: Allowance,
    *,
    connections: int,
    goal: Goal,
    only: Collection[str] = (),
    is_reload_only: bool = False,
    is_unsafe_allowed: bool = False,
) -> SearchSpace:
    """Return the settings that a search may change, with their values, and why not the others.

    Args:
        start: what the start names, as it is written; all other settings start at their defaults.
        allowance: what the server may use.
        connections: of the load.
        only: names of the settings to search; none: all that can be.
        is_reload_only: leave out what needs a restart.
        is_unsafe_allowed: settings and values with which a crash loses data, too.

    Raises:
        UsageError: a name in `only` is unknown, or that setting cannot be searched.
        SettingError: the start has a setting or a value that the server does not take.
    """
    observed = frozenset(channel_settings(Path(), catalog.server_version_num))
    search = _Search(goal, is_reload_only, is_unsafe_allowed, observed, allowance, connections)
    named = {_known(catalog, name) for name in only}
    given = {catalog.check(name, value).name: value for name, value in start.items()}
    rules = rules_of_thumb(allowance, connections)
    dimensions: list[Dimension] = []
    excluded: list[Excluded] = []
    for _, setting in sorted(catalog.settings.items()):
        own, rule = given.get(setting.name), rules.get(setting.name)
        found = _excluded_why(setting, own, search) or _dimension(setting, own, rule, search)
        if isinstance(found, str):
            excluded.append(Excluded(setting.name, found))
        elif named and setting.name not in named:
            excluded.append(Excluded(setting.name, _NOT_NAMED))
        else:
            dimensions.append(found)
    space = _conditioned(dimensions, excluded, catalog, given)
    for out in space.excluded:
        if out.name in named:
            _refuse(catalog.settings[out.name], out.reason)
    return space


def _conditioned(
    dimensions: Sequence[Dimension],
    excluded: Sequence[Excluded],
    catalog: SettingsCatalog,
    given: Mapping[str, str],
) -> SearchSpace:
    """Return the space with the conditions of its dimensions, without those that can do nothing in it."""
    of_name = {one.name: one for one in dimensions}
    kept, inert = [], []
    for one in dimensions:
        condition = CONDITIONS.get(one.name)
        if condition is not None and condition.other in of_name:
            values = tuple(filter(condition.is_met_by, of_name[condition.other].values))
            kept.append(one.model_copy(update={"needs": condition.other, "needs_values": values}))
        elif why := does_nothing_why(one.name, given, catalog):
            inert.append(Excluded(one.name, why))
        else:
            kept.append(one)
    left_out = sorted([*excluded, *inert], key=lambda x: x.name)
    return SearchSpace(tuple(kept), tuple(left_out))


def _known(catalog: SettingsCatalog, name: str) -> str:
    try:
        found = catalog.find(name)
    except UnknownSetting as error:
        raise UsageError(error.message, hint=error.hint) from None
    if found not in catalog.settings.values():
        raise UsageError(
            f'no loaded extension defines setting "{name}"',
            hint="Leave it out of the settings to search.",
        )
    return found.name


def _refuse(setting: Setting, reason: str) -> NoReturn:
    message = f'setting "{setting.name}" cannot be searched: {reason}'
    raise UsageError(message, hint=_hint(setting, reason))


def _hint(setting: Setting, reason: str) -> str:
    leave = f"leave {setting.name} out of the settings to search"
    if reason == _RESTART:
        return f"Allow restarts, or {leave}."
    if reason in set(Loss):
        return f"Allow unsafe settings, or {leave}."
    return f"{capital(leave)}."


def _excluded_why(setting: Setting, own: str | None, search: _Search) -> str:
    """Return why a setting cannot be searched whatever its values, or ""."""
    name = setting.name
    if setting.context == "internal":
        return EXCLUDED_CATEGORIES["Preset Options"]
    if name in search.observed:
        return _OBSERVED
    if name in EXCLUDED_WHY:
        return EXCLUDED_WHY[name]
    is_slow_sought = search.goal == "minimize"
    if name not in RANGES.keys() | ANYWAY and not (is_slow_sought and name in ANYWAY_TO_BE_SLOW):
        for category, why in EXCLUDED_CATEGORIES.items():
            if setting.category.startswith(category):
                return why
    if setting.vartype == "string" and name not in TEXTS:
        return "its values are free text"
    if search.is_reload_only and setting.context == "postmaster":
        return _RESTART
    return "" if is_slow_sought else _useless_why(setting, own)


def _useless_why(setting: Setting, own: str | None) -> str:
    """Return why a search for speed leaves a setting alone, or ""."""
    name = setting.name
    if name in LOST_LATER:
        return WHY_LOST_LATER
    is_cost = setting.category.startswith(COST_CATEGORIES) or name in COSTS
    default = _spelt(setting, setting.boot_value or "")
    is_default = own is None or _spelt(setting, own) == default
    if is_cost and is_default and name not in COSTS_BY_DEFAULT:
        return "can only cost time, and its default costs the least"
    return ""


def _dimension(
    setting: Setting, own: str | None, rule: str | None, search: _Search
) -> Dimension | str:
    """Return a setting's dimension, or why it is not searched."""
    name = setting.name
    is_number = setting.vartype in ("integer", "real")
    if is_number and name not in RANGES:
        return "no safe range of values is known"
    default = _spelt(setting, setting.boot_value or "")
    start = default if own is None else _spelt(setting, own)
    # Where no rule of thumb says otherwise, the default is one. All of them are for speed.
    is_for_speed = search.goal == "maximize"
    advised = (_spelt(setting, rule) if rule else default) if is_for_speed else start
    values = _numbers(setting, [start, advised], search) if is_number else _words(setting, start)
    safe = [x for x in values if x == start or search.is_unsafe_allowed or not loss_of(name, x)]
    if len(safe) < 2:
        losses = [loss for x in values if (loss := loss_of(name, x))]
        return str(losses[0]) if losses else "no other value is known to work here"
    return Dimension(
        name=name,
        values=tuple(safe),
        is_ordered=setting.vartype != "enum" or name in ORDERED_WORDS,
        start=start,
        rule=advised if advised != start and advised in safe else None,
        is_expected=name in EXPECTED[search.goal] or start != default,
        group=setting.category,
    )


def _spelt(setting: Setting, value: str) -> str:
    """Return a value in the one spelling that all values of a dimension have."""
    shown = setting.canonical(value)
    return setting.written(float(shown)) if setting.vartype in ("integer", "real") else shown


def _words(setting: Setting, start: str) -> list[str]:
    if setting.vartype == "bool":
        return ["off", "on"]
    if setting.name in TEXTS:
        return list(dict.fromkeys([*TEXTS[setting.name], start]))
    left_out = WORDS_LEFT_OUT.get(setting.name, frozenset()) - {start}
    words = dict.fromkeys(setting.canonical(word) for word in setting.enumvals)
    return [word for word in dict.fromkeys([*words, start]) if word not in left_out]


def _numbers(setting: Setting, kept: list[str], search: _Search) -> list[str]:
    """Return values over a setting's range, ascending, those that must be kept among them."""
    of_fast, _, of_slow = RANGES[setting.name].partition("|")
    text = of_slow if of_slow and search.goal == "minimize" else of_fast
    low, high = (_bound(x, setting, search) for x in text.split())
    least, greatest = float(setting.min_value or 0), float(setting.max_value or math.inf)
    low, high = max(low, least), min(high, greatest)
    fixed = [float(setting.canonical(x)) for x in kept]
    is_even = low <= 0 or (setting.vartype == "real" and high < 2 * low)
    grid = _evenly(low, high) if is_even else _scale(setting, low, high)
    if not is_even:
        near = [x for x in fixed if x > 0]
        grid = [x for x in grid if all(max(x / y, y / x) > _ALIKE for y in near)]
        no_zero = NO_ZERO if search.goal == "minimize" else NO_ZERO | NEVER_FREE
        specials = [-1.0] if setting.name in no_zero else [-1.0, 0.0]
        grid += [x for x in specials if least <= x]
    if setting.vartype == "integer":
        grid = [float(round(x)) for x in grid]
    return list(dict.fromkeys(setting.written(x) for x in sorted({*grid, *fixed})))


def _evenly(low: float, high: float) -> list[float]:
    return [low + (high - low) * step / (_EVEN_VALUES - 1) for step in range(_EVEN_VALUES)]


def _scale(setting: Setting, low: float, high: float) -> list[float]:
    """Return round numbers from low to high, each about the same ratio times the one before."""
    if high <= low:
        return [low]
    span = high / low
    ratio = 4.0 if span > _WIDE else 2.0
    steps = min(math.ceil(math.log(span, ratio) - 1e-9), _MOST_VALUES - 1)
    inner = (_rounded(setting, low * span ** (step / steps)) for step in range(1, steps))
    return [low, *(x for x in inner if low < x < high), high]


def _rounded(setting: Setting, number: float) -> float:
    """Return the power of two nearest to a size, and one digit of any other number."""
    if not (setting.unit or "").endswith("B"):
        return float(f"{number:.1g}")
    base = _base_bytes(setting)
    return float(2 ** round(math.log2(number * base)) / base)


def _bound(text: str, setting: Setting, search: _Search) -> float:
    """Return one end of a range in the setting's base unit."""
    if text.endswith("p"):
        return float(max(1, math.ceil(float(text[:-1]) * search.allowance.processors)))
    if text.endswith("*c"):
        return to_base_real(text[:-2], setting.unit) * max(1, search.connections)
    share, is_share, of_each = text.partition("%")
    if not is_share:
        return to_base_real(text, setting.unit)
    size = search.allowance.memory_bytes * float(share) / 100
    if of_each:
        size /= max(1, search.connections)
    # Down to 1, 1.25, 1.5 or 1.75 times a power of two, which reads well and is a whole number of blocks.
    step = 2.0 ** (math.floor(math.log2(size)) - 2)
    return size // step * step / _base_bytes(setting)


def _base_bytes(setting: Setting) -> float:
    return (1 << 30) / to_base_real("1GB", setting.unit)
