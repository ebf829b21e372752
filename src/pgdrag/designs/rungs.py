"""What does each rung do by itself, upon the baseline alone? And what a ladder asks for alike: every rung once a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pgdrag.designs import DesignParameters, OneBlock
from pgdrag.findings.readings import rate_if_numbered, rates_of
from pgdrag.findings.wording import so_far_words
from pgdrag.model import Block, Result, Treatment
from pgdrag.stats.rates import repeat_noise
from pgdrag.stats.ratios import slowdown


class RungsParameters(DesignParameters):
    """Parameters of a design over the rungs."""

    baseline_repeats: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="Run the baseline this many times a block; two or more show the noise floor",
    )


class EveryRung(OneBlock):
    """Every rung once, and the baseline as often as asked."""

    parameters: RungsParameters

    def block(self) -> Block:
        """Return every rung's treatment, the baseline's further repeats first."""
        treatments = [rung.treatment for rung in self.rungs]
        return Block((*[treatments[0]] * (self.parameters.baseline_repeats - 1), *treatments))

    def so_far(self, results: Sequence[Result]) -> str:
        """Return how the last trial's treatment compares with the baseline by now."""
        return against_baseline(results, self.rungs[0].treatment)


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


class OneAtATime(EveryRung):
    """The baseline and every rung once a block; the laboratory adds replicates.

    It sees what suffices by itself. What only counts together with another rung it cannot see: that is
    what `ablate` is for.
    """

    name = "one-at-a-time"
    summary = "each treatment by itself against the baseline"
    Parameters = OneAtATimeParameters
