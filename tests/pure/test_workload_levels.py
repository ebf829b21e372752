"""Parameters of a workload as levels of treatments: what they come to, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdrag.errors import ExperimentError, UsageError
from pgdrag.experiment import parse_experiment
from pgdrag.experiment.questions import conditions_from
from pgdrag.factors import Here
from pgdrag.factors.treated_workload import level_problems, workload_of
from pgdrag.factors.workload import WorkloadParameter
from pgdrag.model import Level, Rung, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile
from pgdrag.servers.settings import SettingsCatalog

TPCC = WorkloadSpec("tpcc", {"warehouses": 2})
PGBENCH = WorkloadSpec("pgbench", {"scale": 1, "variables": {"a": "1", "b": "2"}})

FILE = """pgdrag = 1
name = "sizes"
[workload]
kind = "tpcc"
[design]
kind = "one-at-a-time"
[[rungs]]
name = "large"
workload = { warehouses = 3 }
[[rungs]]
name = "sent"
[rungs.workload]
statements = "simple"
[scales.small]
workload = { warehouses = 2 }
"""


def levels(**values: str) -> tuple[Level, ...]:
    return tuple(Level("workload", name, value) for name, value in values.items())


def test_levels_are_laid_over_the_experiments_parameters() -> None:
    made: Any = workload_of(TPCC, Treatment("", levels(isolation="serializable", max_tries="7")))
    assert (made.warehouses, made.isolation, made.max_tries) == (2, "serializable", 7)


def test_a_dot_leads_into_a_table_and_leaves_the_rest_of_it() -> None:
    made: Any = workload_of(PGBENCH, Treatment("", (Level("workload", "variables.b", "5"),)))
    assert made.variables == {"a": "1", "b": "5"}
    assert workload_of(PGBENCH, Treatment("")).model_dump()["variables"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("spec", "name", "value", "message", "hint"),
    [
        (TPCC, "warehouses", "many", '"warehouses" of workload "tpcc" must be an integer, not "many"', ""),
        (TPCC, "warehouses", "0", '"warehouses" of workload "tpcc" must be at least 1, not "0"', ""),
        (TPCC, "isolation", "none", "must be \"read committed\", \"repeatable read\" or \"serializable\", not \"none\"", ""),
        (TPCC, "warehouse", "2", 'workload "tpcc" has no parameter "warehouse"', 'Did you mean "warehouses"?'),
        (PGBENCH, "scale.x", "2", '"scale" of workload "pgbench" must be an integer, not a table', ""),
        (TPCC, "kind", "pgbench", 'workload "tpcc" has no parameter "kind"', "write a file of its own"),
        (TPCC, "mix.payment", "0", '"mix.payment" of workload "tpcc" must be the same in all', "rates are not comparable"),
        (PGBENCH, "scripts", "select-only", '"scripts" of workload "pgbench" must be the same', "rates are not"),
        (PGBENCH, "unlogged", "perhaps", '"unlogged" of workload "pgbench" must be true or false, not "perhaps"', ""),
    ],
)  # fmt: skip
def test_what_the_workload_does_not_take_is_a_mistake_and_left_out(
    spec: WorkloadSpec, name: str, value: str, message: str, hint: str
) -> None:
    level = Level("workload", name, value)
    good = Level("workload", "max_tries", "2")
    (problem,) = level_problems(spec, [level, good, Level("setting", "jit", "off")])
    assert (problem.level, problem.is_mistake) == (level, True)
    assert message in problem.message
    assert hint in problem.hint
    assert workload_of(spec, Treatment("", (level, good))) == workload_of(
        spec, Treatment("", (good,))
    )


def test_levels_that_are_wrong_only_together_are_all_refused() -> None:
    command = WorkloadSpec("command", {"command": "true", "profile": "pgbench"})
    problems = level_problems(command, levels(data_version="0", overtime_s="-1", setup="x"))
    assert [problem.level.name for problem in problems] == ["overtime_s", "data_version"]


def test_without_a_workload_nothing_is_known_and_with_one_it_is() -> None:
    nothing = SettingsCatalog(180000, {})
    assert WorkloadParameter().check(levels(scale="x"), Here(nothing, nothing)) == []
    here = Here(nothing, nothing, workload=PGBENCH)
    assert len(WorkloadParameter().check(levels(scale="x"), here)) == 1


def test_it_reads_back_what_the_trials_workload_was_made_with() -> None:
    own = (*levels(scale="07", unlogged="yes"), Level("workload", "variables.a", "1"))
    factor = WorkloadParameter()
    load = LoadProfile(connections=1, warm_up_s=0, measure_s=1, budget_s=1)
    factor.serve(Trial(1, 1, 1, Treatment("", own), PGBENCH, load, seed=1))
    found = factor.read_back(None, {x.name: x.value for x in own})  # type: ignore[arg-type]
    assert [(x.effective, x.default, x.note) for x in found] == [
        ("7", "1", ""),
        ("on", "off", ""),
        ("1", "1", ""),  # the study's own: inert
    ]


def test_an_experiment_file_has_them_in_its_treatments() -> None:
    study = parse_experiment(FILE, Path("sizes.toml")).study("small")
    made: list[Any] = [workload_of(study.workload, rung.treatment) for rung in study.rungs]
    assert [x.warehouses for x in made] == [2, 3, 2]
    assert [x.statements for x in made] == ["prepared", "prepared", "simple"]


def test_a_mistake_in_a_file_has_its_line() -> None:
    text = FILE.replace("warehouses = 3", "warehouse = 3").replace('"simple"', '"spoken"')
    with pytest.raises(ExperimentError) as told:
        parse_experiment(text, Path("sizes.toml"))
    assert told.value.line == 9
    assert 'no parameter "warehouse"' in told.value.message
    assert 'sizes.toml:13: "statements" of workload "tpcc" must be' in (told.value.detail or "")


def test_a_rung_of_another_workload_is_refused_on_the_command_line() -> None:
    under = conditions_from(
        "pgbench", {"scale": 1}, LoadProfile(connections=1, warm_up_s=0, measure_s=1, budget_s=1)
    )
    rung = Rung("large", "", Treatment("large", levels(warehouses="3")))
    with pytest.raises(UsageError, match='in "large": workload "pgbench" has no parameter'):
        under.study("x", design="compare", title="", question="", rungs=[rung], parameters={})
