"""Which lines are suspected, by which figures, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_search_space import catalog

from benchmarks.known_effects import merged
from pgdrag.cli.doctor_conf import is_configuration
from pgdrag.experiment.conf_doctor import ConfDiagnosis, diagnose
from pgdrag.experiment.conf_lines import conf_lines
from pgdrag.experiment.formats import Source, read_source
from pgdrag.experiment.known_effects import KnownChange, KnownEffect, shipped_effects
from pgdrag.host.allowance import Allowance

MEASURED = KnownEffect(
    changes=(KnownChange("shared_buffers", "1GB", "8MB"),),
    low=1.2,
    slowdown=1.3,
    high=1.4,
    beside="alone",
    workload="tpcc, 10 warehouses, 8 connections",
    options="--workload tpcc --warehouses 10",
    server_version="18.6",
    date="2026-11-23",
    source="run small-20261123",
    machine="2 × AMD EPYC, 24 GB",
)


def effect(name: str, before: str | None, after: str, low: float, high: float) -> KnownEffect:
    middle = (low * high) ** 0.5
    changes = (KnownChange(name, before, after),)
    return replace(MEASURED, changes=changes, low=low, slowdown=middle, high=high)


def diagnosis(text: str, *effects: KnownEffect, memory_bytes: int = 8 << 30) -> ConfDiagnosis:
    allowance = Allowance(memory_bytes, 4.0, "memory.max of control group /pod")
    lines = conf_lines(read_source(Source(Path("my.conf"), text)), catalog(), allowance)
    return diagnose(lines, effects, catalog(), allowance)


def suspected(text: str, *effects: KnownEffect) -> list[tuple[str, ...]]:
    return [tuple(x.name for x in one.lines) for one in diagnosis(text, *effects).suspicions]


def test_a_line_with_the_value_that_was_measured_is_suspected_however_it_is_written():
    [one] = diagnosis("shared_buffers = 8192kB\n", MEASURED).suspicions
    [figure] = one.figures
    assert (one.lines[0].line, figure.words) == (1, "1.3× slower (1.2× to 1.4×)")
    assert (figure.than, figure.is_further) == ("shared_buffers 1 GB", False)
    assert figure.verify == (
        "pgdrag compare shared_buffers=1GB shared_buffers=8192kB --workload tpcc --warehouses 10"
    )


@pytest.mark.parametrize(
    ("value", "is_suspected"),
    [("8MB", True), ("4MB", True), ("16MB", False), ("1GB", False), ("2GB", False)],
)
def test_a_line_is_suspected_that_goes_at_least_as_far_the_same_way(value, is_suspected):
    assert suspected(f"shared_buffers = {value}\n", MEASURED) == (
        [("shared_buffers",)] if is_suspected else []
    )


def test_a_value_that_switches_a_limit_off_is_no_smaller_one():
    slower = effect("max_parallel_workers_per_gather", "4", "1", 1.2, 1.4)
    assert not suspected("max_parallel_workers_per_gather = 0\n", slower)


@pytest.mark.parametrize(("delay", "is_further"), [("50000", True), ("100", False), ("0", False)])
def test_what_was_switched_on_goes_further_upwards_alone(delay, is_further):
    slower = effect("commit_delay", "0", "10000", 1.2, 1.4)
    assert bool(suspected(f"commit_delay = {delay}\n", slower)) is is_further


def test_a_run_of_this_machine_that_is_shipped_too_is_told_once():
    own = replace(MEASURED, is_own=True)
    [one] = diagnosis("shared_buffers = 8MB\n", own, MEASURED).suspicions
    assert [x.effect.is_own for x in one.figures] == [True]


def test_the_way_back_of_what_made_it_faster_is_slower():
    faster = effect("shared_buffers", "16MB", "1GB", 0.5, 0.8)
    [one] = diagnosis("shared_buffers = 16MB\n", faster).suspicions
    assert one.figures[0].than == "shared_buffers 1 GB"
    found = diagnosis("shared_buffers = 1GB\n", faster)
    assert not found.suspicions
    assert list(found.faster) == ["shared_buffers"]


def test_what_only_acts_together_needs_all_of_it():
    both = (KnownChange("commit_delay", None, "100"), KnownChange("commit_siblings", None, "1"))
    together = replace(MEASURED, changes=both)
    assert suspected("commit_delay = 100\ncommit_siblings = 1\n", together) == [
        ("commit_delay", "commit_siblings")
    ]
    assert not suspected("commit_delay = 100\n", together)


def test_what_no_line_sets_has_its_default():
    changes = (KnownChange("jit", "off", "on"), KnownChange("work_mem", None, "64kB"))
    assert suspected("work_mem = 64kB\n", replace(MEASURED, changes=changes)) == [("work_mem",)]
    assert not suspected("jit = on\n", effect("jit", "off", "on", 1.2, 1.4))


def test_of_effects_that_are_not_significant_the_most_precise_is_shown_and_accuses_nobody():
    wide, narrow = (effect("jit", None, "off", *x) for x in ((0.9, 1.2), (0.97, 1.04)))
    found = diagnosis("jit = off\n", wide, replace(narrow, source="run other"))
    assert not found.suspicions
    assert found.no_effect["jit"].effect.source == "run other"
    assert found.unknown == ()


def test_of_a_line_that_nobody_measured_nothing_is_said_but_that():
    found = diagnosis("work_mem = 64MB\njit = on\n", MEASURED)
    assert (found.unknown, found.at_default) == (("work_mem",), ("jit",))


def test_this_machines_figures_come_first():
    own = replace(effect("shared_buffers", "1GB", "8MB", 1.1, 1.2), is_own=True, source="run mine")
    found = diagnosis("shared_buffers = 8MB\n", MEASURED, own)
    [one] = found.suspicions
    assert [x.effect.source for x in one.figures] == ["run mine", "run small-20261123"]
    assert found.own_runs == ("run mine",)


def test_a_line_that_a_later_one_overrides_is_not_suspected():
    assert not suspected("shared_buffers = 8MB\nshared_buffers = 1GB\n", MEASURED)


def test_memory_is_that_of_the_control_group():
    found = diagnosis("shared_buffers = 9GB\n").beyond_memory
    assert found == {
        "shared_buffers": "9 GB: memory.max of control group /pod allows 8 GB",
    }


def test_sizes_are_added_up_and_the_sum_is_shown():
    [(name, words)] = diagnosis("work_mem = 128MB\n").beyond_memory.items()
    assert name == "in all"
    assert words.startswith(
        "shared_buffers 128 MB + 100 × work_mem 128 MB + 3 × maintenance_work_mem 64 MB = "
    )
    assert not diagnosis("work_mem = 64MB\n").beyond_memory


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("work_mem=64MB,jit=off", True),
        ("jit = off", True),
        ("nowhere.conf", True),
        ("host=db1 dbname=shop", False),
        ("dbname=shop", False),
        ("postgresql://db1/shop?sslmode=require", False),
        ("shop", False),
        ("", False),
    ],
)
def test_pairs_are_told_from_a_connection_string(text, is_one):
    assert is_configuration(text) is is_one


def test_a_run_that_is_in_the_table_is_replaced_and_pages_stay():
    page = replace(MEASURED, source="docs/studies/slow-42k.md")
    again = replace(MEASURED, slowdown=1.31)
    assert merged((page, MEASURED, MEASURED), [again]) == [page, again]


def test_every_shipped_figure_says_where_it_is_from():
    assert shipped_effects()
    for one in shipped_effects():
        assert one.source.startswith(("run ", "docs/studies/")), one
        assert all([one.date, one.server_version, one.workload, one.machine])
        assert one.interval.low <= one.interval.center <= one.interval.high
        assert not one.is_own
        for change in one.changes:
            setting = catalog().check(change.name, change.after or "")
            assert change.before is None or setting.canonical(change.before)
