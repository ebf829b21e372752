"""What an experiment may ask of the horizon, and what it is told where it may not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pgdrag.factors import Here, Problem
from pgdrag.factors.horizon import HeldHorizon
from pgdrag.findings.holds.distribution import Capture, HoldDistribution, KindOfHolds, as_level
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.distribution_file import distribution_text
from pgdrag.horizon.levels import read_levels
from pgdrag.horizon.schedule import Hold
from pgdrag.model import Level
from pgdrag.servers.settings import SettingsCatalog

NO_SETTINGS = SettingsCatalog(180000, {})
CAPTURED = HoldDistribution(
    Capture("prod", "17.2", "2024-01-01T00:00:00Z", 3600.0, 1.0, 3600, 1.0),
    {
        HolderKind.SLOT: KindOfHolds(9, 3600, longer_than=((3.0, 0.0),)),
        HolderKind.SNAPSHOT: KindOfHolds(9, 3600, longer_than=((2.0, 0.0),)),
    },
    gaps=((1.0, 0.0),),
)
REPLAY = as_level(CAPTURED, "prod.toml")


def problems(levels: dict[str, str], **settings: str) -> list[Problem]:
    here = Here(NO_SETTINGS, NO_SETTINGS, settings_asked=settings)
    return HeldHorizon().check([Level("horizon", *each) for each in levels.items()], here)


def planned(window_s: float = 10, warm_up_s: float = 2, **levels: str) -> tuple[Hold, ...]:
    asked, wrong = read_levels(levels)
    assert wrong == []
    return asked.holds(warm_up_s=warm_up_s, window_s=window_s, seed=1)


def test_a_holder_holds_for_the_window_unless_more_is_said() -> None:
    assert planned(holder="cursor") == (Hold(0, math.inf, "cursor"),)


def test_a_hold_may_begin_before_the_load_or_in_the_middle_of_the_window() -> None:
    assert planned(holder="cursor", begin="load") == (Hold(-2, math.inf, "cursor"),)
    assert planned(holder="cursor", begin="5s", hold="1s") == (Hold(5, 1, "cursor"),)


def test_two_shift_unless_more_are_named() -> None:
    two = planned(holder="snapshot", pattern="shifting", hold="4s")
    four = planned(holder="snapshot", pattern="shifting", hold="4s", holders="4")
    assert [hold.begin_s for hold in two] == [0, 2, 4, 6, 8]
    assert [hold.begin_s for hold in four] == list(range(10))


def test_a_replay_holds_as_was_captured_and_a_slot_by_what_can_be_had_again() -> None:
    holds = planned(replay=REPLAY)
    assert [hold.begin_s for hold in holds] == list(range(10))
    assert {(hold.holder, hold.length_s) for hold in holds} == {("snapshot", 2), ("snapshot", 3)}


def test_levels_that_all_arms_share_are_no_mistake_where_nobody_holds() -> None:
    shared = {"hold": "30s", "pattern": "shifting", "after_release": "vacuum"}
    assert problems(shared) == []
    assert planned(hold="30s") == ()


@pytest.mark.parametrize(
    ("levels", "wrong", "message"),
    [
        ({"holder": "somebody"}, "holder", 'unknown value "somebody"'),
        ({"holds": "30s"}, "holds", 'unknown level "holds" of the horizon'),
        ({"hold": "gamma(2s)"}, "hold", 'unknown distribution "gamma"'),
        ({"pattern": "twice"}, "pattern", 'unknown value "twice"'),
        ({"begin": "later"}, "begin", '"later" is not a duration'),
        ({"holders": "0"}, "holders", '"0" is not a number from 1 to 50'),
        ({"after_release": "analyze"}, "after_release", 'unknown value "analyze"'),
        ({"replay": "prod.toml"}, "replay", '"prod.toml" contains no distribution of holds'),
        (
            {"holder": "snapshot", "pattern": "shifting"},
            "pattern",
            'requires holds shorter than the "window"',
        ),
        (
            {"holder": "snapshot", "pattern": "shifting", "hold": "1s", "holders": "1"},
            "holders",
            "requires at least two holders",
        ),
        (
            {"holder": "slot", "pattern": "repeated", "hold": "1s"},
            "pattern",
            "slot can hold only once per trial",
        ),
        ({"holder": "slot", "holders": "2"}, "holders", "slot can hold only once per trial"),
        (
            {"holder": "cursor", "after_release": "vacuum"},
            "after_release",
            'would never run: each hold lasts for the "window"',
        ),
        (
            {"holder": "cursor", "after_release": "vacuum", "hold": "1s", "pattern": "repeated"},
            "after_release",
            'the pattern "repeated" lasts until the end of the window',
        ),
        (
            {"replay": REPLAY, "holder": "cursor"},
            "holder",
            '"holder" cannot be combined with "replay"',
        ),
        ({"replay": REPLAY, "hold": "1s"}, "hold", '"hold" cannot be combined with "replay"'),
    ],
)
def test_what_cannot_be_is_a_mistake_with_a_way_out(
    levels: dict[str, str], wrong: str, message: str
) -> None:
    [problem] = problems(levels)
    assert (problem.level.name, problem.is_mistake) == (wrong, True)
    assert message in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    ("holder", "settings", "reason"),
    [
        ("standby", {"wal_level": "Minimal"}, "wal_level = minimal"),
        ("slot", {"wal_level": "minimal"}, "wal_level = minimal"),
        ("standby", {"max_wal_senders": "1"}, "max_wal_senders is 1"),
        ("slot", {"max_replication_slots": "0"}, "max_replication_slots is 0"),
        ("prepared", {"max_prepared_transactions": "0"}, "max_prepared_transactions is 0"),
    ],
)
def test_a_treatment_whose_settings_rule_a_holder_out_is_untestable(
    holder: str, settings: dict[str, str], reason: str
) -> None:
    [problem] = problems({"holder": holder}, **settings)
    assert not problem.is_mistake
    assert reason in problem.message
    assert problems({"holder": "snapshot"}, **settings) == []
    assert problems({"holder": holder}) == []


def test_a_captured_distribution_takes_its_files_place(tmp_path: Path) -> None:
    (tmp_path / "prod.toml").write_text(distribution_text(CAPTURED))
    value = HeldHorizon.inlined("replay", "prod.toml", tmp_path)
    assert value == REPLAY
    assert problems({"replay": value}) == []
    assert HeldHorizon.inlined("hold", "prod.toml", tmp_path) == "prod.toml"


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({"holder": "standby"}, True),
        ({"holder": "slot"}, True),
        ({"holder": "snapshot"}, False),
        ({"replay": REPLAY}, False),
        ({}, False),
    ],
)
def test_a_standby_is_known_to_take_a_copy_of_the_data(
    levels: dict[str, str], expected: bool
) -> None:
    assert HeldHorizon.more_clusters(levels) == expected
