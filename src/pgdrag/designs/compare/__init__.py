"""Is one treatment faster or slower than another, and by how much?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.compare.analysis import finding_of
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.pairs import Pairing, pairing
from pgdrag.designs.compare.rules import CompareParameters, Progress, progress
from pgdrag.model import Block, Forecast, Result, Rung, RunRecord
from pgdrag.stats.sequential import FIRST_INTERIM


class Compare(Design):
    """Pairs of the first and the last treatment, until they are decided or the limit is reached.

    The laboratory draws the order within each pair. A side that fails twice, and never had a
    number, ends the comparison: that is the answer.
    """

    name = "compare"
    summary = "two treatments in pairs, until it is clear which is faster, or that neither is"
    Parameters = CompareParameters
    parameters: CompareParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self.reference, self.treatment = rungs[0].treatment, rungs[-1].treatment
        self.progress = Progress()
        self._results: list[Result] = []

    @property
    def trials(self) -> Pairing:
        """All trials so far, in pairs."""
        return pairing(self._results, self.reference, self.treatment)

    def ask(self) -> Block:
        """Return one pair, or nothing once the comparison is over."""
        return Block() if self.progress.is_over else Block((self.reference, self.treatment))

    def tell(self, results: Sequence[Result]) -> None:
        """Analyse the pairs so far, where an interim analysis is due."""
        self._results += results
        self.progress = progress(self.trials, self.parameters, known=self.progress.interims)

    def forecast(self) -> Forecast:
        """Return the trials until the first analysis that may end it, and until the last pair."""
        if self.progress.is_over:
            return Forecast(0, 0)
        pairs = len(self.trials.pairs)
        least = max(FIRST_INTERIM - pairs, 1)
        return Forecast(2 * least, 2 * max(self.parameters.max_pairs - pairs, least))

    def find(self, run: RunRecord) -> CompareFinding:
        """Return the verdict on what was run so far."""
        return finding_of(self, run)
