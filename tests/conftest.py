"""What holds for all tests."""

from __future__ import annotations

import fcntl
import lzma
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from chromium import CHROMIUM
from in_process import libpq_variables
from pgdrag.host.undo import UNDO_VARIABLE, UndoJournal

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# An example that takes long on a busy machine has found nothing. Each run draws others: they add up.
settings.register_profile("pgdrag", deadline=None, max_examples=60)
settings.load_profile("pgdrag")

# What ignores a signal (a job in the background, or under nohup) starts programs that do; what handles it does not.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

OLD_JOURNAL = Path(__file__).parent / "pure" / "journals" / "b74b73b.sqlite.xz"
HOST_LOCK = Path("/var/tmp/pgdrag-test-host.lock")


@pytest.fixture(scope="module")
def any_value() -> Iterator[None]:
    """Any file may stand for one of the kernel's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pgdrag.host.undo.written_value.PLACES", ("/",))
        yield


@pytest.fixture(scope="module")
def old_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PGDRAG_HOME, with five short runs that were made on a real server at commit b74b73b."""
    home = tmp_path_factory.mktemp("home")
    (home / "journal.sqlite").write_bytes(lzma.decompress(OLD_JOURNAL.read_bytes()))
    return home


@pytest.fixture
def no_libpq_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this environment names a server, or how to connect to one."""
    for name in libpq_variables():
        monkeypatch.delenv(name)


@pytest.fixture
def host_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[UndoJournal]:
    """The undo journal of a test that changes the operating system, as no other test does meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root may change the operating system")
    with HOST_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setenv(UNDO_VARIABLE, str(tmp_path / "undo"))
        journal = UndoJournal.open()
        yield journal
        journal.close()


@pytest.fixture
def make_small_disk() -> Iterator[Callable[[Path, int], Path]]:
    """Mount a file system of so many megabytes on a new directory, for the length of a test."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    with ExitStack() as mounted:

        def mount(place: Path, megabytes: int) -> Path:
            place.mkdir()
            mounted.callback(place.rmdir)
            options = f"size={megabytes}m,mode=0711"
            command = ["mount", "-t", "tmpfs", "-o", options, "pgdrag-test", place]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("cannot mount a small file system here")
            mounted.callback(subprocess.run, ["umount", "--lazy", place], check=True)
            return place

        yield mount


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()
