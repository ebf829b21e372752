"""`pgdrag fleet check` shows what each host is, says why one is not reached, and names entries for one machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the extra fleet is not installed")

from in_process import pgdrag

# A host is this machine; ssh's own words say where the port that is forwarded to the coordinator is.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do [ "$1" = -R ] && port=${2##*:}; shift; done
[ "$2" = down ] && { echo 'ssh: connect to host down port 22: Connection refused' >&2; exit 255; }
echo "Allocated port $port for remote forward to 127.0.0.1:$port" >&2
exec sh -c "$3"
"""
FLEET = """
[[ssh]]
host = "db1"
program = "{directory}/bin/pgdrag"
[[ssh]]
host = "bench@db1"
name = "again"
program = "{directory}/bin/pgdrag"
[[ssh]]
host = "down"
[[ssh]]
host = "db2"
program = "{directory}/none/pgdrag"
"""


def test_good_hosts_are_shown_bad_ones_say_why_and_two_entries_for_one_machine_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("ssh", SSH),
        ("pgdrag", f'#!/bin/sh\nexec {sys.executable} -m pgdrag "$@"\n'),
    ):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    fleet = tmp_path / "lab.toml"
    fleet.write_text(FLEET.format(directory=tmp_path))
    status, out, _ = pgdrag("fleet", "check", fleet, COLUMNS="160")
    table, said = out[: out.index("down: ")].splitlines(), out[out.index("down: ") :].splitlines()
    assert status == 1
    assert table[0].split() == ["Host", "Processors", "Memory", "Kernel", "PostgreSQL", "Free"]
    assert sorted(row.split()[0] for row in table[1:]) == ["again", "db1"]
    assert said == [
        "down: ssh: connect to host down port 22: Connection refused",
        f'db2: there is no program "{tmp_path}/none/pgdrag": install it there, or with fleet check --install',
        "db1 and again are one machine, which runs one trial at a time: leave only one of them in the fleet file.",
    ]
    status, out, _ = pgdrag("fleet", "check", fleet, "--json")
    found = json.loads(out)
    assert status == 1
    assert [name for name, one in found["hosts"].items() if one["facts"] is None] == ["down", "db2"]
    assert found["hosts"]["db1"]["facts"]["lock"] == found["hosts"]["again"]["facts"]["lock"]
    assert found["hosts"]["db1"]["problems"] == []
    assert abs(found["hosts"]["db1"]["clock_ahead_s"]) < 5
    assert found["differences"] == [said[-1]]


def test_hosts_of_local_are_no_double_entries_though_they_are_one_machine(tmp_path: Path) -> None:
    fleet = tmp_path / "lab.toml"
    fleet.write_text("local = 2\n")
    status, out, _ = pgdrag("fleet", "check", fleet, COLUMNS="160")
    assert status == 0
    assert [row.split()[0] for row in out.splitlines()[1:]] == ["local-1", "local-2"]
