"""What did a run find that only its design can say?"""

from __future__ import annotations

from collections import Counter

from pgdrag.findings.values import DesignFinding
from pgdrag.model import Result, Rung, RunRecord, Treatment
from pgdrag.model.design import Design, all_designs


def find_of_design(run: RunRecord) -> DesignFinding | None:
    """Return what the run's design found; None where its rungs say it all, or the design is unknown."""
    kind = all_designs().get(run.study.design)
    return None if kind is None else replayed(run, kind).find(run)


def replayed(run: RunRecord, kind: type[Design]) -> Design:
    """Return the run's design after every block that is complete.

    A block still under way is left out, and so is one that this design did not ask for.
    """
    study = run.study
    rungs = study.rungs or (Rung("reference", "", Treatment("reference")),)
    design = kind(rungs, study.design_parameters)
    for results in _blocks(run):
        asked = Counter(
            x.identity for x in design.ask().treatments for _ in range(study.replicates)
        )
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
