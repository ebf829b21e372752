"""What does a treatment ask of the horizon? Its levels, read, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pgdrag.errors import PgdragError, UsageError
from pgdrag.findings.holds.distribution import HoldDistribution, from_level
from pgdrag.findings.holds.levels import (
    AFTER,
    BEGIN,
    HOLD,
    HOLDER,
    HOLDERS,
    NOBODY,
    NOTHING,
    ONCE,
    PATTERN,
    REPLAY,
    WINDOW,
)
from pgdrag.horizon.holders import Holder, all_holders
from pgdrag.horizon.lengths import HoldLength, parse_length
from pgdrag.horizon.schedule import PATTERNS, Hold, OneKind, Pattern, replay, schedule
from pgdrag.horizon.tidying import AFTER_RELEASE, AfterRelease
from pgdrag.units import parse_seconds

MOST_HOLDERS = 50
_HINTS = {REPLAY: "Name a file that pgdrag capture horizon has written."}


@dataclass(frozen=True)
class Wrong:
    """A level that cannot be had.

    Attributes:
        name: of the level.
        is_mistake: see `factors.Problem`.
    """

    name: str
    message: str
    hint: str = ""
    is_mistake: bool = True


@dataclass(frozen=True)
class AskedHorizon:
    """The levels of a treatment, as far as they can be read; else the defaults.

    Attributes:
        begin_s: after the window's begin; None: before the warm-up.
    """

    holder: str = NOBODY
    length: HoldLength = HoldLength(WINDOW)  # noqa: RUF009 (frozen)
    pattern: Pattern = ONCE
    begin_s: float | None = 0.0
    holders: int = 1
    after_release: AfterRelease = NOTHING
    captured: HoldDistribution | None = None

    @property
    def is_held(self) -> bool:
        """Whether anybody is to hold."""
        return self.holder != NOBODY or self.captured is not None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which kinds may hold."""
        if self.captured is not None:
            return tuple(dict.fromkeys(repeatable(x) for x in self.captured.kinds))
        return () if self.holder == NOBODY else (self.holder,)

    def holds(self, *, warm_up_s: float, window_s: float, seed: int) -> tuple[Hold, ...]:
        """Return what is planned for one trial; times count from its window's begin."""
        begin_s = -warm_up_s if self.begin_s is None else self.begin_s
        if self.captured is not None:
            found = replay(self.captured, begin_s=begin_s, end_s=window_s, seed=seed)
            return tuple(Hold(x.begin_s, x.length_s, repeatable(x.holder)) for x in found)
        if self.holder == NOBODY:
            return ()
        source = OneKind(self.holder, self.length)
        return schedule(
            source,
            self.pattern,
            begin_s=begin_s,
            end_s=window_s,
            holders=self.holders,
            seed=seed,
        )


def repeatable(holder: str) -> str:
    """Return the kind that stands for one in a replay: a slot is left behind once, a snapshot any number of times."""
    return holder if all_holders()[holder].is_repeatable else "snapshot"


def read_levels(levels: Mapping[str, str]) -> tuple[AskedHorizon, list[Wrong]]:
    """Return what levels ask for, and what nobody could have as they ask for it."""
    wrong: list[Wrong] = []
    found: dict[str, Any] = {}
    for name, value in levels.items():
        if name not in _READERS:
            known = ", ".join(f'"{each}"' for each in _READERS)
            wrong.append(Wrong(name, f'the horizon has no "{name}"', f"It has {known}."))
            continue
        field, read = _READERS[name]
        try:
            found[field] = read(value)
        except PgdragError as error:
            message = f'horizon "{name}" cannot be had: {error.message}'
            wrong.append(Wrong(name, message, error.hint or _HINTS.get(name, "")))
    if found.get("pattern") == "shifting" and HOLDERS not in levels:
        found["holders"] = 2
    asked = AskedHorizon(**found)
    return asked, wrong or list(_contradictions(asked, levels))


def lacking(asked: AskedHorizon, settings: Mapping[str, str]) -> Iterator[Wrong]:
    """Return why a server with these settings cannot have what is asked for."""
    name = HOLDER if asked.captured is None else REPLAY
    for kind in asked.kinds:
        reason = all_holders()[kind].refusal(settings)
        if reason:
            message = f'horizon "{name}" cannot be {kind} here: {reason}'
            yield Wrong(name, message, is_mistake=False)


def kinds_of(holds: tuple[Hold, ...]) -> list[type[Holder]]:
    """Return the kinds that hold in a plan."""
    return [all_holders()[name] for name in sorted({hold.holder for hold in holds})]


def _contradictions(asked: AskedHorizon, levels: Mapping[str, str]) -> Iterator[Wrong]:
    if asked.captured is not None:
        together = [x for x in (HOLDER, HOLD, PATTERN, HOLDERS, AFTER) if x in levels]
        if asked.holder == NOBODY and HOLDER in together:
            together.remove(HOLDER)
        for name in together:
            message = f'horizon "{name}" says nothing beside "{REPLAY}"'
            yield Wrong(name, message, f'Leave "{name}" out: the file has what was captured.')
        return
    if asked.holder == NOBODY:
        return  # levels that all arms share, and this one has no holder
    if asked.pattern == "shifting" and asked.length.is_endless:
        message = 'a horizon cannot shift where each hold lasts for the "window"'
        yield Wrong(PATTERN, message, 'Give the length of each, as in hold = "30s".')
    if asked.pattern == "shifting" and asked.holders < 2:
        message = "a horizon that shifts takes two holders at least"
        yield Wrong(HOLDERS, message, "Leave it out, for two, or name more.")
    if not all_holders()[asked.holder].is_repeatable and (
        asked.pattern != ONCE or asked.holders > 1
    ):
        name = PATTERN if asked.pattern != ONCE else HOLDERS
        message = (
            f'horizon "{HOLDER}" {asked.holder} holds once in a trial: its standby is gone then'
        )
        yield Wrong(name, message, 'Leave it out, or take holder = "standby".')
    if asked.after_release != NOTHING and (asked.pattern != ONCE or asked.length.is_endless):
        why = (
            'each hold lasts for the "window"'
            if asked.length.is_endless
            else f"the pattern {asked.pattern} goes on to its end"
        )
        message = (
            f'nothing comes after the last release, where {why}: horizon "{AFTER}" is never due'
        )
        yield Wrong(
            AFTER, message, 'Hold once and for a shorter time than the window: hold = "10s".'
        )


def _holder(value: str) -> str:
    return _one_of((NOBODY, *all_holders()), value)


def _pattern(value: str) -> str:
    return _one_of(PATTERNS, value)


def _after_release(value: str) -> str:
    return _one_of(AFTER_RELEASE, value)


def _one_of(known: tuple[str, ...], value: str) -> str:
    if value in known:
        return value
    words = ", ".join(f'"{each}"' for each in known)
    raise UsageError(f'there is no "{value}"', hint=f"Write one of {words}.")


def _begin_s(value: str) -> float | None:
    if value == "load":
        return None
    try:
        return 0.0 if value == WINDOW else parse_seconds(value)
    except UsageError as error:
        hint = 'Write "load", "window", or how long after the window\'s begin: "10s".'
        raise UsageError(error.message, hint=hint) from None


def _holders(value: str) -> int:
    if value.isdecimal() and 1 <= int(value) <= MOST_HOLDERS:
        return int(value)
    raise UsageError(
        f'"{value}" is no number from 1 to {MOST_HOLDERS}',
        hint="Write how many hold at once.",
    )


def _captured(value: str) -> HoldDistribution:
    found = from_level(value)
    if not found.can_be_drawn:
        raise UsageError(
            "it has no hold whose length is known: there is nothing to replay",
            hint="Capture for longer, while the horizon is held.",
        )
    return found


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    HOLDER: ("holder", _holder),
    HOLD: ("length", parse_length),
    PATTERN: ("pattern", _pattern),
    BEGIN: ("begin_s", _begin_s),
    HOLDERS: ("holders", _holders),
    AFTER: ("after_release", _after_release),
    REPLAY: ("captured", _captured),
}
