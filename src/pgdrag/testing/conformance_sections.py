"""What must every report section do, whatever it shows? A suite for pytest.

Subclass it in a test module; it asks for one fixture::

    class TestEverySection(SectionConformance):
        @pytest.fixture(params=list(all_sections().values()), ids=list(all_sections()))
        def section_class(self, request): ...            # type[Section]

A section that shows a recording of its own kind gives the suite one in `recordings`. Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import ClassVar

from pgdrag.collectors import Turns
from pgdrag.designs import all_designs
from pgdrag.findings.find import find
from pgdrag.findings.holds.distribution import Capture, HoldDistribution, KindOfHolds, as_level
from pgdrag.findings.holds.levels import FACTOR, REPLAY, WINDOW, HolderKind
from pgdrag.findings.values import Findings
from pgdrag.model import Instrument, Level, Outcome, Result, Rung, Study, Treatment, Trial
from pgdrag.model.events import Listener
from pgdrag.model.load import Step
from pgdrag.model.recordings import HOLD_EVENT, Event, Recording, Recordings, together
from pgdrag.report.html import render_html
from pgdrag.report.markdown import render_markdown
from pgdrag.report.sections import Section, sections_for
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    record_of,
    run_blocks,
    run_rungs,
    simulated_holds,
    simulated_ladder,
)

# A name as a person may write it; whatever shows it must leave the escaping to the renderer.
AWKWARD = "1 < 2 & <b>3</b>"


class SectionConformance:
    """Claims about one section class, on findings of the simulated laboratory.

    Class attributes:
        recordings: what each trial of one more run records, beside what the simulated laboratory has.
    """

    recordings: ClassVar[tuple[Recording, ...]] = ()

    def test_it_says_what_it_is(self, section_class: type[Section]) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9-]*", section_class.name)
        assert section_class.summary
        assert "\n" not in section_class.summary
        assert section_class.title[:1].isupper()

    def test_it_has_a_place_of_its_own(self, section_class: type[Section]) -> None:
        for findings in every_state(self.recordings):
            same = [one for one in sections_for(findings) if one.order == section_class.order]
            assert [type(one) for one in same] in ([], [section_class])

    def test_it_bears_every_state_of_a_run(self, section_class: type[Section]) -> None:
        """Where it applies it has something to say, and the same each time."""
        for findings in every_state(self.recordings):
            section = section_class()
            if section.applies(findings):
                assert list(section.blocks(findings))
                assert list(section.blocks(findings)) == list(section_class().blocks(findings))
                assert list(section.brief(findings)) == list(section_class().brief(findings))
                ending = list(section.ending(findings))
                assert ending == list(section_class().ending(findings))
                assert len(ending) <= 2, "a line or two"

    def test_it_applies_to_a_run_that_went_well(self, section_class: type[Section]) -> None:
        assert any(section_class().applies(findings) for findings in went_well(self.recordings))

    def test_every_rendering_has_it(self, section_class: type[Section]) -> None:
        """Its heading is in the browser and in Markdown, and the terminal bears its brief form."""
        for findings, html, markdown, terminal in every_rendering(self.recordings):
            if section_class().applies(findings):
                assert f'<section id="{section_class.name}"' in html
                assert f"## {section_class.title}" in markdown
                assert max(map(len, terminal.splitlines())) <= 80

    def test_it_leaves_escaping_to_the_renderer(self, section_class: type[Section]) -> None:
        """Text is shown as it was written: never as markup, and never escaped twice."""
        findings = next(one for one in went_well(self.recordings) if section_class().applies(one))
        page = render_html(findings).partition(f'<section id="{section_class.name}"')[2]
        shown = page.partition("</section>")[0]
        assert shown
        assert "<b>" not in shown
        assert "&amp;lt;" not in shown


STUDY = simulated_ladder("a", "b", "c", replicates=2)
# The same with half of the sessions at first, and a profile: it has all that a report can show.
STEPPED = replace(
    STUDY,
    load=replace(STUDY.load, steps=(Step(0, 4), Step(10, 8))),
    instrument=Instrument(optional=("profile",)),
)


@cache
def every_state(recordings: tuple[Recording, ...] = ()) -> tuple[Findings, ...]:
    """Return findings of runs that went well, badly, or not at all; see `went_well`."""
    return tuple(_states(recordings))


def _states(recordings: tuple[Recording, ...]) -> Iterator[Findings]:
    yield findings_of(STUDY, Truth(slowdowns={"a": 2.0, "c": 5.0}, noise=0.05))
    yield findings_of(STEPPED, Truth(slowdowns={"a": 2.0, "c": 5.0}, noise=0.05))
    yield findings_of(STUDY.with_design("compare"), Truth(slowdowns={"a": 2.0}))
    yield from went_well(recordings)
    for name in all_designs():  # cut off, or not begun
        study = STUDY.with_design(name)
        yield findings_of(study, Truth(slowdowns={"a": 2.0}))
        yield find(record_of(study, ()))
    yield findings_of(STUDY, Truth(lacking=frozenset("b")))
    yield find(record_of(STUDY, ()))
    yield find(record_of(replace(STUDY, rungs=()), ()))
    for outcome in Outcome:
        yield findings_of(STUDY, Truth(outcomes={"b": outcome}))


@cache
def every_rendering(
    recordings: tuple[Recording, ...] = (),
) -> tuple[tuple[Findings, str, str, str], ...]:
    """Return every state's findings with their HTML, their Markdown and what a terminal of 80 columns shows."""
    return tuple(
        (one, render_html(one), render_markdown(one), terminal_text(one, width=80))
        for one in every_state(recordings)
    )


@cache
def went_well(recordings: tuple[Recording, ...] = ()) -> tuple[Findings, ...]:
    """Return findings of a ladder, and of every design run to its end; with names awkward to show.

    Args:
        recordings: what each trial of a further ladder records, too.
    """
    rungs = tuple(replace(rung, title=AWKWARD) for rung in STEPPED.rungs)
    ladder = replace(STEPPED, rungs=rungs)
    truth = Truth(slowdowns={"a": 2.0, "c": 5.0}, noise=0.02, is_observed=True)
    designs = [ladder.with_design(name) for name in all_designs()]
    designs.append(ladder.with_design("ladder", alone=True, without=True))
    return (
        findings_of(ladder, truth),
        held_findings(),
        replayed_findings(),
        fleet_findings(ladder, truth),
        *(find(run_blocks(study, _InTurns(truth))) for study in designs),
        *((_recorded(findings_of(ladder, truth), recordings),) if recordings else ()),
    )


def fleet_findings(study: Study, truth: Truth) -> Findings:
    """Return findings of a run whose blocks ran on two hosts in turn."""
    results = [
        replace(one, host=("first", AWKWARD)[one.trial.block % 2])
        for one in findings_of(study, truth).run.results
    ]
    return find(record_of(study, results))


def held_findings() -> Findings:
    """Return findings of a horizon held for five lengths and released in three ways; one variant loses updates."""
    study = simulated_holds(
        *("10s", "20s", "20s, then vacuum", "20s, then vacuum and reindex", "30s", "40s", WINDOW)
    )
    *rungs, last = study.rungs
    lossy = last.treatment.with_levels("H8", [Level("setting", "lossy", "on")])
    wrong = Rung("H8", AWKWARD, lossy, last.added, last.claim)
    truth = Truth(noise=0.02, held_costs_per_s={"transaction": 1 / 30}, losing={"lossy": 12})
    return findings_of(replace(study, rungs=(*rungs, last, wrong)), truth)


def replayed_findings() -> Findings:
    """Return findings of a rung that replays captured holds of two lengths, and of one that does so badly."""
    kind = KindOfHolds(seen=40, per_hour=600.0, longer_than=((1.0, 0.3), (5.0, 0.0)))
    capture = Capture("simulated", "simulated", "2026-11-22T09:00:00Z", 600.0, 1.0, 600, 0.1)
    level = Level(
        FACTOR, REPLAY, as_level(HoldDistribution(capture, {HolderKind.TRANSACTION: kind}), AWKWARD)
    )
    base = simulated_holds("10s")
    rungs = [
        Rung(name, AWKWARD, Treatment(name, (level,)), (level,)) for name in ("faithful", "halved")
    ]
    study = replace(base, rungs=(base.rungs[0], *rungs))
    run = findings_of(study, Truth(noise=0.02)).run
    lengths_s: dict[str, tuple[float, ...]] = {
        "faithful": (1.0, 1.0, 5.0, 1.0),
        "halved": (0.5, 0.5, 2.5, 0.5),
    }
    results = []
    for one in run.results:
        # Again and again, one every six seconds.
        holds = Recordings(
            [
                Event(HOLD_EVENT, 6.0 * at, 6.0 * at + length_s, f"transaction, session {at}")
                for at, length_s in enumerate(lengths_s.get(one.trial.treatment.name, ()) * 2)
            ]
        )
        results.append(replace(one, recordings=together((one.recordings, holds))))
    return find(record_of(study, results))


def _recorded(findings: Findings, recordings: tuple[Recording, ...]) -> Findings:
    results = [
        replace(one, recordings=together((one.recordings, Recordings(recordings))))
        for one in findings.run.results
    ]
    return find(record_of(findings.run.study, results))


def findings_of(study: Study, truth: Truth) -> Findings:
    """Return what the simulated laboratory finds where each rung is run once a replicate."""
    return find(run_rungs(study, SimulatedTrialRunner(truth)))


class _InTurns(SimulatedTrialRunner):
    """Trials in which the collectors look and rest in turns."""

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run it, with the turns among its recordings."""
        result = super().run(trial, listen)
        if result.measurement is None:
            return result
        turns = Turns(trial.seed)
        turns.looks(result.measurement.elapsed_s)
        turns.end(result.measurement.elapsed_s)
        return replace(result, recordings=together((result.recordings, turns.recordings(0.0))))
