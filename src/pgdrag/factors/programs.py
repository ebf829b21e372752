"""Which programs of an experiment's own would a treatment start, and may it?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pgdrag.errors import UsageError
from pgdrag.factors import all_factors
from pgdrag.factors.treated_workload import workload_of
from pgdrag.model import Level, Treatment, WorkloadSpec
from pgdrag.model.program import Program


def programs_of(spec: WorkloadSpec | None, levels: Sequence[Level]) -> tuple[Program, ...]:
    """Return what one treatment starts: its factors, and the workload with its levels laid over it."""
    treatment = Treatment("", tuple(levels))
    found = [
        program
        for name, kind in all_factors().items()
        for program in kind.programs(treatment.of_kind(name))
    ]
    if spec is not None:
        found += workload_of(spec, treatment).programs()
    return tuple(dict.fromkeys(found))


def lacking_consent(programs: Iterable[Program], allowed: Collection[str]) -> list[Program]:
    """Return the programs that were not allowed."""
    return [program for program in programs if program.key not in allowed]


def refuse_without_consent(programs: Iterable[Program], allowed: Collection[str]) -> None:
    """Refuse to start programs that were not allowed.

    Raises:
        UsageError: it names the first such program.
    """
    for program in lacking_consent(programs, allowed):
        raise UsageError(
            f"the experiment runs a program to {program.purpose}, which nobody has allowed",
            detail=f"The command: {program.command}",
            hint="If you trust it, add --allow-run.",
        )
