"""Reads and writes by kind of process in the report: for each transaction, beside the rung before."""

from __future__ import annotations

from dataclasses import replace

from analysis_runs import result, run_of, rung
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.model.recordings import ProcessIoUse, Recordings
from pgdrag.report.markdown import render_markdown

BEFORE = Recordings((ProcessIoUse("sessions", 2000, 1000, 1000 * 8192, 0),))
AFTER = Recordings(
    (
        ProcessIoUse("I/O workers", 500, 0, 500 * 8192, 0),
        ProcessIoUse("sessions", 300, 100, 100 * 8192, 100 * 1024),
    )
)


def findings(*sides: Recordings) -> Findings:
    committed = {"A0": 1000, "A1": 100}
    results = [
        replace(result(name, committed[name], number=number), recordings=recordings)
        for number, (name, recordings) in enumerate(zip(committed, sides, strict=True), start=1)
    ]
    return find(run_of([rung("A0"), rung("A1")], results))


def lines_of(found: Findings) -> list[str]:
    return [" ".join(line.split()) for line in render_markdown(found).splitlines()]


def test_each_kind_of_process_stands_beside_the_rung_before() -> None:
    lines = lines_of(findings(BEFORE, AFTER))
    assert "| Sessions | 2 | 8 kB | 1 | 0 B |" in lines
    assert "| Sessions | 2 → 3 | 8 kB → 8 kB | 1 → 1 | 0 B → 1 kB |" in lines
    assert "| I/O workers | 0 → 5 | 0 B → 40 kB | 0 → 0 | 0 B → 0 B |" in lines


def test_a_rung_after_one_that_the_kernel_told_nothing_of_stands_alone() -> None:
    lines = lines_of(findings(Recordings(), AFTER))
    assert "| Sessions | 3 | 8 kB | 1 | 1 kB |" in lines


def test_where_the_kernel_told_nothing_there_is_no_such_section() -> None:
    text = render_markdown(findings(Recordings(), Recordings()))
    assert "Reads and writes by process" not in text
