"""The story of a run in ten lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from analysis_runs import observation, result, run_of, rung
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.analysis.ladder import find
from pgdrag.analysis.spent_time import PLACES
from pgdrag.errors import UsageError
from pgdrag.report.story import LINES, story

RUNGS = [rung("A0"), rung("A1"), rung("A2")]


def seen(hits, io_s):
    waits = [
        observation(name, io_s if name.startswith("io") else 1e-4, "s/transaction")
        for name in PLACES
    ]
    return [observation("hits", hits, "ratio"), *waits]


def findings():
    results = [
        result("A0", 60_000, evidence=seen(0.99, 1e-4), number=1),
        result("A1", 6_000, evidence=seen(0.5, 0.02), number=2),
        result("A2", 5_990, evidence=seen(0.5, 0.02), number=3),
    ]
    return find(run_of(RUNGS, results))


def test_a_runs_story_is_its_answer_its_largest_steps_and_its_noise():
    found = findings()
    lines = story(found)
    assert lines[0] == found.answer
    assert re.match(r"A1.*: 10× slower \(.*\) than A0, 100 % of the whole\.", lines[1]), lines
    assert lines[2].startswith(
        "Sessions spent 19.9 ms more on each transaction than on A0: 100 % in"
    )
    assert not any(line.startswith("A2") and "noise" not in line for line in lines)


def test_a_rungs_story_has_what_moved():
    lines = story(findings(), "A1")
    assert lines[0].startswith("A1")
    assert any("hits fell from 99.0 % to 50" in line.lower() for line in lines)
    assert len(set(lines)) == len(lines)


def test_a_rung_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(UsageError, match='has no rung "A9"') as caught:
        story(findings(), "A9")
    assert caught.value.hint == "It has A0, A1 and A2."


@given(st.sampled_from(["A0", "A1", "A2", None]), st.integers(0, 3))
def test_any_part_of_a_run_has_a_story_of_ten_lines_at_most(name, count):
    whole = findings()
    run = replace(whole.run, results=whole.run.results[:count])
    lines = story(find(run), name)
    assert 1 <= len(lines) <= LINES
    assert all(line.strip() and "\n" not in line for line in lines)
