"""A capture goes on through what a server may do meanwhile, and says what it missed and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

import pgdrag.horizon.capture as module
from pgdrag.cli.horizon import _write, progress_words
from pgdrag.driver.connection_string import Server
from pgdrag.errors import ServerError, ServerLost
from pgdrag.horizon.capture import CaptureProgress, HorizonCapture

Look = Callable[[], list[tuple[Any, ...]]]


def held() -> list[tuple[Any, ...]]:
    """Return what a look finds: session 7 has long been in a transaction."""
    who = ("session", "7", "shop", "me", "app", "", "idle in transaction")
    return [(time.time(), *who, "900", None, 5, None, *(1000.0,) * 3, "UPDATE", "", None, False)]


def lost() -> list[tuple[Any, ...]]:
    raise psycopg.OperationalError("server closed the connection unexpectedly\nmore of it")


class FakeServer:
    """A server that answers each look as it is told; the last answer is for all others."""

    name, version = 'database "shop"', "18.6"
    target = SimpleNamespace(database="shop")

    def __init__(self, *looks: Look, sees_all: bool = True) -> None:
        self.looks = list(looks)
        self.sees_all = sees_all
        self.connections = 0

    def connect(self, **keywords: object) -> FakeServer:
        assert keywords["application_name"] == "pgdrag capture horizon"
        self.connections += 1
        return self

    def close(self) -> None:
        pass

    def execute(self, query: str, parameters: object = None) -> SimpleNamespace:
        rows: list[tuple[Any, ...]] = []
        if "pg_has_role" in query:
            rows = [("guest", self.sees_all)]
        elif "pg_stat_activity" in query:
            look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            rows = look()
        elif "clock_timestamp" in query:
            rows = [(time.time(),)]
        return SimpleNamespace(fetchall=lambda: rows)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)


def capture_of(server: FakeServer) -> HorizonCapture:
    return HorizonCapture(cast("Server", server), every_s=0.05)


def test_a_lost_connection_is_made_again_and_the_hold_goes_on() -> None:
    server = FakeServer(held, held, lost, held)
    heard: list[CaptureProgress] = []
    capture = capture_of(server)
    capture.run(0.4, heard.append)
    assert server.connections == 2
    [blind] = [one for one in heard if one.holding is None]
    assert blind.trouble == "server closed the connection unexpectedly"
    found = capture.found()
    assert found.kinds["transaction"].seen == 1
    assert found.kinds["transaction"].in_progress_at_end == 1
    assert capture.notes == []


def test_a_server_that_stays_away_ends_the_capture_with_what_there_is() -> None:
    capture = capture_of(FakeServer(held, held, held, lost))
    capture.run(0.3, lambda _: None)
    assert capture.found().capture.looks == 3
    [note] = capture.notes
    assert "unreachable for the last" in note


def test_a_server_that_is_never_seen_twice_is_an_error() -> None:
    capture = capture_of(FakeServer(held, lost))
    with pytest.raises(ServerLost, match="before the second sample: server closed"):
        capture.run(0.2, lambda _: None)
    with pytest.raises(ServerError, match="nothing was captured"):
        capture.found()


def test_ctrl_c_keeps_what_there_is() -> None:
    capture = capture_of(FakeServer(held))

    def interrupt(progress: CaptureProgress) -> None:
        if progress.samples == 3:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        capture.run(60, interrupt)
    assert capture.found().capture.looks == 3
    assert "3 samples took" in capture.cost()


def test_what_a_role_is_not_shown_is_in_the_file() -> None:
    capture = capture_of(FakeServer(held, sees_all=False))
    capture.run(0.12, lambda _: None)
    [sentence] = capture.found().capture.cannot_see
    assert 'Role "guest" cannot see' in sentence


def test_progress_says_how_long_it_still_takes() -> None:
    progress = CaptureProgress(300, samples=300, holding=2, oldest=1234, seen=41)
    assert progress_words(progress, 3600) == (
        "5 min of 1 h, 55 min left: 2 hold the horizon, the oldest 1,234 transactions old; 41 seen"
    )
    blind = CaptureProgress(300, samples=300, holding=None, oldest=0, seen=41, trouble="gone")
    assert "unreachable, retrying (gone)" in progress_words(blind, 3600)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    capture = capture_of(FakeServer(held))
    capture.run(0.12, lambda _: None)
    file = tmp_path / "shop.toml"
    file.write_text("what was there")
    _write(capture.found(), file)
    assert file.read_text().startswith("# How long, how often")
    assert list(tmp_path.iterdir()) == [file]
