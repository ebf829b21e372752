"""A parameter of the workload as a level: each treatment has its own dataset, and reads back its own."""

from __future__ import annotations

from loads import SHORT

from pgdrag.model import Level, Outcome, Rung, Source, Study, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import ignore
from pgdrag.trial import ServerTrialRunner, run_trial

# Fails, but at scale 2.
PGBENCH = WorkloadSpec("pgbench", {"scripts": [{"name": "branches", "text": "SELECT 1 / count(*) FROM pgbench_branches WHERE bid = 2;"}]})  # fmt: skip


def test_each_treatment_has_its_own_dataset_and_reads_back_its_own(
    bench: ServerTrialRunner,
) -> None:
    levels = (Level("workload", "scale", "2"), Level("workload", "statements", "simple"))
    rungs = (Rung("one", "", Treatment("one")), Rung("two", "", Treatment("two", levels), levels))
    study = Study("x", "x", "", "s", "compare", rungs, Source(), PGBENCH, SHORT, replicates=1)
    said: list[object] = []
    bench.prepare(study, said.append)
    snapshots = list(bench._snapshots)
    prepared = {key for key in snapshots if "'pgbench'" in key[1]}
    assert {"'scale': 1" in key[1] for key in prepared} >= {True, False}
    result = run_trial(Trial(1, 1, 1, rungs[1].treatment, PGBENCH, SHORT, seed=1), bench, ignore)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert list(bench._snapshots) == snapshots  # nothing was left to load
    found = {x.level.name: (x.effective, x.default, x.note) for x in result.applied}
    assert found == {"scale": ("2", "1", ""), "statements": ("simple", "simple", "")}


def test_what_a_design_made_of_levels_that_do_not_go_together_is_left_out(
    bench: ServerTrialRunner,
) -> None:
    treatment = Treatment("T", (Level("workload", "scale", "none"),))
    two = WorkloadSpec(PGBENCH.kind, {**PGBENCH.parameters, "scale": 2})
    result = run_trial(Trial(1, 1, 1, treatment, two, SHORT, seed=1), bench)
    assert result.outcome is Outcome.MEASURED, result.reason
    (applied,) = result.applied
    assert (applied.effective, applied.note) == (
        None,
        '"scale" of workload "pgbench" must be an integer, not "none"',
    )
