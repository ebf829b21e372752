"""`pgdrag search` on throw-away servers: what is planted is found, proved and written as a file."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from in_process import pgdrag
from pgdrag.report.schema import report_schema
from pgdrag.servers.scratch import Scratch

PLANTED = str(Path(__file__).with_name("planted.toml"))
LOAD = ("--experiment", PLANTED, "--yes")


def test_a_search_finds_what_is_planted_proves_it_and_writes_it_as_a_file(
    tmp_path: Path, scratch: Scratch
) -> None:
    places = {"PGDRAG_HOME": str(tmp_path / "home"), "PGDRAG_SCRATCH": str(scratch.root)}
    space = ("search", "work_mem=2MB", "--maximize", "--settings", "work_mem,jit")
    status, out, err = pgdrag(*space, *LOAD, "--list-space", "--json", **places)
    assert status == 0, err
    listed = json.loads(out)
    assert {one["name"]: one["start"] for one in listed["dimensions"]} == {
        "jit": "on",
        "work_mem": "2MB",
    }
    assert any(x["name"] == "shared_buffers" for x in listed["excluded"])
    few = ("--trials", "8", "--clusters", "3", "--line-trials", "0", "--seed", "1", "--json")
    status, out, err = pgdrag(*space, *LOAD, *few, **places)
    assert status == 0, err
    report = json.loads(out)
    jsonschema.Draft202012Validator(report_schema()).validate(report)
    found = report["found"]
    line = found["lines"][0]  # what matters most; a busy machine may add another
    assert (line["name"], line["start"]) == ("work_mem", "2MB")
    assert line["brings"] is None  # no trial was to say it
    assert found["proved"]["low"] > 2
    assert len(found["redeployments"]) == 3
    status, out, err = pgdrag("report", "last", "--format", "conf", **places)
    assert status == 0, err
    assert f"work_mem = '{line['value']}'" in out.splitlines()
    assert all(text.startswith(("#", "work_mem", "jit")) for text in out.splitlines())
