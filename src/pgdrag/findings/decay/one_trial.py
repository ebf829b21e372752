"""How fast was one trial, in a few words, where its rate may have had a trend?"""

from __future__ import annotations

from pgdrag.findings.combine import RungTrials, rate_of
from pgdrag.findings.decay.together import finding_of, rung_decay
from pgdrag.findings.decay.words import way_words
from pgdrag.model import Result, Rung
from pgdrag.model.measurement import Measurement
from pgdrag.units import format_rate


def trial_rate_words(result: Result, measured: Measurement) -> str:
    """Return `1,187/s`, or `7,200 → 4,300/s` where a mean would be of no moment of the window."""
    treatment = result.trial.treatment
    decay = rung_decay(RungTrials(Rung(treatment.name, "", treatment), (result,)))
    if decay is not None and decay.has_trend:
        return way_words(finding_of(decay))
    return format_rate(rate_of(result, measured).per_s)
