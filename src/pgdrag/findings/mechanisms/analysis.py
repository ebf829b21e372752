"""What made each step slower or faster? The mechanisms of every treatment of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Compared, Treatments
from pgdrag.findings.mechanisms.find import find_mechanisms
from pgdrag.findings.mechanisms.findings import MechanismsFinding
from pgdrag.findings.mechanisms.trials import Trials, observed
from pgdrag.findings.values import Verdict


class MechanismsAnalysis(TreatmentAnalysis[MechanismsFinding]):
    """Which mechanisms a step is made of."""

    name: ClassVar[str] = "mechanisms"
    finds: ClassVar[type] = MechanismsFinding

    def find(self, treatments: Treatments) -> Mapping[str, MechanismsFinding]:
        """Return the mechanisms of every treatment, or why none is named."""
        trials = observed(treatments)
        return {one.name: _of_step(trials, one) for one in treatments.all}


def _of_step(trials: Trials, one: Compared) -> MechanismsFinding:
    """Explain the last step; where only the whole way from the baseline is significant, that."""
    step, whole = one.to_previous, one.to_baseline
    is_noise = step is not None and step.verdict is Verdict.INCONCLUSIVE
    if is_noise and whole is not None and whole.verdict is not Verdict.INCONCLUSIVE:
        return find_mechanisms(trials, one.baseline.rung.name, one.name, whole)
    return find_mechanisms(trials, one.reference.rung.name, one.name, step)
