"""What must every workload do, whatever its clients do? A suite for pytest.

Subclass it in a test module; it asks for two fixtures::

    class TestEveryWorkload(WorkloadConformance):
        @pytest.fixture(params=list(all_workloads().values()), ids=list(all_workloads()))
        def workload_class(self, request): ...           # type[Workload], with defaults throughout
        @pytest.fixture
        def bench(self): ...                             # pgdrag.trial.ServerTrialRunner

Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pgdrag.factors.treated_workload import level_problems, workload_of
from pgdrag.factors.workload import WORKLOAD, shown
from pgdrag.model import Level, Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.trial import run_trial
from pgdrag.workloads import Workload, all_workloads

if TYPE_CHECKING:
    from pgdrag.trial import ServerTrialRunner

SHORT = LoadProfile(connections=2, warm_up_s=0, measure_s=0.5, budget_s=10, min_commits=1)


class WorkloadConformance:
    """Claims about one workload class with the parameters of its example."""

    def test_it_says_what_it_is(self, workload_class: type[Workload]) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", workload_class.name)
        assert workload_class.summary
        assert "\n" not in workload_class.summary
        assert all(field.description for field in workload_class.model_fields.values())

    def test_its_job_and_dataset_are_json(self, workload_class: type[Workload]) -> None:
        workload = workload_class.example()
        assert json.loads(json.dumps(workload.job())) == workload.job()
        assert workload.job()["kind"] in all_workloads()
        dataset = dict(workload.dataset())
        assert json.loads(json.dumps(dataset)) == dataset
        assert isinstance(dataset["data_version"], int)
        assert workload.dataset_bytes() >= 0
        size = workload.dataset_size
        assert size is None or size.parameter in workload_class.model_fields

    def test_its_own_parameters_are_levels_that_change_nothing(
        self, workload_class: type[Workload]
    ) -> None:
        """What its model writes it reads again from text, but for what is no level of a treatment."""
        spec = a_trial(workload_class).workload
        levels = tuple(
            Level(WORKLOAD, name, shown(value))
            for name, value in spec.parameters.items()
            if isinstance(value, str | int | float) and name not in workload_class.alike_in_all_arms
        )
        assert levels
        assert level_problems(spec, levels) == []
        assert workload_of(spec, Treatment("", levels)) == workload_class.example()
        assert set(workload_class.alike_in_all_arms) <= set(workload_class.model_fields)

    def test_what_it_sends_belongs_to_its_transactions(
        self, workload_class: type[Workload], bench: ServerTrialRunner
    ) -> None:
        """A seed gives the same statements and values each time; saying nothing is allowed."""
        workload = workload_class.example()
        sent = workload.sends(bench.driver, seed=1)
        assert {one.transaction for one in sent} <= set(workload.transactions)
        assert sent == workload.sends(bench.driver, seed=1)

    def test_it_runs_and_leaves_its_dataset_consistent(
        self, workload_class: type[Workload], bench: ServerTrialRunner
    ) -> None:
        """The driver knows it, commits something, counts the types it names, and finds no violation."""
        bench.allow(program.key for program in workload_class.example().programs())
        result = run_trial(a_trial(workload_class), bench)
        assert result.outcome is Outcome.MEASURED, result.reason
        assert result.measurement is not None
        assert set(result.measurement.transactions) == set(workload_class.example().transactions)
        assert not result.violations
        assert not result.warnings

    def test_its_dataset_takes_about_the_bytes_it_says(
        self, workload_class: type[Workload], bench: ServerTrialRunner
    ) -> None:
        workload = workload_class.example()
        bench.allow(program.key for program in workload.programs())
        snapshot = bench.snapshot(workload, lambda event: None)
        assert 0.5 < snapshot.bytes / workload.dataset_bytes() < 2


def a_trial(workload_class: type[Workload]) -> Trial:
    """Return a short trial of a workload on an untouched server."""
    spec = WorkloadSpec(workload_class.name, workload_class.example().model_dump(mode="json"))
    return Trial(1, 1, 1, Treatment("untouched"), spec, SHORT, seed=1)
