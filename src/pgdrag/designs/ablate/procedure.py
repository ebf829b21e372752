"""Which of the changes from a reference to a target make it slower or faster, and how much each?

The whole procedure, on numbered changes: it says which sets of them to run next, takes the results, and knows
at any time what is found so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.designs._subsets import Observed, Request
from pgdrag.designs.ablate.history import History
from pgdrag.designs.ablate.long_trials import END_TRIALS, LongTrials
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.screening import Screening
from pgdrag.model import Forecast


def default_max_trials(changes: int) -> int:
    """Return a budget that is enough for most searches among this many changes."""
    return 4 * changes + 88


def smallest_max_trials(changes: int) -> int:
    """Return the smallest budget that compares every change twice, and measures the whole."""
    screening = Screening(changes, History(0), AblateParameters())
    return screening.planned_trials() + 2 * END_TRIALS


class Procedure:
    """The search among numbered changes; the same results in the same order lead to the same requests.

    Attributes:
        request: the next block; None when the search is over.
        screening: labels and survivors.
        long_trials: shares and pairs; None until the survivors are known.
    """

    def __init__(self, changes: int, parameters: AblateParameters) -> None:
        self.parameters = parameters
        limit = parameters.max_trials
        self.history = History(
            default_max_trials(changes) if limit is None else limit, is_per_replicate=limit is None
        )
        self.screening = Screening(changes, self.history, parameters)
        self.long_trials: LongTrials | None = None
        self._requests = self._run()
        self.request = next(self._requests, None)

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take all trials of the block asked for last."""
        self.history.add(observed)
        self.request = next(self._requests, None)

    @property
    def stage(self) -> str:
        """How far the search is: "screening", "checking", "shares", "pairs" or "done"."""
        if self.request is None:
            return "done"
        if self.long_trials is None:
            return "checking" if self.screening.is_labelled else "screening"
        return "pairs" if self.long_trials.has_shares else "shares"

    def forecast(self) -> Forecast:
        """Return how many trials remain: of the screening exactly, of the rest a range."""
        if self.request is None:
            return Forecast(0, 0)
        asked, left = len(self.request.sets), self.history.left
        if self.long_trials is not None:
            return Forecast(min(max(self.long_trials.least_trials(), asked), left), left)
        is_brief, history = self.parameters.has_brief_screening, self.history
        run = history.brief_trials if is_brief else history.trials
        screening = min(max(self.screening.planned_trials() - run, asked), left)
        rest = min(2 * END_TRIALS, left - screening)
        if not is_brief:
            return Forecast(screening + rest, left)
        # Repeats and group searches take from the budget of the shares: both maxima exclude each other.
        return Forecast(rest, left - screening, screening, left - rest)

    def _run(self) -> Iterator[Request]:
        screening = self.screening
        yield from screening.run()
        if screening.problem or not screening.whole:
            return
        found = screening.screened()
        self.long_trials = LongTrials(
            {at: (found[at].alone, found[at].with_others) for at in screening.survivors},
            screening.whole.difference(screening.survivors),
            self.history,
            self.parameters,
            screening.known_pairs(),
        )
        yield from self.long_trials.run()
