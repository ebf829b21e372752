"""Which trials of a comparison belong together, and which failed?

A pair is a block with one trial of the reference and one of the treatment, run next to each other
in an order drawn by lot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdrag.findings.combine import rate_of
from pgdrag.model import Outcome, Result, Treatment
from pgdrag.stats.pair_logs import PairedLogs
from pgdrag.stats.rates import TrialRate, within_spread


@dataclass(frozen=True)
class Pair:
    """One trial of each side, both with a number.

    Attributes:
        is_reference_first: the reference's trial ran before that of the treatment.
    """

    reference: Result
    treatment: Result
    is_reference_first: bool

    @property
    def sign(self) -> int:
        """1 where the reference ran first, else -1."""
        return 1 if self.is_reference_first else -1

    @property
    def rates(self) -> tuple[TrialRate, TrialRate]:
        """Throughput of the reference and of the treatment."""
        return _rate(self.reference), _rate(self.treatment)


@dataclass(frozen=True)
class Pairing:
    """All results of a comparison, sorted out.

    Attributes:
        pairs: in the order run.
        failed: blocks in which a side has no number, in the order run, each with the results of the
            sides that have none: of the reference, of the treatment (None: that side has one).
    """

    pairs: tuple[Pair, ...] = ()
    failed: tuple[tuple[Result | None, Result | None], ...] = ()

    def failures(self, side: int) -> tuple[Result, ...]:
        """Return the results without a number of the reference (0) or the treatment (1)."""
        return tuple(found for block in self.failed if (found := block[side]) is not None)

    def first(self, pairs: int) -> Pairing:
        """Return the same with the first few pairs only."""
        return Pairing(self.pairs[:pairs], self.failed)

    @property
    def rates(self) -> tuple[list[TrialRate], list[TrialRate]]:
        """Throughput of all trials of the reference, and of the treatment."""
        both = [pair.rates for pair in self.pairs]
        return [before for before, _ in both], [after for _, after in both]


def pairing(results: Iterable[Result], reference: Treatment, treatment: Treatment) -> Pairing:
    """Sort the results of a comparison into pairs, by their blocks.

    Where both sides are the same treatment (a comparison of a thing with itself) the names tell them
    apart, and where these are the same too, lots do: the block's own seed.
    """
    blocks: dict[int, list[Result]] = {}
    for result in results:
        if not result.trial.is_brief:
            blocks.setdefault(result.trial.block, []).append(result)
    pairs: list[Pair] = []
    failed: list[tuple[Result | None, Result | None]] = []
    for block in blocks.values():
        sides = _sides(block, reference, treatment)
        if sides is None:
            continue
        before, after = sides
        if has_number(before) and has_number(after):
            pairs.append(Pair(before, after, before.trial.number < after.trial.number))
        else:
            failed.append(
                (None if has_number(before) else before, None if has_number(after) else after)
            )
    return Pairing(tuple(pairs), tuple(failed))


def has_number(result: Result) -> bool:
    """Tell whether a result says something of throughput, nothing committed included."""
    measured = result.measurement
    return (
        result.outcome in (Outcome.MEASURED, Outcome.STALLED)
        and measured is not None
        and measured.elapsed_s > 0
    )


def throughput_logs(pairs: Sequence[Pair]) -> PairedLogs:
    """Return the log slowdown of each pair; every trial committed something."""
    rates = [pair.rates for pair in pairs]
    within = sum(within_spread(rate).log_se ** 2 for both in rates for rate in both)
    return PairedLogs(
        tuple(math.log(before.per_s) - math.log(after.per_s) for before, after in rates),
        tuple(pair.sign for pair in pairs),
        math.sqrt(within) / len(pairs) if pairs else 0.0,
    )


def _sides(
    block: Sequence[Result], reference: Treatment, treatment: Treatment
) -> tuple[Result, Result] | None:
    """Return a block's trial of the reference and of the treatment; None where one is not there yet."""
    if reference.identity != treatment.identity:
        found = [
            next((one for one in block if one.trial.treatment.identity == side.identity), None)
            for side in (reference, treatment)
        ]
    elif reference.name != treatment.name:
        found = [
            next((one for one in block if one.trial.treatment.name == side.name), None)
            for side in (reference, treatment)
        ]
    else:
        alike = [one for one in block if one.trial.treatment.identity == reference.identity][:2]
        found = [*alike, None, None][:2]
        if len(alike) == 2 and alike[0].trial.seed % 2:
            found.reverse()
    before, after = found
    return None if before is None or after is None else (before, after)


def _rate(result: Result) -> TrialRate:
    assert result.measurement is not None, f"trial {result.trial.number} has no number"
    return rate_of(result, result.measurement)
