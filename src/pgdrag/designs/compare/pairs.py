"""Which trials of a comparison belong together, and which failed?

A pair is a block with one trial of the reference and one of the treatment, run next to each other
in random order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdrag.findings.readings import rate_if_numbered
from pgdrag.model import Result, Treatment
from pgdrag.stats.pair_logs import PairedLogs
from pgdrag.stats.rates import TrialRate, within_spread

Rates = tuple[TrialRate, TrialRate]  # of the reference and of the treatment


@dataclass(frozen=True)
class Pair:
    """One trial of each side, both with a number."""

    reference: Result
    treatment: Result
    rates: Rates

    @property
    def is_reference_first(self) -> bool:
        """The reference's trial ran before that of the treatment."""
        return self.reference.trial.number < self.treatment.trial.number

    @property
    def sign(self) -> int:
        """1 where the reference ran first, else -1."""
        return 1 if self.is_reference_first else -1


@dataclass(frozen=True)
class Pairing:
    """All results of a comparison, sorted.

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
        before, after = ([pair.rates[side] for pair in self.pairs] for side in (0, 1))
        return before, after

    @property
    def committed(self) -> int:
        """Transactions committed on both sides together."""
        return sum(rate.committed for side in self.rates for rate in side)

    @property
    def logs(self) -> PairedLogs:
        """The log slowdown of each pair; every trial committed something."""
        rates = [pair.rates for pair in self.pairs]
        within = sum(within_spread(rate).log_se ** 2 for both in rates for rate in both)
        return PairedLogs(
            tuple(math.log(before.per_s) - math.log(after.per_s) for before, after in rates),
            tuple(pair.sign for pair in self.pairs),
            math.sqrt(within) / len(rates) if rates else 0.0,
        )


def pairing(results: Iterable[Result], reference: Treatment, treatment: Treatment) -> Pairing:
    """Sort the results of a comparison into pairs, by their blocks; short trials are in none.

    Where both sides are the same treatment (a comparison of a thing with itself) the names tell them
    apart, and where these are the same too, the block's own seed does.
    """
    blocks: dict[int, list[Result]] = {}
    for result in results:
        if not result.trial.is_brief:
            blocks.setdefault(result.trial.block, []).append(result)
    pairs: list[Pair] = []
    failed: list[tuple[Result | None, Result | None]] = []
    for block in blocks.values():
        before, after = _sides(block, reference, treatment)
        if before is None or after is None:
            continue
        one, other = rate_if_numbered(before), rate_if_numbered(after)
        if one is not None and other is not None:
            pairs.append(Pair(before, after, (one, other)))
        else:
            failed.append((None if one else before, None if other else after))
    return Pairing(tuple(pairs), tuple(failed))


def _sides(
    block: Sequence[Result], reference: Treatment, treatment: Treatment
) -> tuple[Result | None, Result | None]:
    """Return a block's trial of the reference and of the treatment; None where one has not run."""
    by_identity = {one.trial.treatment.identity: one for one in reversed(block)}
    if reference.identity != treatment.identity:
        return by_identity.get(reference.identity), by_identity.get(treatment.identity)
    if reference.name != treatment.name:
        by_name = {one.trial.treatment.name: one for one in reversed(block)}
        return by_name.get(reference.name), by_name.get(treatment.name)
    same = [one for one in block if one.trial.treatment.identity == reference.identity][:2]
    if len(same) < 2:
        return None, None
    first, second = same
    return (second, first) if first.trial.seed % 2 else (first, second)
