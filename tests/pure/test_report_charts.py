from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.findings.values import Interval
from pgdrag.report import svg
from pgdrag.report.panels_chart import Line, Panel, panels_chart
from pgdrag.report.rows_chart import Row, rows_figure

ROW = Row(
    name="A1",
    aside="a small cache",
    before_words="165/s",
    found=Interval(8.0, 10.0, 12.0, 0.95, "by hand"),
    words="10× slower",
    published=100.0,
)


def drawn(*rows: Row) -> str:
    return rows_figure(rows, "title", "description", "").svg


ratios = st.floats(1e-6, 1e6)


@given(st.lists(ratios, min_size=1, max_size=8))
def test_a_scale_holds_every_value_and_keeps_their_order(values):
    scale = svg.LogScale.around(values)
    places = [scale.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)


@given(ratios, ratios)
def test_a_scale_has_two_to_eight_ticks_in_order_within_its_ends(one, other):
    scale = svg.LogScale.around([one, other])
    ticks = scale.ticks()
    assert list(ticks) == sorted(set(ticks))
    assert 2 <= len(ticks) <= 8
    assert all(scale.low <= tick <= scale.high * (1 + 1e-9) for tick in ticks)


def test_words_that_a_phone_has_no_room_for_beside_the_name_stand_below_it():
    def lines(row: Row) -> tuple[list[str], int]:
        svg_text = drawn(row, ROW)
        texts = re.findall(r'<text x="(?:0|100)%" y="(\d+)"', svg_text)
        return texts, int(re.findall(r'height="(\d+)"', svg_text)[0])

    name = "jit=off,enable_indexscan=off,enable_bit…"
    long = replace(ROW, name=name, aside="", words="1.21× slower, or noise")
    assert lines(ROW)[0] == ["40", "40", "82", "82"]
    assert lines(long)[0] == ["40", "56", "98", "98"]
    assert lines(long)[1] - lines(ROW)[1] == 16


def test_equal_ratios_are_equal_distances():
    scale = svg.LogScale.around([1, 10_000])
    steps = [scale.at(10 * x) - scale.at(x) for x in (1, 10, 100, 1000)]
    assert steps == pytest.approx([steps[0]] * 4)


def test_wide_scales_have_a_tick_at_no_change():
    assert svg.LogScale(0.5, 2e9).ticks() == (1, 1e2, 1e4, 1e6, 1e8)


def test_a_scale_around_a_single_value_is_not_empty():
    scale = svg.LogScale.around([3.0])
    assert scale.low < 3 < scale.high


def test_a_step_from_one_to_ten_fills_half_of_the_way_to_a_hundred():
    chart = drawn(ROW)
    bars = re.findall(r'<rect x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"[^>]*class="(\w+)"', chart)
    [(_, nothing, _), (start, width, kind)] = bars
    published = re.findall(r'<svg x="([\d.]+)%"[^>]*><path [^>]*class="published"', chart)[-1]
    assert (float(nothing), kind) == (0, "step")
    assert 2 * float(width) == pytest.approx(float(published) - float(start), abs=0.02)


def test_a_rung_faster_than_the_one_before_takes_a_part_of_the_way_back():
    chart = drawn(replace(ROW, start=50.0))
    assert 'class="undone"' in chart
    assert 'class="step"' not in chart


def test_a_bound_is_drawn_as_an_arrow_to_the_edge():
    bound = Interval(2_000.0, math.inf, math.inf, 0.95, "exact conditional")
    chart = drawn(replace(ROW, found=bound, words="at least"))
    assert 'x2="100%"' in chart
    assert "inf" not in chart
    assert "nan" not in chart


def test_text_in_a_picture_is_escaped():
    chart = rows_figure([replace(ROW, aside="</text><script>")], "<b>", "a & b", "").svg
    assert "<script>" not in chart
    assert "&lt;b&gt;" in chart
    assert "a &amp; b" in chart


def test_the_picture_in_characters_shows_intervals_and_published_values():
    base = Row("A0", before_words="1,000/s", is_baseline=True)
    bound = replace(
        ROW, name="A2", found=Interval(90, math.inf, math.inf, 0.95, ""), published=None
    )
    chart = rows_figure((base, ROW, bound), "", "", "")
    assert chart.text.splitlines() == [
        "A0    │                                       1,000/s",
        "A1    │               ├─●┤               ◇    165/s, 10× slower (◇ 100×)",
        "A2    │                                  ►    165/s, 10× slower",
        "     1×                10×             100×",
        "    ● measured  ◇ published",
    ]


def panel(points: tuple[tuple[float, float], ...]) -> str:
    shown = Panel("A0", "", "words", (Line(points, "trace"),), 4.0, "to 4/s")
    return panels_chart("chart", [shown], "title", "description", end=10.0)


def test_a_line_over_time_starts_at_the_left_and_reaches_its_highest_point_at_the_top():
    assert 'd="M0 100L500 0L1000 50"' in panel(((0.0, 0.0), (5.0, 4.0), (10.0, 2.0)))


def test_a_line_of_nothing_but_zeros_lies_on_the_ground():
    assert 'd="M0 100L1000 100"' in panel(((0.0, 0.0), (10.0, 0.0)))
