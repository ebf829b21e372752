"""What is doubtful about a run and its rungs, each doubt said once."""

from __future__ import annotations

from pgdrag.analysis.findings import Findings, RungFinding
from pgdrag.analysis.wording import listed
from pgdrag.report.document import Note, Tone


def run_doubts(findings: Findings) -> tuple[Note, ...]:
    """Return the doubts about the run as a whole, if there are any."""
    told = tuple(as_sentence(text) for text in findings.warnings)
    return (Note("Doubts about this run", told, Tone.DOUBT),) if told else ()


def rung_doubts(findings: Findings) -> tuple[Note, ...]:
    """Return the doubts about single rungs and their intervals; rungs that share one share a line."""
    names: dict[str, list[str]] = {}
    for rung in findings.rungs:
        for text in dict.fromkeys(_of_rung(rung)):
            names.setdefault(text, []).append(rung.rung.name)
    told = tuple(f"{listed(who)}: {text}." for text, who in names.items())
    return (Note("Doubts about rungs", told, Tone.DOUBT),) if told else ()


def as_sentence(text: str) -> str:
    """Return words as a sentence: with a capital and a full stop; names stay as they are."""
    first = text.split(" ", 1)[0]
    is_name = "_" in first or text[len(first) :].startswith(" = ")
    start = text if is_name else f"{text[:1].upper()}{text[1:]}"
    return start if start.endswith((".", "!", "?")) else f"{start}."


def _of_rung(rung: RungFinding) -> list[str]:
    doubts = list(rung.warnings)
    for comparison in (rung.to_baseline, rung.to_previous):
        doubts += comparison.slowdown.warnings if comparison is not None else ()
    return doubts + (list(rung.tps.warnings) if rung.tps is not None else [])
