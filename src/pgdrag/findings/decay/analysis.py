"""How did throughput change within each treatment's windows?"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.decay.findings import DecayFinding, drift_sentence
from pgdrag.findings.decay.together import finding_of


@dataclass(frozen=True)
class Drift:
    """Throughput had a trend within the window, so that a mean depends on the window's length."""

    sentence: str


def _decay(one: Compared, treatments: Treatments) -> DecayFinding | None:
    decay = treatments.decays.get(one.name)
    return None if decay is None else finding_of(decay)


def _drift(one: Compared, treatments: Treatments) -> Drift | None:
    """Return whether throughput drifted within the windows; where that was fitted, the fit decides."""
    drift, decay = one.trials.drift, _decay(one, treatments)
    if not drift or (decay is not None and decay.direction == "steady"):
        return None
    return Drift(drift_sentence(decay) if decay is not None and decay.has_trend else drift)


DECAY = TreatmentAnalysis("decay", DecayFinding, _decay)
DRIFT = TreatmentAnalysis("drift", Drift, _drift, warnings=lambda found: (found.sentence,))
