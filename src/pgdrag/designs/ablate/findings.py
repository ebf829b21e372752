"""What an ablation found: the values that its analysis hands to the report.

Every interval of a slowdown says how many times slower: below 1 it is faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.designs.ablate.factorial import Together
from pgdrag.designs.ablate.labels import Label
from pgdrag.findings.values import DesignFinding, Interval


@dataclass(frozen=True)
class ShareFinding:
    """One player's part of the whole slowdown, averaged over the orders of the changes.

    Attributes:
        slowdown: its factor; the factors of all players multiply to that of the whole.
        part: of the whole, on the log scale: the parts of all players add up to 1; below 0 it goes
            the other way. None where the whole cannot be told from no change.
        part_low, part_high: bounds of it, for the whole as estimated.
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
        label: what it is, with `meaning` in a sentence.
        is_sufficient: alone it has an effect.
        is_necessary: without it the target is another.
        alone: reference with it against reference; None: unknown.
        company: target against target without it; None: unknown.
        share: None where it is no player of its own: it stands with the others, or none is known yet.
        is_survivor: it got long trials.
        is_hidden: neither alone nor in company it shows an effect; a check brought it to light.
    """

    name: str
    before: str | None
    after: str | None
    label: Label
    meaning: str
    is_sufficient: bool
    is_necessary: bool
    alone: Interval | None
    company: Interval | None
    share: ShareFinding | None
    is_survivor: bool
    is_hidden: bool = False


@dataclass(frozen=True)
class PairFinding:
    """How two changes act together, upon the reference.

    Attributes:
        alone: slowdown of each by itself, in the order of `names`.
        both: slowdown of the two together.
        interaction: how many times slower both are than the product of the two; below 1 they do
            partly the same.
        is_bounded: one of these committed nothing, so that the numbers are bounds, and not estimates.
        sentence: the same in words.
    """

    names: tuple[str, str]
    together: Together
    alone: tuple[Interval, Interval]
    both: Interval
    interaction: Interval
    is_bounded: bool
    sentence: str = ""


@dataclass(frozen=True)
class CheckFinding:
    """One check that no guilty change was lost.

    Attributes:
        question: what was compared.
        slowdown: what the survivors leave unexplained; None: unknown.
        is_passed: None where it could not be told.
    """

    question: str
    slowdown: Interval | None
    is_passed: bool | None


@dataclass(frozen=True)
class AblateFinding(DesignFinding):
    """What an ablation found.

    Attributes:
        reference, target: names of the two treatments.
        stage: "screening", "checking", "shares", "pairs" or "done"; how far the search came.
        whole: slowdown from reference to target without the changes that are left out; of short trials
            until there are long ones; None while unknown.
        is_bounded: the whole and its shares rest on bounds, as something committed nothing.
        changes: all of them: first those with a share, the largest first, then the others in order.
        others: share of all changes that are no players of their own, together; None where there are none.
        others_count: how many those are.
        left_out: names of the changes with which nothing could be measured.
        merged: names of survivors that had to stand with the others, as the budget was too small.
        pairs: factorials, the likeliest pair first.
        checks: whether anything guilty was lost.
        detectable_alone, detectable_company: the smallest slowdown that such a look of the screening
            misses only once in ten times, as a ratio over 1; infinite while unknown.
        method: how the shares were averaged, in words.
        brief_trials, full_trials: that were run.
        max_trials: the budget.
    """

    reference: str
    target: str
    stage: str
    whole: Interval | None
    is_bounded: bool
    changes: tuple[ChangeFinding, ...]
    others: ShareFinding | None
    others_count: int
    left_out: tuple[str, ...]
    merged: tuple[str, ...]
    pairs: tuple[PairFinding, ...]
    checks: tuple[CheckFinding, ...]
    detectable_alone: float
    detectable_company: float
    method: str
    brief_trials: int
    full_trials: int
    max_trials: int
