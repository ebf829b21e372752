"""Which hosts of a fleet ran the trials, and do they differ?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdrag.english import listed
from pgdrag.findings.hosts import HostFinding, HostsFinding, share_words
from pgdrag.findings.values import Findings
from pgdrag.report.document import Block, Cell, Paragraph, Table, Tone, table_of
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes, format_ratio


class HostsSection(Section):
    name = "hosts"
    summary = "the hosts of a fleet: trials, speed, noise, and effects that differ between them"
    title = "Hosts"
    order = 75
    finding_type = HostsFinding

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = findings.get(HostsFinding)
        if found is None:
            return ()
        blocks: list[Block] = [
            Paragraph(
                "Each block ran whole on one host, so that no ratio mixes machines. Speed is that of the same "
                "treatments on all hosts, 1 is their mean.",
                Tone.MUTED,
            ),
            _table(found.hosts),
        ]
        for one in found.differing:
            each = [f"{format_ratio(x)} on {name}" for name, x in one.slowdowns.items()]
            blocks.append(
                Paragraph(
                    f"{one.treatment} against the baseline differs between hosts: {listed(each)} "
                    f"(p = {one.p:.2g}, adjusted for all treatments)."
                )
            )
        return tuple(blocks)


def _table(hosts: Sequence[HostFinding]) -> Table:
    columns: dict[str, Callable[[HostFinding], Cell | str]] = {
        "Host": lambda x: Cell(x.name, is_strong=bool(x.notes)),
        ">Trials": lambda x: str(x.trials),
        ">Speed": lambda x: "" if x.speed is None else format_ratio(x.speed),
        ">Noise": lambda x: "" if x.log_sd is None else share_words(x.log_sd),
        "Machine": lambda x: (
            ""
            if x.machine is None
            else f"{x.machine.cpu_count} × {x.machine.cpu_model}, "
            f"{format_bytes(x.machine.memory_bytes)}, Linux {x.machine.kernel}, {x.machine.file_system}"
        ),
        "Unlike the others": lambda x: "; ".join(x.notes),
    }
    return table_of("The hosts of the fleet", hosts, columns)
