"""What the server's user put in the place of a file neither holds root up nor leads it elsewhere."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgdrag.collectors import Unseen
from pgdrag.collectors._log import LogReader
from pgdrag.errors import PgdragError
from pgdrag.experiment import load_experiment
from pgdrag.experiment.formats import read_text
from pgdrag.horizon.distribution_file import read_distribution
from pgdrag.host.foreign_files import foreign_bytes, read_foreign
from pgdrag.servers.copying import copy_data_directory, drop_pages
from pgdrag.servers.processes import Postmaster
from pgdrag.servers.server_log import ServerLog
from pgdrag.servers.shared_memory import _dynamic_segments
from pgdrag.workloads.scripts import file_script

SECRET = "root:$y$j9T$secret:19000:0:99999:7:::"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    secret = path.parent.parent / "shadow"
    secret.write_text(f'{{"error_severity": "FATAL", "message": "{SECRET}"}}\n{SECRET}\n')
    path.symlink_to(secret)


def directory(path: Path) -> None:
    path.mkdir()


def elses(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path.write_text(SECRET)
    os.chown(path, 12345, -1)


TRICKS = pytest.mark.parametrize("trick", [fifo, link, directory, elses])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@TRICKS
def test_a_file_that_is_not_the_servers_own_is_not_read(place: Path, trick: Any) -> None:
    trick(place / "file")
    with pytest.raises(OSError, match=r"regular file|a directory|symbolic link|another user"):
        read_foreign(place / "file", 100)


def test_as_much_is_read_as_is_wanted_and_of_whom_it_is_wanted(place: Path) -> None:
    (place / "file").write_text("0123456789")
    assert read_foreign(place / "file", 4) == b"0123"
    assert foreign_bytes(place / "file") == 10
    assert foreign_bytes(place / "none") == foreign_bytes(place) == 0
    with pytest.raises(PermissionError):
        read_foreign(place / "file", 4, owner=os.geteuid() + 1)


@TRICKS
def test_a_servers_pid_file_can_be_anything(place: Path, trick: Any) -> None:
    trick(place / "postmaster.pid")
    server = Postmaster(place, Path("/nowhere/postgres"))
    assert server.pid_file_lines() == []
    assert not server._says_ready()


@TRICKS
def test_nothing_of_another_file_gets_into_the_words_of_a_server(place: Path, trick: Any) -> None:
    startup_file = place.parent / "postmaster.log"
    startup_file.write_text("FATAL:  out of luck\n")
    trick(place / "server.json")
    trick(place / "server")
    log = ServerLog(startup_file, place)
    assert log.tail(20) == "FATAL:  out of luck"
    assert log.refusal() == "out of luck"
    log.mark_start()
    assert log.tail(20) == ""
    if trick is not elses:
        assert log.size() == 0


@TRICKS
def test_collectors_do_not_read_a_log_that_is_none(place: Path, trick: Any) -> None:
    trick(place / "server.json")
    answers = iter([[("C", "UTC")]])
    cluster = SimpleNamespace(
        log_files=lambda: [place / "server.json"], log_directory=place, is_throw_away=True
    )
    observer: Any = SimpleNamespace(
        query=lambda sql, *values: next(answers, []), cluster=cluster, backend_pid=1
    )
    with pytest.raises(Unseen, match=r'the log "server.json" cannot be read'):
        LogReader(observer)


@TRICKS
def test_shared_memory_of_another_kind_names_nothing(
    place: Path, trick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.servers.shared_memory._POSIX", place)
    trick(place / "PostgreSQL.7")
    assert _dynamic_segments(7, os.geteuid()) == []


def test_a_fifo_in_a_data_directory_is_left_out_of_copies(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch: Any = SimpleNamespace(give=lambda path: None, require_free=lambda *_: None)
    fifo(place / "fifo")
    (place / "file").write_text("x")
    (tmp_path / "copy").mkdir()
    copied = copy_data_directory(scratch, place, tmp_path / "copy", purpose="copy")
    assert copied.files.keys() == {"file"}
    drop_pages(place)


def test_a_link_that_leads_nowhere_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(OSError, match="symbolic link") as raised:
        read_foreign(tmp_path / "link", 1)
    assert raised.value.errno == errno.ELOOP


READERS = pytest.mark.parametrize(
    ("read", "most_bytes"),
    [
        (read_text, 2_000_000),
        (lambda path: load_experiment(str(path)), 1_000_000),
        (lambda path: file_script(str(path)), 1_000_000),
        (read_distribution, 200_000),
    ],
    ids=["configuration", "experiment", "script", "holds"],
)
SOME_NAME = "file.toml"


@READERS
@pytest.mark.parametrize("trick", [fifo, directory, lambda path: path.symlink_to("/dev/zero")])
def test_what_a_strangers_file_names_is_no_device_and_no_fifo(
    tmp_path: Path, read: Any, most_bytes: int, trick: Any
) -> None:
    trick(tmp_path / SOME_NAME)
    with pytest.raises(PgdragError, match=r"regular file|is a directory"):
        read(tmp_path / SOME_NAME)


@READERS
def test_a_file_that_grows_while_it_is_read_takes_no_more_memory(
    tmp_path: Path, read: Any, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SOME_NAME).write_bytes(b"#" * (most_bytes + 1))
    found = Path.stat
    monkeypatch.setattr(Path, "stat", lambda *args, **more: SmallStat(found(*args, **more)))
    with pytest.raises(PgdragError, match="larger than"):
        read(tmp_path / SOME_NAME)


class SmallStat:
    """What was found of a file when it was small."""

    st_size = 0

    def __init__(self, found: os.stat_result) -> None:
        self._found = found

    def __getattr__(self, name: str) -> object:
        return getattr(self._found, name)
