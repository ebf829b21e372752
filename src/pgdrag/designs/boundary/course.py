"""Which values does a search for a boundary try next? The same for the design and the analysis."""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.designs.boundary.curve import Step, Tally, search, spread
from pgdrag.errors import PgdragError
from pgdrag.findings.readings import Reading, Told, reading
from pgdrag.model import Block, Forecast, Level, Outcome, Result, Rung
from pgdrag.units import parse_bytes, parse_seconds

SETTING = "setting"


class BoundaryCourse:
    """The search for the smallest value at which the workload still runs, then the curve above it.

    Args:
        rungs: the first is what all trials have in common; where no values are given, those of the last
            rung's first factor are tried.
        setting: its name; "": that of the last rung's first factor.
        values: candidates, ascending, as they are written.
        points: values of the curve.
        repeats: trials of each of them.
    """

    def __init__(
        self, rungs: Sequence[Rung], setting: str, values: Sequence[str], points: int, repeats: int
    ) -> None:
        base = rungs[0].treatment
        factor = next((x.factor for x in rungs[-1].added), (SETTING, setting))
        if setting:
            factor = (SETTING, setting)
        if not values:
            values = [x.value for rung in rungs for x in rung.added if x.factor == factor]
        self.setting = factor[1]
        self.values = tuple(dict.fromkeys(values))
        self.treatments = tuple(
            base.with_levels(_name(factor[1], value), [Level(*factor, value)])
            for value in self.values
        )
        self._points, self._repeats = points, repeats
        self._told = Told()
        self.is_curve_told = False

    @property
    def step(self) -> Step | None:
        """Where the search stands; None where there is nothing to search."""
        return search(len(self.values), self._tallies()) if self.values else None

    def ask(self) -> Block:
        """Return the value to try next, then the points of the curve, then nothing."""
        step = self.step
        if step is None:
            return Block()
        if step.next is not None:
            return Block((self.treatments[step.next],), is_brief=True)
        if step.smallest is None or self.is_curve_told:
            return Block()
        places = spread(step.smallest, len(self.values), self._points)
        return Block(tuple(self.treatments[at] for at in places for _ in range(self._repeats)))

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last."""
        step = self.step
        if step is not None and step.next is None:
            self.is_curve_told = True
        self._told.add(results)

    def replay(self, results: Sequence[Result]) -> None:
        """Take the results of a run: those of the search one by one, those of the curve at last."""
        for result in results:
            if result.trial.is_brief:
                self._told.add([result])
        full = [result for result in results if not result.trial.is_brief]
        if full:
            self._told.add(full)
            self.is_curve_told = True

    def forecast(self) -> Forecast:
        """Return how many trials are still to come."""
        step, block = self.step, self.ask()
        if step is None or not block.treatments:
            return Forecast(0, 0)
        if not block.is_brief:
            return Forecast(len(block.treatments), len(block.treatments))
        curve = self._points * self._repeats
        halvings = len(self.values).bit_length()
        return Forecast(0, curve, 1, 2 * halvings + 8)

    def readings(self, place: int) -> tuple[Reading, ...]:
        """Return the full trials of a value that have a number."""
        return self._told.readings(self.treatments[place], is_brief=False)

    def outcomes(self, place: int) -> tuple[Result, ...]:
        """Return all trials of a value."""
        return self._told.results(self.treatments[place])

    def _tallies(self) -> dict[int, Tally]:
        tallies = {}
        for place, treatment in enumerate(self.treatments):
            results = self._told.results(treatment, is_brief=True)
            if results:
                worked = sum(works(result) for result in results)
                tallies[place] = Tally(worked, len(results) - worked)
        return tallies


def works(result: Result) -> bool:
    """Tell whether the workload ran: something was committed."""
    found = reading(result)
    return result.outcome is Outcome.MEASURED and found is not None and not found.is_bound


def size_of(value: str) -> float | None:
    """Return a value as a number, in bytes or seconds where it has a unit; None where it is none."""
    for read in (float, parse_bytes, parse_seconds):
        try:
            return float(read(value))
        except (ValueError, PgdragError):
            continue
    return None


def _name(setting: str, value: str) -> str:
    text = f"{setting} = {value}"
    return text if len(text) <= 60 else f"{text[:59]}…"
