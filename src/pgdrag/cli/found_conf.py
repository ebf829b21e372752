"""How is a configuration written that a run recommends? As a postgresql.conf, each line with what it brings."""

from __future__ import annotations

from pgdrag.errors import UsageError
from pgdrag.findings.values import Findings
from pgdrag.servers.conf import write_conf


def found_conf(findings: Findings) -> str:
    """Return the file.

    Raises:
        UsageError: the run recommends none.
    """
    run = findings.run
    found = findings.found.configuration() if findings.found is not None else None
    if found is None:
        raise UsageError(
            f"run {run.run_id} has found no configuration",
            hint='Only "pgdrag search" looks for one, and writes it once it is proved.',
        )
    machine = (
        f"Run {run.run_id}, PostgreSQL {run.server_version}, {run.study.scale_words}, on {run.host.cpu_count} "
        f"processors ({run.host.cpu_model})."
    )
    lines = [*found.header, machine, *(f"Not a setting: {one}" for one in found.others)]
    return write_conf(found.settings, header="\n".join(lines), comments=found.comments)
