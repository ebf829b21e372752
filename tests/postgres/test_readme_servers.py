"""What the README says of servers that run works on the oldest version and on the newest."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from commands import dsn

from in_process import pgdrag
from pgdrag.servers.cluster import Cluster

pytestmark = pytest.mark.postgres

README = Path(__file__).parents[2] / "README.md"
# Of a console block: commands that name a database of a server, in any of their arguments.
COMMAND = re.compile(r"^\$ pgdrag (.*dbname=.*)$", re.MULTILINE)
# What the reader's server has and this one has not, and times and processors that a test has not.
CHANGES = (
    (r"host=db1 ", ""),
    (r"--warehouses \d+", "--warehouses 1"),
    (r"--for \w+", "--for 3s"),
    (r"--every \w+", "--every 1s"),
    (r"-T \d+", "-T 1 -R 50 --warm-up 0"),
)
ASKS = ("bench", "tpcc load", "tpcc run", "horizon hold")
AFTERWARDS = ("tpcc run dbname=tpcc -T 1", "tpcc check dbname=tpcc")


def shown_commands() -> list[list[str]]:
    found = []
    for line in [*COMMAND.findall(README.read_text(encoding="utf-8")), *AFTERWARDS]:
        for pattern, replacement in CHANGES:
            line = re.sub(pattern, replacement, line)
        words = shlex.split(line, comments=True)
        found.append([*words, *(["--yes"] if line.startswith(ASKS) else [])])
    return found


def test_each_command_of_the_readme_that_names_a_server_works(
    any_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("my.sql").write_text("SELECT count(*) FROM pgbench_tellers;\n")
    any_cluster.configure({"fsync": "off"})
    any_cluster.start()
    commands = shown_commands()
    databases = {
        database
        for words in commands
        for word in words
        for database in re.findall(r"dbname=(\w+)", word)
    }
    with any_cluster.connect() as connection:
        for database in databases:
            connection.execute(f"CREATE DATABASE {database}".encode())
    status, _, err = pgdrag("bench", "-i", "-q", dsn(any_cluster, database="shop"))
    assert status == 0, err
    there = {
        "PGHOST": str(any_cluster.socket_directory),
        "PGPORT": str(any_cluster.port),
        "PGUSER": "pgdrag",
    }
    assert len(commands) >= 7
    for words in commands:
        status, _, err = pgdrag(*words, **there)
        assert status == 0, (words, err)
