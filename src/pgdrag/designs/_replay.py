"""What does a run's design know by now? A new one, told the run's results block by block."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from pgdrag.designs import Design
from pgdrag.model import Result, Rung, RunRecord, Study, Treatment

D = TypeVar("D", bound=Design)


def design_of(study: Study, kind: type[D]) -> D:
    """Return the study's design as it is before the first trial.

    Parameters that the design does not have are ignored: a journal may be older than the design.
    """
    rungs = study.rungs or (Rung("reference", "", Treatment("reference")),)
    fields = kind.Parameters.model_fields
    known = {name: value for name, value in study.design_parameters.items() if name in fields}
    return kind(rungs, kind.Parameters.model_validate(known))


def replayed(run: RunRecord, kind: type[D]) -> D:
    """Return the run's design after every block that is complete.

    The same results lead to the same design, so an analysis sees exactly what the design decided on.
    A block still under way is not told, nor is one that this design did not ask for.
    """
    design, times = design_of(run.study, kind), run.study.replicates
    for results in _blocks(run):
        asked = Counter(x.identity for x in design.ask().treatments for _ in range(times))
        if Counter(x.trial.treatment.identity for x in results) != asked:
            break
        design.tell(results)
    return design


def _blocks(run: RunRecord) -> list[list[Result]]:
    """Return the results of each block that the design asked for, with all its replicates."""
    blocks: dict[int, list[Result]] = {}
    for result in sorted(run.results, key=lambda result: result.trial.number):
        blocks.setdefault((result.trial.block - 1) // run.study.replicates, []).append(result)
    return [blocks[number] for number in sorted(blocks)]
