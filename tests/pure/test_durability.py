"""A treatment that is faster because it may lose data is never praised without saying so."""

from __future__ import annotations

import json

import pytest

from analysis_runs import result, run_of, rung, setting
from pgdrag.findings.durability import Loss, loss_of, risks_between
from pgdrag.findings.find import find
from pgdrag.report.json import render_json
from pgdrag.report.terminal import terminal_text

OFF = setting("synchronous_commit", "off")
WORDS = (
    "B trades durability for speed: synchronous_commit = off (a crash may lose the last transactions that "
    "were reported as committed)."
)


@pytest.mark.parametrize(
    ("name", "value", "loss"),
    [
        ("fsync", "off", Loss.CORRUPTED),
        ("FSYNC", "'F'", Loss.CORRUPTED),
        ("fsync", "on", None),
        ("synchronous_commit", "0", Loss.NEWEST),
        ("synchronous_commit", "local", None),
        ("full_page_writes", "no", Loss.TORN),
        ("zero_damaged_pages", "on", Loss.SILENT),
        ("zero_damaged_pages", "off", None),
        ("wal_level", "Minimal", Loss.ARCHIVE),
        ("wal_level", "replica", None),
        ("work_mem", "off", None),
        ("options", "noatime, nobarrier", Loss.CORRUPTED),
        ("options", "noatime", None),
    ],
)
def test_what_may_be_lost_depends_on_the_value(name: str, value: str, loss: Loss | None) -> None:
    assert loss_of(name, value) is loss


@pytest.mark.parametrize("design", ["compare", "ladder", "one-at-a-time", "ablate", "bisect"])
def test_the_answer_of_every_design_names_what_is_traded(design: str) -> None:
    rungs = [rung("A"), rung("B", added=[OFF, setting("work_mem", "1GB")])]
    results = [
        result(name, committed, block=block, number=2 * block + at)
        for block in range(1, 5)
        for at, (name, committed) in enumerate([("A", 6000), ("B", 9000)])
    ]
    found = find(run_of(rungs, results, design=design))
    assert WORDS in found.answer
    assert "trades durability" in terminal_text(found, width=100)
    assert json.loads(render_json(found))["answer"] == found.answer


def test_the_side_that_is_safer_is_not_praised_for_less() -> None:
    (risk,) = risks_between([rung("A", added=[OFF]), rung("B")])
    assert (risk.treatment, risk.setting, risk.loss) == ("A", "synchronous_commit", Loss.NEWEST)


def test_what_all_treatments_have_in_common_is_no_trade() -> None:
    other = setting("work_mem", "1GB")
    assert risks_between([rung("A", added=[OFF]), rung("B", added=[OFF, other])]) == ()
    assert risks_between([]) == ()


def test_in_a_ladder_the_rung_that_brings_it_is_named_once() -> None:
    fsync = setting("fsync", "off")
    rungs = [rung("R0"), rung("R1", added=[OFF]), rung("R2", levels=[OFF, fsync], added=[fsync])]
    assert [(x.treatment, x.setting) for x in risks_between(rungs)] == [
        ("R1", "synchronous_commit"),
        ("R2", "fsync"),
    ]
