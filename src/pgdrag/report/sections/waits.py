"""What did the server's processes wait for on each rung? By type of process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.english import percent_words
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import WaitTime
from pgdrag.report.cells import committed_in_middle
from pgdrag.report.document import Align, Block, Cell, Column, Heading, Paragraph, Table, Tone
from pgdrag.report.sections import Section
from pgdrag.units import format_duration

_LEAST_SHARE = 0.005  # of all that a type of process did, for a line of its own
_MOST_LINES = 20
_READING = (
    "In the trial of median throughput, sampled 20 times a second: seconds per committed transaction, over all "
    "processes of a type. “On CPU” includes waiting for a CPU. Background processes waiting for work are left out."
)

Waits = Mapping[tuple[str, str], float]


class WaitsSection(Section):
    """A table a rung of waits by type of process, beside the rung before."""

    name = "waits"
    summary = "wait events of each rung by type of process, per transaction"
    title = "Wait events"
    order = 52

    def applies(self, findings: Findings) -> bool:
        """Waits were sampled on some rung."""
        return findings.has_rungs and any(
            _per_transaction(findings, rung) for rung in findings.rungs
        )

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return a table a rung, the longest waits first."""
        by_name = {rung.rung.name: _per_transaction(findings, rung) for rung in findings.rungs}
        blocks: list[Block] = []
        for rung in findings.rungs:
            waits = by_name[rung.rung.name]
            if waits:
                before = by_name.get(rung.previous, {})
                blocks += [_heading(rung, before), _table(rung, waits, before)]
        return (*blocks, Paragraph(_READING, Tone.MUTED))


def _per_transaction(findings: Findings, rung: TreatmentFinding) -> Waits:
    """Return seconds per transaction by type of process and wait, in the middle trial."""
    committed = committed_in_middle(findings, rung)
    if not committed:
        return {}
    return {
        (one.backend_type, one.wait): one.time_s / committed for one in rung.recordings.of(WaitTime)
    }


def _heading(rung: TreatmentFinding, before: Waits) -> Heading:
    beside = f"beside {rung.previous}" if before else ""
    return Heading(rung.rung.heading, beside)


def _table(rung: TreatmentFinding, waits: Waits, before: Waits) -> Table:
    columns = (
        Column("Process"),
        Column("Wait"),
        Column(rung.previous or "before", Align.RIGHT),
        Column(rung.rung.name, Align.RIGHT),
        Column("Of its type's time", Align.RIGHT),
    )
    whole: dict[str, float] = {}
    for (backend, _), time_s in waits.items():
        whole[backend] = whole.get(backend, 0.0) + time_s
    named = [key for key, time_s in waits.items() if time_s >= _LEAST_SHARE * whole[key[0]]]
    ranked = sorted(named, key=lambda key: -waits[key])[:_MOST_LINES]
    rows = tuple(
        (
            Cell(backend),
            Cell(wait or "on CPU"),
            Cell(format_duration(before[backend, wait]) if (backend, wait) in before else "–"),
            Cell(format_duration(waits[backend, wait])),
            Cell(percent_words(waits[backend, wait] / whole[backend])),
        )
        for backend, wait in ranked
    )
    return Table(f"Wait events on {rung.rung.name}", columns, rows)
