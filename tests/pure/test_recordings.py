"""A plug-in can record values of its own kind, and a report section of its own can show them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from pydantic import TypeAdapter

from analysis_runs import result, run_of, rung
from pgdrag.errors import JournalError
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.model.recordings import Event, Recording, Recordings, Stack, StatementPlan, together
from pgdrag.report.document import Block, Paragraph
from pgdrag.report.json import render_json
from pgdrag.report.sections import Section

ADAPTER = TypeAdapter(Recordings)


@dataclass(frozen=True)
class Temperature(Recording):
    """What a plug-in records: the temperature of a sensor."""

    key: ClassVar[str] = "plugin.temperatures"
    sensor: str
    celsius: tuple[float, ...]
    labels: Mapping[str, str]


HOT = Temperature("cpu", (80.0, 90.5), {"socket": "0"})


class Temperatures(Section):
    name: ClassVar[str] = "temperatures"
    summary: ClassVar[str] = "temperatures of the machine"
    title: ClassVar[str] = "Temperatures"
    order: ClassVar[int] = 990

    def blocks(self, findings: Findings) -> Sequence[Block]:
        found = [one for rung in findings.rungs for one in rung.recordings.of(Temperature)]
        return [Paragraph(f"{one.sensor}: {max(one.celsius)} °C") for one in found]


def test_a_kind_that_nobody_declared_comes_back_from_json_as_it_was() -> None:
    given = Recordings((HOT, Event("vacuum", 1.0)), missing={"profile": "no perf here"})
    found = ADAPTER.validate_json(ADAPTER.dump_json(given))
    assert found == given
    assert found.of(Temperature) == (HOT,)
    assert found.events == (Event("vacuum", 1.0),)
    assert found.missing == {"profile": "no perf here"}


def test_recordings_of_a_plugin_that_is_gone_survive_being_written_again() -> None:
    stored = ADAPTER.dump_json(Recordings((HOT,)))
    again = ADAPTER.dump_json(ADAPTER.validate_json(stored))
    assert ADAPTER.validate_json(again).of(Temperature) == (HOT,)


def test_values_of_another_form_are_refused_when_they_are_asked_for() -> None:
    found = Recordings.from_json({Temperature.key: [{"sensor": "cpu"}]})
    with pytest.raises(JournalError, match="cannot be read") as raised:
        found.of(Temperature)
    assert "celsius: Field required" in str(raised.value.detail)


@pytest.mark.parametrize("celsius", [float("nan"), "1e999"])
def test_a_number_that_is_not_finite_is_refused(celsius: float | str) -> None:
    stored = {"sensor": "cpu", "celsius": celsius}
    with pytest.raises(JournalError, match="cannot be read"):
        Recordings.from_json({Temperature.key: [stored]}).of(Temperature)


@pytest.mark.parametrize("plan", [{"Plans": 7}, {"Plans": ["a node"]}, {"Plans": [{"Plans": {}}]}])
def test_a_plan_is_nodes_all_the_way_down(plan: dict[str, object]) -> None:
    found = Recordings.from_json({StatementPlan.key: [{"query": "SELECT 1", "generic": plan}]})
    with pytest.raises(JournalError, match="cannot be read"):
        found.of(StatementPlan)


def test_what_older_versions_stored_still_loads() -> None:
    stored = b'{"series":[],"stacks":[{"frames":["client backend","a"],"samples":3}],"missing":{}}'
    found = ADAPTER.validate_json(stored)
    assert found == Recordings((Stack(("client backend", "a"), 3),))
    assert found.series == ()


def test_recordings_of_several_collectors_are_kept_in_order_and_events_by_time() -> None:
    late, early = Event("b", 2.0), Event("a", 1.0)
    loaded = ADAPTER.validate_json(ADAPTER.dump_json(Recordings((late, HOT), {"x": "why"})))
    whole = together((loaded, Recordings((early, replace(HOT, sensor="disk")), {"y": "no"})))
    assert whole.events == (early, late)
    assert [one.sensor for one in whole.of(Temperature)] == ["cpu", "disk"]
    assert whole.missing == {"x": "why", "y": "no"}


def test_no_recordings_are_false_and_a_reason_is_not() -> None:
    assert not Recordings()
    assert Recordings(missing={"profile": "no perf here"})


def test_a_section_shows_what_the_journal_kept_and_the_json_report_has_it() -> None:
    loaded = ADAPTER.validate_json(ADAPTER.dump_json(Recordings((HOT,))))
    findings = find(run_of([rung("A0")], [replace(result("A0", 1000), recordings=loaded)]))
    assert Temperatures().blocks(findings) == [Paragraph("cpu: 90.5 °C")]
    (stored,) = json.loads(render_json(findings))["rungs"][0]["recordings"][Temperature.key]
    assert stored == {"sensor": "cpu", "celsius": [80.0, 90.5], "labels": {"socket": "0"}}
