"""What must every design do, whatever its question? A suite for pytest.

Subclass it in a test module; it asks for one fixture::

    class TestEveryDesign(DesignConformance):
        @pytest.fixture(params=list(all_designs().values()), ids=list(all_designs()))
        def design_class(self, request): ...             # type[Design], its Parameters have defaults

Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pgdrag.designs import Design
from pgdrag.model import Block, Outcome, Result, Trial
from pgdrag.model.events import ignore
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, run_design, simulated_ladder

# No design needs more blocks than this for a handful of factors.
MOST_BLOCKS = 1000


class DesignConformance:
    """Claims about one design class, on the simulated laboratory."""

    def test_it_says_what_it_is(self, design_class: type[Design]) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", design_class.name)
        assert design_class.summary
        assert "\n" not in design_class.summary

    def test_it_asks_for_known_factors_only_and_comes_to_an_end(
        self, design_class: type[Design]
    ) -> None:
        known = set(STUDY.levels)
        asked = blocks(design_class, Truth(slowdowns={"a": 2.0, "c": 5.0}))
        assert asked
        assert all(set(one.levels) <= known for block in asked for one in block.treatments)

    def test_the_same_results_lead_to_the_same_blocks(self, design_class: type[Design]) -> None:
        truth = Truth(slowdowns={"a": 2.0, "c": 5.0}, noise=0.05)
        assert (blocks(design_class, truth)) == (blocks(design_class, truth))

    def test_asking_twice_is_asking_once(self, design_class: type[Design]) -> None:
        design = make(design_class)
        assert design.ask() == design.ask()

    def test_after_each_trial_it_says_in_a_line_what_is_known_and_asks_for_the_same(
        self, design_class: type[Design]
    ) -> None:
        design = make(design_class)
        truth = Truth(slowdowns={"a": 2.0, "c": 5.0}, outcomes={"b": Outcome.STALLED})
        bench = SimulatedTrialRunner(truth)
        of_block: dict[int, list[Result]] = {}  # that the design asked for, with all replicates

        def run(trial: Trial) -> Result:
            asked = design.ask()
            results = of_block.setdefault((trial.block - 1) // STUDY.replicates, [])
            results.append(bench.run(trial, ignore))
            assert re.fullmatch(r"|.{1,100}", design.so_far(results))
            assert design.ask() == asked
            assert design.label(trial.treatment)
            return results[-1]

        assert [*run_design(design, STUDY, run, blocks=MOST_BLOCKS)]

    def test_the_forecast_counts_the_block_that_is_asked_for(
        self, design_class: type[Design]
    ) -> None:
        """At least what it asks for now is still to come, and no more at least than at most."""
        design = make(design_class)
        block, forecast = design.ask(), design.forecast()
        most = forecast.brief_most if block.is_brief else forecast.most
        assert len(block.treatments) <= most
        assert forecast.least <= forecast.most
        assert forecast.brief_least <= forecast.brief_most

    def test_it_bears_every_outcome(self, design_class: type[Design]) -> None:
        for outcome in Outcome:
            assert blocks(design_class, Truth(outcomes={"b": outcome}))
            assert blocks(design_class, Truth(), outcome=outcome)


STUDY = simulated_ladder("a", "b", "c", replicates=2)


def make(design_class: type[Design]) -> Design:
    """Return a design on the study, with its default parameters."""
    return design_class(STUDY.rungs, design_class.Parameters())


def blocks(
    design_class: type[Design], truth: Truth, *, outcome: Outcome | None = None
) -> list[Block]:
    """Return the blocks that a design asks for to its end; `outcome`: how each of its trials ends."""
    bench = SimulatedTrialRunner(truth)

    def run(trial: Trial) -> Result:
        result = bench.run(trial, ignore)
        if outcome is None or outcome is Outcome.MEASURED:
            return result
        return replace(result, outcome=outcome, measurement=None)

    found = [x for x, _ in run_design(make(design_class), STUDY, run, blocks=MOST_BLOCKS)]
    assert len(found) < MOST_BLOCKS, f"{design_class.name} did not end after {MOST_BLOCKS} blocks"
    return found
