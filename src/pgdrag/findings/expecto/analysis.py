"""What does pg_expecto's view show of each treatment?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.expecto.findings import ExpectoFinding
from pgdrag.findings.expecto.view import expecto_finding


class ExpectoAnalysis(TreatmentAnalysis[ExpectoFinding]):
    """pg_expecto's view of the trial in the middle."""

    name: ClassVar[str] = "expecto"
    finds: ClassVar[type] = ExpectoFinding

    def find(self, treatments: Treatments) -> Mapping[str, ExpectoFinding]:
        """Return the view of each treatment whose waits were seen over time."""
        found = (
            (one.rung.name, expecto_finding(one.samples, one.recordings))
            for one in treatments.trials
        )
        return {name: one for name, one in found if one is not None}
