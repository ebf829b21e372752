"""Every registered thing passes the suite of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from pgdrag.designs import Design, all_designs
from pgdrag.factors import Example, all_factors
from pgdrag.testing.conformance_designs import DesignConformance
from pgdrag.testing.conformance_factors import FactorConformance, all_examples
from pgdrag.testing.conformance_workloads import WorkloadConformance
from pgdrag.trial import ServerTrialRunner
from pgdrag.workloads import Workload, all_workloads


class TestEveryDesign(DesignConformance):
    @pytest.fixture(params=list(all_designs().values()), ids=list(all_designs()))
    def design_class(self, request: Any) -> type[Design]:
        return request.param


# A twin's load is not driven yet.
WORKLOADS = {name: kind for name, kind in all_workloads().items() if name != "twin"}


class TestEveryWorkload(WorkloadConformance):
    @pytest.fixture(params=list(WORKLOADS.values()), ids=list(WORKLOADS))
    def workload_class(self, request: Any) -> type[Workload]:
        return request.param


class TestEveryFactor(FactorConformance):
    @pytest.fixture(params=all_examples(), ids=lambda each: f"{each.level.kind} {each.level.name}")
    def example(self, request: Any, bench: ServerTrialRunner) -> Example:
        found: Example = request.param
        if found.needs_root:
            request.getfixturevalue("host_alone")
            # A container, for one, has less than root of a machine.
            for problem in all_factors()[found.level.kind]().check([found.level], bench.here):
                if not problem.is_mistake:
                    pytest.skip(problem.message)
        return found


def test_every_kind_of_factor_has_examples_of_its_own() -> None:
    # A cluster is of one version from the beginning: see test_kept_cluster. The disk under a cluster is somebody's, and
    # virtual machines have no frequency: see test_kernel_factors. A workload is no part of a cluster: see
    # WorkloadConformance.
    without = {name for name, kind in all_factors().items() if not kind.examples}
    assert without >= {"server", "block_device", "cpu_governor"}
    assert without <= {
        "server",
        "block_device",
        "cpu_governor",
        "memory_balloon",
        "mount",
        "storage",
        "workload",
    }
    for name, kind in all_factors().items():
        for example in kind.examples:
            assert {example.level.kind, example.mistake.kind} == {name}
