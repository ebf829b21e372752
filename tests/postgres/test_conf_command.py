"""`pgdrag conf` with the settings of a real server: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

from in_process import pgdrag
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
