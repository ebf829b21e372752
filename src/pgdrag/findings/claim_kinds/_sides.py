"""Why can the two sides of a comparison not answer a claim?"""

from __future__ import annotations

from pgdrag.findings import levels
from pgdrag.findings.claims import why_untestable as why_rungs_are_untestable
from pgdrag.findings.compared import Treatments


def why_untestable(treatments: Treatments, at: str, than: str = "") -> str:
    """Return why a rung, and the one that it is compared with, say nothing; "" where they do.

    Args:
        than: by default the run's baseline.
    """
    here = treatments.get(at)
    before = treatments.get(than) if than else treatments.all[0]
    if here is None or before is None:
        return f"this run has no {than if here else at}"
    common = () if here is before else before.trials.rung.treatment.levels
    changed = levels.changed(here.trials.rung.treatment.levels, common)
    lacking = levels.untested(changed, here.trials.applied)
    return why_rungs_are_untestable(here.trials, before.trials, lacking)
