"""How does a design over the rungs run? Its headline first, in pairs; then every rung, in blocks. Also: one at a time.

A study has a headline: one treatment against the baseline. Where there are trials enough, pairs of these two
come first, compared as `compare` compares its arms, until they are decided or their part of the trials is
used; then blocks of all treatments, in what is left. A run never takes more trials than whole blocks alone would.

What hardly commits takes the longest windows, and its count alone says how slow it is: one such trial decides the
headline, and a treatment like that is run again only when nothing else fits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Annotated, ClassVar

from pydantic import Field

from pgdrag.designs import Design, DesignParameters
from pgdrag.designs.compare import Compare
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.designs.compare.rules import (
    MOST_FORECAST,
    MOST_PAIRS,
    CompareParameters,
    End,
    Interim,
    pairs_to_detect,
)
from pgdrag.designs.compare.section import answer, comparison_blocks, warnings
from pgdrag.english import counted
from pgdrag.findings.combine import RungTrials, group
from pgdrag.findings.readings import rate_if_numbered, rates_of
from pgdrag.findings.values import Comparison, DesignFinding, Findings, Interval, Verdict
from pgdrag.findings.wording import so_far_words
from pgdrag.model import Block, Forecast, Outcome, Result, Rung, RunRecord, Treatment
from pgdrag.report import document
from pgdrag.report.sections import Section, found_of
from pgdrag.stats.linear_model import Fit, fit
from pgdrag.stats.paired import ORDER_PAIRS
from pgdrag.stats.rates import TrialRate, repeat_noise
from pgdrag.stats.ratios import slowdown
from pgdrag.stats.sequential import FIRST_INTERIM
from pgdrag.units import format_duration, format_ratio

# Of an undecided headline the answer says how many pairs an effect of this size takes.
_EXAMPLE_EFFECT = 1.2


class RungsParameters(DesignParameters):
    """Parameters of a design over the rungs."""

    # Runs stored before this parameter existed had whole blocks only, and resume that way.
    unstored: ClassVar[Mapping[str, object]] = {"headline": 0.0, "obvious": 0.0}

    baseline_repeats: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="Run the baseline this many times per block; two or more show the noise floor",
    )
    headline: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.75,
        description="Use up to this share of the trials for pairs that decide the headline first; 0: none",
    )
    obvious: Annotated[float, Field(ge=0)] = Field(
        default=10.0,
        description="With headline: run once what commits fewer than 30 transactions in a window and is at least this "
        "many times slower than the baseline, by the exact interval of its count; 0: run it as often as others",
    )


@dataclass(frozen=True)
class RungsFinding(DesignFinding):
    """What pairs and blocks show together.

    Attributes:
        headline: the comparison of the pairs; None where there were none.
        rates: committed transactions/s of each rung that has a number, with the noise of all trials.
        to_baseline: each rung against the baseline, likewise; the headline's by its pairs.
        to_previous: each rung against the one that it stands upon.
    """

    completes_answer: ClassVar[bool] = True

    headline: CompareFinding | None
    rates: Mapping[str, Interval]
    to_baseline: Mapping[str, Comparison]
    to_previous: Mapping[str, Comparison]

    def rate(self, rung: str) -> Interval | None:
        return self.rates.get(rung)

    def comparison(self, rung: str) -> Comparison | None:
        """Return a rung against the baseline, with the noise of all trials; the headline by its pairs."""
        return self.to_baseline.get(rung)

    def step(self, rung: str) -> Comparison | None:
        return self.to_previous.get(rung)


class EveryRung(Design):
    """The headline in pairs until it is decided, then every rung once a block.

    Without trials enough for `ORDER_PAIRS` pairs, blocks alone: every rung once, and the baseline as often as asked.
    """

    parameters: RungsParameters

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self._results: list[Result] = []
        self._obvious: frozenset[str] = frozenset()
        self._has_run = False
        self._target = self._headlines()[0] if len(self.rungs) > 1 else self.rungs[0]

    @abstractmethod
    def _headlines(self) -> Sequence[Rung]:
        """Return the candidates for the headline, best first; the first that this machine can test is used."""

    @cached_property
    def everything(self) -> tuple[Treatment, ...]:
        """Return the treatments of a block, each once, the rungs first."""
        return tuple(rung.treatment for rung in self.rungs)

    def ask(self) -> Block:
        """Return the next pair or the next block, each to be run once; without pairs all blocks at once."""
        if not self._most_pairs:
            return Block() if self._has_run else self._whole_block()
        following = self._next(len(self._results), is_open=self._is_open)
        return Block(following, replicates=1) if following else Block()

    def ask_ahead(self, most: int) -> Sequence[Block]:
        if not self._most_pairs:
            return ()
        run, blocks = len(self._results) + len(self.ask().treatments), list[Block]()
        while len(blocks) < most and (block := self._next(run, is_open=self._is_open)):
            run += len(block)
            blocks.append(Block(block, replicates=1))
        return blocks

    def tell(self, results: Sequence[Result]) -> None:
        """Take the results; if the headline cannot be tested here, the next candidate replaces it."""
        self._results += results
        self._has_run = True
        if not self._most_pairs:
            return
        self._obvious = self._obvious_in(self._results)
        lacking = {x.trial.treatment.name for x in self._results if x.outcome is Outcome.UNTESTABLE}
        testable = (x for x in self._headlines() if x.treatment.name not in lacking)
        target = next(testable, self._target)
        if target is self._target:
            self._comparison.tell(results)
        else:
            self._target = target
            self.__dict__.pop("_comparison", None)
            self._comparison.tell(self._results)

    def trials_left(self) -> Forecast:
        """Return the fewest and the most trials still to come, whenever the headline is decided, or if it never is."""
        if not self._most_pairs:
            return super().trials_left()
        run = len(self._results)
        following = len(self._next(run, is_open=self._is_open))
        if not following:
            return Forecast(0, 0)
        ends = self._ends(run)
        least, most = min(ends), max(ends)
        if self._may_be_obvious and len(self.rungs) > 2:
            # A block that becomes smaller leaves fewer trials over than the rungs of a whole one.
            least, most = min(least, self._trials - len(self.rungs) + 1), self._trials
        return Forecast(max(least - run, following), most - run)

    def _ends(self, run: int) -> list[int]:
        """Return how many trials a run may have in all, whenever the headline is decided, or if it never is."""
        if not self._is_open:
            return [self._end_after(run)]
        # Which case takes the fewest trials depends on what then fills the rest.
        pairs = self._comparison.forecast().least
        undecided_until = run + (len(self._pair) if self._may_be_obvious else pairs)
        at, ends = run, []
        while block := self._next(at, is_open=True):
            at += len(block)
            if at >= undecided_until:
                ends.append(self._end_after(at))
        return [*ends, at]

    def plan(self) -> str:
        """Say which pairs come first, and what follows."""
        if not self._most_pairs:
            return ""
        pairs = f"pairs of {self.rungs[0].name} and {self._target.name}"
        blocks = f"blocks of the {len(self.rungs)} {self.noun}s"
        if len(self.everything) > len(self.rungs):
            blocks = f"blocks of all {len(self.everything)} treatments or of the {len(self.rungs)} {self.noun}s"
        return f"First up to {self._first_pairs} {pairs}, until these are decided; then {blocks}, as many as {self._trials} trials allow."

    def so_far(self, results: Sequence[Result]) -> str:
        baseline = self.rungs[0].treatment
        if (
            self._most_pairs
            and results[-1].trial.treatment.identity == self._target.treatment.identity
        ):
            interim = self._comparison.interim(results)
            words = "" if interim is None else so_far_words(interim.shown)
            return f"{words} than {baseline.name} so far" if words else ""
        return against_baseline((*self._results, *results), baseline)

    def headline(self, run: RunRecord) -> CompareFinding | None:
        """Return what the pairs of the headline show; None where there are none."""
        if not self._most_pairs:
            return None
        found = self._comparison.find(run)
        if self._target.treatment.identity in self._obvious_in(run.results):
            return _decided_by_count(found)
        is_over = found.end is End.GOING_ON and not self.ask().treatments
        return replace(found, end=End.MAX_PAIRS) if is_over else found

    def find(self, run: RunRecord) -> RungsFinding | None:
        if not self._most_pairs:
            return None
        trials = group(self.rungs, run.results)
        return self.compare_all(
            run, trials, fit({one.rung.treatment.name: one.rates for one in trials})
        )

    def compare_all(
        self, run: RunRecord, trials: Sequence[RungTrials], fitted: Fit
    ) -> RungsFinding:
        """Return the rates and comparisons of all rungs: the headline's from its pairs, the others from the fit."""
        headline = self.headline(run)
        rates: dict[str, Interval] = {}
        to_baseline: dict[str, Comparison] = {}
        to_previous: dict[str, Comparison] = {}
        baseline = previous = self.rungs[0]
        known = None
        if headline is not None and len(headline.pairs) >= FIRST_INTERIM:
            known = headline.comparison(headline.treatment)
        for one in trials:
            rung, name = one.rung, one.rung.treatment.name
            if (rate := fitted.rate(name)) is not None:
                rates[rung.name] = rate
            for found, before in ((to_baseline, baseline), (to_previous, previous)):
                compared = fitted.compare(before.treatment.name, name)
                if rung is self._target and before is baseline and known is not None:
                    # Pairs all run in the same order cannot decide anything: use the fit of all trials.
                    is_undecidable = math.isinf(known.detectable) and compared is not None
                    compared = compared if is_undecidable else known
                if compared is not None:
                    found[rung.name] = compared
            if self.is_cumulative and one.rates:
                previous = rung
        answer = "" if headline is None else self.headline_sentence(headline, run)
        return RungsFinding(answer, (), headline, rates, to_baseline, to_previous)

    def headline_sentence(self, found: CompareFinding, run: RunRecord) -> str:
        """Say how many pairs decided the headline, or what it would take; "" with fewer than two."""
        start = f"{found.treatment} against {found.reference}"
        if found.pairs and found.end is End.DECIDED and len(found.pairs) < FIRST_INTERIM:
            return f"{start}: one trial of each was enough."
        if len(found.pairs) < FIRST_INTERIM:
            return ""
        pairs = f"{counted(len(found.pairs), 'pair')} of trials"
        if found.verdict is not Verdict.INCONCLUSIVE:
            return f"{start}: decided by {pairs}."
        if math.isinf(found.detectable) and len(found.pairs) >= ORDER_PAIRS:
            return f"{start}: the same side ran first in all {pairs}, so they cannot decide it."
        if found.pair_log_sd is None or found.detectable <= _EXAMPLE_EFFECT:
            return f"{start}: undecided after {pairs}."
        rules = self._comparison.parameters
        needed = pairs_to_detect(_EXAMPLE_EFFECT, found.pair_log_sd, rules)
        takes = (
            f"more than {MOST_FORECAST:,} pairs" if needed is None else f"about {needed:,} pairs"
        )
        identities = [one.identity for one in self._pair]
        took_s = [x.took_s for x in run.results if x.trial.treatment.identity in identities]
        if needed is not None and any(took_s):
            takes += f" ({format_duration(round(2 * needed * fmean(took_s)))})"
        return f"{start}: undecided after {pairs}; at this noise, {format_ratio(_EXAMPLE_EFFECT)} takes {takes}."

    def _whole_block(self) -> Block:
        baseline, *others = self.everything
        return Block((*[baseline] * self.parameters.baseline_repeats, *others))

    @property
    def _pair(self) -> tuple[Treatment, Treatment]:
        return self.rungs[0].treatment, self._target.treatment

    @property
    def _trials(self) -> int:
        """Trials of whole blocks alone, which a run never exceeds."""
        return self.replicates * (len(self.everything) + self.parameters.baseline_repeats - 1)

    @cached_property
    def _first_pairs(self) -> int:
        """Pairs before the first block, where there are pairs at all."""
        room = self._trials - len(self.rungs)  # for one block at least
        first = min(int(self.parameters.headline * self._trials), room) // 2
        return max(first, 0) if len(self.rungs) > 1 else 0

    @cached_property
    def _most_pairs(self) -> int:
        """Pairs if the headline is never decided; 0 where these are too few to decide anything."""
        run = most = 0
        while self._first_pairs and (block := self._next(run, is_open=True)):
            run, most = run + len(block), most + 1  # each of these blocks has both sides
        return min(most, MOST_PAIRS) if most >= ORDER_PAIRS else 0

    @cached_property
    def _comparison(self) -> Compare:
        assert self._most_pairs, "a study of blocks alone compares nothing"
        rules = CompareParameters(max_pairs=self._most_pairs)
        return Compare((self.rungs[0], self._target), rules)

    @property
    def _is_open(self) -> bool:
        is_obvious = self._target.treatment.identity in self._obvious
        return bool(self._comparison.ask().treatments) and not is_obvious

    @property
    def _may_be_obvious(self) -> bool:
        """Tell whether a rung may still turn out to be obvious: it has no trial with a number yet."""
        tried = {x.trial.treatment.identity for x in self._results if rate_if_numbered(x)}
        return bool(self.parameters.obvious) and any(
            rung.treatment.identity not in tried for rung in self.rungs
        )

    def _obvious_in(self, results: Sequence[Result]) -> frozenset[str]:
        """Return the identities of the treatments whose first trial's count alone says that they are far slower."""
        first: dict[str, TrialRate] = {}
        for result in results:
            if (rate := rate_if_numbered(result)) is not None:
                first.setdefault(result.trial.treatment.identity, rate)
        baseline = first.get(self.rungs[0].treatment.identity)
        times = self.parameters.obvious
        if not times or baseline is None or baseline.has_few_commits:
            return frozenset()
        return frozenset(
            identity
            for identity, rate in first.items()
            if rate.has_few_commits and slowdown([baseline], [rate]).slowdown.low >= times
        )

    def _blocks(self, *, is_open: bool) -> list[tuple[Treatment, ...]]:
        """Return the blocks that may follow the first pairs, the largest first; those that nothing is known of."""
        # What is known need not be run again; the baseline ties a block to the others.
        rungs = tuple(
            rung.treatment
            for rung in self.rungs
            if is_open or rung.treatment is not self._target.treatment
        )
        has_more = len(self.everything) > len(self.rungs)
        blocks = []
        for block in (self.everything, rungs) if has_more else (rungs,):
            unknown = tuple(x for x in block if x.identity not in self._obvious)
            blocks.append(unknown if len(unknown) > 1 else block)
        return [one for one in blocks if len(one) > 1]

    @property
    def _again(self) -> list[tuple[Treatment, ...]]:
        """Return the block of what is obvious, for the trials that are left over: its counts add up."""
        obvious = tuple(x for x in self.everything if x.identity in self._obvious)
        return [obvious] if obvious and len(self.rungs) > 2 else []

    def _next(self, run: int, *, is_open: bool) -> tuple[Treatment, ...]:
        """Return the next pair or block: a pair, the largest block that fits, or a pair while the headline is open.

        Args:
            run: trials run so far.
            is_open: the headline is not decided.
        """
        if is_open and run < 2 * self._first_pairs:
            return self._pair
        pair = [self._pair] if is_open else []
        may_follow = [*self._blocks(is_open=is_open), *pair, *self._again]
        return next((one for one in may_follow if len(one) <= self._trials - run), ())

    def _end_after(self, run: int) -> int:
        """Return how many trials a run has in all whose headline is decided after `run` of them."""
        for block in (*self._blocks(is_open=False), *self._again):
            run += max(self._trials - run, 0) // len(block) * len(block)
        return run


def _decided_by_count(found: CompareFinding) -> CompareFinding:
    """Return the headline as one that the exact interval of its counts decides."""
    if found.slowdown is None or found.verdict is not Verdict.INCONCLUSIVE:
        return found
    shown = found.slowdown
    interim = Interim(len(found.pairs), shown, shown, Verdict.SLOWER, None, is_decided=True)
    found = replace(
        found,
        verdict=Verdict.SLOWER,
        end=End.DECIDED,
        interims=(*found.interims, interim),
        more_pairs=0,
    )
    return replace(found, answer=answer(found), warnings=tuple(warnings(found)))


def against_baseline(results: Sequence[Result], baseline: Treatment) -> str:
    """Return `2× slower (1.9× to 2.1×) than A0 so far` of the last result's treatment; "" without a number on a side."""
    *_, last = results
    here = last.trial.treatment
    before, after = (
        rates_of(x for x in results if x.trial.treatment.identity == one.identity)
        for one in (baseline, here)
    )
    is_known = before and rate_if_numbered(last) is not None
    if here.identity == baseline.identity or not is_known:
        return ""
    if not any(rate.committed for rate in (*before, *after)):
        return ""
    found = slowdown(before, after, noise=repeat_noise([before])).slowdown
    return f"{so_far_words(found)} than {baseline.name} so far"


class OneAtATimeParameters(RungsParameters):
    """Parameters of a one-at-a-time study."""

    headline: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.25,
        description="Use up to this share of the trials for pairs that decide the first treatment; 0: none",
    )


class OneAtATime(EveryRung):
    """The baseline and every rung once a block, the first of them decided in pairs before: its headline.

    It sees what suffices by itself. What only counts together with another rung it cannot see: that is
    what `ablate` is for.
    """

    name = "one-at-a-time"
    summary = "each treatment by itself against the baseline"
    Parameters = OneAtATimeParameters

    def _headlines(self) -> Sequence[Rung]:
        return self.rungs[1:]


class HeadlineSection(Section):
    """The pairs that decided the headline, or did not."""

    name = "headline"
    summary = "the pairs that decide the headline of a ladder or a one-at-a-time study"
    title = "The headline, pair by pair"
    order = 57
    finding_type = RungsFinding

    def applies(self, findings: Findings) -> bool:
        found = findings.found
        return (
            isinstance(found, RungsFinding)
            and found.headline is not None
            and found.headline.slowdown is not None
        )

    def blocks(self, findings: Findings) -> Sequence[document.Block]:
        headline = found_of(findings, RungsFinding).headline
        assert headline is not None, "see applies"
        return comparison_blocks(headline)
