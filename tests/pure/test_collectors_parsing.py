"""Log lines of the supported versions are read for what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

import pgdrag.collectors._jsonlog as jsonlog
from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors._jsonlog import LogExcerpt, LogLine, LogReader
from pgdrag.collectors.autovacuum import Autovacuum, Vacuum, parse_analyze, parse_vacuum
from pgdrag.collectors.checkpoints import Checkpoints, parse_end, parse_start

# As the servers wrote them, shortened at the end.
VACUUM_15 = """automatic vacuum of table "postgres.public.pgbench_accounts": index scans: 1
pages: 0 removed, 1663 remain, 1663 scanned (100.00% of total)
tuples: 5660 removed, 95001 remain, 12 are dead but not yet removable
removable cutoff: 7444, which was 0 XIDs old when operation ended
avg read rate: 525.366 MB/s, avg write rate: 326.868 MB/s
buffer usage: 1881 hits, 2210 misses, 1375 dirtied
WAL usage: 2376 records, 805 full page images, 6474401 bytes
system usage: CPU: user: 0.00 s, system: 0.01 s, elapsed: 0.03 s"""
VACUUM_18 = """automatic vacuum of table "postgres.pg_catalog.pg_statistic": index scans: 0
pages: 0 removed, 25 remain, 25 scanned (100.00% of total), 0 eagerly scanned
tuples: 3 removed, 429 remain, 0 are dead but not yet removable
frozen: 0 pages from table (0.00% of total) had 0 tuples frozen
buffer usage: 36 hits, 26 reads, 0 dirtied
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 1.50 s"""
ANALYZE_18 = """automatic analyze of table "postgres.public.pgbench_tellers"
avg read rate: 0.000 MB/s, avg write rate: 0.000 MB/s"""
START = "checkpoint starting: {}"
END_15 = "checkpoint complete: wrote 20 buffers (15.6%); 0 WAL file(s) added, 0 removed, 1 recycled"
END_18 = "checkpoint complete: wrote 49 buffers (38.3%), wrote 4 SLRU buffers; 0 WAL file(s) added"

TEN_SECONDS = Window(elapsed_s=10, committed=5, started_unix_s=100, finished_unix_s=110)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (VACUUM_15, Vacuum("public.pgbench_accounts", 5660, 12, 0.03)),
        (VACUUM_18, Vacuum("pg_catalog.pg_statistic", 3, 0, 1.5)),
        (ANALYZE_18, None),
        ("automatic vacuuming is disabled", None),
    ],
)
def test_a_vacuum_is_read(message: str, expected: Vacuum | None) -> None:
    assert parse_vacuum(message) == expected


@pytest.mark.parametrize(
    "kind",
    [
        "automatic aggressive vacuum of table",
        "automatic vacuum to prevent wraparound of table",
        "automatic aggressive vacuum to prevent wraparound of table",
    ],
)
def test_vacuums_against_wraparound_are_vacuums(kind: str) -> None:
    message = VACUUM_15.replace("automatic vacuum of table", kind)
    assert parse_vacuum(message) == parse_vacuum(VACUUM_15)


def test_a_table_name_may_hold_quotes_and_dots() -> None:
    assert parse_analyze('automatic analyze of table "db.s.a"b.c"\navg') == 's.a"b.c'


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ("wal", "WAL volume"),
        ("time", "time"),
        ("immediate force wait", "request"),
        ("fast force wait", "request"),
        ("shutdown immediate", "request"),
    ],
)
def test_a_checkpoint_says_its_cause(flags: str, cause: str) -> None:
    assert parse_start(START.format(flags)) == cause


def test_a_checkpoint_says_what_it_wrote() -> None:
    assert [parse_end(END_15), parse_end(END_18), parse_end(START)] == [20, 49, None]


def checkpoints(*lines: tuple[float | None, str]) -> dict[str, Any]:
    collector = Checkpoints()
    collector.excerpt = LogExcerpt(tuple(LogLine(*line) for line in lines))
    return {each.name: each for each in collector.observations(TEN_SECONDS)}


def test_two_checkpoints_four_seconds_apart_that_ran_three_of_ten_seconds() -> None:
    seen = checkpoints(
        (102, START.format("wal")), (103, END_18), (106, START.format("time")), (108, END_18)
    )
    assert seen["checkpoints_per_s"].value == 0.2
    assert seen["seconds_between_checkpoints"].value == 4
    assert seen["checkpoint_time_share"].value == pytest.approx(0.3)
    assert seen["checkpoints_per_s"].detail == "2 began: 1 by WAL volume, 1 by time."


def test_a_checkpoint_counts_for_the_part_of_it_that_lies_in_the_window() -> None:
    from_before = checkpoints((90, START.format("wal")), (101, END_18))
    end_only = checkpoints((101, END_18))
    to_after = checkpoints((109, START.format("wal")), (115, END_18))
    unended = checkpoints((109, START.format("wal")))
    shares = [each["checkpoint_time_share"].value for each in (from_before, end_only)]
    assert shares == pytest.approx([0.1, 0.1])
    shares = [each["checkpoint_time_share"].value for each in (to_after, unended)]
    assert shares == pytest.approx([0.1, 0.1])
    assert from_before["checkpoints_per_s"].value == 0


def test_one_checkpoint_has_no_distance() -> None:
    found = checkpoints((102, START.format("wal")))["seconds_between_checkpoints"]
    assert found.missing == "1 began in the 10.0 s of the window; it takes two"


def test_lines_outside_the_window_do_not_count() -> None:
    collector = Autovacuum()
    lines = [
        (99, VACUUM_15),
        (100, VACUUM_15),
        (105, VACUUM_18),
        (105, ANALYZE_18),
        (111, ANALYZE_18),
    ]
    collector.excerpt = LogExcerpt(tuple(LogLine(*line) for line in lines))
    seen = {each.name: each for each in collector.observations(TEN_SECONDS)}
    assert (seen["vacuums_per_s"].value, seen["analyzes_per_s"].value) == (0.2, 0.1)
    assert seen["tuples_removed_per_vacuum"].value == (5660 + 3) / 2
    assert seen["dead_tuples_kept_per_vacuum"].value == 6


class LoggingServer:
    """Stands in for an observer and its server: the log's file, and answers to three questions."""

    def __init__(self, directory: Path, *, zone: str = "UTC", language: str = "C") -> None:
        self.log_directory = directory
        self.file = directory / "server.json"
        self.file.touch()
        self.cluster = self
        self.zone, self.language = zone, language
        self.is_lost = False
        self._mark: object = None

    def jsonlog_files(self) -> list[Path]:
        return sorted(self.log_directory.glob("*.json"))

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        if self.is_lost:
            raise Unseen("the connection to the server was lost")
        if "log_timezone" in sql:
            return [(self.language, self.zone)]
        if parameters:
            [self._mark] = parameters
        else:
            self.log(f"mark {self._mark}")
        return []

    def log(self, message: str, *, timestamp: str = "2026-11-21 11:06:37.775 UTC") -> None:
        with self.file.open("a") as file:
            file.write(json.dumps({"timestamp": timestamp, "message": message}) + "\n")

    @property
    def observer(self) -> Observer:
        return cast("Observer", self)


@pytest.fixture
def server(tmp_path: Path) -> LoggingServer:
    return LoggingServer(tmp_path)


def test_only_wanted_lines_between_the_marks_are_read(server: LoggingServer) -> None:
    server.log("automatic before")
    reader = LogReader(server.observer)
    server.log("something else")
    server.log("automatic within")
    excerpt = reader.read(server.observer, ["automatic "])
    assert [line.message for line in excerpt.lines] == ["automatic within"]
    assert excerpt.doubt == ""


def test_a_torn_last_line_is_left_out(server: LoggingServer) -> None:
    reader = LogReader(server.observer)
    server.log("automatic whole")
    with server.file.open("a") as file:
        file.write('{"message": "automatic tor')
    server.is_lost = True
    excerpt = reader.read(server.observer, ["automatic "])
    assert [line.message for line in excerpt.lines] == ["automatic whole"]
    assert excerpt.doubt == (
        " The log was read as it stood, since the connection to the server was lost."
    )


def test_a_line_that_is_no_json_is_left_out(server: LoggingServer) -> None:
    reader = LogReader(server.observer)
    with server.file.open("a") as file:
        file.write('{"message": "automatic torn by a cr{"message": "automatic whole"}\n[1]\n')
    server.log("automatic whole")
    excerpt = reader.read(server.observer, ["automatic ", "1"])
    assert "automatic whole" in [line.message for line in excerpt.lines]


def test_a_file_that_is_new_since_the_mark_is_read_whole(server: LoggingServer) -> None:
    reader = LogReader(server.observer)
    server.file = server.log_directory / "server-2.json"
    server.log("automatic in the new file")
    assert len(reader.read(server.observer, ["automatic "]).lines) == 1


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_a_timestamp_is_of_the_logs_time_zone(tmp_path: Path, zone: str) -> None:
    server = LoggingServer(tmp_path, zone=zone)
    reader = LogReader(server.observer)
    hours = {"UTC": 0, "Europe/Berlin": 1, "America/St_Johns": -3.5}[zone]
    server.log("wanted", timestamp="2026-11-21 12:00:00.500 XYZ")
    [line] = reader.read(server.observer, ["wanted"]).lines
    assert line.unix_s == 1795262400.5 - hours * 3600


def test_lines_of_an_unknown_time_zone_count_as_within_the_window(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, zone="Nowhere/At_All")
    reader = LogReader(server.observer)
    server.log("wanted")
    assert len(reader.read(server.observer, ["wanted"]).within(TEN_SECONDS)) == 1


def test_a_log_in_another_language_is_refused(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, language="de_DE.UTF-8")
    with pytest.raises(Unseen, match=r"not in English \(lc_messages is de_DE\.UTF-8\)"):
        LogReader(server.observer)


def test_no_log_is_a_reason(server: LoggingServer) -> None:
    server.file.unlink()
    with pytest.raises(Unseen, match="there is no log in JSON"):
        LogReader(server.observer)


def test_a_log_that_vanishes_is_a_reason(server: LoggingServer) -> None:
    reader = LogReader(server.observer)
    gone = server.file
    server.jsonlog_files = lambda: [gone]  # type: ignore[method-assign]
    gone.unlink()
    server.is_lost = True
    with pytest.raises(Unseen, match=r'the log "server\.json" cannot be read: No such file'):
        reader.read(server.observer, ["automatic "])


def test_a_mark_that_never_comes_is_a_reason_or_a_doubt(
    server: LoggingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonlog, "_MARK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(jsonlog, "_READ_TIMEOUT_S", 0.05)
    reader = LogReader(server.observer)
    server.log("wanted")
    monkeypatch.setattr(server, "log", lambda message: None)  # log_min_messages = panic
    excerpt = reader.read(server.observer, ["wanted"])
    assert [line.message for line in excerpt.lines] == ["wanted"]
    assert excerpt.doubt.endswith("lines may be missing.")
    with pytest.raises(Unseen, match="a test line did not reach the server's log"):
        LogReader(server.observer)


def test_lines_are_read_once(server: LoggingServer) -> None:
    reader = LogReader(server.observer)
    server.log("wanted 1")
    assert len(reader.read(server.observer, ["wanted"]).lines) == 1
    server.log("wanted 2")
    [line] = reader.read(server.observer, ["wanted"]).lines
    assert line.message == "wanted 2"
