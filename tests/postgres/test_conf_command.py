"""`pgdrag conf` with the settings of a real server: what it prints, and its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from in_process import pgdrag
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch


def conf(scratch: Scratch, *arguments: str) -> tuple[int, str, str]:
    return pgdrag("conf", *arguments, PGDRAG_SCRATCH=str(scratch.root))


def test_lint_names_the_line_and_what_to_write_instead(tmp_path: Path, scratch: Scratch) -> None:
    file = tmp_path / "my.conf"
    file.write_text("work_mem = 64MB\nwrok_mem = 1GB\nfsync = off\n")
    status, out, _ = conf(scratch, "lint", str(file))
    assert status == 1
    assert "2: mistake: PostgreSQL 18" in out
    assert '"work_mem"' in out
    assert "3: warning: fsync" in out
    file.write_text("work_mem = 64MB\n")
    status, out, _ = conf(scratch, "lint", str(file))
    assert (status, out) == (0, "Nothing is wrong with 1 line.\n")


def test_explain_has_the_servers_own_words(scratch: Scratch) -> None:
    status, out, _ = conf(scratch, "explain", "work_mem=64MB", "--json")
    assert status == 0
    [line] = json.loads(out)
    assert "query workspaces" in line["summary"]
    assert (line["means"], line["default"]) == ("64 MB", "4 MB")


def test_diff_is_by_meaning(scratch: Scratch) -> None:
    status, out, _ = conf(scratch, "diff", "work_mem=4096kB", "default")
    assert status == 0
    assert out.startswith("They mean the same.")
    assert "work_mem" in out


def test_what_is_no_configuration_is_misuse(scratch: Scratch) -> None:
    status, out, err = conf(scratch, "lint", "nowhere.conf")
    assert (status, out) == (2, "")
    assert 'there is no file "nowhere.conf"' in err


def test_diff_of_versions_is_of_the_server_in_a_directory_too(
    tmp_path: Path, scratch: Scratch, new_cluster: Callable[[str], Cluster]
) -> None:
    with new_cluster("15") as older:
        installation = older.binaries.bin_dir.parent
    status, out, _ = conf(scratch, "diff", str(installation), "18", "--json")
    assert status == 0
    found = {x["name"]: x for x in json.loads(out)["differences"]}
    changed = found["effective_io_concurrency"]
    assert (changed["before"], changed["after"], changed["why"]) == ("1", "16", "default")
    assert found["io_workers"]["why"] == "added"
    assert found["old_snapshot_threshold"]["note"] == "removed in PostgreSQL 17"
    # One setting by two names, with the same default.
    assert not found.keys() & {"force_parallel_mode", "debug_parallel_query"}


def test_doctor_names_a_line_with_the_figure_and_the_command(
    tmp_path: Path, scratch: Scratch
) -> None:
    file = tmp_path / "my.conf"
    file.write_text("work_mem = 5MB\nshared_buffers = 8MB\n")
    environment = {"PGDRAG_SCRATCH": str(scratch.root), "PGDRAG_HOME": str(tmp_path / "home")}
    status, out, _ = pgdrag("doctor", str(file), **environment)
    assert status == 1
    assert out.startswith("2: shared_buffers = 8MB\n")
    assert "1.27× slower" in out
    assert "verify here: pgdrag compare shared_buffers=2GB shared_buffers=8MB" in out
    assert "Not measured: work_mem." in out
    status, out, _ = pgdrag("doctor", str(file), "--json", **environment)
    assert (status, json.loads(out)["unknown"]) == (1, ["work_mem"])
    file.write_text("work_mem = 5MB\nwrok_mem = 1GB\n")
    status, out, _ = pgdrag("doctor", str(file), **environment)
    assert status == 0
    assert "Not known to PostgreSQL 18" in out
    assert f": wrok_mem. See: pgdrag conf lint {file}" in out
    status, _, err = pgdrag("doctor", str(tmp_path / "nowhere.conf"), **environment)
    assert (status, "there is no file" in err) == (2, True)
