"""Experiment files: what they make, and what is said of their mistakes."""

from __future__ import annotations

import copy
import json
import tomllib
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdrag.errors import ExperimentError, UsageError
from pgdrag.experiment import (
    experiment_schema,
    load_experiment,
    parse_experiment,
    shipped_files,
)
from pgdrag.model import Claim, Level
from pgdrag.testing.conformance_experiments import ExperimentConformance

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

# Lines are counted from 1, as in messages.
TEXT = """\
pgdrag = 1
name = "small"
[workload]
kind = "tpcc"
[baseline]
name = "A0"
claim = { tps = 100 }
[baseline.setting]
work_mem = "4MB"
[[rungs]]
name = "A1"
expects = { buffer_hit_ratio = "down" }
mechanism = "Less is cached."
setting = { shared_buffers = "8MB", random_page_cost = 1e300 }
[[rungs]]
name = "A2"
claim = { tps = 0.5, text = "half" }
[rungs.setting]
fsync = false
work_mem = 64
auto_explain.log_min_duration = 0
[scales.demo]
summary = "short"
[scales.demo.workload]
warehouses = 2
[scales.demo.load]
connections = 4
warm_up_s = 1
measure_s = 2
[scales.long]
replicates = 3
[scales.long.setting]
work_mem = "16MB"
[scales.long.design]
baseline_repeats = 2
"""


def parsed(text=TEXT):
    return parse_experiment(text, Path("my.toml"))


def refused(old, new, text=TEXT):
    assert old in text
    with pytest.raises(ExperimentError) as caught:
        parsed(text.replace(old, new, 1))
    return caught.value


shipped = cache(load_experiment)


class TestShippedExperiments(ExperimentConformance):
    @pytest.fixture(params=shipped_files())
    def experiment(self, request):
        return shipped(request.param)


class TestExperimentsThatAreOnlyLoaded:
    def test_rungs_are_cumulative(self):
        a0, a1, a2 = parsed().study("demo").rungs
        assert a0.treatment.of_kind("setting") == {"work_mem": "4MB"}
        assert a1.treatment.of_kind("setting") == {
            "work_mem": "4MB",
            "shared_buffers": "8MB",
            "random_page_cost": "1e300",
        }
        assert a2.treatment.of_kind("setting") == {
            "work_mem": "64",
            "shared_buffers": "8MB",
            "random_page_cost": "1e300",
            "fsync": "off",
            "auto_explain.log_min_duration": "0",
        }

    def test_a_rung_carries_its_claim_and_its_mechanism(self):
        _, a1, a2 = parsed().study("demo").rungs
        assert (a1.expects, a1.mechanism) == ({"buffer_hit_ratio": "down"}, "Less is cached.")
        assert a2.claim == Claim(0.5, "half")

    def test_a_rung_without_a_title_is_named_by_its_levels(self):
        _, a1, a2 = parsed().study("demo").rungs
        assert a1.title == "shared_buffers = 8MB, random_page_cost = 1e300"
        assert a2.title == "fsync = off, work_mem = 64 and 1 more"

    def test_a_scale_replaces_levels_of_the_baseline_alone(self):
        a0, a1, a2 = parsed().study("long").rungs
        assert a0.treatment.of_kind("setting")["work_mem"] == "16MB"
        assert a1.treatment.of_kind("setting")["work_mem"] == "16MB"
        assert a2.treatment.of_kind("setting")["work_mem"] == "64"

    def test_a_scale_is_laid_over_workload_and_design(self):
        demo, long = parsed().study("demo"), parsed().study("long")
        assert (demo.workload.parameters["warehouses"], demo.replicates) == (2, 1)
        assert (long.workload.parameters["warehouses"], long.replicates) == (1, 3)
        assert demo.design_parameters.baseline_repeats == 1
        assert long.design_parameters.baseline_repeats == 2

    def test_the_budget_is_five_windows_unless_named(self):
        assert parsed().study("demo").load.budget_s == 10

    def test_a_scale_may_run_some_rungs_alone(self):
        text = TEXT.replace("replicates = 3", 'replicates = 3\nrungs = ["A2"]')
        alone = text.replace("[workload]", '[design]\nkind = "one-at-a-time"\n[workload]')
        experiment = parsed(alone)
        assert [rung.name for rung in experiment.study("long").rungs] == ["A0", "A2"]
        assert [rung.name for rung in experiment.study("demo").rungs] == ["A0", "A1", "A2"]
        whole = experiment.study("demo")
        assert [rung.name for rung in whole.only(["A2", "A1"]).rungs] == ["A0", "A1", "A2"]
        with pytest.raises(UsageError, match='scale demo has no rung "A7"') as caught:
            whole.only(["A7"])
        assert caught.value.hint == "Its rungs: A1, A2."

    def test_the_first_scale_is_the_default(self):
        experiment = parsed()
        assert experiment.default_scale == "demo"
        assert experiment.scales == {"demo": "short", "long": ""}

    def test_an_unknown_scale_names_those_there_are(self):
        with pytest.raises(UsageError, match='"small" has no scale "paper"') as caught:
            parsed().study("paper")
        assert caught.value.hint == "Its scales are: demo, long."

    @pytest.mark.parametrize(
        ("level", "line"),
        [
            (Level("setting", "work_mem", "4MB"), 9),
            (Level("setting", "shared_buffers", "8MB"), 14),
            (Level("setting", "auto_explain.log_min_duration", "0"), 21),
            (Level("setting", "work_mem", "16MB"), 33),
        ],
    )
    def test_levels_are_located(self, level, line):
        assert parsed().location(level) == (Path("my.toml"), line)


class TestPastedSettings:
    TEXT = (
        TEXT.replace(
            '[baseline.setting]\nwork_mem = "4MB"\n',
            '[baseline]\nsetting = """\nwork_mem = 4MB\n\nrandom_page_cost = 1e300\n"""\n',
        )
        .replace("[baseline]\n", "", 1)
        .replace('name = "A0"\nclaim = { tps = 100 }\n', "")
    )

    def test_a_pasted_text_is_a_table_of_levels(self):
        levels = parsed(self.TEXT).study("demo").rungs[0].treatment.of_kind("setting")
        assert levels == {"work_mem": "4MB", "random_page_cost": "1e300"}

    def test_levels_and_mends_are_located_in_the_file(self):
        experiment = parsed(self.TEXT)
        line = self.TEXT.split("\n").index("random_page_cost = 1e300") + 1
        level = Level("setting", "random_page_cost", "1e300")
        assert experiment.location(level)[1] == line
        assert [mend.place.line for mend in experiment.mends] == [line]
        assert experiment.mends[0].words.startswith(f"line {line}: ")

    def test_a_line_that_cannot_be_understood_is_located(self):
        error = refused("work_mem = 4MB", "work_mem is {", self.TEXT)
        assert error.line == self.TEXT.split("\n").index("work_mem = 4MB") + 1


MISTAKES = [
    ("warm_up_s = 1", "warmup = 1", 28, 'unknown key "warmup" in [scales.demo.load]', 'Did you mean "warm_up_s"?'),
    ("connections = 4", "clients = 4", 27, 'unknown key "clients" in [scales.demo.load]', 'Did you mean "connections"?'),
    ("measure_s = 2", "measure_s = '2'", 29, '"measure_s" in [scales.demo.load] must be a number, not "2"', None),
    ("measure_s = 2", "measure_s = true", 29, '"measure_s" in [scales.demo.load] must be a number, not true', None),
    ("replicates = 3", "connections = 3", 31, 'unknown key "connections" in [scales.long]', "It belongs in [scales.long.load]."),
    ('kind = "tpcc"', 'kind = "tpcc"\nnotes = []', 5, 'unknown key "notes" in [workload]', "It belongs above the first table: here it is a key of [workload]."),
    ("connections = 4", "connections = 0", 27, '"connections" in [scales.demo.load] must be at least 1, not 0', None),
    ("measure_s = 2", "measure_s = 2\nbudget_s = 1", 30, '"budget_s" in [scales.demo.load] must be at least measure_s, 2, not 1', None),
    ("replicates = 3", 'rungs = ["A2"]', 31, '"rungs" in [scales.long]: rungs cannot be left out: those of design ladder build upon each other', None),
    ("replicates = 3", "replicates = 0", 31, '"replicates" in [scales.long] must be at least 1, not 0', None),
    ("warehouses = 2", "warehouse = 2", 25, 'unknown key "warehouse" in [scales.demo.workload]', 'Did you mean "warehouses"?'),
    ("warehouses = 2", "warehouses = 2.5", 25, '"warehouses" in [scales.demo.workload] must be an integer, not 2.5', None),
    ('kind = "tpcc"', 'kind = "tpcc"\nisolation = "none"', 5, '"isolation" in [workload] must be "read committed", "repeatable read" or "serializable", not "none"', None),
    ('kind = "tpcc"', 'kind = "tpcc"\nmix = { paiment = 1 }', 5, 'unknown key "paiment" in [workload.mix]', 'Did you mean "payment"?'),
    ('kind = "tpcc"', 'kind = "tpcc"\nmix = { new_order = 0, payment = 0, order_status = 0, delivery = 0, stock_level = 0 }', 5, '"mix" in [workload]: at least one weight must be over 0', None),
    ('kind = "tpcc"', 'kind = "tpc-c"', 4, 'unknown workload "tpc-c"', 'Did you mean "tpcc"?'),
    ('kind = "tpcc"', "", 3, 'missing key "kind" in [workload]', None),
    ("baseline_repeats = 2", 'kind = "ladder"', 35, '"kind" in [scales.long.design] cannot be changed by a scale', "Write a file of its own for another kind."),
    ('name = "A2"', 'name = "A1"', 16, 'two rungs are named "A1"', None),
    ('name = "A2"', 'nam = "A2"', 15, 'missing key "name" in [[rungs]]', "Name in reports; no two rungs have the same."),
    ("buffer_hit_ratio", "buffer_hits", 12, 'unknown observation "buffer_hits"', 'Did you mean "buffer_hit_ratio"?'),
    ('"down"', '"lower"', 12, '"buffer_hit_ratio" in [rungs.expects] must be "up" or "down", not "lower"', None),
    ("fsync = false", "fsync = []", 19, '"fsync" in [rungs.setting] must be a string, a number, true or false, not an array', None),
    ("fsync = false", "FSYNC = 1\nfsync = 2", 20, '"fsync" is given twice in [rungs.setting]', None),
    ('work_mem = "4MB"', 'work_mem = "4\\nMB"', 9, '"work_mem" in [baseline.setting] must be one line, not "4\\nMB"', None),
    ('work_mem = "4MB"', "max_connections = 5", 27, '4 connections at scale "demo" are more than max_connections of rung "A0" allows, 5', "Set max_connections to 7 or more: 3 are not for the workload, which is not a superuser."),
    ('work_mem = "4MB"', "max_connections = '0x5'", 27, '4 connections at scale "demo" are more than max_connections of rung "A0" allows, 5', "Set max_connections to 7 or more: 3 are not for the workload, which is not a superuser."),
    ("[scales.long]", '[scales."a/b"]', 30, 'the name "a/b" in [scales] must be made of letters, digits, spaces, ".", "_" and "-", not "a/b"', None),
    ('name = "small"', "name = 'Small'", 2, '"name" must be made of lower-case letters, digits and hyphens, not "Small"', None),
    ("pgdrag = 1", "pgdrag = 2", 1, "file format 2 is newer than this pgdrag reads, 1", "Install a newer pgdrag."),
    ("pgdrag = 1", "", 1, "this is not an experiment file of pgdrag", "Begin the file with: pgdrag = 1"),
    ('kind = "tpcc"', 'kind = "tpcc"\nmax_retries = 3', 5, 'unknown key "max_retries" in [workload]', 'Did you mean "max_tries"?'),
    ("[scales.long]", '[scales.long]\nworkload = { statements = "pipelined" }', 31, '"statements" is "pipelined" at scale "long", but "prepared" at scale "demo"', "Their numbers are not comparable: write a file for each."),
    ("summary = ", "summary ", 23, "TOML syntax: expected '=' after a key in a key/value pair", None),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message", "hint"), MISTAKES)
def test_a_mistake_is_told_with_its_line(old, new, line, message, hint):
    error = refused(old, new)
    assert str(error) == f"my.toml:{line}: {message}"
    if hint is not None:
        assert error.hint == hint


def test_a_rung_that_changes_nothing_is_a_mistake():
    error = refused('setting = { shared_buffers = "8MB", random_page_cost = 1e300 }\n', "")
    assert str(error) == 'my.toml:10: rung "A1" changes nothing'


def test_all_mistakes_are_told_in_the_order_of_the_file():
    text = TEXT.replace("warehouses = 2", "warehouses = 0").replace("fsync = false", "fsync = []")
    error = refused("warm_up_s = 1", "warmup = 1", text)
    assert error.line == 19
    assert error.detail.split("\n") == [
        'my.toml:25: "warehouses" in [scales.demo.workload] must be at least 1, not 0',
        'my.toml:28: unknown key "warmup" in [scales.demo.load] (Did you mean "warm_up_s"?)',
    ]


def test_at_most_ten_mistakes_are_told():
    error = refused("[baseline]\n", "[baseline]\n" + "".join(f"x{n} = 1\n" for n in range(13)))
    assert len(error.detail.split("\n")) == 10
    assert error.detail.endswith("There are 3 more.")


def test_a_mistake_in_the_files_own_workload_is_told_once():
    error = refused('kind = "tpcc"', 'kind = "tpcc"\nmax_retries = -1')
    assert error.detail is None


@given(st.text(max_size=60))
def test_any_text_gives_an_experiment_error_and_nothing_else(text):
    with pytest.raises(ExperimentError):
        parsed(text)


KEYS = ["name", "notes", "source", "workload", "design", "baseline", "rungs", "scales"]
ODD_VALUES = st.one_of(
    st.integers(),
    st.booleans(),
    st.text("ab\n", max_size=3),
    st.just([]),
    st.just({}),
    st.just([{}]),
)


@given(st.sampled_from(KEYS), ODD_VALUES)
def test_an_odd_value_in_any_table_is_an_experiment_or_an_error_of_it(key, value):
    document = f"pgdrag = 1\n{key} = {_toml(value)}\n"
    with pytest.raises(ExperimentError):
        parsed(document)


def _toml(value):
    if isinstance(value, list):
        return "[" + ", ".join(_toml(x) for x in value) + "]"
    return "{}" if value == {} else json.dumps(value, ensure_ascii=False)


class TestLoading:
    def test_a_file_is_loaded_by_its_path(self, tmp_path):
        (tmp_path / "mine.toml").write_text(TEXT)
        assert load_experiment(str(tmp_path / "mine.toml")).name == "small"

    def test_a_shipped_experiment_is_loaded_by_its_name(self):
        assert load_experiment("slow-42k").name == "slow-42k"

    def test_an_unknown_name_names_the_nearest(self):
        with pytest.raises(ExperimentError, match='no experiment is named "slow-24k"') as caught:
            load_experiment("slow-24k")
        assert caught.value.hint.startswith('Did you mean "slow-42k"? Run "pgdrag list"')

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(ExperimentError, match="there is no file"):
            load_experiment(str(tmp_path / "absent.toml"))

    def test_a_directory_is_refused(self, tmp_path):
        with pytest.raises(ExperimentError, match="is a directory, not an experiment file"):
            load_experiment(f"{tmp_path}/")

    def test_text_that_is_not_utf_8_is_located(self, tmp_path):
        (tmp_path / "latin.toml").write_bytes(b'pgdrag = 1\nname = "\xe9"\n')
        with pytest.raises(ExperimentError, match=r"latin.toml:2: the text is not UTF-8"):
            load_experiment(str(tmp_path / "latin.toml"))

    def test_an_endless_nesting_is_refused(self, tmp_path):
        (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
        with pytest.raises(ExperimentError):
            load_experiment(str(tmp_path / "deep.toml"))


@pytest.fixture(scope="module")
def validator():
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class TestSchema:
    def test_the_one_in_the_reference_is_current(self):
        kept = json.loads((REFERENCE / "experiment.schema.json").read_text())
        assert kept == experiment_schema(), "run: make docs"

    @pytest.mark.parametrize("path", shipped_files().values(), ids=shipped_files())
    def test_shipped_experiments_are_valid(self, validator, path):
        document = tomllib.loads(path.read_text())
        validator.validate(document)

    @pytest.mark.parametrize("text", [TEXT, TestPastedSettings.TEXT])
    def test_other_forms_of_levels_are_valid(self, validator, text):
        validator.validate(tomllib.loads(text))

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("pgdrag",), 2),
            (("naem",), "x"),
            (("workload", "kind"), "tpch"),
            (("workload", "warehouse"), 1),
            (("workload", "warehouses"), 0),
            (("design", "baseline_repeats"), "2"),
            (("baseline", "setting", "work_mem"), []),
            (("scales", "demo", "load", "warmup"), 1),
            (("scales", "demo", "workload", "warehouses"), 2.5),
            (("scales", "a/b"), {}),
            (("rungs",), []),
        ],
    )
    def test_what_is_refused_is_not_valid(self, validator, path, value):
        document = copy.deepcopy(tomllib.loads(TEXT))
        table = document
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = value
        assert not validator.is_valid(document)


def test_the_reference_mentions_every_key():
    text = (REFERENCE / "experiment-file.md").read_text()
    schema = experiment_schema()
    tables = [schema, *schema["$defs"].values()]
    tables += [variant for table in tables for variant in table.get("anyOf", ())]
    keys = {key for table in tables for key in table.get("properties", ())}
    assert {"connections", "warehouses", "baseline_repeats", "expects"} <= keys
    assert sorted(key for key in keys if f"`{key}`" not in text) == []


def test_the_experiments_in_the_reference_are_valid():
    blocks = (REFERENCE / "experiment-file.md").read_text().split("```toml\n")[1:]
    whole, _, levels, pasted, claim, *loads = (block.split("```")[0] for block in blocks)
    assert parsed(whole).default_scale == "demo"
    assert len(parsed(TEXT + claim).study("demo").claims) == 1
    assert [parsed(TEXT + load).study("ramp" if "ramp" in load else "peak") for load in loads]
    assert len(loads) == 2
    for part in (levels, pasted):
        text = TEXT.replace('[baseline.setting]\nwork_mem = "4MB"\n', "")
        text = text.replace("[baseline]\n", "" if part is pasted else "[baseline]\n")
        text = text.replace('name = "A0"\nclaim = { tps = 100 }\n', part)
        assert "random_page_cost" in parsed(text).study("demo").rungs[0].treatment.of_kind(
            "setting"
        )
