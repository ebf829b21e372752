"""What is asked of the treatments of every run? One module an analysis; being here registers it.

An analysis is a module of this package, or the module `analysis` of a folder in it, or a module of `workloads` where
it is of one workload only. Its findings are kept by their
class: `rung.get(DecayFinding)` is what the analysis that finds a `DecayFinding` found of a rung, and a report section
names the class that it prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pgdrag import registry

if TYPE_CHECKING:  # a workload that has an analysis of its own is read before numbers are
    from pgdrag.findings.compared import Compared, Treatments

F = TypeVar("F")


@dataclass(frozen=True)
class TreatmentAnalysis(Generic[F]):
    """A question asked of each treatment of a run.

    Attributes:
        name: the key of what it finds, in the report as JSON.
        finds: the class of what it finds, which is its key among the findings.
        find: returns what was found of one of the run's treatments; None where there is nothing to say.
        warnings: returns what a finding adds to the treatment's warnings.
    """

    name: str
    finds: type[F]
    find: Callable[[Compared, Treatments], F | None]
    warnings: Callable[[F], tuple[str, ...]] = lambda found: ()


@dataclass(frozen=True)
class RunAnalysis(Generic[F]):
    """A question about all treatments of a run together; for the attributes see `TreatmentAnalysis`.

    Attributes:
        words: returns what a finding adds to the answer of the run, in sentences; by default nothing.
    """

    name: str
    finds: type[F]
    find: Callable[[Treatments], F | None]
    words: Callable[[F], str] = lambda found: ""


def treatment_analyses() -> dict[str, TreatmentAnalysis[Any]]:
    """Return every analysis of single treatments, by name."""
    return _registered(TreatmentAnalysis)


def run_analyses() -> dict[str, RunAnalysis[Any]]:
    """Return every analysis of all treatments together, by name."""
    return _registered(RunAnalysis)


A = TypeVar("A")


def _registered(kind: type[A]) -> dict[str, A]:
    return {
        **registry.registered_values("pgdrag.findings", kind),
        **registry.registered_values("pgdrag.findings", kind, module="analysis"),
        **registry.registered_values("pgdrag.workloads", kind),
    }
