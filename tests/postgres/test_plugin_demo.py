"""A package from outside adds one plug-in of each kind, and pgdrag needs no edit for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import pgdrag, start
from jsonschema import Draft202012Validator

from pgdrag.servers.scratch import Scratch

EXAMPLE = Path(__file__).parents[2] / "examples" / "pgdrag-plugin-demo"
TIMEOUT_S = 300
SECTIONS = {"sandwich": "Between two baselines", "free-space": "Disk space"}


@dataclass(frozen=True)
class Place:
    """Where the demo is installed, and nowhere else.

    Attributes:
        environment: of a pgdrag that has the plug-in.
        scratch, undo: its directories.
        journal: the environment's part without the plug-in.
    """

    environment: dict[str, str]
    journal: dict[str, str]
    scratch: Path
    undo: Path


@pytest.fixture(scope="module")
def place(new_scratch: Callable[[str], Scratch], tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The package on the path, with the metadata that an installer would write of its pyproject.toml."""
    site, undo = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("undo")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    metadata = site / f"pgdrag_plugin_demo-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    entries = [f"{x} = {module}" for x, module in project["entry-points"]["pgdrag"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[pgdrag]", *entries, ""]))
    path = [str(EXAMPLE), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    scratch = new_scratch("plugin-demo").root
    journal = {
        "PGDRAG_SCRATCH": str(scratch),
        "PGDRAG_UNDO": str(undo),
        "PGDRAG_HOME": str(tmp_path_factory.mktemp("home")),
    }
    return Place({**journal, "PYTHONPATH": os.pathsep.join(path)}, journal, scratch, undo)


@pytest.fixture(scope="module")
def report(place: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of the demo's experiment, run on a real server that has little to do."""
    paced = tmp_path_factory.mktemp("paced") / "demo.toml"
    whole = (EXAMPLE / "demo.toml").read_text()
    paced.write_text(whole.replace("connections = 2\n", "connections = 2\nrate_per_s = 100\n"))
    # Not held to the schema of this process, which knows no plug-in: `answers` has theirs.
    process = start("run", paced, "--json", **place.environment)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


ASKED = """
import json, sys
from in_process import pgdrag
print(json.dumps({words: pgdrag(*words.split()) for words in sys.argv[1:]}))
"""
LIST, SCHEMA = "list --json", "report --schema"
MARKDOWN, TERMINAL = (
    f"report last --format {form} --output -" for form in ("markdown", "terminal")
)


@pytest.fixture(scope="module")
def answers(place: Place, report: dict[str, Any]) -> dict[str, str]:
    """What commands print, all asked of one process that has the plug-in."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, LIST, SCHEMA, MARKDOWN, TERMINAL],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **place.environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    found = json.loads(done.stdout)
    assert {status for status, _, _ in found.values()} == {0}, found
    return {words: out for words, (_, out, _) in found.items()}


def test_all_are_listed(answers: dict[str, str]) -> None:
    listed = json.loads(answers[LIST])
    assert "ballast" in listed["factors"]
    assert "free_space" in listed["collectors"]
    assert "free_space_bytes" in {one["name"] for one in listed["observations"]}
    assert "lookup" in listed["workloads"]
    assert "serializable" in listed["holders"]
    assert "sandwich" in listed["designs"]
    assert "environment" in listed["formats"]
    assert SECTIONS.keys() <= listed["sections"].keys()


def test_the_conformance_suites_pass_on_all_of_them(place: Place) -> None:
    arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, *arguments, str(EXAMPLE / "tests")],
        env={**os.environ, **place.environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_trial_of_the_experiment_is_measured(report: dict[str, Any]) -> None:
    trials = report["trials"]
    assert [x["treatment"] for x in trials] == ["baseline", "B", "baseline", "C", "baseline"]
    assert {x["outcome"] for x in trials} == {"measured"}
    applied = {
        (x["level"]["kind"], x["level"]["name"]): x["effective"]
        for rung in report["rungs"]
        for x in rung["applied"]
    }
    assert applied == {("ballast", "size"): "64 MB", ("horizon", "holder"): "serializable"}


def test_the_design_says_what_it_found(report: dict[str, Any]) -> None:
    found = report["found"]
    assert found["design"] == "sandwich"
    first, second = found["fillings"]
    assert (first["rung"], second["rung"]) == ("B", "C")
    assert first["after_per_s"] == second["before_per_s"]
    assert report["rungs"][1]["to_baseline"] == first["comparison"]


def test_the_collectors_metric_and_recording_are_in_the_report(report: dict[str, Any]) -> None:
    for rung in report["rungs"]:
        (recorded,) = rung["recordings"]["pgdrag_demo_free_space"]
        assert len(recorded["times_s"]) == len(recorded["free_bytes"]) >= 3
        values = {x["name"]: x["value"] for x in rung["evidence"]}
        assert values["free_space_bytes"] > 0


def test_the_report_follows_its_schema(answers: dict[str, str], report: dict[str, Any]) -> None:
    Draft202012Validator(json.loads(answers[SCHEMA])).validate(report)


def test_the_sections_are_drawn(place: Place, answers: dict[str, str]) -> None:
    markdown, terminal = answers[MARKDOWN], answers[TERMINAL]
    (page,) = Path(place.environment["PGDRAG_HOME"], "reports").glob("*.html")
    html = page.read_text()
    for name, title in SECTIONS.items():
        assert f"## {title}" in markdown
        assert f'<section id="{name}"' in html
        assert title in terminal
    assert "taken" in markdown
    assert 'id="free-space-chart' in html


def test_the_undo_leaves_nothing(place: Place, report: dict[str, Any]) -> None:
    assert (place.undo / "undo.jsonl").read_bytes() == b""
    assert list(place.scratch.glob("pgdrag-ballast-*")) == []


def test_the_run_is_still_reported_without_the_package(
    place: Place, report: dict[str, Any]
) -> None:
    status, out, err = pgdrag(
        "report", "last", "--format", "json", "--output", "-", **place.journal
    )
    assert status == 0, err
    found = json.loads(out)
    assert found["found"] is None
    assert [x["recordings"] for x in found["rungs"]] == [x["recordings"] for x in report["rungs"]]
