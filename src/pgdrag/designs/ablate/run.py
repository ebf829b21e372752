"""An ablation between two treatments: sets of changes as treatments, and their results as numbers.

The design asks and is told through it, and the analysis replays a finished or unfinished run through
it, so that both know the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.ablate.book import AblationOptions, Told
from pgdrag.designs.ablate.course import Ablation
from pgdrag.designs.ablate.subset_values import Changes
from pgdrag.findings.readings import reading
from pgdrag.model import Block, Result, RunRecord, Treatment
from pgdrag.model.changes import changes_between, subset_treatment


class AblationRun:
    """The search between a reference and a target.

    Attributes:
        changes: what the target changes; the search's numbers are places in it.
        ablation: the search itself, with all that is known by now.
    """

    def __init__(self, reference: Treatment, target: Treatment, options: AblationOptions) -> None:
        self.reference, self.target = reference, target
        self.changes = changes_between(reference, target)
        self.ablation = Ablation(len(self.changes), options)
        self._whole = frozenset(range(len(self.changes)))
        self._sets: dict[str, Changes] = {}

    @classmethod
    def replayed(cls, run: RunRecord, options: AblationOptions) -> AblationRun:
        """Return the search as it stands after all that a run was told."""
        ends = [rung.treatment for rung in run.study.rungs] or [Treatment("nothing")]
        made = cls(ends[0], ends[-1], options)
        for results in _blocks(run):
            asked = made.ask()
            if not asked.treatments:
                break
            if len(results) == len(asked.treatments) * run.study.replicates:
                made.tell(results)
            else:  # cut off in the middle of a block
                made.ablation.note(made._told(results))
                break
        return made

    def ask(self) -> Block:
        """Return the block wanted next; without treatments where the search is over."""
        wanted = self.ablation.ask()
        if wanted is None:
            return Block()
        return Block(tuple(self.treatment(one) for one in wanted.sets), is_brief=wanted.is_brief)

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        self.ablation.tell(self._told(results))

    def treatment(self, changes: Changes) -> Treatment:
        """Return the reference with these changes; named so that a person knows which."""
        made = subset_treatment(self.reference, self.target, self.changes, changes)
        self._sets[made.identity] = changes
        return made

    def _told(self, results: Sequence[Result]) -> list[Told]:
        return [
            Told(
                self._sets[result.trial.treatment.identity],
                result.trial.is_brief,
                reading(result),
                result.outcome,
            )
            for result in results
            if result.trial.treatment.identity in self._sets
        ]


def _blocks(run: RunRecord) -> list[list[Result]]:
    """Return the results of each block that the design asked for: all its replicates together."""
    blocks: dict[int, list[Result]] = {}
    for result in sorted(run.results, key=lambda result: result.trial.number):
        blocks.setdefault((result.trial.block - 1) // run.study.replicates, []).append(result)
    return [blocks[number] for number in sorted(blocks)]
