"""Each plug-in passes pgdrag's conformance suite of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from pgdrag.collectors import Collector
from pgdrag.designs import Design
from pgdrag.experiment.formats import Format
from pgdrag.factors import Example
from pgdrag.horizon.holders import Holder
from pgdrag.model.claims import StatedClaim
from pgdrag.report.sections import Section
from pgdrag.testing.conformance_claims import ClaimConformance
from pgdrag.testing.conformance_collectors import CollectorConformance
from pgdrag.testing.conformance_designs import DesignConformance
from pgdrag.testing.conformance_factors import FactorConformance
from pgdrag.testing.conformance_formats import FormatConformance
from pgdrag.testing.conformance_holders import HolderConformance
from pgdrag.testing.conformance_sections import SectionConformance
from pgdrag.testing.conformance_workloads import WorkloadConformance
from pgdrag.workloads import Workload
from pgdrag_demo.ballast import Ballast
from pgdrag_demo.environment import EnvironmentFile
from pgdrag_demo.free_space import FreeSpace, FreeSpaceCollector, FreeSpaceSection
from pgdrag_demo.latency import LatencyClaim
from pgdrag_demo.lookup import Lookup
from pgdrag_demo.sandwich import Sandwich, SandwichSection
from pgdrag_demo.serializable import SerializableHolder


class TestBallast(FactorConformance):
    @pytest.fixture(params=Ballast.examples)
    def example(self, request: Any) -> Example:
        found: Example = request.param
        return found


class TestFreeSpace(CollectorConformance):
    @pytest.fixture
    def collector_class(self) -> type[Collector]:
        return FreeSpaceCollector


class TestLookup(WorkloadConformance):
    @pytest.fixture
    def workload_class(self) -> type[Workload]:
        return Lookup


class TestSerializable(HolderConformance):
    @pytest.fixture
    def holder_class(self) -> type[Holder]:
        return SerializableHolder


class TestSandwich(DesignConformance):
    @pytest.fixture
    def design_class(self) -> type[Design]:
        return Sandwich


class TestEnvironmentFile(FormatConformance):
    @pytest.fixture
    def format_class(self) -> type[Format]:
        return EnvironmentFile


class TestLatencyClaim(ClaimConformance):
    @pytest.fixture
    def kind(self) -> type[StatedClaim]:
        return LatencyClaim


class TestSections(SectionConformance):
    recordings = (FreeSpace((0.0, 1.0, 2.0), (5 << 30, 4 << 30, 4 << 30)),)

    @pytest.fixture(params=[FreeSpaceSection, SandwichSection])
    def section_class(self, request: Any) -> type[Section]:
        found: type[Section] = request.param
        return found
