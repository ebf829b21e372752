"""What the processors ran: a flame graph a rung, and what changed since the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import Stack
from pgdrag.report.document import Block, Details, Figure, Items, Paragraph, Tone, table_of
from pgdrag.report.flame import (
    MOST_BOXES,
    Scales,
    by_share,
    flame_graph,
    own_differences,
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
_HOW_TO_READ = (
    "Each box is a function on top of its caller, as wide as its share of the server's CPU time, in the trial of "
    "median throughput. Waiting is not included."
)


class ProfileSection(Section):
    name = "profile"
    summary = "a flame graph a treatment, and one of what changed; with --profile"
    title = "What the processors ran"
    order = 45

    def applies(self, findings: Findings) -> bool:
        """There is a profile of some rung, or a reason why there is none."""
        return any(rung.recordings.of(Stack) or _missing(rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        by_name = {rung.rung.name: rung for rung in findings.rungs if rung.recordings.of(Stack)}
        blocks: list[Block] = [Paragraph(_HOW_TO_READ, Tone.MUTED)] if by_name else []
        most = max(_FEWEST_BOXES, min(MOST_BOXES, _ALL_BOXES // max(1, 2 * len(by_name) - 1)))
        for at, rung in enumerate(by_name.values()):
            blocks.append(_profile(rung, f"profile-{at}", most))
            if rung.previous in by_name:
                blocks.append(_change(by_name[rung.previous], rung, f"profile-change-{at}", most))
        # Once for each reason, with the rungs on which something is missing.
        by_reason: dict[tuple[str, str], list[str]] = {}
        for rung in findings.rungs:
            for one in _missing(rung).items():
                by_reason.setdefault(one, []).append(rung.rung.name)
        reasons = [f"No {what} on {', '.join(of)}: {why}." for (what, why), of in by_reason.items()]
        return (*blocks, Items(tuple(reasons))) if reasons else blocks


def _profile(rung: TreatmentFinding, name: str, most: int) -> Details:
    stacks = rung.recordings.of(Stack)
    shares = by_share((), stacks)
    title = f"CPU time on {rung.rung.name}"
    samples = sum(stack.samples for stack in stacks)
    figure = Figure(
        flame_graph((), stacks, shares, name=name, title=title, most=most),
        f"{samples:,} samples. Point at a box for its name and share.",
    )
    functions = table_of(
        "Functions by their own share",
        own_differences((), stacks, shares)[:_NAMED],
        {"Function": lambda one: one.name, ">Own share": lambda one: share_words(one.after)},
    )
    return Details(title, (figure, functions))


def _change(before: TreatmentFinding, rung: TreatmentFinding, name: str, most: int) -> Details:
    first, second = before.recordings.of(Stack), rung.recordings.of(Stack)
    scales, unit = by_share(first, second), "by its shares"
    # The kernel's account of CPU time is exact where samples may be lost: a sample weighs its part of that.
    first_s, second_s = _cpu_s(before), _cpu_s(rung)
    if first_s and second_s:
        scales = Scales(scales.before * first_s, scales.after * second_s, format_duration)
        unit = "per transaction"
    old, new = before.rung.name, rung.rung.name
    title = f"CPU time {unit}, {new} against {old}"
    graph = flame_graph(first, second, scales, name=name, title=title, previous=old, most=most)
    caption = (
        f"Red takes more time on {new} than on {old}, blue less; the darkest colours are a factor of three. A box is "
        "as wide as both together. Coloured differences are significant at 5 % over all boxes together."
    )
    changed = [x for x in own_differences(first, second, scales) if x.change != "same"][:_NAMED]
    changes: Block = Paragraph("No function's own time changed significantly.")
    if changed:
        changes = table_of(
            "Functions whose own time changed most",
            changed,
            {
                "Function": lambda one: one.name,
                f">{old}": lambda one: scales.words(one.before) if one.before else "no sample",
                f">{new}": lambda one: scales.words(one.after) if one.after else "no sample",
                "Own time": lambda one: "▲ more" if one.change == "more" else "▼ less",
            },
        )
    return Details(title, (Figure(graph, caption), changes))


def _cpu_s(rung: TreatmentFinding) -> float | None:
    return next((one.value for one in rung.evidence if one.name == _CPU), None)


def _missing(rung: TreatmentFinding) -> Mapping[str, str]:
    found = rung.recordings.missing
    return {what: why for what, why in found.items() if what.startswith(_PROFILE)}
