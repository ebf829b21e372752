"""Replayed holds are compared with the captured ones: lengths, kinds, and what the window cuts off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdrag.findings.holds.analysis import ReplayFinding, replay_finding
from pgdrag.findings.holds.distribution import Capture, HoldDistribution, KindOfHolds, as_level
from pgdrag.findings.holds.levels import FACTOR, REPLAY, HolderKind
from pgdrag.model import Level, Result, Treatment
from pgdrag.model.measurement import Measurement
from pgdrag.model.recordings import Event, Recordings
from pgdrag.report.document import Figure, Paragraph, Tone
from pgdrag.report.sections.horizon import ReplayedHoldsSection, replay_sentence
from pgdrag.testing.conformance_sections import STUDY, findings_of, replayed_findings
from pgdrag.testing.simulated import Truth

CAPTURE = Capture("shop", "18.6", "2026-11-22T09:00:00Z", 3600.0, 1.0, 3600, 0.1)
KIND = KindOfHolds(seen=40, per_hour=60.0, longer_than=((1.0, 0.25), (5.0, 0.0)))
CAPTURED = HoldDistribution(CAPTURE, {HolderKind.TRANSACTION: KIND})


@pytest.fixture(scope="module")
def measured() -> tuple[Result, Measurement]:
    """A measured trial with a window of a minute, and what the driver said of it."""
    result = findings_of(STUDY, Truth()).run.results[0]
    assert result.measurement is not None
    return result, replace(result.measurement, elapsed_s=60.0)


def treatment(captured: HoldDistribution) -> Treatment:
    return Treatment("R", (Level(FACTOR, REPLAY, as_level(captured, "shop.toml")),))


def found(
    measured: tuple[Result, Measurement],
    *holds: tuple[float, float | None],
    captured: HoldDistribution = CAPTURED,
    text: str = "transaction, session 7",
) -> ReplayFinding | None:
    events = tuple(Event("hold", begin_s, end_s, text) for begin_s, end_s in holds)
    result, measurement = measured
    result = replace(result, recordings=Recordings(events))
    return replay_finding(treatment(captured), [(result, measurement)])


FAITHFUL = [(6.0 * at, 6.0 * at + (5.0 if at % 4 == 3 else 1.0)) for at in range(8)]


def test_holds_as_long_as_captured_are_alike(measured: tuple[Result, Measurement]) -> None:
    one = found(measured, *FAITHFUL)
    assert one is not None
    assert (one.file, one.distance.factor, one.cut_off) == ("shop.toml", 1.0, 0)
    assert replay_sentence(one).startswith("8 replayed holds are as long as the captured ones")
    assert [(kind.holder, kind.wanted, kind.holds) for kind in one.kinds] == [("transaction", 1, 8)]
    assert one.warnings == ()


def test_holds_half_as_long_are_not(measured: tuple[Result, Measurement]) -> None:
    one = found(measured, *((begin, (begin + end) / 2) for begin, end in FAITHFUL * 3))
    assert one is not None
    assert one.distance.factor == pytest.approx(2.0)
    assert "are not as long as the captured ones" in replay_sentence(one)


@pytest.mark.parametrize("end_s", [None, 60.0, 63.0])
def test_a_hold_cut_off_by_the_windows_end_is_censored(
    measured: tuple[Result, Measurement], end_s: float | None
) -> None:
    one = found(measured, *FAITHFUL, (58.0, end_s))
    assert one is not None
    assert one.cut_off == 1
    assert one.held.lengths_s == (1.0, 5.0)
    assert one.distance.is_alike


def test_a_lost_hold_is_censored(measured: tuple[Result, Measurement]) -> None:
    one = found(measured, (0.0, 0.5), text="transaction, session 7, lost: terminated")
    assert one is not None
    assert one.cut_off == 1


def test_a_window_too_short_for_what_was_captured_says_so(
    measured: tuple[Result, Measurement],
) -> None:
    long = replace(KIND, longer_than=((1.0, 0.25), (600.0, 0.0)), open_share=0.25)
    one = found(
        measured, (0.0, 1.0), captured=HoldDistribution(CAPTURE, {HolderKind.TRANSACTION: long})
    )
    assert one is not None
    assert replay_sentence(one).startswith("1 replayed hold, too few to judge")
    short, few, is_open = one.warnings
    assert "25% of the captured holds last longer than the window of 1 min" in short
    assert "1 hold in 1 trial" in few
    assert "did not see the end" in is_open


def test_without_a_replay_or_a_hold_there_is_nothing_to_compare(
    measured: tuple[Result, Measurement],
) -> None:
    assert found(measured) is None
    assert replay_finding(Treatment("R"), [measured]) is None
    assert replay_finding(Treatment("R", (Level(FACTOR, REPLAY, "lost.toml"),)), [measured]) is None


def test_the_section_draws_both_and_marks_a_difference() -> None:
    blocks = ReplayedHoldsSection().blocks(replayed_findings())
    pictures = [one for one in blocks if isinstance(one, Figure)]
    assert len(pictures) == 2
    assert all('class="line beside line-1"' in one.svg for one in pictures)
    tones = [one.tone for one in blocks if isinstance(one, Paragraph)][1:]
    assert tones == [Tone.PLAIN, Tone.WARNING]
    assert "<b>" not in pictures[0].svg
