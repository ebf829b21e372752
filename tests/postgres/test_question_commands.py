"""`pgdrag compare`, `ablate` and the like on throw-away servers, and how they go on after their end."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import start

from in_process import OURS, pgdrag
from pgdrag.collectors import all_collectors, all_observations
from pgdrag.designs.ablate.labels import Label
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.report.schema import report_schema
from pgdrag.servers.scratch import Scratch

PLANTED = str(Path(__file__).with_name("planted.toml"))
LOAD = ("--experiment", PLANTED, "--yes")
SLOW = "work_mem=2MB,temp_buffers=2MB"


@pytest.fixture
def places(tmp_path: Path, scratch: Scratch) -> dict[str, str]:
    """A journal of the test's own, and the session's clusters."""
    return {"PGDRAG_HOME": str(tmp_path / "home"), "PGDRAG_SCRATCH": str(scratch.root)}


def as_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    schema_of_reports().validate(found)
    return found


@cache
def schema_of_reports() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(report_schema())


def test_a_far_slower_side_fails_the_demand_with_its_exit_status(places: dict[str, str]) -> None:
    demand = ("--fail-if-slower", "3%", "--json")
    status, out, err = pgdrag("compare", "default", SLOW, *LOAD, *demand, **places)
    assert status == 1, err
    report = as_json(out)
    assert report["found"]["verdict"] == "slower"
    assert report["found"]["slowdown"]["low"] > 1.03
    assert report["rungs"][1]["to_baseline"]["slowdown"] == report["found"]["slowdown"]
    assert "trials:" in err, "it is foretold how long it takes"
    # A second look at the journal ends alike.
    assert pgdrag("resume", "last", "--json", **places)[0] == 1


def test_an_inconclusive_gate_has_its_own_status_and_the_noise_is_shown(
    places: dict[str, str],
) -> None:
    status, _, err = pgdrag("calibrate", *LOAD, "--pairs", "4", **places)
    assert status == 0, err
    demand = ("--fail-if-slower", "0.01%", "--max-pairs", "4", "--json")
    same = ("compare", "default", "default")
    status, out, err = pgdrag(*same, *LOAD, *demand, **places)
    assert (status, out) == (2, "")
    assert "default is compared with itself" in err
    assert "calibrate" in err
    status, out, err = pgdrag(*same, "--allow-identical", *LOAD, *demand, **places)
    assert status == 3, out + err
    floor = as_json(out)["found"]["noise_floor"]
    assert (floor["pairs"], floor["log_sd"] > 0) == (4, True)


def test_what_the_collectors_cost_is_measured_by_turns_of_looking_and_resting(
    places: dict[str, str],
) -> None:
    # Two windows that hold two blocks each, and a bit.
    turns = ("--collectors", "--pairs", "4", "--measure", "16.5")
    status, out, err = pgdrag("calibrate", *LOAD, *turns, "--json", **places)
    assert status == 0, err
    report = as_json(out)
    assert len(report["found"]["blocks"]) == 4
    assert 0.5 < report["found"]["slowdown"]["center"] < 2
    (looked_at,) = report["rungs"]
    always = {
        one.name
        for name, seen in all_observations().items()
        for one in seen
        if not all_collectors()[name].is_optional
    }
    assert {one["name"] for one in looked_at["evidence"]} == always
    share = next(x for x in looked_at["evidence"] if x["name"] == "collectors_cpu_share")
    assert 0 < share["value"] < 1
    assert report["instrument"]["slowdown"] == report["found"]["slowdown"]
    # From now on each report of this machine says so.
    assert pgdrag("run", PLANTED, **places)[0] == 0
    _, out, _ = pgdrag("report", "last", "--format", "markdown", **places)
    assert "from 4 blocks of four turns on " in out
    assert "(another workload or load)" in out  # of shorter windows


def test_a_window_without_room_for_a_block_of_turns_is_refused(places: dict[str, str]) -> None:
    status, _, err = pgdrag("calibrate", *LOAD, "--collectors", **places)
    assert status == 2
    assert "shorter than a block of turns, 8 s" in err


def test_an_ablation_that_was_killed_resumes_and_finds_that_either_suffices(
    places: dict[str, str],
) -> None:
    # Shares need not be known well for what is asked here.
    process = start("ablate", SLOW, "--precision", "40%", *LOAD, **places)
    assert process.stderr is not None
    deadline = time.monotonic() + 120
    for line in process.stderr:
        if line.lstrip().startswith("6/"):
            break
        assert time.monotonic() < deadline, "six trials take longer than two minutes"
    process.kill()
    process.communicate(timeout=60)
    status, _, err = pgdrag("resume", "last", "--budget", "1s", **places)
    assert status == 2
    assert "already" in err
    status, out, err = pgdrag("resume", "last", "--json", **places)
    assert status == 0, err
    found = as_json(out)["found"]
    labels = {change["name"]: Label(change["label"]) for change in found["changes"]}
    # On a machine busy with other tests a second tells that either slows it, but not always that
    # removing one of the two changes nothing at all.
    for name in ("work_mem", "temp_buffers"):
        assert labels[name].is_sufficient
        assert labels[name] is not Label.BOTH
    shares = [found["others"], *(change["share"] for change in found["changes"])]
    assert abs(sum(share["part"] for share in shares if share) - 1) < 1e-6
    (pair,) = found["pairs"]
    assert pair["together"] == "either alone suffices"


def test_a_dry_run_tells_all_waits_for_nobody_and_leaves_nothing(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("compare", "default", "fsync=off,shared_buffers=128MB,jit=off", *LOAD, "--dry-run")
    monkeypatch.setenv(MACHINE_VARIABLE, OURS[MACHINE_VARIABLE])
    with measuring_alone():  # as the commands see it, too
        status, out, err = pgdrag(*asked, "--json", **places)
    assert status == 0, err
    plan = json.loads(out)
    assert {one["name"]: one["why_not"] for one in plan["differences"]} == {
        "fsync": "",
        "shared_buffers": "the same to the server",
        "jit": "",
    }
    assert plan["trials_known"] == 0
    assert plan["disk_bytes"] > 16e6
    for question in (
        ("ablate", "fsync=off,jit=off"),
        ("bisect", "default", "fsync=off,jit=off"),
        ("boundary", "work_mem", "--max", "1MB"),
        ("search", "--maximize"),
        ("calibrate",),
    ):
        status, out, err = pgdrag(*question, *LOAD, "--dry-run", **places)
        assert status == 0, err
        assert "trials: about" in out
    assert pgdrag("run", "slow-42k", "--dry-run", **places)[0] == 0
    assert json.loads(pgdrag("runs", "--json", **places)[1]) == []


def test_a_budget_is_kept_and_what_is_left_is_known(places: dict[str, str]) -> None:
    # 20 pairs would take a minute and more.
    asked = ("compare", "default", "jit=off", *LOAD, "--precision", "0.01%", "--json")
    status, out, err = pgdrag(*asked, "--budget", "10s", **places)
    assert status == 0, err
    assert "at most 10 s (the budget)" in err
    assert as_json(out)["found"]["end"] == "the time budget is used up"
    (run,) = json.loads(pgdrag("runs", "--json", **places)[1])
    took_s = run["finished_unix_s"] - run["started_unix_s"]
    # On a machine busy with other tests a trial may take longer than those before it; that a budget is kept
    # to the second is tested where time is simulated.
    assert took_s < 1.7 * 10, err
    status, out, err = pgdrag("resume", "last", "--dry-run", "--json", **places)
    plan = json.loads(out)
    # How many fit into the budget depends on the machine.
    assert plan["trials_known"] == plan["trials_done"] >= 1
    assert plan["loading_s"] == 0


def test_a_dataset_without_room_for_it_is_refused_at_once(places: dict[str, str]) -> None:
    status, _, err = pgdrag("compare", "default", "jit=off", "--warehouses", "100000", **places)
    assert status == 2
    assert "TB" in err
    assert json.loads(pgdrag("runs", "--json", **places)[1]) == []
