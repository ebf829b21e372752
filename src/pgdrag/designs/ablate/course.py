"""Which of the changes from a reference to a target make it slower or faster, and how much each?

The whole search as one machine on numbers: it says which sets of changes to run next, is told what
came of them, and knows at any time what is found so far. It is the same for the design, which asks a
laboratory, for the analysis, which replays a run, and for the simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.designs.ablate.book import (
    AblationOptions,
    Book,
    Told,
    Wanted,
    default_max_trials,
)
from pgdrag.designs.ablate.game import ENDS_FIRST, Game
from pgdrag.designs.ablate.search import Search
from pgdrag.model import Forecast


def least_max_trials(changes: int) -> int:
    """Return the smallest budget that sees every change alone and in company, and the whole."""
    options = AblationOptions()
    screening = Search(changes, Book(0), options).forecast_screening()
    return screening + 2 * ENDS_FIRST


class Ablation:
    """The search among so many changes; the same told in the same order asks for the same.

    Attributes:
        search: labels and survivors.
        game: shares and pairs; None until the survivors are known.
    """

    def __init__(self, changes: int, options: AblationOptions | None = None) -> None:
        self.options = options or AblationOptions()
        limit = self.options.max_trials
        self.book = Book(
            default_max_trials(changes) if limit is None else limit,
            is_of_each_replicate=limit is None,
        )
        self.search = Search(changes, self.book, self.options)
        self.game: Game | None = None
        self._steps = self._run()
        self._wanted = next(self._steps, None)

    def ask(self) -> Wanted | None:
        """Return the block wanted next; None when the search is over."""
        return self._wanted

    def tell(self, told: Sequence[Told]) -> None:
        """Take all trials of the block asked for last."""
        self.book.add(told)
        self._wanted = next(self._steps, None)

    def note(self, told: Sequence[Told]) -> None:
        """Take trials of a block that is not complete: they count, but decide nothing."""
        self.book.add(told)

    @property
    def stage(self) -> str:
        """How far the search came: "screening", "checking", "shares", "pairs" or "done"."""
        if self._wanted is None:
            return "done"
        if self.game is None:
            return "checking" if self.search.is_labelled else "screening"
        return "pairs" if self.game.is_after_shares else "shares"

    def forecast(self) -> Forecast:
        """Return how many trials are still to come: of the screening exactly, of the rest a range."""
        if self._wanted is None:
            return Forecast(0, 0)
        left = self.book.left
        if self.game is not None:
            least = max(self.game.forecast_least(), len(self._wanted.sets))
            return Forecast(min(least, left), left)
        screening = max(
            self.search.forecast_screening()
            - (self.book.told_brief if self.options.has_brief_screening else self.book.told),
            len(self._wanted.sets),
        )
        screening = min(screening, left)
        rest = min(2 * ENDS_FIRST, left - screening)
        if not self.options.has_brief_screening:
            return Forecast(screening + rest, left)
        # What repeats and hunts take of the budget, the shares do not get: the two ends exclude each other.
        return Forecast(rest, left - screening, screening, left - rest)

    def _run(self) -> Iterator[Wanted]:
        yield from self.search.run()
        if self.search.problem or not self.search.whole:
            return
        found = self.search.screened()
        self.game = Game(
            self.search.survivors,
            self.search.others,
            self.book,
            self.options,
            {change: (one.alone, one.company) for change, one in found.items()},
            self.search.known_pairs(),
        )
        yield from self.game.run()
