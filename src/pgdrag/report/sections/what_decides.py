"""Does the length of the hold decide, or what grows with it?"""

from __future__ import annotations

from collections.abc import Sequence

from pgdrag.english import as_sentence, counted, listed
from pgdrag.findings.dose.deciders import GROWING
from pgdrag.findings.dose.findings import Decider, DecidersFinding, HorizonFinding
from pgdrag.findings.values import Findings, Interval
from pgdrag.report.cells import NOTHING
from pgdrag.report.document import Block, Cell, Items, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section

_READING = (
    "Partial rank correlations of the log rate over intervals of five seconds: -1 where more of the quantity always goes "
    "with less throughput while the other is held constant, 0 without a relation. 95 % intervals, from trials drawn with "
    "replacement. Within a hold all of these grow together; the time after a release separates them. Correlation does not "
    "show a cause."
)
_VERDICTS = {
    "the length, not this": "throughput depends on the length of the hold, not on the {}",
    "this, not the length": "throughput depends on the {}, not on the length of the hold",
    "both": "throughput depends on the length of the hold and on the {}",
    "inconclusive": "no significant dependence on either the length of the hold or the {}",
    "cannot be separated": "the length of the hold and the {} grew together and cannot be separated: add holds "
    "that end within the window, without a vacuum after them",
}


class WhatDecidesSection(Section):
    """Partial correlations of throughput with the length of the hold, and with what grows with it."""

    name = "what-decides"
    summary = "whether the length of the hold decides, or what grows with it"
    title = "What decides: the length of the hold, or what grows with it"
    order = 24
    is_folded = False

    def applies(self, findings: Findings) -> bool:
        """The horizon was held, and a quantity that grows with it was seen in enough trials."""
        return bool(_found(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the verdict of each variant, and the correlations behind it."""
        found = _found(findings)
        blocks: list[Block] = [_verdicts(found)]
        for one in found:
            blocks.append(_table(one))
            blocks.append(Paragraph(_basis(one), Tone.MUTED))
        return (*blocks, Paragraph(_READING, Tone.MUTED))

    def brief(self, findings: Findings) -> Sequence[Block]:
        """Return the verdicts."""
        return (_verdicts(_found(findings)),)


def _found(findings: Findings) -> tuple[DecidersFinding, ...]:
    found = findings.get(HorizonFinding)
    return found.deciders if found is not None else ()


def _verdicts(found: Sequence[DecidersFinding]) -> Items:
    return Items(tuple(as_sentence(f"{one.variant}: {deciders_words(one)}") for one in found))


def deciders_words(found: DecidersFinding) -> str:
    """Return what throughput depends on."""
    by_verdict: dict[str, list[str]] = {}
    for one in found.deciders:
        by_verdict.setdefault(one.verdict, []).append(one.label)
    return "; ".join(_VERDICTS[verdict].format(listed(x)) for verdict, x in by_verdict.items())


def _basis(found: DecidersFinding) -> str:
    missing = [GROWING[name] for name in found.missing]
    unseen = f"; not enough intervals of: {listed(missing)}" if missing else ""
    read = f"{counted(found.intervals, 'interval')} of {counted(found.trials, 'trial')}"
    return as_sentence(f"{found.variant}: {read}{unseen}")


def _table(found: DecidersFinding) -> Table:
    columns = header(
        "Quantity",
        ">Given the length",
        ">The length, given it",
        ">Given all others",
        ">With the length",
        "Decides",
    )
    rows = tuple(_row(one) for one in found.deciders)
    return Table(f"What throughput depends on: {found.variant}", columns, rows)


def _row(one: Decider) -> tuple[Cell, ...]:
    is_open = one.verdict in ("inconclusive", "cannot be separated")
    return (
        Cell(one.label, is_strong=True),
        _correlation(one.this_given_length),
        _correlation(one.length_given_this),
        NOTHING if one.this_given_all is None else _correlation(one.this_given_all),
        Cell(f"{one.with_length:+.2f}"),
        Cell(one.verdict, tone=Tone.WARNING if is_open else Tone.PLAIN),
    )


def _correlation(found: Interval) -> Cell:
    return Cell(f"{found.center:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}")
