"""What to bear in mind with a run and its rungs, each warning once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdrag.english import as_sentence, counted, listed
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.report.document import Note, Tone

_MOST_BRIEF = 3
# A number that stands for itself: not the 40 of SQLSTATE 40P01, nor the 1 of rung A1.
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def run_warnings(findings: Findings) -> tuple[Note, ...]:
    """Return the warnings about the run as a whole, if there are any."""
    return _note("Warnings about this run", _of_run(findings))


def rung_warnings(findings: Findings) -> tuple[Note, ...]:
    """Return the warnings about single rungs and their intervals, similar ones on one line."""
    return _note("Warnings about rungs", _of_rungs(findings))


def brief_warnings(findings: Findings) -> tuple[Note, ...]:
    """Return the three most important warnings, and count the others.

    Failures come first, then what concerns the whole run; what is true of every ladder comes last.
    """
    every = sorted(
        (*_of_run(findings), *_of_rungs(findings)),
        key=lambda one: ("failed" not in one, "depends on the order" in one),
    )
    shown, rest = every[:_MOST_BRIEF], len(every) - _MOST_BRIEF
    if rest > 0:
        shown.append(f"{counted(rest, 'more warning')} in the HTML report.")
    return _note("Warnings", shown)


def _note(title: str, texts: Sequence[str]) -> tuple[Note, ...]:
    return (Note(title, tuple(texts), Tone.WARNING),) if texts else ()


def _of_run(findings: Findings) -> list[str]:
    return [as_sentence(text) for text in findings.warnings]


def _of_rungs(findings: Findings) -> list[str]:
    """Return one line for warnings that differ in numbers alone; the line gives their range."""
    similar: dict[str, dict[str, list[str]]] = {}
    for rung in findings.rungs:
        for text in dict.fromkeys(_of_rung(rung)):
            similar.setdefault(_NUMBER.sub("\0", text), {}).setdefault(rung.rung.name, []).append(
                text
            )
    lines = []
    for by_rung in similar.values():
        texts = [text for of_one in by_rung.values() for text in of_one]
        lines.append(f"{listed(list(by_rung))}: {_merged(texts)}.")
    return lines


def _merged(texts: Sequence[str]) -> str:
    """Return texts that differ in numbers alone as one, with ranges where they differ."""
    numbers = zip(*map(_NUMBER.findall, texts), strict=True)
    return _NUMBER.sub(lambda _: _range(next(numbers)), texts[0])


def _range(numbers: Sequence[str]) -> str:
    ranked = sorted(set(numbers), key=lambda text: float(text.replace(",", "")))
    return ranked[0] if len(ranked) == 1 else f"{ranked[0]} to {ranked[-1]}"


def _of_rung(rung: TreatmentFinding) -> list[str]:
    warnings = list(rung.warnings)
    for comparison in (rung.to_baseline, rung.to_previous):
        warnings += comparison.slowdown.warnings if comparison is not None else ()
    return warnings + (list(rung.tps.warnings) if rung.tps is not None else [])
