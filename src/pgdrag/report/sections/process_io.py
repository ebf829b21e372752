"""Which of the server's processes read and write? For each transaction, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdrag.english import capital
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import ProcessIoUse
from pgdrag.report.cells import committed_in_middle
from pgdrag.report.document import Block, Cell, Heading, Paragraph, Table, Tone, header
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes, format_number

_COLUMNS = header("Processes", ">Read calls", ">Read", ">Write calls", ">Written")


class ProcessIoSection(Section):
    """The kernel's account of the server's processes, by their kind."""

    name = "process-io"
    summary = "read and write calls and bytes of each kind of process, against before"
    title = "Reads and writes by process"
    order = 47

    def applies(self, findings: Findings) -> bool:
        """The kernel counted what the server's processes did in some trial."""
        return any(_has_account(findings, rung) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return a table a rung."""
        by_name = {rung.rung.name: rung for rung in findings.rungs}
        intro = Paragraph(
            "System calls and bytes per committed transaction, in the trial of median throughput; before → after "
            "where the rung before has them. The kernel's page cache answers most reads. The last quarter of a "
            "second of each process is not attributed.",
            Tone.MUTED,
        )
        rungs = [rung for rung in findings.rungs if _has_account(findings, rung)]
        tables = (x for rung in rungs for x in _rung(findings, rung, by_name.get(rung.previous)))
        return (intro, *tables)


def _rung(
    findings: Findings, rung: TreatmentFinding, previous: TreatmentFinding | None
) -> Iterator[Block]:
    sides = [(rung, committed_in_middle(findings, rung))]
    has_before = previous is not None and _has_account(findings, previous)
    if previous is not None and has_before:
        sides.insert(0, (previous, committed_in_middle(findings, previous)))
    used = [{use.kind: use for use in side.recordings.of(ProcessIoUse)} for side, _ in sides]
    kinds = dict.fromkeys(kind for uses in reversed(used) for kind in uses)

    def row(kind: str) -> tuple[Cell, ...]:
        both = [
            _per_transaction(uses.get(kind), committed)
            for uses, (_, committed) in zip(used, sides, strict=True)
        ]
        return (
            Cell(capital(kind)),
            *(Cell(" → ".join(values)) for values in zip(*both, strict=True)),
        )

    against = f"against {rung.previous}" if has_before else ""
    yield Heading(rung.rung.heading, against)
    caption = f"Reads and writes on {rung.rung.name}, per transaction"
    yield Table(caption, _COLUMNS, tuple(row(kind) for kind in kinds))


def _per_transaction(use: ProcessIoUse | None, committed: int) -> tuple[str, ...]:
    """Return one kind's cells; a kind that did nothing is not in the account."""
    if use is None:
        return ("0", "0 B", "0", "0 B")
    return (
        format_number(use.read_calls / committed),
        format_bytes(use.read_bytes / committed),
        format_number(use.write_calls / committed),
        format_bytes(use.written_bytes / committed),
    )


def _has_account(findings: Findings, rung: TreatmentFinding) -> bool:
    return bool(rung.recordings.of(ProcessIoUse)) and committed_in_middle(findings, rung) > 0
