"""Every setting of the operating system that factors offer is a dimension or excluded, with values that can be had."""

from dataclasses import replace

import pytest
from test_search_space import catalog

from pgdrag.experiment.os_space import os_space
from pgdrag.factors import Factor, Here, Problem, all_factors
from pgdrag.model import Level


class Knob(Factor):
    """Offers four values of one knob, of which the machine takes two."""

    name = "knob"
    summary = "a knob"
    examples = ()
    search_values = {"speed": ("1", "4", "16", "64"), "mood": ("good", "bad")}  # noqa: RUF012
    now = "4"

    def problem(self, level, here):
        if level.value in ("1", "64"):
            return Problem(level, False, f"{level.value} is too much here")
        if level.name == "mood" and "moods" not in here.allowed:
            return Problem(level, False, "moods are not changed without consent")
        return None

    def value_now(self, name, here):
        return self.now if name == "speed" else "good"

    def read_back(self, cluster, levels):
        return []


@pytest.fixture
def _knob(monkeypatch):
    for module in ("pgdrag.experiment.os_space", "pgdrag.provision"):
        monkeypatch.setattr(f"{module}.all_factors", lambda: {"knob": Knob})


def here() -> Here:
    return Here(settings=catalog(), newest_settings=catalog())


@pytest.mark.usefixtures("_knob")
def test_values_that_the_machine_takes_are_there_and_what_it_has_now_is_the_start():
    found = os_space([], here())
    [speed] = found.dimensions
    assert (speed.kind, speed.name, speed.start) == ("knob", "speed", "4")
    assert (speed.values, speed.is_ordered) == (("4", "16"), True)
    [mood] = found.excluded
    assert (mood.name, mood.reason) == ("mood", "moods are not changed without consent")


@pytest.mark.usefixtures("_knob")
def test_with_consent_there_are_more():
    found = os_space([], replace(here(), allowed=frozenset({"moods"})))
    mood = next(one for one in found.dimensions if one.name == "mood")
    assert (mood.values, mood.is_ordered, mood.start) == (("good", "bad"), False, "good")


@pytest.mark.usefixtures("_knob")
def test_what_the_baseline_sets_is_the_start():
    found = os_space([Level("knob", "speed", "16")], here())
    assert found.dimensions[0].start == "16"


@pytest.mark.usefixtures("_knob")
def test_what_nobody_can_read_is_left_alone(monkeypatch):
    monkeypatch.setattr(Knob, "now", None)
    found = os_space([], here())
    assert not found.dimensions
    assert {x.name: x.reason for x in found.excluded}["speed"] == "nobody knows what it is now"


def test_all_that_factors_offer_is_a_dimension_or_excluded_with_a_reason_on_this_machine():
    found = os_space([], here())
    names = [*(one.name for one in found.dimensions), *(one.name for one in found.excluded)]
    offered = [name for kind in all_factors().values() for name in kind.search_values]
    assert sorted(names) == sorted(offered)
    assert all(one.reason for one in found.excluded)
    for one in found.dimensions:
        assert one.start in one.values
