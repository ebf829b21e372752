"""The server's log is read once, from one mark to the next, in any of its formats."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from log_writing import WRITERS, json_record

import pgdrag.collectors._log as log
from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._log import LogCollector, LogReader, in_groups
from pgdrag.collectors.counters import Counters
from pgdrag.model import Observation
from pgdrag.model.recordings import Event
from pgdrag.servers.log_formats import LogMessage, Wanted

TEN_SECONDS = Window(elapsed_s=10, committed=5, started_unix_s=100, finished_unix_s=110)


class Keeper(LogCollector):
    """Keeps whole lines, and counts nothing."""

    name: ClassVar[str] = "keeper"
    summary: ClassVar[str] = "keeps lines"

    def __init__(self, *beginnings: str, severities: tuple[str, ...] = ()) -> None:
        super().__init__()
        # What is wanted is of the class for a real collector.
        self.__dict__["wanted"] = Wanted(severities, beginnings)
        self.messages: list[str] = []

    def read(self, observer: Observer) -> Counters:
        return {}

    def take(self, message: LogMessage) -> None:
        self.messages.append(message.message)

    def observations(self, window: Window) -> list[Observation]:
        return []

    @property
    def warning(self) -> str:
        assert not isinstance(self.reading, Unseen), self.reading
        return self.reading.warning


class LoggingServer:
    """Stands in for an observer and its server: the log's file, and answers to the few questions."""

    server_version_num = 180006
    is_throw_away = True

    def __init__(
        self, directory: Path, *, zone: str = "UTC", language: str = "C", suffix: str = ".json"
    ) -> None:
        self.log_directory = directory
        self.suffix = suffix
        self.file = directory / f"server{suffix}"
        self.file.touch()
        self.cluster = self
        self.log: object = None
        self.backend_pid = 99
        self.zone, self.language = zone, language
        self.is_lost = self.is_mute = False
        self.asked: list[str] = []
        self._mark: object = None

    def log_files(self) -> list[Path]:
        return sorted(self.log_directory.glob(f"*{self.suffix}"))

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        if self.is_lost:
            raise Unseen("the connection to the server was lost")
        if "pg_stat_activity" in sql:
            return []
        self.asked.append(sql)
        if "lc_messages" in sql:
            return [(self.language, self.zone)]
        if parameters:
            [self._mark] = parameters
        elif not self.is_mute:
            self.write(f"mark {self._mark}", pid=self.backend_pid)
        return []

    def write(
        self,
        message: str,
        *,
        timestamp: str = "2026-11-21 11:06:37.775 UTC",
        severity: str = "LOG",
        pid: int = 1,
    ) -> None:
        writer = WRITERS[self.suffix]
        record = writer(message, timestamp=timestamp, severity=severity, sqlstate="00000", pid=pid)
        self.append(record)

    def append(self, text: str) -> None:
        with self.file.open("a") as file:
            file.write(text)

    @property
    def observer(self) -> Observer:
        return cast("Observer", self)


@pytest.fixture(params=list(WRITERS))
def server(tmp_path: Path, request: pytest.FixtureRequest) -> LoggingServer:
    return LoggingServer(tmp_path, suffix=request.param)


@pytest.fixture
def json_server(tmp_path: Path) -> LoggingServer:
    return LoggingServer(tmp_path)


def reading(server: LoggingServer, *keepers: Keeper) -> None:
    for keeper in keepers:
        keeper.after(server.observer)
    for keeper in keepers:
        keeper.afterwards(server.observer)


def begun(server: LoggingServer, keeper: Keeper) -> Keeper:
    keeper.before(server.observer)
    return keeper


def test_only_wanted_lines_between_the_marks_are_read(server: LoggingServer) -> None:
    server.write("automatic before")
    keeper = begun(server, Keeper("automatic "))
    server.write("something else")
    server.write("automatic within")
    server.write("automatic, too, but no message of the level LOG", severity="DEBUG")
    reading(server, keeper)
    server.write("automatic after")
    assert keeper.messages == ["automatic within"]
    assert keeper.warning == ""


def test_every_error_is_wanted_but_those_of_the_collectors_own_session(
    server: LoggingServer,
) -> None:
    keeper = begun(server, Keeper(severities=("ERROR",)))
    server.write("of the workload", severity="ERROR")
    server.write("of the collectors", severity="ERROR", pid=server.backend_pid)
    reading(server, keeper)
    assert keeper.messages == ["of the workload"]


def test_all_collectors_of_a_trial_share_one_reading(server: LoggingServer) -> None:
    first, second = Keeper("automatic "), Keeper("checkpoint ")
    for keeper in (first, second):
        begun(server, keeper)
    server.write("checkpoint starting")
    server.write("automatic vacuum")
    reading(server, first, second)
    assert (first.messages, second.messages) == (["automatic vacuum"], ["checkpoint starting"])
    marks = [sql for sql in server.asked if "RAISE LOG" in sql]
    assert len(marks) == 2


def test_the_next_window_of_an_observer_is_read_anew(server: LoggingServer) -> None:
    reading(server, begun(server, Keeper("automatic ")))
    keeper = begun(server, Keeper("automatic "))
    server.write("automatic again")
    reading(server, keeper)
    assert keeper.messages == ["automatic again"]


def test_a_failure_is_shared_too_and_not_tried_by_each(
    json_server: LoggingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_MARK_TIMEOUT_S", 0.01)
    json_server.is_mute = True
    keepers = [begun(json_server, Keeper("a")) for _ in range(3)]
    reading(json_server, *keepers)
    reason = "a test line did not reach the server's log (log_min_messages?)"
    assert [str(keeper.reading) for keeper in keepers] == [reason] * 3
    assert len([sql for sql in json_server.asked if "RAISE LOG" in sql]) == 1


def test_messages_of_all_kinds_are_counted_in_the_window(server: LoggingServer) -> None:
    keeper = begun(server, Keeper("automatic "))
    for second in (36, 37, 37, 38):
        server.write("anything", timestamp=f"2026-11-21 11:06:{second}.775 UTC", severity="DEBUG")
    reading(server, keeper)
    assert not isinstance(keeper.reading, Unseen)
    noon = 1795262400.0 - 54 * 60
    window = Window(1, 1, noon + 37.774 + 0.0, noon + 38.5)
    # One of 11:06:37.775 is the mark's, which is left out.
    assert keeper.reading.messages_within(window) == 2


def test_a_log_larger_than_a_piece_is_read_to_its_end(
    server: LoggingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_PIECE_BYTES", 100)  # less than one record
    keeper = begun(server, Keeper("automatic "))
    expected = [f'automatic {n}\nwith "more"' for n in range(50)]
    for message in expected:
        server.write(message)
    reading(server, keeper)
    assert keeper.messages == expected


def test_a_torn_last_line_is_left_out(server: LoggingServer) -> None:
    keeper = begun(server, Keeper("automatic "))
    server.write("automatic whole")
    record = WRITERS[server.suffix](
        "automatic torn",
        timestamp="2026-11-21 11:06:37.775 UTC",
        severity="LOG",
        sqlstate="00000",
        pid=1,
    )
    server.append(record[:-10])
    server.is_lost = True
    reading(server, keeper)
    assert keeper.messages == ["automatic whole"]
    assert keeper.warning == (
        " The log was read as it stood, since the connection to the server was lost."
    )


def test_a_line_that_is_no_json_is_left_out(json_server: LoggingServer) -> None:
    keeper = begun(json_server, Keeper("automatic "))
    json_server.append('{"message":"automatic torn by a cr{"message":"automatic whole"}\n[1]\n')
    json_server.write("automatic whole")
    reading(json_server, keeper)
    assert keeper.messages == ["automatic whole"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"language": "de_DE.UTF-8"}, r"not in English \(lc_messages is de_DE\.UTF-8\)"),
        ({"zone": "Europe/Berlin"}, r"not in UTC \(log_timezone is Europe/Berlin\)"),
    ],
)
def test_a_log_that_cannot_be_understood_is_refused(
    tmp_path: Path, settings: dict[str, str], reason: str
) -> None:
    server = LoggingServer(tmp_path, **settings)
    with pytest.raises(Unseen, match=reason):
        LogReader(server.observer)


def test_no_log_is_a_reason(json_server: LoggingServer) -> None:
    json_server.file.unlink()
    with pytest.raises(Unseen, match="there is no log to be read in"):
        LogReader(json_server.observer)


def test_a_log_that_vanishes_is_a_reason(json_server: LoggingServer) -> None:
    keeper = begun(json_server, Keeper("automatic "))
    gone = json_server.file
    json_server.log_files = lambda: [gone]  # type: ignore[method-assign]
    gone.unlink()
    json_server.is_lost = True
    reading(json_server, keeper)
    assert str(keeper.reading).startswith('the log "server.json" cannot be read: No such file')


def test_a_second_mark_that_never_comes_is_a_doubt(
    server: LoggingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_READ_TIMEOUT_S", 0.05)
    keeper = begun(server, Keeper("wanted"))
    server.write("wanted")
    server.is_mute = True
    reading(server, keeper)
    assert keeper.messages == ["wanted"]
    assert keeper.warning.endswith("lines may be missing.")


def test_few_events_are_told_each_and_many_in_groups() -> None:
    few = [Event("error", second, text=str(second)) for second in range(10)]
    assert in_groups(few, TEN_SECONDS) == tuple(few)
    many = (Event("error", n / 1000, text=str(n)) for n in range(10_000))
    groups = in_groups(many, TEN_SECONDS)
    assert len(groups) == 100
    assert groups[1] == Event("error", 0.1, 0.199, "100", count=100)
    assert sum(group.count for group in groups) == 10_000


def test_a_flood_is_streamed_and_not_kept(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path)
    keeper = begun(server, Keeper("automatic "))
    flood = json_record(
        "StartTransaction(1) name: unnamed; blockState: DEFAULT",
        timestamp="2026-11-21 11:06:37.775 UTC",
        severity="DEBUG",
        sqlstate="00000",
        pid=1,
    )
    for number in range(4):
        server.append(flood * 30_000)
        server.write(f"automatic {number}")
    size = server.file.stat().st_size
    assert size > 25_000_000
    tracemalloc.start()
    try:
        reading(server, keeper)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert keeper.messages == [f"automatic {number}" for number in range(4)]
    assert not isinstance(keeper.reading, Unseen)
    assert keeper.reading.counts[0][1] == 4 * 30_001
    # A few pieces of 1 MiB with their lines, however long the log is.
    assert peak < size / 3
