"""Which trial shows what became of a rung's rows? The one in the middle, or one whose results were wrong.

A variant that loses updates has no number and no middle; its pages are telling all the same, as those of
a trial that is not to be believed for its speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model import Observation, Outcome, Result
from pgdrag.model.recordings import PageStrip, Recordings, Series, UpdateLook

COLLECTORS = ("row_versions", "update_cost")
_WRONG = "results were wrong"


@dataclass(frozen=True)
class LookedAt:
    """What was seen of a rung's rows.

    Attributes:
        problem: why it has no number though it was measured, or "".
    """

    name: str
    title: str
    recordings: Recordings
    evidence: Sequence[Observation]
    problem: str = ""

    def series(self, name: str) -> Series | None:
        """Return a series that has values; None where there is none."""
        return next((x for x in self.recordings.series if x.name == name and x.values), None)

    @property
    def tables(self) -> dict[str, list[PageStrip]]:
        """The moments of each table's pages."""
        found: dict[str, list[PageStrip]] = {}
        for strip in self.recordings.of(PageStrip):
            found.setdefault(strip.relation, []).append(strip)
        return found

    @property
    def updates(self) -> dict[str, list[UpdateLook]]:
        """The looks at each update, by its text."""
        found: dict[str, list[UpdateLook]] = {}
        for look in self.recordings.of(UpdateLook):
            found.setdefault(look.query, []).append(look)
        return found

    def detail(self, observation: str) -> str:
        """Return what stands behind an observation, or ""."""
        return next((x.detail for x in self.evidence if x.name == observation), "")


def looked_at(findings: Findings, names: Sequence[str]) -> list[LookedAt]:
    """Return the rungs of which there is one of these series, in their order."""
    return [found for rung in findings.rungs for found in _of_rung(findings, rung, set(names))]


def reasons(findings: Findings) -> list[str]:
    """Say of each rung why it was not looked at, where it was asked for."""
    texts = (
        f"{rung.rung.name}: no {name.replace('_', ' ')}: {rung.recordings.missing[name]}."
        for rung in findings.rungs
        for name in COLLECTORS
        if name in rung.recordings.missing
    )
    return list(dict.fromkeys(texts))


def _of_rung(findings: Findings, rung: TreatmentFinding, names: set[str]) -> Iterator[LookedAt]:
    def is_significant(recordings: Recordings) -> bool:
        return any(one.name in names for one in recordings.series)

    if is_significant(rung.recordings):
        yield LookedAt(rung.rung.name, rung.rung.title, rung.recordings, rung.evidence)
        return
    for result in findings.run.results:
        if _is_wrong(result, rung) and is_significant(result.recordings):
            yield LookedAt(
                rung.rung.name, rung.rung.title, result.recordings, result.evidence, _WRONG
            )
            return


def _is_wrong(result: Result, rung: TreatmentFinding) -> bool:
    """Whether a trial of the rung ran to its end, and its results failed their check."""
    is_measured = result.outcome is Outcome.INVALID and result.measurement is not None
    return is_measured and bool(result.violations) and result.trial.treatment == rung.rung.treatment
