"""A trial of a study that treats the machine reads its data from storage, not from what the copy left in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from loads import short_trial

from conftest import on_disk
from pgdrag.errors import StorageError
from pgdrag.factors import all_factors
from pgdrag.factors.setting import Setting
from pgdrag.host.undo import UndoJournal
from pgdrag.model import Level, Outcome
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.copying import drop_pages
from pgdrag.trial import ServerTrialRunner, run_trial

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


def resident_bytes(*files: Path) -> int:
    """Return how much of files is in memory now: mincore(2)."""
    found = 0
    for path in files:
        size = path.stat().st_size
        if not size:
            continue
        with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
            pages = (ctypes.c_ubyte * -(-size // PAGE))()
            address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
            assert _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
            found += PAGE * sum(page & 1 for page in pages)
    return found


def tables(data_directory: Path) -> list[Path]:
    return [path for path in (data_directory / "base").rglob("*") if path.is_file()]


def test_what_was_just_written_is_in_memory_until_it_is_dropped(tmp_path: Path) -> None:
    written = tmp_path / "deeper" / "table"
    written.parent.mkdir()
    written.write_bytes(b"x" * 64 * PAGE)
    (tmp_path / "link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert resident_bytes(written) == 64 * PAGE
    drop_pages(tmp_path)
    assert resident_bytes(written) == 0
    assert written.read_bytes() == b"x" * 64 * PAGE


def test_a_loop_devices_file_is_not_in_memory_either(
    tmp_path: Path, host_alone: UndoJournal
) -> None:
    file, place = tmp_path / "device", tmp_path / "mounted"
    place.mkdir()
    file.write_bytes(bytes(32 << 20))
    try:
        device = run_program("losetup", "--find", "--show", "--direct-io=off", str(file)).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be made here: {error}")
    try:
        run_program("mkfs.ext4", "-q", device)
        run_program("mount", device, str(place))
        try:
            table = place / "table"
            table.write_bytes(os.urandom(8 << 20))
            drop_pages(place)
            assert resident_bytes(table) == 0
            assert resident_bytes(file) <= 1 << 20  # what the file system itself keeps reading
        finally:
            run_program("umount", str(place))
    finally:
        run_program("losetup", "--detach", device)


def run_program(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@on_disk
def test_a_restored_cluster_is_in_memory_until_it_is_dropped(cluster: Cluster) -> None:
    files = tables(cluster.data_directory)
    assert resident_bytes(*files) > 2**20
    cluster.drop_pages()
    assert resident_bytes(*files) == 0


def test_pages_that_cannot_be_dropped_are_an_error(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "data_directory", tmp_path / "gone")
    with pytest.raises(StorageError, match="could not empty the page cache"):
        cluster.drop_pages()


@pytest.fixture
def treating_the_machine(
    monkeypatch: pytest.MonkeyPatch, bench: ServerTrialRunner
) -> Iterator[None]:
    monkeypatch.setattr(Setting, "changes_host", True)
    yield
    bench.close()


@on_disk
@pytest.mark.usefixtures("treating_the_machine")
def test_each_trial_is_restored_and_starts_cold(bench: ServerTrialRunner) -> None:
    for _ in range(2):  # the first would leave its server to the second, as its workload only reads
        result = run_trial(short_trial(Level("setting", "work_mem", "1MB")), bench)
        assert result.outcome is Outcome.MEASURED, result.reason
        assert result.restored is not None
        assert "empty page cache" in result.phases_s


def test_a_trial_that_treats_the_server_alone_does_not(bench: ServerTrialRunner) -> None:
    result = run_trial(short_trial(Level("setting", "work_mem", "1MB")), bench)
    bench.close()
    assert "empty page cache" not in result.phases_s


def test_only_factors_of_the_machine_say_so() -> None:
    of_server = {name for name, kind in all_factors().items() if not kind.changes_host}
    assert of_server == {"horizon", "server", "setting", "statistics", "workload"}
