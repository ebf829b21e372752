"""Every registered thing passes the suite of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from pgdrag.designs import Design, all_designs
from pgdrag.factors import all_factors
from pgdrag.plan import Level
from pgdrag.testing.conformance_designs import DesignConformance
from pgdrag.testing.conformance_factors import Example, FactorConformance
from pgdrag.testing.conformance_workloads import WorkloadConformance
from pgdrag.workloads import Workload, all_workloads


class TestEveryDesign(DesignConformance):
    @pytest.fixture(params=list(all_designs().values()), ids=list(all_designs()))
    def design_class(self, request: Any) -> type[Design]:
        return request.param


class TestEveryWorkload(WorkloadConformance):
    @pytest.fixture(params=list(all_workloads().values()), ids=list(all_workloads()))
    def workload_class(self, request: Any) -> type[Workload]:
        return request.param


EXAMPLES = [
    Example(
        Level("setting", "shared_buffers", "16MB"),
        "16384kB",
        Level("setting", "shared_bufers", "16MB"),
    ),
    Example(
        Level("setting", "random_page_cost", "1e300"),
        "1e+300",
        Level("setting", "random_page_cost", "cheap"),
    ),
]


class TestEveryFactor(FactorConformance):
    @pytest.fixture(params=EXAMPLES, ids=[x.level.name for x in EXAMPLES])
    def example(self, request: Any) -> Example:
        return request.param


def test_every_kind_of_factor_has_an_example() -> None:
    assert {example.level.kind for example in EXAMPLES} == set(all_factors())
