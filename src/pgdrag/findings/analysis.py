"""What is asked of the treatments of every run? One module an analysis; being here registers it.

An analysis is a module of this package, or the module `analysis` of a folder in it, or a module of `workloads` where
it is of one workload only. Its findings are kept by their
class: `rung.get(DecayFinding)` is what the analysis that finds a `DecayFinding` found of a rung, and a report section
names the class that it prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pgdrag import registry

if TYPE_CHECKING:  # a workload that has an analysis of its own is read before numbers are
    from pgdrag.findings.compared import Compared, Treatments

F = TypeVar("F")


class TreatmentAnalysis(ABC, Generic[F]):
    """A question asked of each treatment of a run.

    Class attributes:
        name: the key of what it finds, in the report as JSON.
        finds: the class of what it finds, which is its key among the findings.
    """

    name: ClassVar[str]
    finds: ClassVar[type[Any]]

    @abstractmethod
    def find(self, one: Compared, treatments: Treatments) -> F | None:
        """Return what was found of one of the run's treatments; None where there is nothing to say."""

    def warnings(self, found: F) -> tuple[str, ...]:
        """Return what a finding adds to the treatment's warnings; by default nothing."""
        return ()


class RunAnalysis(ABC, Generic[F]):
    """A question asked of all treatments of a run together; class attributes as of `TreatmentAnalysis`."""

    name: ClassVar[str]
    finds: ClassVar[type[Any]]

    @abstractmethod
    def find(self, treatments: Treatments) -> F | None:
        """Return what was found; None where there is nothing to say."""


def treatment_analyses() -> dict[str, type[TreatmentAnalysis[Any]]]:
    """Return every analysis of single treatments, by name."""
    return _registered(TreatmentAnalysis)  # type: ignore[type-abstract]


def run_analyses() -> dict[str, type[RunAnalysis[Any]]]:
    """Return every analysis of all treatments together, by name."""
    return _registered(RunAnalysis)  # type: ignore[type-abstract]


A = TypeVar("A")


def _registered(base: type[A]) -> dict[str, type[A]]:
    return {
        **registry.registered("pgdrag.findings", base),
        **registry.registered("pgdrag.findings", base, module="analysis"),
        **registry.registered("pgdrag.workloads", base),
    }
