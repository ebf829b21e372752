"""What the processors ran: a flame graph a rung, and what changed since the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import Stack
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Items,
    Paragraph,
    Table,
    Tone,
    header,
)
from pgdrag.report.flame import (
    MOST_BOXES,
    Difference,
    Scales,
    by_share,
    difference_graph,
    flame_graph,
    own_differences,
    own_shares,
    share_words,
)
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_PROFILE = "profile"
_CPU = "server_cpu_s_per_transaction"
_NAMED = 10
# Of all pictures together, so that the report of a long ladder stays small.
_ALL_BOXES = 800
_FEWEST_BOXES = 12
_UNSEEN = "no sample"
_HOW_TO_READ = (
    "Each box is a function on top of its caller, as wide as its share of the server's CPU time, in the trial of "
    "median throughput. Waiting is not included."
)


class ProfileSection(Section):
    """A flame graph a rung, and the difference to the rung before."""

    name: ClassVar[str] = "profile"
    summary: ClassVar[str] = "a flame graph a rung, and one of what changed; with --profile"
    title: ClassVar[str] = "What the processors ran"
    order: ClassVar[int] = 45

    def applies(self, findings: Findings) -> bool:
        """There is a profile of some rung, or a reason why there is none."""
        return any(rung.recordings.of(Stack) or _missing(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the pictures, folded, and why one is missing."""
        by_name = {rung.rung.name: rung for rung in findings.rungs if rung.recordings.of(Stack)}
        blocks: list[Block] = [Paragraph(_HOW_TO_READ, Tone.MUTED)] if by_name else []
        most = max(_FEWEST_BOXES, min(MOST_BOXES, _ALL_BOXES // max(1, 2 * len(by_name) - 1)))
        for at, rung in enumerate(by_name.values()):
            blocks.append(_profile(rung, f"profile-{at}", most))
            if rung.previous in by_name:
                blocks.append(_change(by_name[rung.previous], rung, f"profile-change-{at}", most))
        if reasons := tuple(_reasons(findings)):
            blocks.append(Items(reasons))
        return blocks


def _profile(rung: TreatmentFinding, name: str, most: int) -> Details:
    stacks = rung.recordings.of(Stack)
    title = f"CPU time on {rung.rung.name}"
    samples = sum(stack.samples for stack in stacks)
    figure = Figure(
        flame_graph(stacks, name=name, title=title, most=most),
        f"{samples:,} samples. Point at a box for its name and share.",
    )
    rows = tuple(
        (Cell(function), Cell(share_words(share)))
        for function, share in own_shares(stacks)[:_NAMED]
    )
    columns = header("Function", ">Own share")
    return Details(title, (figure, Table("Functions by their own share", columns, rows)))


def _change(before: TreatmentFinding, rung: TreatmentFinding, name: str, most: int) -> Details:
    first, second = before.recordings.of(Stack), rung.recordings.of(Stack)
    scales, unit = _scales(before, rung)
    title = f"CPU time {unit}, {rung.rung.name} against {before.rung.name}"
    graph = difference_graph(
        first, second, scales, name=name, title=title, previous=before.rung.name, most=most
    )
    caption = (
        f"Red takes more time on {rung.rung.name} than on {before.rung.name}, blue less; the darkest colours are a "
        "factor of three. A box is as wide as both together. Coloured differences are significant at 5 % over all "
        "boxes together."
    )
    changed = [x for x in own_differences(first, second, scales) if x.change != "same"][:_NAMED]
    changes: Block = Paragraph("No function's own time changed significantly.")
    if changed:
        changes = _change_table(changed, before, rung, scales)
    return Details(title, (Figure(graph, caption), changes))


def _change_table(
    changed: Sequence[Difference], before: TreatmentFinding, rung: TreatmentFinding, scales: Scales
) -> Table:
    columns = header("Function", f">{before.rung.name}", f">{rung.rung.name}", "Own time")
    rows = tuple(
        (
            Cell(one.name),
            Cell(scales.words(one.before) if one.before else _UNSEEN),
            Cell(scales.words(one.after) if one.after else _UNSEEN),
            Cell("▲ more" if one.change == "more" else "▼ less"),
        )
        for one in changed
    )
    return Table("Functions whose own time changed most", columns, rows)


def _scales(before: TreatmentFinding, rung: TreatmentFinding) -> tuple[Scales, str]:
    """Return what a sample weighs: its part of the processor time of a transaction, where that is known.

    The kernel's account of processor time is exact where samples may be lost.
    """
    shares = by_share(before.recordings.of(Stack), rung.recordings.of(Stack))
    first_s, second_s = _cpu_s(before), _cpu_s(rung)
    if not first_s or not second_s:
        return shares, "by its shares"
    scales = Scales(shares.before * first_s, shares.after * second_s, format_duration)
    return scales, "per transaction"


def _cpu_s(rung: TreatmentFinding) -> float | None:
    return next((one.value for one in rung.evidence if one.name == _CPU), None)


def _missing(rung: TreatmentFinding) -> Mapping[str, str]:
    found = rung.recordings.missing
    return {what: why for what, why in found.items() if what.startswith(_PROFILE)}


def _reasons(findings: Findings) -> Iterator[str]:
    """Say once for each reason on which rungs something is missing."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for rung in findings.rungs:
        for what, why in _missing(rung).items():
            by_reason.setdefault((what, why), []).append(rung.rung.name)
    for (what, why), names in by_reason.items():
        yield f"No {what} on {', '.join(names)}: {why}."
