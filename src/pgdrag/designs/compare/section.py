"""How does a comparison read? Its verdict, interval and pairs, and what else differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from pgdrag.designs._moves_section import moves_table
from pgdrag.designs.compare.findings import CompareFinding, Direction, Failures, Quantity
from pgdrag.designs.compare.rules import MOST_FORECAST, End
from pgdrag.english import capital, counted, listed_some, percent_words
from pgdrag.findings.values import Findings, Gate, Interval, Verdict
from pgdrag.findings.wording import slowdown_words
from pgdrag.model import Outcome
from pgdrag.report.cells import bare_ratio, bounds_words, brief_slowdown
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    KeyValues,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.report.sections import Section, found_of
from pgdrag.stats.paired import ORDER_PAIRS
from pgdrag.units import format_duration, format_number, format_rate, format_ratio

_GATES = {
    Gate.PASS: ("✓ pass", Tone.GOOD),
    Gate.FAIL: ("✗ fail", Tone.BAD),
    Gate.INCONCLUSIVE: ("? inconclusive", Tone.WARNING),
}
MOST_DEFAULTS = 4  # named in the answer
_ENDS = {
    End.GOING_ON: "not yet: more pairs are to come",
    End.DECIDED: "decided",
    End.BUDGET: "inconclusive when the time budget was used up",
    End.MAX_PAIRS: "inconclusive after the last pair allowed",
    End.REFERENCE_FAILED: "the reference has no number",
    End.TREATMENT_FAILED: "the treatment has no number",
    End.FAILED_OFTEN: "too many trials failed",
    End.NOTHING_COMMITTED: "nothing was committed on either side",
}
_FAILED = {
    Outcome.DID_NOT_START: "did not start",
    Outcome.CRASHED: "crashed",
    Outcome.INVALID: "has no valid trial",
    Outcome.UNTESTABLE: "cannot be tested here",
}


class CompareSection(Section):
    name = "compare"
    summary = "the verdict's interval with every pair, and what else differs between two treatments"
    title = "How the two compare"
    order = 11
    is_folded = False
    finding_type = CompareFinding
    needs = "slowdown"

    def blocks(self, findings: Findings) -> Sequence[Block]:
        return comparison_blocks(found_of(findings, CompareFinding))

    def brief(self, findings: Findings) -> Sequence[Block]:
        found = found_of(findings, CompareFinding)
        none = Direction.NOT_SIGNIFICANT
        significant = [one for one in found.quantities if one.direction is not none]
        return (*_numbers(found), *_quantities(found, significant))


def comparison_blocks(found: CompareFinding) -> Sequence[Block]:
    """Return the picture, the numbers, what else differs, each interim analysis and each pair, one or more."""
    return (
        *_numbers(found),
        *_quantities(found, found.quantities),
        *_moves(found),
        Details(f"All {len(found.interims)} interim analyses", (_interims(found),)),
        Details(f"All {counted(len(found.pairs), 'pair')}", (_pairs(found),)),
    )


def answer(found: CompareFinding) -> str:
    """Return the verdict in one to three sentences."""
    if failed := _failure_words(found):
        return f"{_gate_words(found)} {failed}".strip()
    if found.slowdown is None:
        return f"No answer yet: no pair of trials of {found.reference} and {found.treatment} is complete."
    if _is_too_early(found):
        return f"No answer yet: {len(found.pairs)} of at least {ORDER_PAIRS} pairs have run."
    verdict = _same_words(found) or _verdict_words(found, found.slowdown)
    return f"{_gate_words(found)} {verdict} {_defaults_words(found)}".strip()


def _defaults_words(found: CompareFinding) -> str:
    """Return which defaults of the two servers may be the cause, or ""."""
    if not found.defaults:
        return ""
    named = listed_some(found.defaults, MOST_DEFAULTS)
    return f"Their defaults differ, too: {named}; --with-defaults-of tells how much of it that is."


def warnings(found: CompareFinding) -> Iterator[str]:
    """Yield what may be wrong with it, each with the remedy still untried."""
    if _is_too_early(found):
        yield (
            f"fewer than {ORDER_PAIRS} pairs cannot separate a treatment's effect from that of the order of "
            "trials; let the run go on"
        )
    for side, failures in (
        (found.reference, found.reference_failures),
        (found.treatment, found.treatment_failures),
    ):
        if failures is not None and found.pairs:
            reason = f" ({failures.reason})" if failures.reason else ""
            yield (
                f"left out: {counted(failures.trials, 'trial')} of {side} without a number, the last one "
                f"{failures.outcome.value}{reason}; see what the server logged"
            )
    if found.slowdown is not None:
        yield from found.slowdown.warnings
    if found.order is not None:
        yield (
            f"the second trial of a pair was {_change(found.order)} than the first, whichever treatment it "
            "ran; this order effect is subtracted; allow more time between trials, or a longer warm-up"
        )
    if found.trend is not None:
        yield (
            f"both sides became {_change(1 / found.trend.change)} over the "
            f"{format_duration(found.trend.lasted_s)} of the run; pairs cancel that, but find out what else "
            "the machine does"
        )
    if found.is_noisier and found.noise_floor is not None and found.pair_log_sd is not None:
        yield (
            f"pairs differ by {_spread(found.pair_log_sd)}, but by {_spread(found.noise_floor.log_sd)} when "
            "this machine was calibrated: it is noisier now, or one treatment is unsteady; calibrate again"
        )


def _is_too_early(found: CompareFinding) -> bool:
    is_decided = bool(found.interims) and found.interims[-1].is_decided
    return 0 < len(found.pairs) < ORDER_PAIRS and not is_decided


def _verdict_words(found: CompareFinding, shown: Interval) -> str:
    reference, treatment = found.reference, found.treatment
    size, _, bounds = slowdown_words(shown).partition(" (")
    interval = ""
    if bounds:
        bounds = bounds.rstrip(")").replace("×", "").replace(" to ", "–")
        interval = f" ({percent_words(found.confidence)} CI {bounds})"
    pairs = counted(len(found.pairs), "pair")
    number = f"{treatment} is {size} than {reference}{interval}, {pairs}."
    if found.verdict is Verdict.EQUIVALENT:
        equal = f"within ±{found.equivalence * 100:.3g} %"
        text = f"{treatment} is as fast as {reference}, {equal}: {size}{interval}, {pairs}."
        if found.interims[-1].slowdown.excludes_one:
            text += " The difference is significant, but too small to count."
        return text
    if found.verdict is not Verdict.INCONCLUSIVE:
        return number
    least = f"These pairs can detect {format_ratio(found.detectable)} or more."
    if math.isinf(found.detectable):
        least = "These pairs cannot detect a difference of any size."
    start = "Inconclusive: " if found.gate is None else ""
    return f"{start}{number} {least} {_more_words(found)}".strip()


def _same_words(found: CompareFinding) -> str:
    """Say what pairs of one and the same treatment show: the noise; "" for any others."""
    if not found.is_same or found.pair_log_sd is None or not found.prospects:
        return ""
    text = (
        f"Two trials of the same treatment differ by {_spread(found.pair_log_sd)} here (standard deviation "
        f"over {counted(len(found.pairs), 'pair')})."
    )
    if words := _prospect_words(found):
        text += f" To detect a slowdown, {words}."
    if found.verdict in (Verdict.SLOWER, Verdict.FASTER):
        chance = percent_words(1 - found.confidence)
        text += (
            f" The difference is significant all the same, which happens in {chance} of such comparisons; if "
            "it happens again, something favours one side."
        )
    return text


def _gate_words(found: CompareFinding) -> str:
    if found.margin is None or found.gate is None:
        return ""
    verdict = "Neither pass nor fail" if found.gate is Gate.INCONCLUSIVE else capital(found.gate)
    return f"{verdict} (limit: {found.margin * 100:.3g} % slower)."


def _failure_words(found: CompareFinding) -> str:
    """Say which side failed, where that ended the comparison; else ""."""
    match found.end:
        case End.REFERENCE_FAILED:
            return _ended(found.reference, found.reference_failures)
        case End.TREATMENT_FAILED:
            other = "" if found.reference_failures else f" {found.reference} ran."
            return _ended(found.treatment, found.treatment_failures) + other
        case End.NOTHING_COMMITTED:
            return (
                f"Nothing to compare: neither {found.reference} nor {found.treatment} committed "
                "anything within the budget."
            )
        case _:
            return ""


def _ended(side: str, failures: Failures | None) -> str:
    assert failures is not None, side
    verb = _FAILED.get(failures.outcome, "has no number")
    # The server's own sentence begins with what the verb says already.
    reason = failures.reason
    for start in (f"server {verb}: ", f"the server {verb}: "):
        reason = reason.removeprefix(start)
    return f"{side} {verb}: {reason}." if reason else f"{side} {verb}."


def _prospect_words(found: CompareFinding) -> str:
    """Return `1.02× takes 24 pairs, 1.05× 6`, without what takes no more than a larger one; "" without any."""
    smallest: dict[int, float] = {}
    for one in reversed(found.prospects):
        if one.pairs is not None:
            smallest.setdefault(one.pairs, one.slowdown)
    # The smallest comes first, and says what the numbers count.
    shown = [(format_ratio(ratio), pairs) for pairs, ratio in reversed(smallest.items())]
    return ", ".join(
        f"{ratio} takes {pairs} pairs" if not at else f"{ratio} {pairs}"
        for at, (ratio, pairs) in enumerate(shown)
    )


def _more_words(found: CompareFinding) -> str:
    """Say how many pairs would decide it; "" where it is decided or cannot be said."""
    if found.more_pairs == 0 or found.pair_log_sd is None or len(found.pairs) < ORDER_PAIRS:
        return ""
    if found.more_pairs is None:
        return (
            f"At this effect and noise it would take more than {MOST_FORECAST:,} pairs to decide."
        )
    return f"At this effect and noise about {len(found.pairs) + found.more_pairs} pairs in all would decide it."


def _change(slower: float) -> str:
    """Return `1.2 % slower` or `1.2 % faster` of a ratio that says how many times slower."""
    share, way = (slower - 1, "slower") if slower >= 1 else (1 / slower - 1, "faster")
    return f"{share * 100:.2g} % {way}" if share < 1 else f"{format_ratio(share + 1)} {way}"


def _numbers(found: CompareFinding) -> list[Block]:
    """Return the picture, and what is in it as numbers."""
    shown, pairs = found.slowdown, counted(len(found.pairs), "pair")
    assert shown is not None, "no pair is complete"
    limit = None if found.margin is None else 1 + found.margin
    caption = (
        f"How many times slower {found.treatment} is than {found.reference}: the verdict's interval, and "
        "below it each pair in the order run. Logarithmic scale; further right is slower. The band counts as "
        f"equal, ±{found.equivalence * 100:.3g} %{'.' if limit is None else '; the broken line is the limit.'}"
    )
    title = f"{found.treatment} against {found.reference}"
    rows = [("Verdict", Cell(found.verdict.value, is_strong=True))]
    if found.gate is not None and limit is not None:
        words, tone = _GATES[found.gate]
        words = f"{words}: up to {format_ratio(limit)} slower is allowed"
        rows.append(("Gate", Cell(words, tone=tone, is_strong=True)))
    analyses = len(found.interims)
    of_many = f", for {analyses} interim analyses" if analyses > 1 else ""
    how = f"{shown.confidence * 100:.3g} %{of_many}: {shown.method}"
    rows += [
        (found.reference, Cell(_rates([pair.reference_per_s for pair in found.pairs]))),
        (found.treatment, Cell(_rates([pair.treatment_per_s for pair in found.pairs]))),
        ("Effect", Cell(slowdown_words(shown), how)),
    ]
    least = f"{format_ratio(found.detectable)}, four times in five"
    if math.isinf(found.detectable):
        least = "none, with these pairs"
    rows.append(("Detectable effect", Cell(least)))
    more = _more_words(found)
    rows.append(("Ended", Cell(_ENDS[found.end], more)))
    # Pairs to decide this comparison and pairs to detect a slowdown are two numbers: one is enough.
    if (words := _prospect_words(found)) and not more:
        how = "four times in five, at this noise"
        rows.append(("To detect a slowdown", Cell(words, how)))
    if found.pair_log_sd is not None:
        rows.append(("Noise", _noise(found, found.pair_log_sd)))
    figure = rows_figure(
        [Row(pairs, words=brief_slowdown(found.verdict, shown), found=shown)],
        title,
        found.answer,
        caption,
        name="pairs-chart",
        band=1 + found.equivalence,
        limit=limit,
        dots=[pair.slowdown for pair in found.pairs],
    )
    return [figure, KeyValues(tuple(rows))]


def _noise(found: CompareFinding, log_sd: float) -> Cell:
    here = f"pairs differ by {_spread(log_sd)} (standard deviation)"
    floor = found.noise_floor
    if floor is None:
        return Cell(here, "pgdrag calibrate measures how much of it is the machine's own")
    when = f" on {floor.when}" if floor.when else ""
    calibrated = f"; this machine{when}: {_spread(floor.log_sd)}"
    return Cell(here + calibrated, f"{counted(floor.pairs, 'pair')} of one and the same treatment")


def _quantities(found: CompareFinding, shown: Sequence[Quantity]) -> list[Block]:
    if not shown:
        return []
    columns = header("Quantity", f">{found.reference}", f">{found.treatment}", ">Ratio", "Verdict")
    rows = tuple(
        (
            Cell(capital(one.label), is_strong=True),
            Cell(format_duration(one.reference)),
            Cell(format_duration(one.treatment)),
            Cell(format_ratio(one.ratio.center), bounds_words(one.ratio, bare_ratio)),
            _direction(one),
        )
        for one in shown
    )
    confidence = shown[0].ratio.confidence
    words = (
        f"Ratio: {found.treatment} divided by {found.reference}, with its {confidence * 100:.3g} % CI. "
        f"Verdicts are adjusted for {counted(len(found.quantities), 'quantity')} (Holm)."
    )
    return [
        Heading("What else differs", "latency and processor time"),
        Table("Latency and processor time of both sides", columns, rows),
        Paragraph(words, Tone.MUTED),
    ]


def _moves(found: CompareFinding) -> list[Block]:
    if not found.moves:
        return []
    aside = f"per transaction, {found.treatment} against {found.reference}"
    return [Heading("What moves", aside), *moves_table(found.moves)]


def _direction(one: Quantity) -> Cell:
    if one.direction is Direction.NOT_SIGNIFICANT:
        return Cell(one.direction.value, tone=Tone.MUTED)
    arrow = "▲" if one.direction is Direction.HIGHER else "▼"
    return Cell(f"{arrow} {one.direction.value}", f"p {max(one.p_adjusted, 1e-9):.2g}")


def _interims(found: CompareFinding) -> Table:
    rows = tuple(
        (
            Cell(str(one.pairs)),
            Cell(slowdown_words(one.shown)),
            Cell(f"{one.shown.confidence * 100:.4g} %"),
            Cell(one.verdict.value if one.gate is None else f"{one.verdict}; {one.gate}"),
        )
        for one in found.interims
    )
    columns = header(">Pairs", ">Effect", ">Confidence", "Verdict")
    return Table("Each interim analysis", columns, rows)


def _pairs(found: CompareFinding) -> Table:
    rows = tuple(
        (
            Cell(str(pair.block)),
            Cell(found.reference if pair.is_reference_first else found.treatment),
            Cell(format_rate(pair.reference_per_s)),
            Cell(format_rate(pair.treatment_per_s)),
            Cell(format_ratio(pair.slowdown, significant=4) if pair.slowdown < math.inf else "–"),
        )
        for pair in found.pairs
    )
    sides = (f">{found.reference}", f">{found.treatment}")
    return Table("Each pair of trials", header(">Block", "First", *sides, ">× slower"), rows)


def _rates(rates: Sequence[float]) -> str:
    """Return the geometric mean of rates with the lowest and highest."""
    if not all(rates):
        return f"{format_rate(min(rates))} to {format_rate(max(rates))}"
    return f"{format_rate(geometric_mean(rates))} ({format_number(min(rates))} to {format_number(max(rates))} by pair)"


def _spread(log_sd: float) -> str:
    return f"{math.expm1(log_sd) * 100:.2g} %"
