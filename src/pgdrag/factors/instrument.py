"""What does pgdrag itself do in a trial? A factor only so that its cost can be measured like any other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.model import Applied, Level, Treatment

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

INSTRUMENT = "instrument"
COLLECTORS = "collectors"
# The collectors of these names, which cost too much, or change too much, to look by default.
PROFILE = "profile"
ROW_VERSIONS = "row_versions"
UPDATE_COST = "update_cost"
OPTIONAL = (PROFILE, ROW_VERSIONS, UPDATE_COST)
ON, OFF = "on", "off"
TURNS = "turns"  # they look and rest in turns within each window
_DEFAULTS = {COLLECTORS: ON, **dict.fromkeys(OPTIONAL, OFF)}
_VALUES = {COLLECTORS: (ON, OFF, TURNS), **dict.fromkeys(OPTIONAL, (ON, OFF))}


class Instrument(Factor):
    """The collectors, which are the same in all arms of any experiment but one that measures them."""

    name = INSTRUMENT
    summary = (
        "pgdrag's own part: collectors = on, off, or turns, to measure their cost; profile,"
        " row_versions and update_cost = on or off"
    )
    # The server knows nothing of it, so there is nothing to try on a cluster.
    examples: ClassVar[tuple[Example, ...]] = ()

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return what the instrument does not have, or is neither on nor off."""
        return [problem for level in levels if (problem := _problem(level)) is not None]

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Do nothing: the trial asks `is_observed` and `is_asked`."""

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return the levels themselves: nothing but the trial knows them."""
        return [
            Applied(Level(self.name, name, value), value, default=_DEFAULTS[name])
            for name, value in levels.items()
        ]


def is_observed(treatment: Treatment) -> bool:
    """Tell whether collectors look at the trials of a treatment."""
    return treatment.of_kind(INSTRUMENT).get(COLLECTORS) != OFF


def takes_turns(treatment: Treatment) -> bool:
    """Tell whether collectors look and rest in turns in the trials of a treatment."""
    return treatment.of_kind(INSTRUMENT).get(COLLECTORS) == TURNS


def is_asked(treatment: Treatment, collector: str) -> bool:
    """Tell whether a collector that is off by default looks at the trials of a treatment."""
    return treatment.of_kind(INSTRUMENT).get(collector) == ON


def _problem(level: Level) -> Problem | None:
    if level.name not in _DEFAULTS:
        message = f'the instrument has no "{level.name}"'
        *others, last = (f'"{name}"' for name in _DEFAULTS)
        return Problem(level, True, message, f"It has {', '.join(others)} and {last}.")
    values = _VALUES[level.name]
    if level.value not in values:
        message = f'"{level.name}" cannot be "{level.value}"'
        words = " or ".join(f'"{value}"' for value in values)
        return Problem(level, True, message, f"Write {words}.")
    return None
