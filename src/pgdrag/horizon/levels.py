"""What do a treatment's levels of the horizon mean, and what is wrong with them?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
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
from pgdrag.horizon.runner import AFTER_RELEASE, AfterRelease
from pgdrag.horizon.schedule import (
    PATTERNS,
    Hold,
    HoldLength,
    Pattern,
    parse_length,
    replay,
    schedule,
)
from pgdrag.units import parse_seconds

MOST_HOLDERS = 50
_HINTS = {REPLAY: "Use a file written by pgdrag capture horizon."}


@dataclass(frozen=True)
class LevelProblem:
    """A level that cannot be used.

    Attributes:
        name: the level's.
        is_mistake: see `factors.Problem`.
    """

    name: str
    message: str
    hint: str = ""
    is_mistake: bool = True


@dataclass(frozen=True)
class HorizonLevels:
    """The levels of a treatment; defaults where a level is missing or wrong.

    Attributes:
        begin_s: after the window begins; None: before the warm-up.
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
        """Whether anything is to hold the horizon."""
        return self.holder != NOBODY or self.captured is not None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of holder that are used."""
        if self.captured is not None:
            return tuple(dict.fromkeys(repeatable(x) for x in self.captured.kinds))
        return () if self.holder == NOBODY else (self.holder,)

    def holds(self, *, warm_up_s: float, window_s: float, seed: int) -> tuple[Hold, ...]:
        """Return the holds of one trial; times count from the start of its window."""
        begin_s = -warm_up_s if self.begin_s is None else self.begin_s
        if self.captured is not None:
            found = replay(self.captured, begin_s=begin_s, end_s=window_s, seed=seed)
            return tuple(Hold(x.begin_s, x.length_s, repeatable(x.holder)) for x in found)
        if self.holder == NOBODY:
            return ()
        return schedule(
            lambda rng: (self.holder, self.length.draw(rng)),
            self.pattern,
            begin_s=begin_s,
            end_s=window_s,
            holders=self.holders,
            seed=seed,
        )


def repeatable(holder: str) -> str:
    """Return the kind that replaces one in a replay: a slot can hold once, so a snapshot replaces it."""
    return holder if all_holders()[holder].is_repeatable else "snapshot"


def read_levels(levels: Mapping[str, str]) -> tuple[HorizonLevels, list[LevelProblem]]:
    """Return the meaning of levels, and the problems with them."""
    wrong: list[LevelProblem] = []
    found: dict[str, Any] = {}
    for name, value in levels.items():
        if name not in _READERS:
            known = ", ".join(f'"{each}"' for each in _READERS)
            wrong.append(
                LevelProblem(name, f'unknown level "{name}" of the horizon', f"Levels: {known}.")
            )
            continue
        field, read = _READERS[name]
        try:
            found[field] = read(value)
        except PgdragError as error:
            message = f'invalid horizon "{name}": {error.message}'
            wrong.append(LevelProblem(name, message, error.hint or _HINTS.get(name, "")))
    if found.get("pattern") == "shifting" and HOLDERS not in levels:
        found["holders"] = 2
    asked = HorizonLevels(**found)
    return asked, wrong or list(_contradictions(asked, levels))


def unsupported(asked: HorizonLevels, settings: Mapping[str, str]) -> Iterator[LevelProblem]:
    """Yield why a server with these settings cannot be held as the levels say."""
    name = HOLDER if asked.captured is None else REPLAY
    for kind in asked.kinds:
        reason = all_holders()[kind].refusal(settings)
        if reason:
            message = f'horizon "{name}" cannot be {kind} here: {reason}'
            yield LevelProblem(name, message, is_mistake=False)


def kinds_of(holds: tuple[Hold, ...]) -> list[type[Holder]]:
    """Return the kinds of holder in a plan."""
    return [all_holders()[name] for name in sorted({hold.holder for hold in holds})]


def _contradictions(asked: HorizonLevels, levels: Mapping[str, str]) -> Iterator[LevelProblem]:
    if asked.captured is not None:
        together = [x for x in (HOLDER, HOLD, PATTERN, HOLDERS, AFTER) if x in levels]
        if asked.holder == NOBODY and HOLDER in together:
            together.remove(HOLDER)
        for name in together:
            message = f'horizon "{name}" cannot be combined with "{REPLAY}"'
            yield LevelProblem(name, message, f'Remove "{name}": the file defines it.')
        return
    if asked.holder == NOBODY:
        return  # levels that all arms share; this arm has no holder
    if asked.pattern == "shifting" and asked.length.is_endless:
        message = 'the pattern "shifting" requires holds shorter than the "window"'
        yield LevelProblem(PATTERN, message, 'Set their length, for example hold = "30s".')
    if asked.pattern == "shifting" and asked.holders < 2:
        message = 'the pattern "shifting" requires at least two holders'
        yield LevelProblem(HOLDERS, message, "Remove the level to use two, or raise it.")
    if not all_holders()[asked.holder].is_repeatable and (
        asked.pattern != ONCE or asked.holders > 1
    ):
        name = PATTERN if asked.pattern != ONCE else HOLDERS
        message = f'horizon "{HOLDER}" {asked.holder} can hold only once per trial: its standby is stopped for it'
        yield LevelProblem(name, message, 'Remove it, or use holder = "standby".')
    if asked.after_release != NOTHING and (asked.pattern != ONCE or asked.length.is_endless):
        why = (
            'each hold lasts for the "window"'
            if asked.length.is_endless
            else f'the pattern "{asked.pattern}" lasts until the end of the window'
        )
        message = f'horizon "{AFTER}" would never run: {why}'
        yield LevelProblem(
            AFTER, message, 'Hold once, for less than the window, for example hold = "10s".'
        )


def _one_of(known: tuple[str, ...], value: str) -> str:
    if value in known:
        return value
    words = ", ".join(f'"{each}"' for each in known)
    raise UsageError(f'unknown value "{value}"', hint=f"Use one of {words}.")


def _begin_s(value: str) -> float | None:
    if value == "load":
        return None
    try:
        return 0.0 if value == WINDOW else parse_seconds(value)
    except UsageError as error:
        hint = 'Use "load", "window", or a time after the start of the window such as "10s".'
        raise UsageError(error.message, hint=hint) from None


def _holders(value: str) -> int:
    if value.isdecimal() and 1 <= int(value) <= MOST_HOLDERS:
        return int(value)
    raise UsageError(
        f'"{value}" is not a number from 1 to {MOST_HOLDERS}',
        hint="Set the number of simultaneous holders.",
    )


def _captured(value: str) -> HoldDistribution:
    found = from_level(value)
    if not found.can_be_drawn:
        raise UsageError(
            "it has no hold of known length, so there is nothing to replay",
            hint="Capture for longer, while the horizon is held.",
        )
    return found


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    HOLDER: ("holder", lambda value: _one_of((NOBODY, *all_holders()), value)),
    HOLD: ("length", parse_length),
    PATTERN: ("pattern", partial(_one_of, PATTERNS)),
    BEGIN: ("begin_s", _begin_s),
    HOLDERS: ("holders", _holders),
    AFTER: ("after_release", partial(_one_of, AFTER_RELEASE)),
    REPLAY: ("captured", _captured),
}
