"""Were replayed holds as long as those that were captured?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pgdrag.findings.analysis import TreatmentAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.holds.replay import ReplayFinding, replay_finding


class ReplayAnalysis(TreatmentAnalysis[ReplayFinding]):
    """How the holds of a treatment compare with the captured ones that it replays."""

    name: ClassVar[str] = "replay"
    finds: ClassVar[type] = ReplayFinding

    def find(self, treatments: Treatments) -> Mapping[str, ReplayFinding]:
        """Compare the holds of each treatment that replays some."""
        found = (
            (one.rung.name, replay_finding(one.rung.treatment, one.numbered))
            for one in treatments.trials
        )
        return {name: one for name, one in found if one is not None}
