"""A captured distribution is a readable file, a level of an experiment, and a source of holds."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, text

from pgdrag.errors import HoldsError
from pgdrag.findings.holds.distribution import (
    Capture,
    HoldDistribution,
    KindOfHolds,
    as_level,
    from_level,
    steps_of,
)
from pgdrag.findings.holds.levels import HolderKind
from pgdrag.horizon.distribution_file import (
    distribution_text,
    inlined,
    parse_distribution,
    read_distribution,
)
from pgdrag.horizon.schedule import replay
from pgdrag.model import Level
from pgdrag.stats.hold_lengths import (
    TOLERANCE,
    LengthCurve,
    SeenHold,
    log_wasserstein,
    product_limit,
)

CAPTURE = Capture("the server", "18.6", "2026-11-22T09:00:00Z", 3600.0, 1.0, 3600, 0.1)
FOUND = HoldDistribution(
    CAPTURE,
    {
        HolderKind.TRANSACTION: KindOfHolds(
            seen=70, per_hour=90.0, longer_than=((1.0, 0.25), (5.0, 0.0)), applications={"a b": 3}
        ),
        HolderKind.SLOT: KindOfHolds(seen=1, per_hour=0.0, begin_unknown=1),
        HolderKind.CURSOR: KindOfHolds(seen=10, per_hour=10.0, longer_than=((60.0, 0.0),)),
    },
    gaps=((10.0, 0.5), (70.0, 0.0)),
    at_once={"0": 0.75, "1": 0.25},
)
FILE = Path("prod.toml")


def test_a_file_is_read_back_unchanged() -> None:
    assert parse_distribution(distribution_text(FOUND), FILE) == FOUND


def test_a_level_has_all_of_it_after_a_summary() -> None:
    level = as_level(FOUND, "prod.toml")
    assert from_level(level) == FOUND
    assert "\n" not in level
    assert level.startswith(
        "prod.toml, 81 holds, half of them longer than 1 s, the longest 1 min {"
    )


@given(text(), lists(floats(1e-3, 1e6), min_size=1, max_size=80))
def test_any_server_and_any_lengths_are_read_back(server: str, lengths_s: list[float]) -> None:
    curve = product_limit([SeenHold(x) for x in lengths_s])
    kind = KindOfHolds(seen=len(lengths_s), per_hour=1.0, longer_than=steps_of(curve))
    server = server.encode("utf-8", "replace").decode()
    found = HoldDistribution(replace(CAPTURE, server=server), {HolderKind.TRANSACTION: kind})
    assert parse_distribution(distribution_text(found), FILE) == found
    assert from_level(as_level(found, "f.toml")) == found
    assert curve is not None
    assert log_wasserstein(curve, found.lengths) < 0.5 or len(lengths_s) > 40


def test_holds_are_drawn_as_long_as_often_and_as_far_apart_as_captured() -> None:
    holds = replay(FOUND, begin_s=0, end_s=40_000, seed=5)
    assert holds[0].begin_s == 0
    assert len(holds) == pytest.approx(1000, rel=0.1)
    of_cursors = [x.length_s for x in holds if x.holder == "cursor"]
    assert set(of_cursors) == {60.0}
    assert len(of_cursors) / len(holds) == pytest.approx(0.1, abs=0.04)
    drawn = product_limit([SeenHold(x.length_s) for x in holds])
    assert drawn is not None
    assert math.exp(log_wasserstein(FOUND.lengths, drawn)) < TOLERANCE
    gaps = {round(b.begin_s - a.begin_s, 6) for a, b in pairwise(holds)}
    assert gaps == {10.0, 70.0}
    assert holds == replay(FOUND, begin_s=0, end_s=40_000, seed=5)


def test_without_gaps_holds_begin_independently_at_their_rate() -> None:
    holds = replay(replace(FOUND, gaps=()), begin_s=0, end_s=36_000, seed=5)
    assert len(holds) == pytest.approx(1000, rel=0.15)


def test_steps_of_a_file_are_few_and_end_at_zero() -> None:
    curve = LengthCurve(tuple(float(x) for x in range(1, 1001)), (*(1 - x / 1000 for x in range(1, 1000)), 0.0))  # fmt: skip
    steps = steps_of(curve)
    assert len(steps) <= 40
    assert steps[-1] == (1000.0, 0.0)


GOOD = distribution_text(FOUND)


@pytest.mark.parametrize(
    ("old", "new", "line_of", "words"),
    [
        ("pgdrag_holds = 1", "pgdrag_holds = 2", "pgdrag_holds = 2", "newer than this pgdrag"),
        ("pgdrag_holds = 1", "", "", "not a distribution of holds"),
        ("every_s = 1 ", "evry_s = 1 ", "evry_s", '"capture.evry_s"'),
        (
            "looks = 3600",
            'looks = "many"',
            'looks = "many"',
            '"capture.looks" must be a valid integer',
        ),
        ("captured_s = 3600", "captured_s = 0", "captured_s", "greater than 0"),
        ("[1, 0.25], [5, 0]", "[5, 0.25], [1, 0]", "longer_than", "ascending"),
        ("[1, 0.25], [5, 0]", "[1, 0.25], [5, 0.25]", "longer_than", "descend"),
        ("[1, 0.25], [5, 0]", "[1, 0.25]", "longer_than", "end with a share of 0"),
        ("1 = 0.25", "1 = 0.75", "[at_once]", "add up to 1.5"),
        ("1 = 0.25", "few = 0.25", "few = ", "not a number of holders"),
        ("[kinds.slot]", "[kinds.lock]", "[kinds.lock]", '"kinds.lock'),
        ("seen = 70", "seen = ", "", "TOML syntax"),
    ],
)
def test_a_mistake_is_reported_with_its_line(old: str, new: str, line_of: str, words: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    with pytest.raises(HoldsError) as found:
        parse_distribution(text, FILE)
    assert words in found.value.message
    if line_of:
        number = [n for n, line in enumerate(text.splitlines(), 1) if line_of in line][-1]
        assert found.value.message.startswith(f"prod.toml:{number}: ")


def test_a_file_without_a_hold_cannot_be_replayed(tmp_path: Path) -> None:
    nothing = HoldDistribution(CAPTURE, {})
    (tmp_path / "none.toml").write_text(distribution_text(nothing))
    assert read_distribution(tmp_path / "none.toml") == nothing
    with pytest.raises(HoldsError, match="nothing to replay"):
        inlined("none.toml", tmp_path)


def test_files_that_are_missing_too_large_or_binary_are_errors(tmp_path: Path) -> None:
    with pytest.raises(HoldsError, match="no such file"):
        inlined("missing.toml", tmp_path)
    (tmp_path / "large.toml").write_text("#" * 300_000)
    with pytest.raises(HoldsError, match="larger"):
        inlined("large.toml", tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(HoldsError, match="UTF-8"):
        inlined("binary.toml", tmp_path)
    with pytest.raises(HoldsError, match="contains no distribution"):
        from_level("prod.toml")


def test_the_file_is_plain_toml() -> None:
    assert tomllib.loads(GOOD)["kinds"]["transaction"]["longer_than"] == [[1, 0.25], [5, 0]]


def test_a_level_is_shown_as_its_summary() -> None:
    level = Level("horizon", "replay", as_level(FOUND, "prod.toml"))
    assert level.shown == "prod.toml, 81 holds, half of them longer than 1 s, the longest 1 min"
    assert Level("setting", "work_mem", "4MB").shown == "4MB"
    assert Level("setting", "search_path", "x" * 300).shown == "x" * 99 + "…"
