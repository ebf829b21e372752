"""What did holds of different lengths come to, over all rungs of a run?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdrag.findings.combine import RungTrials
from pgdrag.findings.decay.together import RungDecay
from pgdrag.findings.dose.deciders import deciders
from pgdrag.findings.dose.doses import dose_curve
from pgdrag.findings.dose.findings import HorizonFinding
from pgdrag.findings.dose.recovery import recoveries
from pgdrag.findings.dose.variants import HeldRung, variants


def horizon_finding(
    trials: Sequence[RungTrials], decays: Mapping[str, RungDecay]
) -> HorizonFinding | None:
    """Return doses, recoveries and what decides, by variant; None where no horizon was held."""
    found = variants([HeldRung(one, decays.get(one.rung.name)) for one in trials])
    curves = (dose_curve(one) for one in found)
    decided = (deciders(one) for one in found)
    finding = HorizonFinding(
        doses=tuple(one for one in curves if one is not None),
        recoveries=tuple(one for variant in found for one in recoveries(variant)),
        deciders=tuple(one for one in decided if one is not None),
    )
    is_any = finding.doses or finding.recoveries or finding.deciders
    return finding if is_any else None
