"""A report is its reader's alone, appears whole, and goes nowhere that nobody named."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pgdrag.cli.findings import write_report
from pgdrag.cli.place import open_journal, report_path, write_named
from pgdrag.errors import StorageError, UsageError


@pytest.fixture(autouse=True)
def open_handed() -> Any:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_report_and_the_directory_made_for_it_are_private(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "run.html"
    for text in ("first", "second"):
        write_report(text, path)
        assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("is_fifo", [True, False])
@pytest.mark.parametrize("place", ["", "/dev/shm"])
def test_a_report_is_not_written_through_what_lies_in_its_place(
    tmp_path: Path, is_fifo: bool, place: str
) -> None:
    """Of /dev, /dev/shm is as much everybody's as /tmp is."""
    if place and not Path(place).is_dir():
        pytest.skip(f"no {place} here")
    with TemporaryDirectory(dir=place or tmp_path) as directory:
        write_over_what_leads_elsewhere(Path(directory), is_fifo=is_fifo)


def write_over_what_leads_elsewhere(directory: Path, *, is_fifo: bool) -> None:
    path, other = directory / "run.html", directory / "precious"
    other.write_text("untouched")
    if is_fifo:
        os.mkfifo(path)
    else:
        path.symlink_to(other)
    write_named(path, "report")
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert path.is_file()
    assert not path.is_symlink()
    assert (path.read_text(), other.read_text()) == ("report", "untouched")


def test_a_home_that_an_older_pgdrag_left_open_is_closed_unless_somebody_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("PGDRAG_HOME", raising=False)
    home = tmp_path / "data" / "pgdrag"
    home.parent.mkdir(mode=0o755)
    home.mkdir()
    open_journal().close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (tmp_path / "named").mkdir(mode=0o755)
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path / "named"))
    open_journal().close()
    assert stat.S_IMODE((tmp_path / "named").stat().st_mode) == 0o755


def test_a_report_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    write_named(path, "whole")

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="could not write the report"):
        write_report("other", path)
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_leads_no_report_out_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    assert report_path("index") == tmp_path / "reports" / "index.html"
    (tmp_path / "reports").symlink_to("/var/www")
    with pytest.raises(UsageError, match="which is a symbolic link"):
        report_path("index")


def test_a_device_that_a_person_names_is_written_to(capfd: pytest.CaptureFixture[str]) -> None:
    write_named(Path("/dev/stdout"), "report\n")
    assert capfd.readouterr().out == "report\n"
    write_named(Path("/dev/null"), "report")
    assert Path("/dev/null").is_char_device()
