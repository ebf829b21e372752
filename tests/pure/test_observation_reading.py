"""What two readings say of the time between them: rates of what grew, nothing of what was reset, and rarely what is slow."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pgdrag.collectors import Observer
from pgdrag.collectors.counters import Drawn
from pgdrag.model.observed import Quantity
from pgdrag.observations import reading
from pgdrag.observations.reading import Group, all_groups
from pgdrag.observations.settings import HIDDEN, setting_of

RATE = Drawn("things_per_s", "things", "1/s", ("things",))
GAUGE = Quantity("size", "size", "bytes")


class Scripted(Group):
    """A group that reads what a test says, each at its second."""

    def __init__(self, *readings: list[dict[str, Any]]) -> None:
        super().__init__("scripted", rates=(RATE,), gauges={"size": GAUGE})
        self._readings = iter(readings)

    def read(self, observer: Observer) -> list[dict[str, Any]]:
        return next(self._readings)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(reading.time, "monotonic", lambda: now[0])
    return now


def values(group: Group) -> dict[str, float]:
    return {name: spread.mean for name, spread in group.since_last(cast(Observer, None))}


def row(key: str, things: int | None, size: int = 0) -> dict[str, Any]:
    return {"key": key, "things": things, "size": size}


def test_a_counter_becomes_a_rate_and_a_gauge_stays_a_sum(clock: list[float]) -> None:
    group = Scripted([row("a", 10, 1), row("b", 5, 1)], [row("a", 30, 3), row("b", 5, 4)])
    assert values(group) == {}
    clock[0] = 10.0
    assert values(group) == {"things_per_s": 2.0, "size": 7.0}


def test_a_row_that_is_new_counts_from_0_and_one_that_is_gone_takes_only_its_own(
    clock: list[float],
) -> None:
    group = Scripted([row("a", 10), row("b", 500)], [row("a", 12), row("c", 8)])
    values(group)
    clock[0] = 10.0
    assert values(group)["things_per_s"] == 1.0


def test_of_counters_that_were_reset_nothing_is_said(clock: list[float]) -> None:
    group = Scripted([row("a", 10)], [row("a", 3)], [row("a", 13)])
    values(group)
    clock[0] = 10.0
    assert "things_per_s" not in values(group)
    assert group.was_reset
    clock[0] = 20.0
    assert values(group)["things_per_s"] == 1.0
    assert not group.was_reset


def test_a_counter_that_the_server_does_not_keep_has_no_rate(clock: list[float]) -> None:
    group = Scripted([row("a", None)], [row("a", None)])
    values(group)
    clock[0] = 10.0
    assert values(group) == {"size": 0.0}


def test_what_is_taken_off_never_makes_less_than_nothing() -> None:
    others = Drawn("others_per_s", "others", "1/s", ("all",), less=("own",))
    assert others.between({"all": 10, "own": 5}, {"all": 30, "own": 15}, 10.0) == 1.0
    assert others.between({"all": 10, "own": 5}, {"all": 11, "own": 15}, 10.0) == 0.0
    assert others.between({"all": 10}, {"all": 11}, 10.0) is None


def test_a_slow_query_is_asked_less_often(clock: list[float]) -> None:
    class Slow(Scripted):
        def read(self, observer: Observer) -> list[dict[str, Any]]:
            clock[0] += 1.0
            return super().read(observer)

    group = Slow([row("a", 1)])
    assert group.is_due(0.0)
    values(group)
    assert not group.is_due(100.0)
    assert group.is_due(1.0 / reading.MOST_SHARE)
    # Of a few rows that come late the server is busy, and most is to be seen then.
    group.is_small = True
    assert group.is_due(100.0)


def test_no_two_quantities_have_one_name() -> None:
    names = [one.name for group in all_groups() for one in group.quantities()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (("work_mem", "integer", "kB", "65536", "4096"), "65536kB"),
        (("archive_command", "string", None, "curl -u me:secret %p", ""), HIDDEN),
        (("primary_conninfo", "string", None, "password=secret", ""), HIDDEN),
        (("some_extension.key", "string", None, "secret", ""), HIDDEN),
        (("archive_command", "string", None, "", ""), ""),
        (("search_path", "string", None, "app, public", '"$user", public'), "app, public"),
        (("wal_level", "enum", None, "logical", "replica"), "logical"),
    ],
)
def test_only_harmless_values_of_settings_are_kept(
    setting: tuple[str, str, str | None, str, str], value: str
) -> None:
    assert setting_of(*setting).value == value
