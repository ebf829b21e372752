"""Each treatment between two baselines, A B A C A: a design with its parameters, finding and section.

The machine's slow drift makes the baseline before a treatment and the one after it differ. Their mean is
what the machine would have done in between, so that a steady drift cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.findings.combine import rate_of
from pgdrag.findings.values import Comparison, DesignFinding, Findings, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Block, Forecast, Outcome, Result, Rung, RunRecord, Treatment
from pgdrag.report.document import Align, Cell, Column, Heading, Table
from pgdrag.report.document import Block as ReportBlock
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.stats.rates import TrialRate, repeat_noise
from pgdrag.stats.ratios import slowdown
from pgdrag.units import format_rate


class SandwichParameters(DesignParameters):
    """The keys of `[design]` beside `kind`."""

    rounds: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="How often each treatment is run between two baselines"
    )


@dataclass(frozen=True)
class Filling:
    """What was found of one treatment.

    Attributes:
        rung: its name.
        before_per_s, per_s, after_per_s: committed transactions/s of the first sandwich's three trials.
        comparison: how many times slower than the mean of its two neighbours it is, over all rounds.
    """

    rung: str
    before_per_s: float
    per_s: float
    after_per_s: float
    comparison: Comparison


@dataclass(frozen=True)
class SandwichFinding(DesignFinding):
    """What the design found; JSON has all of it under `found`.

    Attributes:
        fillings: of each treatment whose two neighbours were measured, in the experiment's order.
    """

    fillings: tuple[Filling, ...]

    def comparison(self, rung: str) -> Comparison | None:
        """Return the sandwich's comparison, for the rest of the report to use."""
        return next((one.comparison for one in self.fillings if one.rung == rung), None)


class Sandwich(Design):
    """The baseline before and after each treatment.

    The laboratory runs the treatments of a block in random order. This design wants its own order, so
    each of its blocks has one treatment.
    """

    name = "sandwich"
    summary = "the baseline before and after each treatment: a steady drift cancels"
    Parameters = SandwichParameters
    parameters: SandwichParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        base, *others = (rung.treatment for rung in self.rungs)
        around = [each for other in others * self.parameters.rounds for each in (other, base)]
        self.order: tuple[Treatment, ...] = (base, *around)
        self._done = 0

    def ask(self) -> Block:
        """Return the next treatment, until there is none."""
        return Block(self.order[self._done : self._done + 1])

    def tell(self, results: Sequence[Result]) -> None:
        """Go on, whatever the results are: this design does not adapt."""
        self._done += 1

    def forecast(self) -> Forecast:
        """Return how many trials are still to come."""
        left = len(self.order) - self._done
        return Forecast(left, left)

    def find(self, run: RunRecord) -> SandwichFinding:
        """Compare each treatment with its neighbours, in whatever state the run is."""
        rates = _rates(run, self.order)
        noise = repeat_noise([[rate for at in rates if at % 2 == 0 for rate in rates[at]]])
        fillings = []
        for rung in self.rungs[1:]:
            at = [x for x in range(1, len(self.order), 2) if self.order[x] is rung.treatment]
            # A sandwich's trials share a block number: with several rounds they are compared in pairs.
            whole = [x for x in at if {x - 1, x, x + 1} <= rates.keys()]
            outer = [replace(r, block=x) for x in whole for y in (x - 1, x + 1) for r in rates[y]]
            inner = [replace(rate, block=x) for x in whole for rate in rates[x]]
            if whole:
                before, own, after = (_per_s(rates[whole[0] + x]) for x in (-1, 0, 1))
                found = slowdown(outer, inner, noise=noise)
                fillings.append(Filling(rung.name, before, own, after, found))
        return SandwichFinding(_answer(fillings), (), tuple(fillings))


def _rates(run: RunRecord, order: Sequence[Treatment]) -> dict[int, list[TrialRate]]:
    """Return the rates of measured trials by their place in the order."""
    found: dict[int, list[TrialRate]] = {}
    for result in run.results:
        at = (result.trial.block - 1) // run.study.replicates
        is_ours = at < len(order) and order[at].identity == result.trial.treatment.identity
        if is_ours and result.outcome is Outcome.MEASURED and result.measurement is not None:
            found.setdefault(at, []).append(rate_of(result, result.measurement))
    return found


def _per_s(rates: Sequence[TrialRate]) -> float:
    return sum(rate.committed for rate in rates) / sum(rate.elapsed_s for rate in rates)


def _answer(fillings: Sequence[Filling]) -> str:
    if not fillings:
        return "No answer yet: no treatment has a baseline on either side."
    return " ".join(f"{one.rung}: {_words(one)}." for one in fillings)


def _words(one: Filling) -> str:
    size = slowdown_words(one.comparison.slowdown)
    is_significant = one.comparison.verdict in (Verdict.SLOWER, Verdict.FASTER)
    return size if is_significant else f"no significant change, {size}"


class SandwichSection(Section):
    """A row for each treatment, and the three rates that it comes from."""

    name = "sandwich"
    summary = "each treatment against the mean of the baselines before and after it"
    title = "Between two baselines"
    order = 19
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """Show it for this design, once a treatment has both neighbours."""
        return isinstance(findings.found, SandwichFinding) and bool(findings.found.fillings)

    def blocks(self, findings: Findings) -> Sequence[ReportBlock]:
        """Return the intervals as a picture, and the rates as a table."""
        fillings = found_of(findings, SandwichFinding).fillings
        rows = [
            Row(x.rung, words=slowdown_words(x.comparison.slowdown), found=x.comparison.slowdown)
            for x in fillings
        ]
        told = "; ".join(f"{x.rung}: {_words(x)}" for x in fillings)
        caption = "How many times slower than the mean of the two baselines around it."
        figure = rows_figure(rows, self.title, told, caption, name="sandwich-chart")
        titles = ("Baseline before", "Treatment", "Baseline after")
        columns = (Column("Treatment"), *(Column(title, Align.RIGHT) for title in titles))
        cells = tuple(
            (
                Cell(x.rung, is_strong=True),
                *(Cell(format_rate(rate)) for rate in (x.before_per_s, x.per_s, x.after_per_s)),
            )
            for x in fillings
        )
        return (figure, Table("Committed per second, first round", columns, cells))

    def brief(self, findings: Findings) -> Sequence[ReportBlock]:
        """Return the same for the terminal, which prints no title of its own."""
        return (Heading(self.title), *self.blocks(findings))
