"""`pgdrag restore`, and what other commands put back when they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from in_process import pgdrag
from pgdrag.cli.place import restore_leftovers
from pgdrag.host.undo import UndoJournal
from pgdrag.host.undo._change import NotedChange, Owner
from pgdrag.host.undo.written_value import WrittenValue, write_value
from pgdrag.servers.scratch import CLUSTER_PREFIX, Scratch
from stand_ins import ANY_VALUE

pytestmark = pytest.mark.usefixtures("any_value")


@pytest.fixture
def value(tmp_path: Path) -> Path:
    """A file such as those of /proc/sys, which pgdrag had set from 20 to 10."""
    path = tmp_path / "value"
    write_value(path, "10")
    return path


@pytest.fixture
def leftover(tmp_path: Path, value: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The undo journal that a dead process left."""
    directory = tmp_path / "undo"
    directory.mkdir(mode=0o700)
    monkeypatch.setenv("PGDRAG_UNDO", str(directory))
    monkeypatch.setenv("PGDRAG_SCRATCH", f"/var/tmp/pgdrag-test-restore-{os.getpid()}")
    own = Owner.this_process()
    dead = Owner(own.pid, own.started - 1, own.boot)
    file = directory / "undo.jsonl"
    file.write_bytes(NotedChange(1, WrittenValue(str(value), "20", "10"), dead).lines())
    yield file
    subprocess.run(["rm", "-rf", os.environ["PGDRAG_SCRATCH"]], check=True)


def restore_elsewhere() -> subprocess.CompletedProcess[str]:
    """Restore in another process: what this one has in hand is not its own."""
    code = f"{ANY_VALUE}from pgdrag.__main__ import main; main()"
    command = [sys.executable, "-c", code, "restore"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_a_dead_process_left_is_put_back(leftover, value):
    status, out, _ = pgdrag("restore")
    assert (status, out) == (0, f"{value} was restored from 10 to 20.\n")
    assert value.read_text() == "20\n"
    assert pgdrag("restore")[:2] == (0, "Nothing to restore.\n")


def test_what_somebody_else_changed_is_left_with_status_1(leftover, value):
    write_value(value, "15")
    status, out, _ = pgdrag("restore")
    assert status == 1
    assert out.startswith(f"{value} is 15: someone else has changed it since pgdrag set it")
    assert value.read_text() == "15\n"
    status, out, _ = pgdrag("restore", "--overwrite", "--json")
    assert status == 0
    (change,) = json.loads(out)["changes"]
    assert change == {
        "kind": "written_value",
        "change": {"path": str(value), "before": "20", "after": "10"},
        "state": "restored",
        "sentence": f"{value} was restored from 15 to 20.",
    }
    assert value.read_text() == "20\n"


def test_what_is_not_restored_is_forgotten_only_on_request(leftover, value):
    write_value(value, "15")
    assert pgdrag("restore")[0] == 1
    status, out, _ = pgdrag("restore", "--forget")
    assert (status, out.endswith("Forgotten.\n")) == (0, True)
    assert value.read_text() == "15\n"
    assert pgdrag("restore")[:2] == (0, "Nothing to restore.\n")


def test_forgetting_still_restores_what_it_can(leftover, value):
    assert pgdrag("restore", "--forget")[:2] == (0, f"{value} was restored from 10 to 20.\n")


def test_a_cluster_is_removed_also_where_the_undo_journal_is_empty(leftover):
    leftover.write_bytes(b"")
    scratch = Scratch.open()
    owned = scratch.own_directory(scratch.clusters, CLUSTER_PREFIX)
    assert restore_elsewhere().stderr == ""
    owned.release()  # as the death of its owner would
    done = restore_elsewhere()
    assert (done.returncode, done.stdout) == (0, "Nothing to restore.\n")
    assert done.stderr == f'Removed cluster "{owned.path.name}".\n'
    assert not owned.path.exists()


def test_a_process_that_changes_the_machine_now_is_not_disturbed(leftover, value):
    journal = UndoJournal.open()
    done = restore_elsewhere()
    journal.release()
    assert done.returncode == 2
    assert f"another pgdrag (process {os.getpid()}) is changing this machine's" in done.stderr
    assert "Traceback" not in done.stderr
    assert value.read_text() == "10\n"


def test_every_command_puts_back_and_tells_of_what_is_left_once(leftover, value):
    write_value(value, "15")
    (told,) = restore_leftovers()
    assert "someone else has changed it" in told
    assert restore_leftovers() == []
    write_value(value, "10")
    assert restore_leftovers() == [f"{value} was restored from 10 to 20."]
    assert leftover.read_bytes() == b""


def test_a_line_of_another_pgdrag_is_reported_by_every_restore(leftover):
    leftover.write_bytes(b'{"step": 1, "change": "sunk_ship", "with": {}, "owner": {}}\n')
    for _ in range(2):
        status, out, _ = pgdrag("restore")
        assert status == 1
        assert "sunk_ship" in out


@pytest.mark.parametrize("begin", [restore_leftovers, lambda: pgdrag("restore")[0]])
def test_without_leftovers_no_directory_is_made(
    begin: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGDRAG_UNDO", str(tmp_path / "none"))
    assert not begin()
    assert not (tmp_path / "none").exists()
