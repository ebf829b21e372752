"""Loads for tests that do not ask how fast a server is, and a trial with one."""

from pgdrag.model import Level, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile, Open

# Leaves the processors to the tests beside.
PACED = Open(rate_per_s=100)
SHORT = LoadProfile(
    connections=2, warm_up_s=0, measure_s=1, budget_s=4, min_commits=1, pacing=PACED
)
READS = WorkloadSpec("pgbench", {"scripts": ["select-only"]})


def short_trial(*levels: Level, workload: WorkloadSpec = READS) -> Trial:
    return Trial(1, 1, 1, Treatment("T", levels), workload, SHORT, seed=1)
