"""Time series in the report: what is left out of a long line, what reaches the page, which panels there are."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import measurement, observation, result, run_of, rung
from pgdrag.findings.find import find
from pgdrag.findings.values import Findings
from pgdrag.model import Claim, RunRecord
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Event, Recordings, Series
from pgdrag.report.document import (
    Details,
    Items,
    Mark,
    Panel,
    Paragraph,
    Recording,
    Table,
    TimeSeries,
    Trace,
)
from pgdrag.report.markdown import render_markdown
from pgdrag.report.sections.time_series import TimeSeriesSection, checkpoint_words
from pgdrag.report.series_script import series_json, series_of
from pgdrag.report.series_words import spark
from pgdrag.report.thinning import fitted, points_of_each, thinned, thinned_points
from pgdrag.report.trial_series import recording_of

values = st.floats(0, 1e12, allow_nan=False)
gaps = st.one_of(values, st.none())


def trace(*found: float | None, label: str = "committed", every_s: float = 1.0) -> Trace:
    times_s = tuple((at + 1) * every_s for at in range(len(found)))
    return Trace(label, 0.0, times_s, found)


def figure(recording: Recording, *others: Recording, overlay: str = "") -> TimeSeries:
    return TimeSeries(recording, others, overlay, "", "")


# --- thinning


def test_a_short_line_is_left_as_it_is():
    line = trace(1, 2, None, 4)
    assert thinned(line, 4) is line


def test_of_each_stretch_the_lowest_and_the_highest_stay_in_the_order_seen():
    line = thinned(trace(5, 9, 1, 5, 7, 6, 2, 3), 4)
    assert (line.times_s, line.values) == ((2, 4, 6, 8), (9, 1, 7, 2))


def test_a_stretch_without_any_value_stays_a_gap():
    line = thinned(trace(1, 2, 3, None, None, None, 7, 9, 8), 6)
    assert line.values == (1, 3, None, None, 7, 9)


@given(st.lists(gaps, max_size=300), st.integers(2, 60))
def test_thinning_keeps_extremes_and_moves_nothing_by_more_than_a_stretch(
    found: list[float | None], points: int
):
    whole = trace(*found)
    kept = thinned(whole, points)
    assert len(kept.times_s) <= points
    assert list(kept.times_s) == sorted(set(kept.times_s))
    known, left = ([v for v in one.values if v is not None] for one in (whole, kept))
    assert (min(known, default=0), max(known, default=0)) == (
        min(left, default=0),
        max(left, default=0),
    )
    stretch_s = len(found) / (points // 2) * 1.000001
    for t_s, value in zip(kept.times_s, kept.values, strict=True):
        seen = zip(whole.times_s, whole.values, strict=True)
        assert any(one == value and abs(then_s - t_s) <= stretch_s for then_s, one in seen)


@given(st.lists(st.integers(0, 5_000), max_size=200))
def test_lines_share_what_a_document_may_hold(lengths: list[int]):
    points = points_of_each(lengths, most=600, least=60, in_all=28_000)
    assert 60 <= points <= 600
    assert points == 60 or sum(min(length, points) for length in lengths) <= 28_000


def test_lines_that_were_read_together_share_their_times_when_thinned():
    one, two = (thinned(trace(*found), 4) for found in ((1, 9, 3, 4, 5), (5, 4, 3, 2, 1)))
    assert one.times_s == two.times_s


# --- what reaches the page


def decoded(*figures: TimeSeries) -> Any:
    return json.loads(series_json(figures))


@given(st.lists(gaps, min_size=1, max_size=30))
def test_rates_reach_the_page_to_four_digits_and_gaps_as_gaps(found: list[float | None]):
    recording = Recording("A0", 9.0, (Panel("Throughput", "1/s", (trace(*found),)),))
    sent = decoded(figure(recording))["recordings"][0]["panels"][0]["traces"][0]["values"]
    assert len(sent) == len(found)
    for one, value in zip(sent, found, strict=True):
        assert (one is None) == (value is None)
        assert value is None or math.isclose(one, value, rel_tol=5.1e-4)


def test_times_reach_the_page_to_the_millisecond_and_once_for_all_lines_that_share_them():
    first, second = trace(1, 2, every_s=0.25), trace(3, 4, label="failed", every_s=0.25)
    recording = Recording("A0", 9.0, (Panel("Throughput", "1/s", (first, second)),))
    [sent] = decoded(figure(recording))["recordings"]
    assert [list(accumulate(steps)) for steps in sent["times"]] == [[0, 250, 500]]
    assert [one["times"] for one in sent["panels"][0]["traces"]] == [0, 0]


def test_a_recording_that_several_figures_show_is_sent_once():
    one, two = (Recording(name, 9.0, ()) for name in ("A0", "A1"))
    sent = decoded(figure(one, two), figure(two, one, overlay="A0"))
    assert [recording["name"] for recording in sent["recordings"]] == ["A0", "A1"]
    assert sent["figures"] == [
        {"here": 0, "others": [1], "overlay": None},
        {"here": 1, "others": [0], "overlay": 0},
    ]


@given(st.text())
def test_no_text_ends_the_element_that_holds_the_data(text: str):
    marks = (Mark(text, 1.0, None, text),)
    recording = Recording(text, 9.0, (Panel(text, "s", (trace(1, label=text),)),), marks)
    sent = series_json([figure(recording)])
    assert not re.search("[<\u2028\u2029]", sent)
    [found] = json.loads(sent)["recordings"]
    assert (found["name"], found["panels"][0]["title"]) == (text, text)
    assert (found["kinds"], found["marks"]) == ([[text, 1]], [[0, 1, None, 1, text]])


def test_two_recordings_of_one_name_are_our_mistake():
    one, two = Recording("A0", 9.0, ()), Recording("A0", 8.0, ())
    with pytest.raises(AssertionError):
        series_json([figure(one), figure(two)])


# --- characters


def test_a_spark_has_a_blank_where_nothing_is_known():
    assert spark([0, None, 7, 14], highest=14) == "▁ ▅█"


def test_a_spark_has_its_lowest_level_below_0_and_a_blank_for_what_is_no_number():
    assert spark([-5.0, -1e300, math.nan, 14], highest=14) == "▁▁ █"


# --- the section


def run_with(*recordings: Recordings, design: str = "ladder", **sample: Any) -> Findings:
    seconds = [Sample(s + 1.0, 1.0, 10, **sample) for s in range(10)]
    trials = [
        replace(
            result(f"A{at}", None, number=at + 5),
            measurement=measurement(100, samples=seconds),
            recordings=one,
        )
        for at, one in enumerate(recordings)
    ]
    run: RunRecord = run_of([rung(f"A{at}") for at in range(len(recordings))], trials)
    return find(replace(run, study=run.study.with_design(design)))


def series(name: str, *found: float, unit: Any = "count", label: str = "", **rest: Any) -> Series:
    return Series(
        name, label or name, unit, tuple(at + 1.0 for at in range(len(found))), found, **rest
    )


def figures(found: Findings) -> list[TimeSeries]:
    every = list(series_of(TimeSeriesSection().blocks(found)))
    return [one for one in every if not one.is_of_all]


def titles(found: Findings) -> list[str]:
    return [panel.title for panel in figures(found)[0].recording.panels]


def test_lines_of_one_kind_stand_in_one_panel_and_keep_their_colour():
    whole = Recordings((series("on_cpu_sessions", 1, 2), series("io_wait_sessions", 3, 4)))
    part = Recordings((series("on_cpu_sessions", 0, 0), series("io_wait_sessions", 3, 4)))
    found = run_with(whole, part)
    assert titles(found) == ["Throughput", "Sessions, by what they do"]
    lines = [one.recording.panels[1].traces for one in figures(found)]
    assert [[(line.label, line.colour) for line in each] for each in lines] == [
        [("on_cpu_sessions", 1), ("io_wait_sessions", 2)],
        [("io_wait_sessions", 2)],  # what stayed at 0 is left out
    ]


def test_a_series_that_no_panel_knows_has_one_of_its_own():
    unknown = series("ducks_per_s", 1, 2, unit="1/s", label="ducks", is_of_machine=True)
    assert titles(run_with(Recordings((unknown,)))) == ["Throughput", "Ducks (whole machine)"]


def test_operational_speed_is_drawn_where_it_was_published_and_says_that_it_is_smoothed():
    seconds = tuple(Sample(at + 1.0, 1.0, count) for at, count in enumerate((60, 120, 60, 180)))
    claim = Claim(of="operational speed")
    found = run_with(Recordings())
    (first, *_) = found.rungs
    drawn = replace(first, samples=seconds, rung=replace(first.rung, claim=claim))
    panels = recording_of(drawn, 10).panels
    assert [panel.title for panel in panels][:2] == [
        "Throughput",
        "Operational speed as pg_expecto defines it (trailing medians of commits over 1 s)",
    ]
    assert panels[1].traces[0].values == (60, 120, 60, 180)
    assert len(recording_of(replace(first, samples=seconds), 10).panels) == 1


def test_waits_of_reads_and_writes_share_a_panel():
    waits = (
        series("disk_read_wait_s", 0.001, 0.002, unit="s", label="r"),
        series("disk_write_wait_s", 0.003, 0.004, unit="s", label="w"),
    )
    assert titles(run_with(Recordings(waits))) == ["Throughput", "Device: mean wait of a request"]


def test_throughput_stays_where_nothing_was_committed_and_failures_join_it():
    found = run_with(Recordings(), failed=2, p50_us=500.0, p95_us=1000.0, p99_us=1500.0)
    panels = figures(found)[0].recording.panels
    assert [trace.label for trace in panels[0].traces] == ["committed", "failed"]
    assert [(trace.label, trace.values[0]) for trace in panels[1].traces] == [
        ("50th percentile", 0.0005),
        ("95th percentile", 0.001),
        ("99th percentile", 0.0015),
    ]


def test_of_a_run_that_kept_one_percentile_that_one_is_drawn():
    panels = figures(run_with(Recordings(), p99_us=1500.0))[0].recording.panels
    assert [trace.label for trace in panels[1].traces] == ["99th percentile"]


def test_each_picture_names_its_trial_and_offers_the_rung_before_first():
    found = run_with(Recordings(), Recordings(), Recordings())
    assert [one.caption for one in figures(found)] == [
        f"Trial {at + 5} of A{at} (median throughput)." for at in range(3)
    ]
    assert [other.name for other in figures(found)[2].others] == ["A1", "A0"]
    assert {one.overlay for one in figures(found)} == {""}


def test_all_rungs_are_over_each_other_first():
    found = run_with(Recordings(), Recordings(), Recordings())
    of_all = next(series_of(TimeSeriesSection().blocks(found)))
    assert of_all.is_of_all
    assert [one.name for one in (of_all.recording, *of_all.others)] == ["A0", "A1", "A2"]
    assert of_all.text.splitlines() == [f"A{at}  {'█' * 10}  10/s" for at in range(3)]
    assert decoded(of_all)["figures"] == [
        {"here": 0, "others": [1, 2], "overlay": None, "all": True}
    ]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            [0, 0],
            "No checkpoint began in these windows: what checkpoints cost is not in these numbers.",
        ),
        ([0, 3], "Checkpoints that began in the window: none on A0, 3 on A1."),
        ([2, 2], "Checkpoints that began in the window: 2 on A0 and A1."),
        ([None, None], ""),
    ],
)
def test_the_checkpoints_of_the_windows_are_counted(counts: list[int | None], words: str):
    found = run_with(Recordings(), Recordings())
    results = [
        replace(one, evidence=(observation("checkpoints_per_s", n if n is None else n / 60),))
        for one, n in zip(found.run.results, counts, strict=True)
    ]
    again = find(replace(found.run, results=tuple(results)))
    assert checkpoint_words(again) == words
    shown = [line for line in render_markdown(again).splitlines() if line.startswith("| Trial ")]
    assert ("Checkpoints" in shown[0]) == (words != "")


def test_two_sides_of_a_comparison_share_one_picture():
    found = run_with(Recordings(), Recordings(), design="compare")
    [one] = figures(found)
    assert (one.recording.name, one.overlay) == ("A1", "A0")
    assert one.caption == "Trial 6 of A1 and trial 5 of A0 (median throughput). Dashed lines: A0."


def test_a_line_that_was_thinned_says_so():
    long = series("wal_bytes_per_s", *range(1, 1000), unit="bytes/s")
    [(one, *_), (short, *_)] = (
        list(series_of(fitted(TimeSeriesSection().blocks(run_with(x)), 600)))
        for x in (Recordings((long,)), Recordings())
    )
    assert one.caption.endswith(
        "Of lines of more than 600 intervals the lowest and the highest of each of 300 stretches of "
        "time are drawn."
    )
    assert "stretches" not in short.caption


def test_events_are_marks_with_words_and_rows_of_a_table():
    events = (
        Event("checkpoint", -2.0, 3.5, "84 % of it for WAL volume"),
        Event("error", 4.0, text="40P01", count=17),
    )
    found = run_with(Recordings(events, missing={"host": "not this machine"}))
    assert figures(found)[0].recording.marks == (
        Mark("checkpoint", -2.0, 3.5, "84 % of it for WAL volume", colour=1),
        Mark("error", 4.0, None, "40P01", count=17, colour=3),
    )
    outer, missing = (x for x in TimeSeriesSection().blocks(found) if isinstance(x, Details))
    _, details = outer.blocks
    assert isinstance(details, Details)
    assert details.summary == "18 events"
    [table] = details.blocks
    assert isinstance(table, Table)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["-2 s", "5.5 s", "checkpoint", "84 % of it for WAL volume"],
        ["4 s", "", "error × 17", "40P01"],
    ]
    assert missing.blocks == (Items(("No host: not this machine.",)),)


def test_more_events_than_can_be_told_apart_are_marks_for_several_and_a_row_a_kind():
    many = [Event("vacuum", at / 100, at / 100 + 0.02, f"table {at}") for at in range(1000)]
    many[500] = replace(many[500], end_s=7.0)
    found = run_with(Recordings((Event("vacuum", -1.0, -0.5, "first"), *many)))
    marks = figures(found)[0].recording.marks
    assert len(marks) <= 100
    assert sum(mark.count for mark in marks) == 1001
    assert [(mark.start_s, mark.text) for mark in marks[:2]] == [(-1.0, "first"), (0.0, "table 0")]
    assert max(mark.end_s or 0.0 for mark in marks) == pytest.approx(10.01)
    details = next(x for x in TimeSeriesSection().blocks(found) if isinstance(x, Details)).blocks[1]
    assert isinstance(details, Details)
    [table] = details.blocks
    assert isinstance(table, Table)
    [row] = table.rows
    assert [cell.text for cell in row] == ["vacuum", "1,001", "2 s", "5 s", "table 500"]


def test_what_could_not_be_seen_is_said_once_with_the_rungs_that_lack_it():
    nowhere, here = {"waits": "too short"}, {"host": "not this machine"}
    found = run_with(Recordings(missing=nowhere), Recordings(missing={**nowhere, **here}))
    last = TimeSeriesSection().blocks(found)[-1]
    assert isinstance(last, Details)
    assert last.blocks == (Items(("No waits: too short.", "No host of A1: not this machine.")),)


# --- what a long report can hold


def test_pictures_are_thinned_and_those_left_out_are_named():
    found = run_with(Recordings(), Recordings(), Recordings())
    blocks = fitted(TimeSeriesSection().blocks(found), 4, left_out=["A1"])
    of_all, *drawn = series_of(blocks)
    assert (of_all.is_of_all, of_all.recording.name) == (True, "A0")
    assert [other.name for other in of_all.others] == ["A2"]
    assert [one.recording.name for one in drawn] == ["A0", "A2"]
    assert [other.name for other in drawn[1].others] == ["A0"]
    assert [len(one.recording.panels[0].traces[0].values) for one in drawn] == [4, 4]
    assert isinstance(blocks[-1], Paragraph)
    assert "the series of A1 are left out" in blocks[-1].text


# --- what is not ours


def test_the_library_is_what_its_note_says_it_is():
    folder = files("pgdrag.report").joinpath("assets", "uplot")
    note = folder.joinpath("README.md").read_text(encoding="utf-8")
    sums = dict(re.findall(r"^\| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{64})` \|$", note, re.MULTILINE))
    assert set(sums) == {"uPlot.iife.min.js", "uPlot.min.css", "LICENSE"}
    for name, expected in sums.items():
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == expected, name


def test_points_are_thinned_as_a_trace_is_and_few_stay_as_they_are():
    points = tuple((second + 0.5, float(second % 7)) for second in range(100))
    assert thinned_points(points, 100) == points
    kept = thinned_points(points, 20)
    assert len(kept) == 20
    assert {rate for _, rate in kept} == {0.0, 6.0}
    assert [t_s for t_s, _ in kept] == sorted(t_s for t_s, _ in kept)
