"""What an argument of compare, ablate or bisect means, and which study it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.errors import ConfError, ExperimentError, SettingError, UsageError
from pgdrag.experiment.arms import Arm, one_workload, read_arm, two_labels
from pgdrag.experiment.questions import boundary_values, comparison, conditions_from, over_changes
from pgdrag.factors import Problem
from pgdrag.model import Level
from pgdrag.model.changes import changes_between
from pgdrag.model.load import LoadProfile
from pgdrag.servers.settings import Setting, SettingsCatalog


def setting(name, vartype, unit, low, high, boot_value, category="Some / Category"):
    return Setting(name, vartype, unit, low, high, (), "sighup", category, boot_value, "")


BUFFERS = setting("shared_buffers", "integer", "8kB", "16", "1073741823", "16384", "Memory")
PAGE_COST = setting("random_page_cost", "real", None, "0", "1.79769e+308", "4", "Planner")
STYLE = setting("DateStyle", "string", None, None, None, "ISO, MDY", "Client")
DESTINATION = setting("log_destination", "string", None, None, None, "stderr", "Reporting")
WORK_MEM = setting("work_mem", "integer", "kB", "64", "2147483647", "4096", "Memory")
CATALOG = SettingsCatalog(
    180006, {x.name.lower(): x for x in (BUFFERS, PAGE_COST, STYLE, DESTINATION, WORK_MEM)}
)
LOAD = LoadProfile(connections=2, warm_up_s=1, measure_s=2, budget_s=4)


def settings_of(arm: Arm) -> dict[str, str]:
    return arm.treatment.of_kind("setting")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("default", {}),
        ("shared_buffers=8MB", {"shared_buffers": "8MB"}),
        ("shared_buffers = 8MB, work_mem=1MB", {"shared_buffers": "8MB", "work_mem": "1MB"}),
        # A comma within a value is the value's.
        (
            "log_destination=stderr,jsonlog,work_mem=1MB",
            {"log_destination": "stderr,jsonlog", "work_mem": "1MB"},
        ),
        ("DATESTYLE=ISO", {"DateStyle": "ISO"}),
        ("log_destination='stderr,csvlog'", {"log_destination": "stderr,csvlog"}),
    ],
)
def test_pairs_are_taken_as_they_are_meant(text, expected):
    assert settings_of(read_arm(text, CATALOG)) == expected


def test_a_configuration_file_is_named_by_its_name_and_mistakes_by_their_lines(tmp_path):
    path = tmp_path / "mine.conf"
    path.write_text("# a comment\nshared_buffers = 8MB\nrandom_page_cost = cheap\n")
    arm = read_arm(str(path), CATALOG)
    assert (arm.label, settings_of(arm)) == (
        "mine.conf",
        {"shared_buffers": "8MB", "random_page_cost": "cheap"},
    )
    problem = Problem(Level("setting", "random_page_cost", "cheap"), True, "invalid value")
    with pytest.raises(ExperimentError, match=r"mine\.conf:3: invalid value"):
        arm.refuse_mistakes([problem])
    arm.refuse_mistakes([])


def test_what_two_arms_have_in_common_is_noted_once_and_counts_less(tmp_path):
    path = tmp_path / "mine.conf"
    path.write_text("shared_buffers = 8MB\nwork_mem = 4 MB\nport = 5433\n")
    shared = read_arm(str(path), CATALOG)
    arms = [read_arm(x, CATALOG).over(shared) for x in ("default", "work_mem=1MB")]
    assert [settings_of(x)["work_mem"] for x in arms] == ["4MB", "1MB"]
    assert settings_of(arms[1])["shared_buffers"] == "8MB"
    study = comparison(*arms, conditions_from("pgbench", {"scale": 2}, LOAD), {})
    assert study.notes == (
        "mine.conf, line 2: read 4 MB as 4MB",
        "mine.conf, line 3: port is not applied: pgdrag decides where its servers live and listen",
    )


def test_a_file_of_which_nothing_can_be_applied_says_why(tmp_path):
    path = tmp_path / "mine.conf"
    path.write_text("port = 5433\nssl = on\n")
    with pytest.raises(
        ConfError, match="no line sets anything that applies to a throw-away server"
    ) as caught:
        read_arm(str(path), CATALOG)
    assert "mine.conf, line 2: ssl is not applied: clients connect" in caught.value.detail


def test_mistakes_are_placed_in_the_files_that_have_them(tmp_path):
    (tmp_path / "b.conf").write_text("\nrandom_page_cost = cheap\n")
    (tmp_path / "a.conf").write_text("include 'b.conf'\nwork_mem = lots\n")
    arm = read_arm(str(tmp_path / "a.conf"), CATALOG)
    problems = [Problem(level, True, f"invalid {level.name}") for level in arm.levels]
    with pytest.raises(ExperimentError, match=r"a\.conf:2: invalid work_mem") as caught:
        arm.refuse_mistakes(problems)
    assert caught.value.detail == f"{tmp_path}/b.conf:2: invalid random_page_cost"


def test_a_file_that_sets_nothing_is_refused(tmp_path):
    (tmp_path / "empty.conf").write_text("# nothing\n")
    with pytest.raises(ConfError, match="no line sets anything"):
        read_arm(str(tmp_path / "empty.conf"), CATALOG)


def test_a_rung_of_an_experiment_has_all_levels_up_to_it():
    arm = read_arm("slow-42k:A1", CATALOG)
    assert settings_of(arm)["shared_buffers"] == "8MB"
    assert arm.experiment is not None
    assert read_arm("slow-42k", CATALOG).label == "A6"
    assert one_workload([arm, read_arm("default", CATALOG)]) is arm.experiment


def test_a_version_is_a_level_of_the_server():
    assert read_arm("17", CATALOG).levels == (Level("server", "postgres", "17"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-thing", "is not a file, setting, experiment or server version"),
        ("slow-42k:A9", 'has no rung "A9"'),
        ("8MB=shared_buffers", "sets nothing"),
        ("work_mem=8MB,jit=off,WORK_MEM=9MB", 'setting "WORK_MEM" has two values, "8MB" and "9MB"'),
    ],
)
def test_what_means_nothing_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        read_arm(text, CATALOG)


def test_a_pair_that_is_written_twice_is_fine():
    assert settings_of(read_arm("work_mem=8MB,work_mem=8MB", CATALOG)) == {"work_mem": "8MB"}


def test_two_arms_are_never_called_the_same():
    arm = read_arm("default", CATALOG)
    assert two_labels(arm, arm) == ("default (A)", "default (B)")
    long = read_arm("shared_buffers=8MB,work_mem=1MB,random_page_cost=1.1", CATALOG)
    assert max(map(len, two_labels(long, long))) <= 40


def test_changes_that_change_nothing_here_are_left_out_and_named():
    own = "log_destination=csvlog,logging_collector=true"
    target = read_arm(f"shared_buffers=128MB,random_page_cost=1,{own}", CATALOG)
    lacking = Problem(Level("setting", "work_mem", "1MB"), False, "this server has none")
    study = over_changes(
        "bisect",
        read_arm("work_mem=1MB", CATALOG),
        target,
        conditions_from("tpcc", {"warehouses": 1}, LOAD),
        CATALOG,
        [lacking],
        {"groups": {}},
        question="{reference} or {target}?",
    )
    reference, bad = (rung.treatment for rung in study.rungs)
    (change,) = changes_between(reference, bad)
    assert change.name == "random_page_cost"
    assert study.design_parameters.groups == {"random_page_cost": "Planner"}
    (note,) = study.notes
    for part in (
        "shared_buffers: the same to the server",
        "work_mem: this server has none",
        "log_destination",
        "logging_collector: pgdrag's own log sets it on both sides",
    ):
        assert part in note


def test_arms_that_are_the_same_to_the_server_are_refused():
    with pytest.raises(UsageError, match="are the same to this server"):
        over_changes(
            "ablate",
            read_arm("default", CATALOG),
            read_arm("shared_buffers=16384", CATALOG),
            conditions_from("tpcc", {"warehouses": 1}, LOAD),
            CATALOG,
            [],
            {},
            question="",
        )


def test_a_comparison_has_one_rung_a_side():
    study = comparison(
        read_arm("default", CATALOG),
        read_arm("work_mem=1MB", CATALOG),
        conditions_from("pgbench", {"scale": 2}, LOAD),
        {"max_pairs": 8},
    )
    assert [rung.name for rung in study.rungs] == ["default", "work_mem=1MB"]
    assert (study.design, study.replicates, study.scale) == (
        "compare",
        1,
        "pgbench, scale 2, 2 connections",
    )


@pytest.mark.parametrize(
    ("known", "low", "high", "ratio", "expected"),
    [
        (BUFFERS, "128kB", "1MB", 2.0, ("128kB", "256kB", "512kB", "1MB")),
        (BUFFERS, "128kB", "1.5MB", 2.0, ("128kB", "256kB", "512kB", "1MB", "1536kB")),
        (BUFFERS, "1MB", "4MB", 4.0, ("1MB", "4MB")),
        (PAGE_COST, "1", "8", 2.0, ("1", "2", "4", "8")),
    ],
)
def test_values_of_a_boundary_are_each_a_ratio_from_the_last(known, low, high, ratio, expected):
    assert boundary_values(known, low, high, ratio=ratio) == expected


@pytest.mark.parametrize(
    ("known", "low", "high", "message"),
    [
        (STYLE, None, None, "is not numeric"),
        (BUFFERS, "8MB", "1MB", "--min, 8MB, is not below --max, 1MB"),
        (PAGE_COST, "0", None, "are .* values"),
    ],
)
def test_a_boundary_without_a_scale_is_refused(known, low, high, message):
    with pytest.raises(UsageError, match=message):
        boundary_values(known, low, high)


@pytest.mark.parametrize(("low", "high"), [("64kB", "1MB"), ("1MB", "10TB"), ("1MB", "lots")])
def test_a_bound_that_the_server_would_refuse_is_refused_before_anything_runs(low, high):
    with pytest.raises(SettingError, match=r"outside the valid range .*\(128kB|invalid value"):
        boundary_values(BUFFERS, low, high)


def test_what_is_not_utf_8_is_refused_where_it_is_and_a_files_name_is_printed_all_the_same(
    tmp_path: Path,
) -> None:
    """The journal takes text: bytes of other encodings would end a run as it begins."""
    path = tmp_path / "caf\udce9.conf"
    path.write_bytes(b"work_mem = 8MB  # caf\xe9\n")
    assert read_arm(str(path), CATALOG).label == "caf?.conf"
    path.write_bytes(b"work_mem = 8MB\nwork_mem = '8\xe9'\n")
    with pytest.raises(ConfError, match=r'caf.\.conf:2: the value of "work_mem" is not UTF-8'):
        read_arm(str(path), CATALOG)
    with pytest.raises(UsageError, match="is not UTF-8"):
        read_arm("work_mem=8\udce9", CATALOG)
