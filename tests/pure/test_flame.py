"""Flame graphs show all of a profile, and colour what differs by more than chance."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.model.recordings import Stack
from pgdrag.report.flame import (
    Box,
    Scales,
    boxes,
    by_share,
    change_of,
    flame_graph,
    own_differences,
    share_words,
)

names = st.sampled_from(["a", "b", "c", "d_[k]", "e"])
stacks = st.lists(
    st.builds(Stack, st.lists(names, min_size=1, max_size=5).map(tuple), st.integers(1, 100_000)),
    min_size=1,
    max_size=30,
)


def children(box: Box, drawn: list[Box]) -> list[Box]:
    middles = ((x, x.left + x.width / 2) for x in drawn if x.depth == box.depth + 1)
    return [x for x, middle in middles if box.left < middle < box.left + box.width]


def of(frames: str, samples: int) -> Stack:
    return Stack(tuple(frames.split(";")), samples)


PROFILE = (of("session;scan;read", 60), of("session;scan", 20), of("session;plan", 15), of("io", 5))


def test_a_function_is_as_wide_as_all_that_it_called_and_itself() -> None:
    drawn = {
        (x.depth, x.name): (x.left, x.width) for x in boxes((), PROFILE, by_share((), PROFILE))
    }
    assert drawn == {
        (0, "io"): pytest.approx((0.0, 0.05)),
        (0, "session"): pytest.approx((0.05, 0.95)),
        (1, "plan"): pytest.approx((0.05, 0.15)),
        (1, "scan"): pytest.approx((0.2, 0.8)),
        (2, "read"): pytest.approx((0.2, 0.6)),
    }


@given(stacks, stacks, st.integers(1, 40))
def test_widths_sum_to_the_whole_however_few_boxes(
    before: list[Stack], after: list[Stack], most: int
) -> None:
    drawn = list(boxes(before, after, by_share(before, after), most=most))
    # What is narrower than a pixel all together is left out.
    assert sum(x.width for x in drawn if x.depth == 0) == pytest.approx(1, abs=0.001)
    for box in drawn:
        above = children(box, drawn)
        assert sum(x.width for x in above) <= box.width + 1e-9
        assert sum(x.before for x in above) <= box.before
        assert sum(x.after for x in above) <= box.after
    assert sum(x.name != "…" for x in drawn) <= most


@given(stacks)
def test_equal_profiles_do_not_differ(profile: list[Stack]) -> None:
    scales = by_share(profile, profile)
    drawn = flame_graph(profile, profile, scales, name="n", title="t", previous="A0")
    assert 'class="same"' in drawn
    flame = ElementTree.fromstring(drawn)
    kinds = [rect.get("class") for rect in flame.iter("rect")]
    assert set(kinds[3:]) == {"same"}  # after those of the legend
    assert {one.change for one in own_differences(profile, profile, scales)} == {"same"}


def test_a_difference_counts_where_chance_would_not_make_it() -> None:
    by_count = Scales(1.0, 1.0, share_words)
    assert change_of(100, 129, by_count, compared=1) == "same"  # 29 is under 1.96 times √229
    assert change_of(100, 131, by_count, compared=1) == "more"
    assert change_of(131, 100, by_count, compared=1) == "less"
    # Three times the samples of a profile three times as long.
    assert change_of(100, 300, Scales(1.0, 1 / 3, share_words), compared=1) == "same"


def test_two_profiles_of_the_same_differ_in_few_pictures_however_many_functions_they_have() -> None:
    rng = np.random.default_rng(1)
    called = 0
    for _ in range(400):
        counts = rng.poisson(200, size=(2, 100))
        before, after = ([of(f"s;f{at}", int(n)) for at, n in enumerate(row)] for row in counts)
        found = own_differences(before, after, Scales(1.0, 1.0, share_words))
        called += any(one.change != "same" for one in found)
    # One in twenty, and three standard errors of 400.
    assert called / 400 <= 0.083


def test_what_only_one_profile_has_is_drawn_in_both_directions() -> None:
    before, after = [of("s;old", 400), of("s;all", 400)], [of("s;new", 400), of("s;all", 400)]
    scales = by_share(before, after)
    drawn = flame_graph(before, after, scales, name="n", title="t", previous="A0")
    kinds = {}
    for box in ElementTree.fromstring(drawn).iter("svg"):
        title, rect = box.find("title"), box.find("rect")
        if title is not None and rect is not None:
            kinds[(title.text or "").partition(":")[0]] = rect.get("class")
    assert kinds["old"] == "less large"
    assert kinds["new"] == "more large"
    assert kinds["all"] == kinds["s"] == "same"
    changed = own_differences(before, after, scales)
    assert [(x.name, x.change) for x in changed] == [
        ("new", "more"),
        ("old", "less"),
        ("all", "same"),
    ]


def test_own_shares_are_of_the_innermost_functions() -> None:
    found = own_differences((), PROFILE, by_share((), PROFILE))
    assert {x.name: x.after for x in found} == {"read": 0.6, "scan": 0.2, "plan": 0.15, "io": 0.05}
    assert [x.name for x in found] == ["read", "scan", "plan", "io"]


def test_names_are_escaped() -> None:
    awkward = [of("session;operator<< <b>&\"'", 10)]
    drawn = flame_graph((), awkward, by_share((), awkward), name="n", title="<t>")
    titles = [x.text for x in ElementTree.fromstring(drawn).iter("title")]
    assert "operator<< <b>&\"': 100.0 %, 10 samples" in titles
    assert "<b>" not in drawn


def test_no_stacks_make_no_boxes() -> None:
    assert boxes((), (), by_share((), ())) == ()


def test_a_box_costs_little() -> None:
    many = [of(f"session;main;a_function_of_some_length_{n:04}", 2_000 - n) for n in range(1_000)]
    drawn = flame_graph((), many, by_share((), many), name="n", title="t", most=100)
    assert len(drawn) < 100 * 300
