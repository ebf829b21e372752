"""What must every experiment file do that is to be shared? A suite for pytest.

Subclass it in a test module; it asks for one fixture::

    class TestMyExperiments(ExperimentConformance):
        @pytest.fixture(params=["one.toml", "another.toml"])
        def experiment(self, request): ...               # Experiment

Nothing here needs pytest to be installed.
"""

from __future__ import annotations

from pgdrag.collectors import observation_names
from pgdrag.designs import all_designs
from pgdrag.experiment import Experiment, load_experiment
from pgdrag.model import Rung, Study
from pgdrag.model.design import make_design
from pgdrag.workloads import all_workloads


class ExperimentConformance:
    """Claims about one experiment, for which no server is needed."""

    def test_it_says_what_it_answers(self, experiment: Experiment) -> None:
        assert experiment.question.endswith("?")
        for text in (experiment.title, experiment.question, *experiment.scales.values()):
            assert text
            assert "\n" not in text

    def test_its_file_has_its_name(self, experiment: Experiment) -> None:
        assert experiment.path.stem == experiment.name
        assert load_experiment(str(experiment.path)) == experiment

    def test_every_scale_makes_a_study(self, experiment: Experiment) -> None:
        assert experiment.default_scale in experiment.scales
        for study in studies(experiment):
            workload = all_workloads()[study.workload.kind]
            assert workload.model_validate(study.workload.parameters).dataset_bytes() > 0
            assert make_design(study).ask().treatments
            assert 0 < study.load.measure_s <= study.load.budget_s
            assert study.replicates >= 1

    def test_rungs_have_names_of_their_own(self, experiment: Experiment) -> None:
        for study in studies(experiment):
            names = [rung.name for rung in study.rungs]
            assert len(names) == len(set(names))
            assert [rung.treatment.name for rung in study.rungs] == names

    def test_the_baseline_is_first_and_every_rung_stands_on_the_one_below(
        self, experiment: Experiment
    ) -> None:
        """A rung changes what it names and nothing else, on top of the rung below or of the baseline."""
        for study in studies(experiment):
            baseline, *rungs = study.rungs
            assert baseline.added == ()
            is_cumulative = all_designs()[study.design].is_cumulative
            for before, rung in zip(study.rungs, rungs, strict=False):
                below = before if is_cumulative else baseline
                assert rung.added
                assert rung.treatment == below.treatment.with_levels(rung.name, rung.added)

    def test_every_rung_differs_from_the_one_below(self, experiment: Experiment) -> None:
        for study in studies(experiment):
            for below, rung in zip(study.rungs, study.rungs[1:], strict=False):
                assert rung.treatment.identity != below.treatment.identity, rung.name

    def test_what_a_mechanism_moves_is_observed(self, experiment: Experiment) -> None:
        for rung in all_rungs(experiment):
            assert set(rung.expects) <= observation_names(), rung.name

    def test_an_expectation_has_a_mechanism(self, experiment: Experiment) -> None:
        for rung in all_rungs(experiment):
            assert rung.mechanism or not rung.expects, rung.name

    def test_claims_have_a_source(self, experiment: Experiment) -> None:
        """Published numbers can be looked up or tried again, and the baseline's is there to compare them with."""
        for study in studies(experiment):
            rates = [rung.claim.tps is not None for rung in study.rungs]
            has_rates = any(rates) or any(rung.claim.speedup is not None for rung in study.rungs)
            if has_rates or study.claims:
                for source in (study.source, *study.sources.values()):
                    assert source.title
                    assert source.url or source.setup
            if study.is_cumulative:
                assert rates[0] or not any(rates), "a ratio needs the baseline's own number"

    def test_every_level_is_found_in_the_file(self, experiment: Experiment) -> None:
        lines = experiment.path.read_text(encoding="utf-8").split("\n")
        for study in studies(experiment):
            for level in study.levels:
                path, line = experiment.location(level)
                assert path == experiment.path
                # A dotted name may be written in parts; what the design makes of values is found at the design.
                name, found = level.name.rsplit(".", 1)[-1], lines[line - 1].lower()
                assert name in found or "design]" in found


def studies(experiment: Experiment) -> list[Study]:
    """Return the experiment at each of its scales."""
    return [experiment.study(scale) for scale in experiment.scales]


def all_rungs(experiment: Experiment) -> list[Rung]:
    """Return the rungs of all scales."""
    return [rung for study in studies(experiment) for rung in study.rungs]
