"""What an ablation found: the values that its analysis hands to the report.

Every interval of a slowdown says how many times slower: below 1 it is faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.designs._moves import MoveFinding
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.long_trials import Together
from pgdrag.findings.values import ChangeEffect, Comparison, DesignFinding, Interval


@dataclass(frozen=True)
class ShareFinding:
    """One player's part of the whole slowdown, averaged over the orders of the changes.

    Attributes:
        slowdown: its factor; the factors of all players multiply to that of the whole.
        part: of the whole, on the log scale: the parts of all players add up to 1; below 0 it has the
            opposite effect. None where the whole is not significant.
        part_low, part_high: its bounds, for the whole as estimated.
    """

    slowdown: Interval
    part: float | None
    part_low: float | None
    part_high: float | None


@dataclass(frozen=True)
class ChangeFinding:
    """What one change is to the difference between reference and target.

    Attributes:
        name: of its factor: "random_page_cost".
        before, after: its values; None: not set there.
        alone: reference with it against reference; None: unknown.
        with_others: target against target without it; None: unknown.
        alone_of, with_others_of: changes in that comparison: 1, or as many as were tried together.
        moves: what it moves of what the whole moves, alone or, where that is nothing, with the others; nothing
            where it was not tried by itself.
        share: None where it is part of the others' share, and while there are no shares.
        is_survivor: it got long trials.
        is_hidden: neither comparison shows an effect, because other changes mask it; a check found it.
    """

    name: str
    before: str | None
    after: str | None
    label: Label
    alone: Interval | None
    with_others: Interval | None
    alone_of: int
    with_others_of: int
    moves: tuple[MoveFinding, ...]
    share: ShareFinding | None
    is_survivor: bool
    is_hidden: bool


@dataclass(frozen=True)
class PairFinding:
    """How two changes act together, applied to the reference.

    Attributes:
        alone: slowdown of each by itself, in the order of `names`.
        both: slowdown of the two together.
        interaction: how many times slower both are than the product of the two; below 1 they do
            partly the same.
        is_bounded: one of these committed nothing, so the numbers are bounds, not estimates.
    """

    names: tuple[str, str]
    together: Together
    alone: tuple[Interval, Interval]
    both: Interval
    interaction: Interval
    is_bounded: bool


@dataclass(frozen=True)
class CheckFinding:
    """One check that no change that matters was lost.

    Attributes:
        of_others: all other changes together against the reference; else the target against the survivors
            alone.
        slowdown: what the survivors do not explain; None: unknown.
        is_passed: None where undecided.
    """

    of_others: bool
    slowdown: Interval | None
    is_passed: bool | None


@dataclass(frozen=True)
class AblateFinding(DesignFinding):
    """What an ablation found.

    Attributes:
        reference, target: names of the two treatments.
        stage: how far the search is: "screening", "checking", "shares", "pairs" or "done".
        problem: "reference" or "target" where that has no number, "nothing" where both are equal, or "".
        failure: how the trials of the one without a number ended, or "".
        whole: slowdown from reference to target without the changes that are left out; from short trials
            until there are long ones; None while unknown.
        is_bounded: the whole and its shares rest on bounds, because a set of changes committed nothing.
        is_target_bounded: the target committed nothing in the screening.
        moves: the quantities that the whole moves, its fingerprint; the surest first.
        changes: all of them: first those with a share, the largest first, then the others in order.
        others: share of all changes without a share of their own, together; None where there are none.
        others_count: their number.
        left_out: names of the changes with which nothing could be measured.
        merged: names of survivors that are part of the others, because the budget is too small.
        pairs: factorials, the likeliest pair first.
        checks: whether other changes mask one that matters.
        is_diffuse: a check failed, and no small group of changes explains it.
        margin: what is certainly within so much either way, as a ratio over 1, is inert.
        detectable_alone, detectable_with_others: the smallest slowdown that such a comparison of the
            screening detects nine times in ten, as a ratio over 1; infinite while unknown.
        method: how the shares were averaged, in words.
        draws, draws_left_out: orders averaged over, and those without a number; each with its reverse.
        is_precise: every share is as precise as `share_precision` asks for.
        share_precision: target precision of a share, as a part of the whole.
        brief_trials, full_trials: number of trials run.
        max_trials: the budget.
        is_budget_spent: nothing of it is left.
    """

    reference: str
    target: str
    stage: str
    problem: str
    failure: str
    whole: Interval | None
    is_bounded: bool
    is_target_bounded: bool
    moves: tuple[MoveFinding, ...]
    changes: tuple[ChangeFinding, ...]
    others: ShareFinding | None
    others_count: int
    left_out: tuple[str, ...]
    merged: tuple[str, ...]
    pairs: tuple[PairFinding, ...]
    checks: tuple[CheckFinding, ...]
    is_diffuse: bool
    margin: float
    detectable_alone: float
    detectable_with_others: float
    method: str
    draws: int
    draws_left_out: int
    is_precise: bool
    share_precision: float
    brief_trials: int
    full_trials: int
    max_trials: int
    is_budget_spent: bool

    def comparison(self, rung: str) -> Comparison | None:
        """Return the slowdown of the whole for the target; nothing of other rungs."""
        if rung != self.target or self.whole is None:
            return None
        return Comparison.of(self.whole)

    def effects(self) -> tuple[ChangeEffect, ...]:
        """Return the effect of each change that was tried by itself: alone, and together with all others."""
        found = []
        for one in self.changes:
            change = ((one.name, one.before, one.after),)
            if one.alone is not None and one.alone_of == 1:
                found.append(ChangeEffect(change, one.alone, "alone"))
            if one.with_others is not None and one.with_others_of == 1:
                found.append(ChangeEffect(change, one.with_others, "beside the other changes"))
        return tuple(found)
