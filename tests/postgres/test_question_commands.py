"""`pgdrag compare`, `ablate` and `bisect` as a person runs them, on throw-away servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pgdrag.report.schema import report_schema
from pgdrag.servers.scratch import Scratch

# Reads alone, so that one server does for all trials; short, as what is asked for is far from noise.
LOAD = (
    *("--workload", "pgbench", "-b", "select-only", "--pgbench-scale", "1"),
    *("-c", "2", "--warm-up", "0.2", "--measure", "1", "--yes"),
)
SLOW = "random_page_cost=1e300,cpu_index_tuple_cost=1e300"


@pytest.fixture
def environment(tmp_path: Path, scratch: Scratch) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    ours = {name: value for name, value in os.environ.items() if name.startswith("PGDRAG_")}
    return {
        **kept,
        **ours,
        "PGDRAG_MACHINE": "tests",
        "PGDRAG_HOME": str(tmp_path / "home"),
        "PGDRAG_SCRATCH": str(scratch.root),
        "COLUMNS": "120",
    }


def pgdrag(environment: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    process = subprocess.run(
        [sys.executable, "-m", "pgdrag", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in process.stderr, process.stderr
    return process.returncode, process.stdout, process.stderr


def as_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    jsonschema.validate(found, report_schema())
    return found


def test_a_far_slower_side_fails_the_demand_with_its_exit_status(environment) -> None:
    status, out, err = pgdrag(
        environment, "compare", "default", SLOW, *LOAD, "--fail-if-slower", "3%", "--json"
    )
    assert status == 1, err
    report = as_json(out)
    assert report["found"]["verdict"] == "slower"
    assert report["found"]["slowdown"]["low"] > 1.03
    assert report["rungs"][1]["to_baseline"]["slowdown"] == report["found"]["slowdown"]
    assert "trials:" in err, "it is foretold how long it takes"
    # A second look at the journal ends alike.
    assert pgdrag(environment, "resume", "last", "--json")[0] == 1


def test_what_cannot_be_told_has_a_status_of_its_own_and_the_noise_is_shown(environment) -> None:
    status, _, err = pgdrag(environment, "calibrate", *LOAD, "--pairs", "4")
    assert status == 0, err
    demand = ("--fail-if-slower", "0.01%", "--max-pairs", "4", "--json")
    status, out, err = pgdrag(environment, "compare", "default", "default", *LOAD, *demand)
    assert status == 3, out + err
    floor = as_json(out)["found"]["noise_floor"]
    assert (floor["pairs"], floor["log_sd"] > 0) == (4, True)


def test_an_ablation_that_was_killed_resumes_and_finds_that_either_suffices(environment) -> None:
    command = [sys.executable, "-m", "pgdrag", "ablate", f"{SLOW},jit=off", *LOAD]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        deadline = time.monotonic() + 120
        for line in process.stderr:
            if line.lstrip().startswith("6/"):
                break
            assert time.monotonic() < deadline, "six trials take longer than two minutes"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    status, out, err = pgdrag(environment, "resume", "last", "--json")
    assert status == 0, err
    found = as_json(out)["found"]
    labels = {change["name"]: change["label"] for change in found["changes"]}
    assert labels["random_page_cost"] == labels["cpu_index_tuple_cost"] == "redundant"
    assert labels["jit"] == "inert"
    shares = [found["others"], *(change["share"] for change in found["changes"])]
    assert abs(sum(share["part"] for share in shares if share) - 1) < 1e-6
    (pair,) = [x for x in found["pairs"] if "jit" not in x["names"]]
    assert pair["together"] == "either alone suffices"
