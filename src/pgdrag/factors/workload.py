"""What do the clients do in this treatment? A parameter of the experiment's workload as a level."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pgdrag.factors import Example, Factor, Here, Phase, Problem
from pgdrag.factors.treated_workload import level_problems, workload_of
from pgdrag.model import Applied, Level, Treatment, Trial

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

WORKLOAD = "workload"


class WorkloadParameter(Factor):
    """The workload's own parameters; a dot leads into a table, as in "weights.update"."""

    name = WORKLOAD
    phase = Phase.WORKLOAD
    summary = "a parameter of the experiment's workload, as in its table"
    # The server knows nothing of it, so there is nothing to try on a cluster: every workload's parameters
    # are tried as levels in its own conformance suite.
    examples: ClassVar[tuple[Example, ...]] = ()

    def __init__(self) -> None:
        self._asked: Mapping[str, Any] = {}
        self._driven: Mapping[str, Any] = {}

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return what the workload does not take; nothing where no workload is known yet."""
        return [] if here.workload is None else level_problems(here.workload, levels)

    def serve(self, trial: Trial) -> None:
        self._asked = workload_of(trial.workload, Treatment("")).model_dump(mode="json")
        self._driven = workload_of(trial.workload, trial.treatment).model_dump(mode="json")

    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        return [
            Applied(
                Level(self.name, name, value),
                shown(_at(self._driven, name)),
                default=shown(_at(self._asked, name)),
            )
            for name, value in levels.items()
        ]


def shown(value: object) -> str:
    """Return a parameter in the spelling of levels."""
    match value:
        case str():
            return value
        case bool():
            return "on" if value else "off"
        case _:
            return json.dumps(value)


def _at(parameters: Mapping[str, Any], name: str) -> object:
    found: Any = parameters
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
