"""The search for the best configuration on the simulated laboratory."""

import math
from dataclasses import replace

import pytest

from pgdrag.designs.search.parameters import Dimension, SearchParameters
from pgdrag.designs.search.procedure import Stage
from pgdrag.findings.find import find
from pgdrag.model import Outcome, Rung, Treatment
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
    found = find(run_blocks(study("minimize"), Surface(Truth(noise=0.02), seed=2))).found
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
