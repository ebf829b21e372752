"""The story of a run in ten lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation, result, run_of, rung
from pgdrag.errors import UsageError
from pgdrag.findings.find import find
from pgdrag.findings.spent_time import PLACES
from pgdrag.model.recordings import Event, Recordings, WaitTime
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
        "Each transaction takes 19.9 ms longer than on A0: nearly all of it in I/O"
    )
    assert not any(line.startswith("A2") and "significant" not in line for line in lines)


def test_a_rungs_story_has_what_moved():
    lines = story(findings(), "A1")
    assert lines[0].startswith("A1")
    assert any("hits fell from 99.0 % to 50" in line.lower() for line in lines)
    assert len(set(lines)) == len(lines)


def test_a_rung_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(UsageError, match='has no rung and no trial "A9"') as caught:
        story(findings(), "A9")
    assert caught.value.hint == "It has rungs A0, A1 and A2, and trials 1 to 3."


def test_a_trials_story_says_how_it_differs_from_its_like():
    steady = [result("A0", 60_000, evidence=seen(0.99, 1e-4), number=n) for n in (1, 2)]
    odd = result("A0", 30_000, evidence=seen(0.5, 1e-4), number=3)
    waits = (
        WaitTime("client backend", "IO:DataFileRead", 3.0),
        WaitTime("client backend", "", 1.0),
    )
    events = (Event("checkpoint", 1.0, 2.0), Event("error", 3.0, count=4))
    odd = replace(odd, recordings=Recordings((*waits, *events)), warnings=("it was late",))
    lines = story(find(run_of([rung("A0")], [*steady, odd])), "3")
    assert lines[0] == "Trial 3: A0, replicate 1, block 1: measured."
    assert "30,000" in lines[1]
    assert "0.5× the throughput of the 2 other trials" in lines[2]
    assert lines[3].startswith("Sessions' time: IO:DataFileRead 75 % and on CPU")
    assert lines[4] == "Logged: 4 errors and 1 checkpoint."
    assert lines[5] == "Differs from the others: hits fell from 99.0 % to 50.0 %."
    assert lines[-1] == "It was late."


@given(st.sampled_from(["A0", "A1", "A2", None]), st.integers(0, 3))
def test_any_part_of_a_run_has_a_story_of_ten_lines_at_most(name, count):
    whole = findings()
    run = replace(whole.run, results=whole.run.results[:count])
    lines = story(find(run), name)
    assert 1 <= len(lines) <= LINES
    assert all(line.strip() and "\n" not in line for line in lines)
