"""What differs, what is not tested, and how long it takes is told before anything is run."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from test_arms import BUFFERS, CATALOG, LOAD, setting

from pgdrag.cli.plan import difference_lines, print_plan, summary
from pgdrag.duration import Experience
from pgdrag.errors import UsageError
from pgdrag.experiment.arms import Arm, read_arm
from pgdrag.experiment.differences import SAME, differences, tried_values
from pgdrag.experiment.plan import Plan, plan_of, time_words
from pgdrag.experiment.preflight import disk_bytes
from pgdrag.experiment.questions import (
    Conditions,
    comparison,
    conditions_from,
    over_changes,
    refuse_same,
)
from pgdrag.factors import Here, Problem
from pgdrag.model import Forecast, Level
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.workloads import all_workloads

FSYNC = setting("fsync", "bool", None, None, None, "on", "WAL")
MAX_WAL = setting("max_wal_size", "integer", "MB", "2", "2147483647", "1024", "WAL")
SETTINGS = SettingsCatalog(180006, {**CATALOG.settings, "fsync": FSYNC, "max_wal_size": MAX_WAL})
UNDER = conditions_from("tpcc", {"warehouses": 1}, LOAD)
ROOM = {"loading_s": 0.0, "disk_bytes": 330 << 20, "free_bytes": 10 << 30}


def arm(text: str) -> Arm:
    return read_arm(text, SETTINGS)


def planned(text: str, *, under: Conditions = UNDER, **known: object) -> Plan:
    before, after = arm("default"), arm(text)
    found = differences(before, after, SETTINGS, [])
    study = comparison(before, after, under, {}, found)
    return plan_of(study, Experience(), differences=found, **{**ROOM, **known})  # type: ignore[arg-type]


def test_each_difference_is_shown_as_the_server_has_it_or_has_a_reason() -> None:
    lacking = Problem(Level("setting", "work_mem", "1MB"), False, "this server has none")
    found = differences(
        arm("work_mem=1MB,shared_buffers=16384"),
        arm("shared_buffers=128MB,random_page_cost=1,fsync=off,log_destination=csvlog"),
        SETTINGS,
        [lacking],
    )
    told = {one.name: (one.before, one.after, one.why_not, one.loss) for one in found}
    assert told.pop("log_destination")[2].startswith("part of the observation channel")
    assert told == {
        "shared_buffers": ("128 MB", "128 MB", SAME, ""),
        "random_page_cost": ("4", "1", "", ""),
        "fsync": ("on", "off", "", "a crash of the operating system may corrupt the database"),
        "work_mem": ("1 MB", "4 MB", "this server has none", ""),
    }


def test_equal_values_in_other_words_are_the_same_and_refused() -> None:
    pairs = (arm("shared_buffers=128MB,fsync=yes"), arm("random_page_cost=4.0,fsync=on"))
    found = differences(*pairs, SETTINGS, [])
    with pytest.raises(UsageError, match="are the same to this server") as refused:
        refuse_same(*pairs, found, hint="Calibrate.")
    assert (
        refused.value.detail == "Not tried here: random_page_cost, fsync, shared_buffers: "
        "the same to the server."
    )
    assert refused.value.hint == "Calibrate."
    refuse_same(*pairs, [*found, replace(found[0], why_not="")])


def test_arms_whose_difference_is_out_of_reach_are_not_called_the_same() -> None:
    pairs = (arm("default"), arm("shared_buffers=1GB"))
    [found] = differences(*pairs, SETTINGS, [])
    with pytest.raises(UsageError, match="nothing that differs between") as refused:
        refuse_same(*pairs, [replace(found, why_not="it takes a restart")], hint="Calibrate.")
    assert refused.value.detail == "Not tried here: shared_buffers: it takes a restart."
    assert refused.value.hint is None


def test_an_arm_beside_itself_is_refused_in_words_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"^default is compared with itself$") as refused:
        refuse_same(arm("default"), arm("default"), [])
    assert "Name arms that differ" in (refused.value.hint or "")


def test_what_a_search_tries_is_one_difference() -> None:
    tried = tried_values(BUFFERS, ["8MB", "16MB"], arm("default"))
    assert (tried.before, tried.after) == ("128 MB", "8MB, 16MB")
    assert tried_values(BUFFERS, ["8MB"], arm("shared_buffers=1GB")).before == "1GB"


def test_a_plan_has_everything_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned("fsync=off,shared_buffers=128MB", loading_s=20.0)
    print_plan(plan, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(json.dumps(asdict(plan)))
    assert [(x["name"], bool(x["why_not"])) for x in told["differences"]] == [
        ("fsync", False),
        ("shared_buffers", True),
    ]
    assert told["treatments"][1]["levels"][0]["loss"]
    assert (told["trials_least"], told["trials_most"]) == (4, 40)
    assert told["loading_s"] == 20
    assert told["notes"] == ["Not tried here: shared_buffers: the same to the server."]


def test_a_plan_is_printed_with_what_is_tested_and_what_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_plan(planned("fsync=off,shared_buffers=128MB"), json=False)
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "Workload: tpcc, 1 warehouse, 2 connections",
        "Differs (1): factor from to what may be lost fsync on off a crash of the operating system",
        "Not tested (1): factor from to why shared_buffers 128 MB 128 MB the same to the server",
        "4-40 trials: about",
        "Disk: about 330 MB in all, snapshots included; 10 GB free.",
        "Nothing was run, because of --dry-run.",
    ):
        assert part in text
    assert "Note" not in text, "twice the same"


def test_of_an_ablation_only_what_can_matter_is_a_treatments() -> None:
    before, after = arm("default"), arm("fsync=off,random_page_cost=4,work_mem=1MB")
    found = differences(before, after, SETTINGS, [])
    study = over_changes("ablate", before, after, UNDER, SETTINGS, [], {}, question="?")
    plan = plan_of(study, Experience(), differences=found, **ROOM)  # type: ignore[arg-type]
    assert [x.name for x in plan.differences if x.is_tested] == ["fsync", "work_mem"]
    assert [x.name for x in plan.treatments[1].levels] == ["fsync", "work_mem"]


def test_before_a_run_the_first_few_differences_are_named() -> None:
    (one,) = planned("fsync=off").differences
    lines = list(difference_lines([one] * 11))
    assert lines[0].startswith("  fsync: on -> off (a crash of")
    assert len(lines) == 9
    assert lines[-1] == "  and 3 more; --dry-run shows all"


def test_a_budget_shorter_than_a_single_trial_is_refused_and_no_other() -> None:
    with pytest.raises(UsageError, match="a single trial takes 3 s, more than the budget of 2 s"):
        planned("fsync=off", under=replace(UNDER, budget_s=2.0))
    plan = planned("fsync=off", under=replace(UNDER, budget_s=3.0))
    assert plan.trials_least == 4, "which do not fit, and what fits is run"


@pytest.mark.parametrize(
    ("least_s", "most_s", "loading_s", "budget_s", "words"),
    [
        (60, 60, 0, None, "about 1 min"),
        (60, 180, 0, None, "about 1 min to 3 min"),
        (60, 180, 0, 190, "about 1 min to 3 min"),
        (60, 180, 0, 130, "about 1 min, at most 2 min (the budget)"),
        (60, 180, 0, 40, "at most 30 s (the budget); all would take about 1 min to 3 min"),
        (60, 180, 20, None, "about 1 min to 3 min; loading the dataset takes about 20 s of it"),
        (
            60,
            60,
            30,
            40,
            "loading the dataset takes about 30 s, longer than the budget of 30 s: it is done all the same, "
            "and only once, but may leave no time for a trial; all would take about 1 min",
        ),
    ],
)
def test_at_most_is_never_more_than_what_is_left_of_the_budget(
    least_s: float, most_s: float, loading_s: float, budget_s: float | None, words: str
) -> None:
    plan = replace(
        planned("fsync=off"),
        seconds_least=least_s,
        seconds_most=most_s,
        loading_s=loading_s,
        budget_s=budget_s,
        spent_s=10.0,
        trials_known=3,
    )
    assert time_words(plan) == words


def test_where_nothing_is_known_windows_that_few_commits_extend_are_told_apart() -> None:
    plan = replace(planned("fsync=off"), seconds_least=60, seconds_most=180, seconds_extended=600.0)
    words = "about 1 min to 3 min, at most {} if few commits extend every window"
    assert time_words(plan) == words.format("10 min")
    assert time_words(replace(plan, budget_s=240.0)) == words.format("4 min")


def test_each_server_has_a_dataset_of_its_own() -> None:
    here = Here(SETTINGS, SETTINGS)
    one, two = (
        disk_bytes(comparison(arm("default"), other, UNDER, {}), here)
        for other in (arm("fsync=off"), arm("17"))
    )
    assert two - one == all_workloads()["tpcc"](warehouses=1).dataset_bytes()


def test_of_a_run_to_be_resumed_the_trials_done_are_told() -> None:
    plan = planned("fsync=off", left=Forecast(2, 6), trials_done=4)
    assert next(iter(summary(plan))).startswith("2-6 more (4 done) trials: about")


def test_choosing_the_number_of_driver_threads_is_part_of_the_time_of_a_new_run() -> None:
    load = replace(LOAD, warm_up_s=10.0, measure_s=20.0, budget_s=20.0)
    told, chosen = (replace(UNDER, load=replace(load, threads=threads)) for threads in (1, None))
    before, after = (planned("fsync=off", under=under) for under in (told, chosen))
    probe_s = after.seconds_least - before.seconds_least
    trial_s = before.seconds_least / before.trials_least
    # Its warm-up is at most 3 s and its window 2 s, and nothing is checked.
    assert 3 + 2 < probe_s < trial_s - 25 + 0.1
    assert after.seconds_most - before.seconds_most == pytest.approx(probe_s)
    resumed = [planned("fsync=off", under=x, trials_done=2).seconds_least for x in (told, chosen)]
    assert resumed[0] == resumed[1]
