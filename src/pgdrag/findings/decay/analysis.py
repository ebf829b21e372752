"""How did throughput change within each treatment's windows?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pgdrag.findings.analysis import RunAnalysis, TreatmentAnalysis
from pgdrag.findings.claim_findings import OrderingFinding, SeriesClaimFinding
from pgdrag.findings.compared import Treatments
from pgdrag.findings.decay.findings import DecayFinding
from pgdrag.findings.decay.together import finding_of
from pgdrag.findings.decay.words import drift_sentence
from pgdrag.findings.series_claims import answer_ordering, answer_series


class DecayAnalysis(TreatmentAnalysis[DecayFinding]):
    """Throughput over time, fitted over all trials of a treatment."""

    name: ClassVar[str] = "decay"
    finds: ClassVar[type] = DecayFinding

    def find(self, treatments: Treatments) -> Mapping[str, DecayFinding]:
        """Return the fit of each treatment with a window that is long enough."""
        return {name: finding_of(decay) for name, decay in treatments.decays.items()}


@dataclass(frozen=True)
class Drift:
    """Throughput had a trend within the window, so that a mean depends on the window's length."""

    sentence: str


class DriftAnalysis(TreatmentAnalysis[Drift]):
    """Whether throughput drifted within the windows; where that was fitted, the fit decides."""

    name: ClassVar[str] = "drift"
    finds: ClassVar[type] = Drift

    def find(self, treatments: Treatments) -> Mapping[str, Drift]:
        """Return the drift of each treatment that has one."""
        found = {}
        for one in treatments.trials:
            decay = treatments.decays.get(one.rung.name)
            if one.drift and decay is not None and decay.has_trend:
                found[one.rung.name] = Drift(drift_sentence(finding_of(decay)))
            elif one.drift and (decay is None or decay.direction != "steady"):
                found[one.rung.name] = Drift(one.drift)
        return found

    def warnings(self, found: Drift) -> tuple[str, ...]:
        """Return the sentence."""
        return (found.sentence,)


class SeriesClaimAnalysis(TreatmentAnalysis[SeriesClaimFinding]):
    """Whether a published trend, or rates over time, hold here."""

    name: ClassVar[str] = "series_claim"
    finds: ClassVar[type] = SeriesClaimFinding

    def find(self, treatments: Treatments) -> Mapping[str, SeriesClaimFinding]:
        """Answer the published rates of each treatment that was run."""
        found = (
            (one.rung.name, answer_series(one.rung.claim, treatments.decays.get(one.rung.name)))
            for one in treatments.trials
            if one.results
        )
        return {name: one for name, one in found if one is not None}


class OrderingAnalysis(RunAnalysis[OrderingFinding]):
    """Whether the rungs stand in the published order of their rates."""

    name: ClassVar[str] = "ordering"
    finds: ClassVar[type] = OrderingFinding

    def find(self, treatments: Treatments) -> OrderingFinding | None:
        """Compare the orders; None where fewer than two rungs have both a published and a fitted rate."""
        return answer_ordering([one.rung for one in treatments.trials], treatments.decays)
