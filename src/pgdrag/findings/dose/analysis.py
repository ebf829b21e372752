"""What did holds of different lengths come to, over all treatments of a run?"""

from __future__ import annotations

from typing import ClassVar

from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.dose.find import horizon_finding
from pgdrag.findings.dose.findings import HorizonFinding


class HorizonAnalysis(RunAnalysis[HorizonFinding]):
    """Doses, recoveries and what decides."""

    name: ClassVar[str] = "horizon"
    finds: ClassVar[type] = HorizonFinding

    def find(self, treatments: Treatments) -> HorizonFinding | None:
        """Return what holds came to; None where none held the horizon."""
        return horizon_finding(treatments.trials, treatments.decays)
