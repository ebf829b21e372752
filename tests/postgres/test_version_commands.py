"""Versions and builds as arms: what differs by default, with the same defaults, and what the answer says of plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from in_process import pgdrag
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch

OLDER = "15"
# As short as a comparison can be: what is tested is what it says, not what it finds.
LOAD = ("--pgbench-scale", "1", "-b", "select-only", "-c", "1", "--warm-up", "0", "--measure", "1")


@pytest.fixture
def places(tmp_path: Path, scratch: Scratch) -> dict[str, str]:
    return {"PGDRAG_HOME": str(tmp_path / "home"), "PGDRAG_SCRATCH": str(scratch.root)}


@pytest.fixture
def older(new_cluster: Callable[[str], Cluster]) -> str:
    """The directory of a server of another version: a build of somebody's own, as far as pgdrag knows."""
    with new_cluster(OLDER) as cluster:
        return str(cluster.binaries.bin_dir)


def defaults(plan: dict[str, Any]) -> dict[str, tuple[str, str]]:
    found = [x for x in plan["differences"] if x["kind"] == "default"]
    return {x["name"]: (x["before"], x["after"]) for x in found}


def test_defaults_that_differ_are_planned_unless_both_arms_get_the_same(
    places: dict[str, str], older: str
) -> None:
    dry = ("--dry-run", "--json")
    status, out, err = pgdrag("compare", older, "18", *dry, **places)
    assert status == 0, err
    assert defaults(json.loads(out)) == {
        "effective_io_concurrency": ("1", "16"),
        "maintenance_io_concurrency": ("10", "16"),
    }
    status, out, err = pgdrag("compare", older, "18", "--with-defaults-of", OLDER, *dry, **places)
    assert status == 0, err
    plan = json.loads(out)
    assert not defaults(plan)
    assert any("effective_io_concurrency = 1" in note for note in plan["notes"])


def test_a_version_that_is_not_here_has_no_defaults_to_give(places: dict[str, str]) -> None:
    arguments = ("compare", "default", "jit=off", "--with-defaults-of", "99", "--dry-run")
    status, _, err = pgdrag(*arguments, **places)
    assert status == 2
    assert "PostgreSQL 99 is not installed here" in err


def test_the_answer_names_defaults_and_counts_plans_of_a_build_of_ones_own(
    places: dict[str, str], older: str
) -> None:
    # By its name in 18; the older server has it as force_parallel_mode.
    common = ("--common", "debug_parallel_query=off,work_mem=5MB")
    arguments = ("compare", older, "18", *common, *LOAD, "--max-pairs", "4", "--json")
    status, out, err = pgdrag(*arguments, **places)
    assert status == 0, err
    report = json.loads(out)
    assert "Their defaults differ, too: effective_io_concurrency 1 → 16 and" in report["answer"]
    assert "PostgreSQL 18." in report["answer"]
    assert "in another way than 15." in report["answer"]
    for rung, name in zip(report["rungs"], ("15.", "18."), strict=True):
        applied = {x["level"]["name"]: x for x in rung["applied"]}
        assert applied["postgres"]["effective"].startswith(name)
        assert applied["debug_parallel_query"]["effective"] == "off"
        assert not applied["debug_parallel_query"]["note"]
