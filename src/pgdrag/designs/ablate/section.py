"""How does an ablation read? Its answer, its warnings, and its report section with picture and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pgdrag.designs._moves import MoveFinding
from pgdrag.designs._moves_section import move_words, moves_grid
from pgdrag.designs.ablate.findings import AblateFinding, ChangeFinding, ShareFinding
from pgdrag.designs.ablate.labels import Label
from pgdrag.designs.ablate.long_trials import Together
from pgdrag.english import capital, counted, listed, listed_some, percent_words
from pgdrag.findings.values import Findings, Interval
from pgdrag.findings.wording import slowdown_words
from pgdrag.report.cells import NOTHING, bare_ratio, bounds_words
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.units import format_interval, format_number, format_ratio

_LARGE_PART = 0.05  # a share below this is not in the answer
_NAMED_MAX = 4  # shares that the answer names
_LISTED_MAX = 8  # changes listed beside a label
_MOVES_MAX = 4  # quantities named of each change
_TONES = {
    Label.INERT: Tone.MUTED,
    Label.UNDECIDED: Tone.WARNING,
    Label.PREVENTS_START: Tone.BAD,
    Label.CRASHES: Tone.BAD,
    Label.UNTESTABLE: Tone.MUTED,
}
_PAIRS = {
    Together.EITHER: "Either {} or {} alone suffices",
    Together.BOTH_NEEDED: "Both {} and {} are needed",
    Together.WEAKER: "{} and {} together do less than their product",
    Together.STRONGER: "{} and {} together do more than their product",
    Together.ADD_UP: "{} and {} do not interact",
    Together.UNDECIDED: "How {} and {} act together is undecided",
}
_CHECKS = {
    True: "all other changes together with the reference",
    False: "the target with the survivors alone",
}


class AblateSection(Section):
    name = "ablate"
    summary = "a forest plot of each change's share, with its label, and pairs"
    title = "Which change carries how much"
    order = 12
    is_folded = False
    finding_type = AblateFinding
    needs = "changes"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, AblateFinding)
        table = Details(
            f"All {counted(len(found.changes), 'change')}", (_table(found), _legend(found))
        )
        return (*_picture(found), *_pairs(found), *_grid(found), table)

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, AblateFinding)
        labels = []
        for label in _labels(found.changes):
            names = [one.name for one in found.changes if one.label is label]
            labels.append(f"{label.value}: {listed_some(names, _LISTED_MAX)}")
        heading = Heading("Labels", "alone and with the others")
        return (*_picture(found), heading, Items(tuple(labels)), *_pairs(found), *_moves(found))


# --- the answer ----------------------------------------------------------------------------------


def answer(found: AblateFinding) -> str:
    """Return what is known of the answer, in a few sentences."""
    failure = f"has no number ({found.failure or 'not run yet'})"
    match found.problem:
        case "nothing":
            return f"No answer: {found.reference} and {found.target} do not differ."
        case "reference":
            return f"No answer: the reference {found.reference} {failure}."
        case "target":
            return f"No answer for the whole: the target {found.target} {failure}.{_effects(found)}"
    sentences = [_whole(found)]
    if found.whole is not None and any(one.share is not None for one in found.changes):
        sentences += [_shares(found), _unseen(found)]
    elif found.others is not None:
        is_clear = found.whole is not None and not _is_within_noise(found.whole)
        alone = "No single change has a share of its own." if is_clear else ""
        sentences += [alone, _unseen(found)]
    elif found.stage == "done" and not any(one.is_survivor for one in found.changes):
        sentences.append(_unseen(found))
    else:
        labelled = sum(one.label is not Label.UNDECIDED for one in found.changes)
        verb = "has" if labelled == 1 else "have"
        count = counted(len(found.changes), "change")
        sentences.append(f"No shares yet: {labelled} of {count} {verb} a label.{_effects(found)}")
    return " ".join(filter(None, [*sentences, _movers(found)]))


def _whole(found: AblateFinding) -> str:
    if found.whole is None:
        return ""
    count = len(found.changes) - len(found.left_out)
    rest = "the other " if found.left_out else "all " if count > 2 else ""
    subject = "the change makes" if count == 1 else f"{rest}{count} changes together make"
    start = f"Without {listed(found.left_out)}, " if found.left_out else ""
    is_clear = not _is_within_noise(found.whole)
    words = f"{found.reference} " if is_clear else "no significant difference: "
    return capital(f"{start}{subject} {words}{slowdown_words(found.whole)}.")


def _is_within_noise(found: Interval) -> bool:
    return found.low <= 1 <= found.high and not math.isinf(found.center)


def _shares(found: AblateFinding) -> str:
    """Name the largest shares; of changes that act together in one way, the share of all of them."""
    parts = {
        one.name: one.share.part
        for one in found.changes
        if one.share is not None and one.share.part is not None and not _has_zero(one.share)
    }
    groups: list[tuple[list[str], Together | None]] = [([name], None) for name in parts]
    for pair in found.pairs:
        if pair.together not in (Together.EITHER, Together.BOTH_NEEDED):
            continue
        mine = [one for one in groups if set(one[0]) & set(pair.names)]
        if len(mine) == 2 and all(how in (None, pair.together) for _, how in mine):
            groups = [one for one in groups if one not in mine]
            groups.append(([*mine[0][0], *mine[1][0]], pair.together))
    shares = [(sum(parts[name] for name in names), names, how) for names, how in groups]
    words = []
    for part, names, how in sorted(shares, key=lambda one: -abs(one[0]))[:_NAMED_MAX]:
        name = names[0]
        if how is Together.EITHER:
            name = f"{' or '.join(names)} (either alone suffices)"
        elif how is Together.BOTH_NEEDED:
            name = f"{' with '.join(names)} (only together)"
        if abs(part) >= _LARGE_PART:
            words.append(f"{name} {percent_words(part)}")
    if found.whole is None or not words:
        return ""
    way = "speedup" if found.whole.center < 1 else "slowdown"
    bound = " (only a bound)" if found.is_bounded else ""
    return f"Shares of the log {way}{bound}: {listed(words)}."


def _has_zero(share: ShareFinding) -> bool:
    return (
        share.part_low is None or share.part_high is None or share.part_low <= 0 <= share.part_high
    )


def _movers(found: AblateFinding) -> str:
    """Name the changes that move what the whole moves, and whose effect on throughput is not resolved."""
    movers = [
        f"{one.name} {_moves_words(one.moves[:2])}"
        for one in found.changes
        if one.moves and one.label in (Label.UNDECIDED, Label.INERT)
    ]
    if not movers:
        return ""
    verb = "moves" if len(movers) == 1 else "move"
    return (
        f"Without a resolved effect on throughput, {listed_some(movers, _NAMED_MAX)} {verb} what the "
        "whole moves."
    )


def _moves_words(moves: Sequence[MoveFinding]) -> str:
    """Return `(WAL per transaction 0.29×, blocks read per transaction 1.4×)`."""
    return f"({', '.join(move_words(one) for one in moves)})"


def _unseen(found: AblateFinding) -> str:
    """Say of how many changes no effect was seen, and how large one of them could be."""
    inert = sum(one.label is Label.INERT for one in found.changes)
    undecided = sum(one.label is Label.UNDECIDED for one in found.changes)
    unseen, count = inert + undecided, len(found.changes)
    if not unseen:
        return ""
    subject = f"{unseen} of the {count} changes {'shows' if unseen == 1 else 'show'} no"
    if unseen == count:
        subject = "The change shows no" if count == 1 else f"None of the {count} changes shows an"
    parts = []
    if inert:
        parts.append(
            f"{inert} {'is' if inert == 1 else 'are'} inert (within {format_ratio(found.margin)})"
        )
    detectable = _detectable(found)
    if undecided and detectable:
        parts.append(detectable)
    return f"{subject} effect{': ' if parts else ''}{', and '.join(parts)}."


def _detectable(found: AblateFinding) -> str:
    """Return `these trials can detect 1.2× or more`, alone and with the others where that differs."""
    alone, with_others = found.detectable_alone, found.detectable_with_others
    if math.isinf(alone):
        return ""
    if with_others <= alone * 1.1:
        return f"these trials can detect {format_ratio(max(alone, with_others))} or more"
    text = f"these trials can detect {format_ratio(alone)} or more alone"
    if math.isinf(with_others):
        return text
    return f"{text}, and {format_ratio(with_others)} or more with the others"


def _effects(found: AblateFinding) -> str:
    """Name what has an effect, alone or only with the others, where that is all that is known."""
    alone = [
        f"{one.name} {_effect_words(one.alone)}"
        for one in found.changes
        if one.label.is_sufficient and one.alone is not None
    ]
    with_others = [
        f"{one.name} {_effect_words(one.with_others)}"
        for one in found.changes
        if one.label in (Label.NEEDS_PARTNER, Label.NECESSARY) and one.with_others is not None
    ]
    sentences = []
    for start, parts in (("Alone", alone), ("Only with the others", with_others)):
        if parts:
            sentences.append(f" {start}: {listed_some(parts, _NAMED_MAX)}.")
    return "".join(sentences)


def _effect_words(found: Interval) -> str:
    """Return an effect without its bounds: `12× slower`, `1.3× faster`, `no change` within noise."""
    if found.low <= 1 <= found.high:
        return "no change"
    return slowdown_words(found).partition(" (")[0]


# --- warnings ------------------------------------------------------------------------------------


def warnings(found: AblateFinding) -> Iterator[str]:
    """Yield what may be wrong with the answer, each with the remedy still untried."""
    for one in found.changes:
        if one.name in found.left_out:
            yield (
                f"{one.name}: {one.label.value}; it is left out of the target and of all shares; give it a "
                "value with which the server runs, and run the ablation again"
            )
        elif one.label.prevents_measurement:
            yield (
                f"{one.name}: {one.label.value} alone, but not in the target, so it needs one of the other "
                "changes; its share is part of theirs"
            )
    if found.is_bounded:
        yield (
            "some sets of changes committed nothing, and count with the upper bound of their throughput, so "
            "the whole and the shares are bounds too; use longer windows"
        )
    if found.is_target_bounded:
        yield (
            "the target committed nothing in the screening, so most changes are undecided with the others; "
            "screen with long trials (has_brief_screening = false), or use longer windows"
        )
    yield from _check_warnings(found)
    yield from _share_warnings(found)


def _check_warnings(found: AblateFinding) -> Iterator[str]:
    if failed := [one for one in found.checks if one.is_passed is False]:
        sizes = "; ".join(
            f"{_CHECKS[one.of_others]}: {slowdown_words(one.slowdown)}"
            for one in failed
            if one.slowdown
        )
        remedy = (
            "no small group of them explains it, so look for many small effects"
            if found.is_diffuse
            else "allow more trials to continue the search"
        )
        yield f"changes without a label have an effect together ({sizes}); {remedy}"
    if unknown := [_CHECKS[one.of_others] for one in found.checks if one.is_passed is None]:
        needs_trials = found.is_budget_spent and not found.is_target_bounded
        remedy = "allow more trials" if needs_trials else "use longer windows"
        yield (
            f"could not compare {listed(unknown)}, so a change that matters may be among those without a "
            f"label; {remedy}"
        )


def _share_warnings(found: AblateFinding) -> Iterator[str]:
    if found.merged:
        yield (
            f"the budget of {found.max_trials} trials is too small for the shares of {listed(found.merged)}: "
            "they are part of the others; allow more trials"
        )
    if found.stage != "done" or not found.draws + found.draws_left_out:
        return
    if not found.is_precise:
        points = format(100 * found.share_precision, ".3g")
        yield (
            f"the budget of {found.max_trials} trials ran out before every share was known to ±{points} points "
            "of the whole; allow more trials"
        )
    if not found.draws and not found.is_budget_spent:
        yield (
            "no order of the survivors could be measured to its end, because some sets of them do not start, "
            'so there are no shares; use "pgdrag bisect" to find a small set instead'
        )
    elif found.draws and found.draws_left_out:
        yield (
            f"{counted(found.draws_left_out, 'draw')} of orders left out, because some sets of changes in them "
            "could not be measured; the shares are averaged over the other orders"
        )


# --- the section ---------------------------------------------------------------------------------


def _picture(found: AblateFinding) -> list[Block]:
    rows = [
        Row(one.name, one.label.value, _part_words(one.share), found=one.share.slowdown)
        for one in found.changes
        if one.share is not None
    ]
    if found.others is not None:
        name = counted(found.others_count, "other" if rows else "change")
        rows.append(Row(name, "together", _part_words(found.others), found=found.others.slowdown))
    if not rows:
        return []
    if found.whole is not None:
        whole = slowdown_words(found.whole)
        rows.append(Row("the whole", "", whole, found=found.whole, is_whole=True))
    description = "; ".join(f"{row.name} {row.words}" for row in rows)
    caption = (
        "Factor of each change in the slowdown, averaged over the orders of the changes, with its 95 % "
        "interval; logarithmic scale, further right is slower. The factors multiply to the whole, and the "
        f"parts add up to it. {found.method}; {counted(found.full_trials, 'trial')}. "
        f"{_meanings([one for one in found.changes if one.share is not None])}"
    ).rstrip()
    return [rows_figure(rows, AblateSection.title, description, caption, name="ablate-chart")]


def _part_words(share: ShareFinding) -> str:
    if share.part is None or share.part_low is None or share.part_high is None:
        return slowdown_words(share.slowdown)
    low, high = (
        "?" if math.isinf(x) else format_number(round(100 * x, 1 if abs(x) < 0.1 else 0))
        for x in (share.part_low, share.part_high)
    )
    return f"{round(100 * share.part):d} % ({low} to {high})"


def _pairs(found: AblateFinding) -> list[Block]:
    """Say how the changes of each pair act together."""
    sentences = []
    for pair in found.pairs:
        start = _PAIRS[pair.together].format(*pair.names)
        first, second = (
            f"{name} {_effect_words(one)}" for name, one in zip(pair.names, pair.alone, strict=True)
        )
        low, center, high = pair.interaction.low, pair.interaction.center, pair.interaction.high
        end = f"interaction {format_interval(low, center, high)}"
        if pair.is_bounded:
            end = "some of this is only a bound, because nothing was committed"
        both = _effect_words(pair.both)
        sentences.append(f"{start}: {first}, {second}, both together {both}; {end}.")
    if not sentences:
        return []
    return [Heading("Pairs", "on the reference, each alone and both"), Items(tuple(sentences))]


def _grid(found: AblateFinding) -> list[Block]:
    """Show what each change moves of what the whole moves."""
    if not found.moves:
        return []
    movers = {one.name: one.moves for one in found.changes if one.moves}
    return [
        Heading("What moves", "per transaction, times as much"),
        *moves_grid(found.moves, movers),
    ]


def _moves(found: AblateFinding) -> list[Block]:
    """Say the same in a line for each change."""
    if not found.moves:
        return []
    rows = [("all together", found.moves), *((x.name, x.moves) for x in found.changes if x.moves)]
    sentences = []
    for name, moves in rows:
        words = [move_words(one, with_interval=True) for one in moves]
        sentences.append(f"{name}: {listed_some(words, _MOVES_MAX)}")
    return [Heading("What moves", "per transaction, times as much"), Items(tuple(sentences))]


def _table(found: AblateFinding) -> Table:
    rows = []
    for one in found.changes:
        share = NOTHING
        if one.share is not None and one.share.part is not None:
            words, _, bounds = _part_words(one.share).partition(" (")
            share = Cell(words, bounds.rstrip(")"), is_strong=True)
        masked = "masked by other changes" if one.is_hidden else ""
        rows.append(
            (
                Cell(one.name, f"{_value(one.before)} → {_value(one.after)}", is_strong=True),
                Cell(one.label.value, masked, _TONES.get(one.label, Tone.PLAIN)),
                _effect_cell(one.alone, one.alone_of),
                _effect_cell(one.with_others, one.with_others_of),
                share,
            )
        )
    columns = header("Change", "Label", ">Alone, × slower", ">With the others, × slower", ">Share")
    return Table("What each change does", columns, tuple(rows))


def _value(value: str | None) -> str:
    return "default" if value is None else value or "''"


def _effect_cell(found: Interval | None, changes: int) -> Cell:
    if found is None:
        return NOTHING
    if changes > 1:
        words = bounds_words(found, bare_ratio)
        return Cell(format_ratio(found.center), f"{words}, {changes} together", Tone.MUTED)
    if math.isinf(found.center):
        return Cell(f"> {format_ratio(found.low)}", "lower bound")
    if found.center == 0:
        return Cell(f"< {format_ratio(found.high)}", "upper bound")
    tone = Tone.MUTED if _is_within_noise(found) else Tone.PLAIN
    return Cell(format_ratio(found.center), bounds_words(found, bare_ratio), tone)


def _labels(changes: Sequence[ChangeFinding]) -> list[Label]:
    return [label for label in Label if any(one.label is label for one in changes)]


def _meanings(changes: Sequence[ChangeFinding]) -> str:
    return " ".join(f"{capital(label.value)}: {label.meaning}" for label in _labels(changes))


def _legend(found: AblateFinding) -> Paragraph:
    detectable = _detectable(found)
    short = counted(found.brief_trials, "short trial")
    trials = short if found.brief_trials else "trials of full length"
    power = f" {capital(detectable)} (nine times in ten)." if detectable else ""
    return Paragraph(
        f"Alone: {found.reference} with the change against {found.reference}. With the others: {found.target} "
        f"against {found.target} without the change. Both from {trials}. Neighbours in the file are tried "
        "together; each by itself where together they make a difference."
        f"{power} {_meanings(found.changes)}",
        Tone.MUTED,
    )
