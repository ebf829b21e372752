"""What did a run find that only its design can say? One file a design; being here registers it.

A design without a file here is told treatment by treatment, like a ladder's rungs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pgdrag import registry
from pgdrag.findings.values import DesignFinding
from pgdrag.model import RunRecord


class DesignAnalysis(ABC):
    """What a design's results say together.

    Class attributes:
        name: the design's name.
    """

    name: ClassVar[str]

    @abstractmethod
    def find(self, run: RunRecord) -> DesignFinding | None:
        """Return what was found, whatever state the run is in; None where treatments say it all."""


def all_analyses() -> dict[str, type[DesignAnalysis]]:
    """Return every registered analysis, by its design."""
    return registry.registered("pgdrag.designs", DesignAnalysis, module="analysis")  # type: ignore[type-abstract]


def find_of_design(run: RunRecord) -> DesignFinding | None:
    """Return what the run's design found; None where the design has no analysis of its own."""
    kind = all_analyses().get(run.study.design)
    return None if kind is None else kind().find(run)
