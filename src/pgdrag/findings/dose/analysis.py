"""What do holds of different lengths show, over all treatments of a run?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.combine import RungTrials
from pgdrag.findings.compared import Treatments
from pgdrag.findings.decay.together import RungDecay
from pgdrag.findings.dose.deciders import deciders
from pgdrag.findings.dose.doses import dose_curve
from pgdrag.findings.dose.findings import HorizonFinding
from pgdrag.findings.dose.recovery import recoveries
from pgdrag.findings.dose.variants import HeldRung, variants


class HorizonAnalysis(RunAnalysis[HorizonFinding]):
    """Doses, recoveries and what decides."""

    name = "horizon"
    finds = HorizonFinding

    def find(self, treatments: Treatments) -> HorizonFinding | None:
        """Return what holds show; None where none held the horizon."""
        return horizon_finding(treatments.trials, treatments.decays)


def horizon_finding(
    trials: Sequence[RungTrials], decays: Mapping[str, RungDecay]
) -> HorizonFinding | None:
    """Return doses, recoveries and what decides, by variant; None without any of them."""
    found = variants([HeldRung(one, decays.get(one.rung.name)) for one in trials])
    curves = tuple(curve for one in found if (curve := dose_curve(one)) is not None)
    back = tuple(one for variant in found for one in recoveries(variant))
    decided = tuple(one for variant in found if (one := deciders(variant)) is not None)
    return HorizonFinding(curves, back, decided) if curves or back or decided else None
