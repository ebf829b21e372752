"""How does an ablation read in sentences: its answer, its pairs, and what to doubt?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdrag.designs.ablate.course import Ablation
from pgdrag.designs.ablate.factorial import Together
from pgdrag.designs.ablate.findings import AblateFinding, CheckFinding, PairFinding, ShareFinding
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.shapley import Shares
from pgdrag.designs.ablate.subset_values import REFERENCE, Changes
from pgdrag.english import capital, counted, listed, percent_words
from pgdrag.findings.values import Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.units import format_interval, format_ratio

_TOLD_PART = 0.05  # a share below this is not in the answer
_NAMED_MAX = 4  # shares that the answer names


def answer(found: AblateFinding, ablation: Ablation) -> str:
    """Return the question answered in a few sentences, whatever is known by now."""
    match ablation.search.problem:
        case "nothing":
            return f"No answer: nothing differs between {found.reference} and {found.target}."
        case "reference":
            return f"No answer: the reference {_end_words(found.reference, REFERENCE, ablation)}."
        case "target":
            why = _end_words(found.target, ablation.search.whole, ablation)
            return f"No answer for the whole: the target {why}.{_alone_words(found)}"
    if found.whole is None or not any(one.share is not None for one in found.changes):
        return _unfinished(found)
    return " ".join(
        part for part in (_whole_words(found), _share_words(found), _inert(found)) if part
    )


def _unfinished(found: AblateFinding) -> str:
    """Return what is known without shares: the whole, if that, and what does something alone."""
    whole = f"{_whole_words(found)} " if found.whole is not None else ""
    if found.others is not None:
        return f"{whole}No single change has a share of its own. {_inert(found)}".rstrip()
    looked = sum(one.label is not Label.UNDECIDED for one in found.changes)
    has = "has" if looked == 1 else "have"
    count = counted(len(found.changes), "change")
    return f"{whole}No shares yet: {looked} of {count} {has} a label so far.{_alone_words(found)}"


def shares_method(shares: Shares | None) -> str:
    """Say over which orders the shares are averaged."""
    if shares is None:
        return "no shares yet"
    if shares.is_exact:
        return "Shapley share over all orders"
    orders = 2 * shares.draws
    return f"Shapley share over {orders} orders drawn with their reverses"


def pair_sentence(pair: PairFinding) -> str:
    """Say how two changes act together."""
    one, other = pair.names
    match pair.together:
        case Together.EITHER:
            start = f"Either of {one} and {other} alone suffices"
        case Together.BOTH_NEEDED:
            start = f"Both {one} and {other} are needed"
        case Together.WEAKER:
            start = f"{one} and {other} together do less than their product"
        case Together.STRONGER:
            start = f"{one} and {other} together do more than their product"
        case Together.ADD_UP:
            start = f"{one} and {other} act each on its own"
        case _:
            start = f"How {one} and {other} act together cannot be told"
    told = [f"{name} {_effect_words(x)}" for name, x in zip(pair.names, pair.alone, strict=True)]
    found = pair.interaction
    end = f"interaction {format_interval(found.low, found.center, found.high)}"
    if pair.is_bounded:
        end = "some of this is only a bound, as nothing was committed"
    return f"{start}: {told[0]}, {told[1]}, both together {_effect_words(pair.both)}; {end}."


def warnings(found: AblateFinding, ablation: Ablation) -> tuple[str, ...]:
    """Return what to doubt, each with the remedy still untried."""
    return (
        *_left_out_doubts(found),
        *_bound_doubts(found, ablation),
        *_budget_doubts(found, ablation),
        *_check_doubts(found, ablation),
        *_game_doubts(ablation),
    )


# --- the answer --------------------------------------------------------------------------------


def _whole_words(found: AblateFinding) -> str:
    assert found.whole is not None, found.target
    count = len(found.changes) - len(found.left_out)
    rest = "the other " if found.left_out else "all " if count > 2 else ""
    subject = "the change" if count == 1 else f"{rest}{count} changes together"
    start = f"Without {listed(found.left_out)}, " if found.left_out else ""
    verb = "makes" if count == 1 else "make"
    if found.whole.low <= 1 <= found.whole.high and not math.isinf(found.whole.center):
        number = format_interval(found.whole.low, found.whole.center, found.whole.high)
        text = f"{start}{subject} {verb} no difference that these trials could tell: slowdown {number}."
    else:
        text = f"{start}{subject} {verb} {found.reference} {slowdown_words(found.whole)}."
    return capital(text)


def _share_words(found: AblateFinding) -> str:
    """Name the largest shares; of those that act together, the share of all of them."""
    parts = {
        one.name: one.share.part
        for one in found.changes
        if one.share is not None and one.share.part is not None and _is_told(one.share)
    }
    groups = _together(found, list(parts))
    sums = [(sum(parts[name] for name in group), group, how) for group, how in groups]
    named = sorted(sums, key=lambda one: -abs(one[0]))[:_NAMED_MAX]
    words = [
        f"{_group_words(group, how)} {percent_words(part)}"
        for part, group, how in named
        if abs(part) >= _TOLD_PART
    ]
    more = " (which is only bounded)" if found.is_bounded else ""
    return f"Of that{more}, on the log scale: {listed(words)}." if words else ""


def _is_told(share: ShareFinding) -> bool:
    if share.part_low is None or share.part_high is None:
        return False
    return share.part_low > 0 or share.part_high < 0


def _together(
    found: AblateFinding, names: Sequence[str]
) -> list[tuple[tuple[str, ...], Together | None]]:
    """Join the changes that act together in the same way; each stands in one group."""
    groups: list[tuple[tuple[str, ...], Together | None]] = [((name,), None) for name in names]
    for pair in found.pairs:
        if pair.together not in (Together.EITHER, Together.BOTH_NEEDED):
            continue
        mine = [one for one in groups if set(one[0]) & set(pair.names)]
        if len(mine) == 2 and all(how in (None, pair.together) for _, how in mine):
            groups = [one for one in groups if one not in mine]
            groups.append(((*mine[0][0], *mine[1][0]), pair.together))
    return groups


def _group_words(group: Sequence[str], how: Together | None) -> str:
    match how:
        case Together.EITHER:
            return f"{' or '.join(group)} (either alone suffices)"
        case Together.BOTH_NEEDED:
            return f"{' with '.join(group)} (only together)"
        case _:
            return group[0]


def _inert(found: AblateFinding) -> str:
    inert = sum(one.label is Label.INERT for one in found.changes)
    if not inert:
        return ""
    verb = "shows" if inert == 1 else "show"
    return f"{inert} of {len(found.changes)} {verb} {unseen_words(found)}."


def unseen_words(found: AblateFinding) -> str:
    """Return `no effect of 1.2× or more`, alone and in company where that differs."""
    alone, company = found.detectable_alone, found.detectable_company
    if math.isinf(alone):
        return "no effect"
    if company <= alone * 1.1:
        return f"no effect of {format_ratio(max(alone, company))} or more"
    text = f"no effect of {format_ratio(alone)} or more alone"
    return text if math.isinf(company) else f"{text}, nor of {format_ratio(company)} in company"


def _end_words(name: str, changes: Changes, ablation: Ablation) -> str:
    failure = ablation.search.values.failure(changes)
    return f"{name} has no number ({failure.value if failure is not None else 'not run yet'})"


def _alone_words(found: AblateFinding) -> str:
    """Name what has an effect alone, where that is all that is known."""
    named = [one for one in found.changes if one.is_sufficient and one.alone is not None]
    if not named:
        return ""
    parts = [f"{one.name} {_effect_words(one.alone)}" for one in named if one.alone is not None]
    more = len(parts) - _NAMED_MAX
    rest = [f"{more} more"] if more > 0 else []
    return f" Alone: {listed([*parts[:_NAMED_MAX], *rest])}."


def _effect_words(found: Interval) -> str:
    """Return an effect without its bounds: `12× slower`, `1.3× faster`, `no change` within noise."""
    if found.low <= 1 <= found.high:
        return "no change"
    return slowdown_words(found).partition(" (")[0]


# --- doubts ------------------------------------------------------------------------------------


def _left_out_doubts(found: AblateFinding) -> list[str]:
    doubts = []
    for change in found.changes:
        if change.name in found.left_out:
            doubts.append(
                f"{change.name}: {change.label.value}; it is left out of the target and of all shares; give "
                "it a value with which the server runs, and ablate again"
            )
        elif change.label.is_fatal:
            doubts.append(
                f"{change.name}: {change.label.value} alone, but not in the target; it needs one of the "
                "other changes, and stands with them"
            )
    return doubts


def _bound_doubts(found: AblateFinding, ablation: Ablation) -> list[str]:
    doubts = []
    if found.is_bounded:
        doubts.append(
            "some sets of changes committed nothing: their throughput counts as its upper bound, so the "
            "whole and the shares are bounds, too; a longer budget of the window would tell more"
        )
    values = ablation.search.values
    target = values.value(ablation.search.whole)
    if target is not None and target.is_bound:
        doubts.append(
            "the target committed nothing in the trials of the screening, so most changes are undecided in "
            "company; screen by long trials (has_brief_screening = false), or with a longer budget"
        )
    return doubts


def _budget_doubts(found: AblateFinding, ablation: Ablation) -> list[str]:
    doubts = []
    game = ablation.game
    if found.merged:
        doubts.append(
            f"the budget of {found.max_trials} trials has no room for the shares of {listed(found.merged)}: "
            "they stand with the others; allow more trials"
        )
    if found.stage == "done" and game is not None and not game.is_precise:
        points = format(100 * ablation.options.share_precision, ".3g")
        doubts.append(
            f"the budget of {found.max_trials} trials was used up before every share was known to ±{points} "
            "points of the whole; allow more trials"
        )
    return doubts


def _check_doubts(found: AblateFinding, ablation: Ablation) -> list[str]:
    inquest = ablation.search.inquest
    failed = [one for one in found.checks if one.is_passed is False]
    unknown = [one for one in found.checks if one.is_passed is None]
    doubts = []
    if failed:
        size = _check_sizes(failed)
        why = "; no small group of them does it, so look for many small effects"
        more = (
            why
            if inquest is not None and inquest.is_diffuse
            else "; allow more trials for the search to go on"
        )
        doubts.append(f"changes without a label have an effect together ({size}){more}")
    if unknown:
        doubts.append(
            f"could not check {listed([one.question for one in unknown])}: something guilty may be among the "
            "changes without a label; a longer budget of the window would tell"
        )
    return doubts


def _check_sizes(failed: Sequence[CheckFinding]) -> str:
    return "; ".join(
        f"{one.question}: {slowdown_words(one.slowdown)}" for one in failed if one.slowdown
    )


def _game_doubts(ablation: Ablation) -> list[str]:
    game = ablation.game
    if game is None or ablation.stage != "done":
        return []
    found = game.shares()
    if found is None:
        return [
            "no order of the survivors could be measured from end to end, as some sets of them do not "
            "start; there are no shares: let bisect look for a small set instead"
        ]
    if found.draws < len(game.draws):
        return [
            f"{counted(len(game.draws) - found.draws, 'draw')} of orders left out: some sets of changes in "
            "them could not be measured; shares are over the other orders"
        ]
    return []
