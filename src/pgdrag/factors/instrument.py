"""What does pgdrag itself do in a trial? A factor only so that its cost can be measured like any other's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pgdrag.english import listed
from pgdrag.factors import Example, Factor, Here, Problem
from pgdrag.model import Applied, Level, Treatment

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

INSTRUMENT = "instrument"
COLLECTORS = "collectors"
PROFILE = "profile"  # an optional collector that the command line has an option for
ON, OFF = "on", "off"
TURNS = "turns"  # they look and rest in turns within each window


class Instrument(Factor):
    """The collectors, which are the same in all arms of any experiment but one that measures them."""

    name = INSTRUMENT
    summary = (
        "pgdrag's own part: collectors = on, off, or turns, to measure their cost; an optional"
        " collector (profile, row_versions, update_cost …) = on or off"
    )
    # The server knows nothing of it, so there is nothing to try on a cluster.
    examples: ClassVar[tuple[Example, ...]] = ()

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return what the instrument does not have, or is neither on nor off."""
        optional = here.optional_collectors
        return [problem for level in levels if (problem := _problem(level, optional)) is not None]

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return the levels themselves: nothing but the trial knows them."""
        return [
            Applied(Level(self.name, name, value), value, default=ON if name == COLLECTORS else OFF)
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


def _problem(level: Level, optional: frozenset[str]) -> Problem | None:
    if level.name not in {COLLECTORS, *optional}:
        message = f'the instrument has no "{level.name}"'
        known = listed([f'"{name}"' for name in (COLLECTORS, *sorted(optional))])
        return Problem(level, True, message, f"It has {known}.")
    values = (ON, OFF, TURNS) if level.name == COLLECTORS else (ON, OFF)
    if level.value not in values:
        message = f'"{level.name}" cannot be "{level.value}"'
        words = " or ".join(f'"{value}"' for value in values)
        return Problem(level, True, message, f"Write {words}.")
    return None
