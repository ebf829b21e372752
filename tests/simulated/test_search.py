"""The search for the best configuration on the simulated laboratory."""

import math
from dataclasses import replace

import pytest

from pgdrag.designs.search.parameters import Dimension, SearchParameters
from pgdrag.designs.search.procedure import Stage
from pgdrag.findings.find import find
from pgdrag.model import Level, Observation, Outcome, Rung, Treatment
from pgdrag.report.html import render_html
from pgdrag.report.terminal import terminal_text
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    run_blocks,
    simulated_ladder,
)


def dimension(name, count=5, start=0, **more):
    return Dimension(
        name=name, values=[f"{2**x}MB" for x in range(count)], start=f"{2**start}MB", **more
    )


SPACE = [
    dimension("cache", 8, is_expected=True, rule="32MB"),
    dimension("log", 5, is_expected=True),
    *(dimension(f"known{at}", 4, start=1, is_expected=True) for at in range(6)),
    *(dimension(f"other{at}", 3, start=1) for at in range(30)),
]


class Surface(SimulatedTrialRunner):
    """The more cache the better up to 32MB, 16MB of log bring 1.3 times, other7 = 1MB halves; 128MB does not start."""

    best = 1.5 * 1.3

    def run(self, trial, listen):
        settings = trial.treatment.of_kind("setting")
        if settings.get("cache") == "128MB" or self.always_fails(settings):
            self.trials_run.append(trial.number)
            result = super().run(trial, listen)
            return replace(
                result, outcome=Outcome.DID_NOT_START, measurement=None, reason="no memory"
            )
        cache = min(math.log2(float(settings.get("cache", "1MB")[:-2])), 5) / 5
        gain = math.log(1.5) * cache
        gain += math.log(1.3) * (settings.get("log") == "16MB")
        gain -= math.log(2) * (settings.get("other7") == "1MB")
        self.truth = replace(self.truth, base_tps=1000 * math.exp(gain))
        return super().run(trial, listen)

    def always_fails(self, settings):
        return False


class Minefield(Surface):
    def always_fails(self, settings):
        return bool(settings)


def study(goal="maximize", dimensions=SPACE, **more):
    parameters = SearchParameters(
        goal=goal, dimensions=dimensions, max_trials=40, redeployments=4, **more
    )
    return replace(
        simulated_ladder("a"),
        rungs=(Rung("default", "", Treatment("default")),),
        design="search",
        replicates=1,
        design_parameters=parameters,
    )


@pytest.fixture(scope="module")
def findings():
    return find(run_blocks(study(), Surface(Truth(noise=0.02), seed=1)))


def test_the_best_configuration_is_found_with_few_settings_and_proved(findings):
    found = findings.found
    assert found.stage is Stage.DONE
    assert {one.name for one in found.lines} == {"cache", "log"}
    assert found.proved.center == pytest.approx(Surface.best, rel=0.06)
    assert found.proved.low > 1.5
    assert found.claimed.center == pytest.approx(found.proved.center, rel=0.05)
    assert len(found.redeployments) == 4
    [rule] = found.rivals
    assert (rule.name, rule.beaten_by.center) == ("rules of thumb", pytest.approx(1.3, rel=0.06))


def test_each_line_says_what_it_brings(findings):
    brings = {one.name: one.brings for one in findings.found.lines}
    assert brings["cache"].center == pytest.approx(1.5, rel=0.06)
    assert brings["log"].center == pytest.approx(1.3, rel=0.06)
    file = findings.found.configuration()
    assert file.settings["log"] == "16MB"
    assert "faster" in file.comments["log"]


def test_what_does_not_start_is_learnt_and_avoided(findings):
    found = findings.found
    assert found.failed <= 4
    cache = next(one for one in found.dimensions if one.name == "cache")
    assert set(cache.failing) <= {"128MB"}
    assert found.lines[0].value != "128MB"


def test_the_report_has_the_file_and_its_pictures(findings):
    text, page = terminal_text(findings), render_html(findings)
    assert "faster (95 % CI" in text
    assert "--format conf" in text
    for picture in ("search-proof", "search-course", "search-importance", "search-slice-cache"):
        assert picture in page


def test_the_slowest_is_found_as_well():
    few = [one for one in SPACE if not one.name.startswith("other")] + [
        dimension(f"other{at}", 3, start=1) for at in range(8)
    ]
    found = find(run_blocks(study("minimize", few), Surface(Truth(noise=0.02), seed=2))).found
    assert [one.name for one in found.lines] == ["other7"]
    assert "slower (95 % CI" in found.answer


def test_where_nothing_runs_it_says_so():
    found = find(run_blocks(study(), Minefield(Truth(noise=0.02), seed=3))).found
    assert not found.lines
    assert found.stage is Stage.DONE
    assert "No configuration faster than the baseline" in found.answer


def test_where_nothing_matters_it_recommends_nothing():
    recommended = 0
    for seed in range(5):
        found = find(
            run_blocks(study(dimensions=SPACE[2:9]), Surface(Truth(noise=0.05), seed=seed))
        ).found
        recommended += found.proved is not None and found.proved.low > 1
    assert recommended <= 1


class Frugal(Surface):
    """All of the cache is memory; 16MB of log cost twice the processor time, 8MB of known0 save a third of it."""

    def run(self, trial, listen):
        result = super().run(trial, listen)
        settings = trial.treatment.of_kind("setting")
        cpu_s = 0.001 * (2 if settings.get("log") == "16MB" else 1)
        cpu_s *= 2 / 3 if settings.get("known0") == "8MB" else 1
        memory = float(settings.get("cache", "1MB")[:-2]) * (1 << 20)
        seen = (
            Observation("server_memory_bytes", "memory", memory, "bytes", 1.0),
            Observation(
                "server_cpu_s_per_transaction", "processor time", cpu_s, "s/transaction", 1e-7
            ),
        )
        return replace(result, evidence=(*result.evidence, *seen))


def test_what_exceeds_a_limit_is_not_recommended():
    limits = {"server_memory_bytes": 10 << 20}
    findings = find(run_blocks(study(limits=limits), Frugal(Truth(noise=0.02), seed=4)))
    lines = {one.name: one.value for one in findings.found.lines}
    assert lines == {"cache": "8MB", "log": "16MB"}
    [limit] = findings.found.limits
    assert (limit.highest, limit.limit, limit.is_kept) == ("8 MB", "10 MB", True)
    assert "Within the limits: memory 8 MB of 10 MB at most." in findings.answer


def test_a_limit_that_nobody_observes_is_not_kept():
    limits = {"crash_recovery_s": 30}
    found = find(run_blocks(study(limits=limits), Frugal(Truth(noise=0.02), seed=5))).found
    assert not found.lines
    assert not found.limits


def test_of_two_objectives_what_is_best_for_each_stands_beside_what_is_best_for_both():
    goals = {"objective": "throughput", "also": ("server-cpu",)}
    findings = find(run_blocks(study(**goals), Frugal(Truth(noise=0.0), seed=6)))
    front = {one.name: one for one in findings.found.front}
    assert front["found for throughput"].lines.keys() == {"cache", "log"}
    assert front["found for server-cpu"].lines == {"known0": "8MB"}
    assert front["found for all together"].lines.keys() == {"cache", "known0"}
    assert front["rules of thumb"].is_beaten
    assert not front["found for all together"].is_beaten
    assert not front["found for throughput"].is_beaten
    gains = {name: x.center for name, x in front["found for all together"].gains.items()}
    assert gains == {
        "throughput": pytest.approx(1.5, rel=0.06),
        "server-cpu": pytest.approx(1.5, rel=0.06),
    }
    assert findings.found.proved.center == pytest.approx(1.5, rel=0.06)
    assert findings.answer.startswith("All together 1.5")
    assert "Found for throughput: throughput" in findings.answer
    assert "search-front" in render_html(findings)
    file = findings.found.configuration()
    assert file.settings.keys() == {"cache", "known0"}
    assert any("Found for server-cpu: known0 = 8MB" in line for line in file.header)


class Noting(Surface):
    """Notes the load of each trial."""

    def run(self, trial, listen):
        self.loads = [*getattr(self, "loads", []), (trial.is_brief, trial.load)]
        return super().run(trial, listen)


def test_hopeless_trials_are_not_extended_once_the_baseline_is_known_to_be_fast():
    runner = Noting(Truth(noise=0.02), seed=7)
    find(run_blocks(study(), runner))
    extended = [load.budget_s > load.measure_s for is_brief, load in runner.loads if is_brief]
    whole = [load.budget_s > load.measure_s for is_brief, load in runner.loads if not is_brief]
    first = extended.index(False)
    assert first <= 5
    assert not any(extended[first:])
    assert all(whole)


def test_the_fewest_changes_that_beat_a_rival_are_proved_beside_it():
    rival = Treatment("advice").with_levels(
        "advice", [Level("setting", "cache", "2MB"), Level("setting", "known1", "8MB")]
    )
    base = study()
    with_rival = replace(base, rungs=(*base.rungs, Rung("advice", "", rival)))
    found = find(run_blocks(with_rival, Surface(Truth(noise=0.02), seed=8))).found
    assert {one.name for one in found.lines} == {"cache", "log"}
    [few] = found.fewest
    assert few.rival == "advice"
    assert few.lines.keys() == {"cache"}
    assert few.over_rival.low > 1
    assert "alone: " in found.answer
    assert {one.name for one in found.rivals} == {"advice", "rules of thumb"}


def test_a_run_that_another_processor_chose_reads_the_same():
    run = run_blocks(study(), Surface(Truth(noise=0.02), seed=1))
    other = run.study.design_parameters.model_copy(update={"seed": 99})
    there = find(run).found
    here = find(replace(run, study=replace(run.study, design_parameters=other))).found
    assert (here.proved, here.rivals, here.found.settings) == (
        there.proved,
        there.rivals,
        there.found.settings,
    )
    assert here.claimed.center == pytest.approx(there.claimed.center, rel=0.03)
    assert len(here.course) == len(there.course)
    assert {x.name: x.brings for x in here.lines} == {x.name: x.brings for x in there.lines}
    assert all(one.brings is not None for one in here.lines)
