"""What is said when loading a dataset fails: for want of disk, of shared memory, or of the server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdrag.errors import DriverError, PgdragError, ServerLost, StorageError
from pgdrag.model.events import ignore
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.datasets import _load, dataset_key, let_in, target_for
from pgdrag.workloads import all_workloads
from pgdrag.workloads.command import Command

BINARIES = Binaries(Path("/nowhere/bin"), "18.6", 180006, "installed", "none")

TPCC = all_workloads()["tpcc"].model_validate({"warehouses": 1})
NO_FILE = 'could not extend file "base/5/16384": No space left on device'
NO_SHARED_MEMORY = (
    'could not resize shared memory segment "/PostgreSQL.1" to 1048576 bytes:'
    " No space left on device"
)


def failure(
    tmp_path: Path, message: str, *, sqlstate: str | None, log: str = "", is_running: bool = True
) -> PgdragError:
    """What comes of a load whose driver and server say these things."""

    def load(*_: object, **__: object) -> None:
        raise DriverError(message, sqlstate=sqlstate)

    driver: Any = SimpleNamespace(load=load)
    cluster: Any = SimpleNamespace(
        target=None,
        directory=tmp_path,
        log_tail=lambda lines=20: log,
        is_running=lambda: is_running,
    )
    with pytest.raises(PgdragError) as raised:
        _load(TPCC, cluster, driver, ignore)
    return raised.value


@pytest.mark.parametrize(
    ("message", "log"),
    [(NO_FILE, ""), ("the connection was lost", f"1 [2] PANIC:  {NO_FILE}")],
    ids=["the server said so", "its log says so"],
)
def test_a_full_disk_is_told_as_one(tmp_path: Path, message: str, log: str) -> None:
    error = failure(tmp_path, message, sqlstate=None, log=log, is_running=not log)
    assert isinstance(error, StorageError)
    assert error.message.startswith("could not load the dataset of tpcc: ")
    assert f'the file system of "{tmp_path}"' in error.message


def test_shared_memory_that_is_used_up_is_no_full_disk(tmp_path: Path) -> None:
    log = f"1 [2] ERROR:  {NO_SHARED_MEMORY}"
    error = failure(tmp_path, NO_SHARED_MEMORY, sqlstate="53100", log=log)
    assert isinstance(error, DriverError)


def test_a_server_that_went_away_is_told_as_lost(tmp_path: Path) -> None:
    error = failure(tmp_path, "the connection was lost", sqlstate=None, is_running=False)
    assert isinstance(error, ServerLost)


@pytest.mark.parametrize("name", sorted(all_workloads()))
def test_a_workload_is_a_superuser_only_where_it_says_so(name: str) -> None:
    target, superuser_target = object(), object()
    cluster: Any = SimpleNamespace(target=target, superuser_target=superuser_target)
    example = all_workloads()[name].example()
    assert target_for(example, cluster) is target
    if "superuser" in type(example).model_fields:
        stronger = example.model_copy(update={"superuser": True})
        assert target_for(stronger, cluster) is superuser_target
        assert dataset_key(stronger, BINARIES) != dataset_key(example, BINARIES)


@pytest.mark.parametrize("name", sorted(all_workloads()))
def test_a_port_is_opened_only_where_a_workload_says_so(name: str) -> None:
    target, opened = SimpleNamespace(user="load"), list[str]()
    cluster: Any = SimpleNamespace(
        target=target, open_tcp=opened.append, over_tcp=lambda target: ("by TCP", target)
    )
    example = all_workloads()[name].example()
    let_in(example, cluster)
    assert (opened, target_for(example, cluster)) == ([], target)
    if "tcp" in type(example).model_fields:
        by_tcp = example.model_copy(update={"tcp": True})
        let_in(by_tcp, cluster)
        assert (opened, target_for(by_tcp, cluster)) == (["load"], ("by TCP", target))
        # The way in leaves no trace in the tables.
        assert dataset_key(by_tcp, BINARIES) == dataset_key(example, BINARIES)


def test_a_report_shows_what_was_given_of_a_command() -> None:
    shown = Command.words(Command(command="x", pattern="(?P<tps>5)", overtime_s=0).model_dump())
    assert "overtime_s = 0" in shown
    for name in ("tcp", "superuser", "setup", "environment"):
        assert name not in shown
