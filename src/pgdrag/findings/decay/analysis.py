"""How did throughput change within each treatment's windows?"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.decay.findings import DecayFinding, drift_sentence
from pgdrag.findings.decay.together import finding_of


class DecayAnalysis(TreatmentAnalysis[DecayFinding]):
    """Throughput over time, fitted over all trials of a treatment."""

    name = "decay"
    finds = DecayFinding

    def find(self, one: Compared, treatments: Treatments) -> DecayFinding | None:
        """Return the fit of a treatment with a window that is long enough."""
        decay = treatments.decays.get(one.name)
        return None if decay is None else finding_of(decay)


@dataclass(frozen=True)
class Drift:
    """Throughput had a trend within the window, so that a mean depends on the window's length."""

    sentence: str


class DriftAnalysis(TreatmentAnalysis[Drift]):
    """Whether throughput drifted within the windows; where that was fitted, the fit decides."""

    name = "drift"
    finds = Drift

    def find(self, one: Compared, treatments: Treatments) -> Drift | None:
        """Return the drift of a treatment that has one."""
        drift, decay = one.trials.drift, treatments.decays.get(one.name)
        if not drift or (decay is not None and decay.direction == "steady"):
            return None
        has_trend = decay is not None and decay.has_trend
        return Drift(drift_sentence(finding_of(decay)) if decay and has_trend else drift)

    def warnings(self, found: Drift) -> tuple[str, ...]:
        """Return the sentence."""
        return (found.sentence,)
