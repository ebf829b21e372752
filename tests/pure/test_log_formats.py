"""Each format of the server's log gives back what was written, whatever the text."""

from __future__ import annotations

from datetime import UTC
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_writing import PREFIX, WRITERS, csv_record, json_record, stderr_record

from pgdrag.servers.log_formats import (
    CsvLog,
    JsonLog,
    LogFormat,
    LogMessage,
    StderrLog,
    Wanted,
    format_of,
    unix_s,
)

NOON = "2026-11-21 12:00:00.125 UTC"
NOON_UNIX_S = 1795262400.125
SUFFIXES = list(WRITERS)

# What the server may be given: any text but NUL, more often with what formats are made of.
texts = st.lists(
    st.one_of(
        st.sampled_from(
            ['"', '""', "\n", "\n\t", ",", "\\", "{", "%", "ERROR:  ", "\r", "é", "🐘"]
        ),
        st.sampled_from(['"error_severity":"ERROR"', ',ERROR,40P01,"', NOON, f'{NOON},"u","d",1,']),
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=8),
    ),
    max_size=8,
).map("".join)
entries = st.builds(
    LogMessage,
    timestamp=st.just(NOON),
    severity=st.sampled_from(["LOG", "ERROR", "FATAL", "DEBUG", "WARNING"]),
    message=texts,
    sqlstate=st.sampled_from(["00000", "40P01", "XX000"]),
    pid=st.integers(1, 4_194_304),
)


def form_of(suffix: str) -> LogFormat:
    return format_of(Path(f"server{suffix}"), line_prefix=PREFIX)


def written(suffix: str, entry: LogMessage) -> bytes:
    assert entry.pid is not None
    return (
        WRITERS[suffix](
            entry.message,
            timestamp=entry.timestamp,
            severity=entry.severity,
            sqlstate=entry.sqlstate,
            pid=entry.pid,
        )
    ).encode()


def as_read(suffix: str, entry: LogMessage) -> LogMessage:
    """JSON has no SQLSTATE of success."""
    if suffix == ".json" and entry.sqlstate == "00000":
        return LogMessage(entry.timestamp, entry.severity, entry.message, "", entry.pid)
    return entry


def whole(parsed: LogMessage | None) -> LogMessage:
    """What all three formats have of a message."""
    assert parsed is not None
    return LogMessage(
        parsed.timestamp, parsed.severity, parsed.message, parsed.sqlstate, parsed.pid
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(st.lists(entries, max_size=6))
def test_any_message_is_read_back(suffix: str, logged: list[LogMessage]) -> None:
    form = form_of(suffix)
    records = form.records(b"".join(written(suffix, x) for x in logged), is_end=True)
    assert [whole(form.parse(x)) for x in records] == [as_read(suffix, x) for x in logged]


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(st.lists(entries, min_size=1, max_size=4), st.data())
def test_a_log_that_is_still_written_gives_its_whole_records(
    suffix: str, logged: list[LogMessage], data: st.DataObject
) -> None:
    """Cut anywhere, what is there is read, and what is left is the beginning of the next."""
    form = form_of(suffix)
    pieces = [written(suffix, x) for x in logged]
    log = b"".join(pieces)
    cut = data.draw(st.integers(0, len(log)))
    found = form.records(log[:cut], is_end=False)
    consumed = sum(len(x) for x in found)
    assert b"".join(found) == log[:consumed]
    # No record is cut in two: each ends where one was written.
    assert consumed in [0, *accumulate(len(x) for x in pieces)]
    rest = form.records(log[consumed:], is_end=True)
    assert [whole(form.parse(x)) for x in [*found, *rest]] == [as_read(suffix, x) for x in logged]


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(entries, st.lists(entries, min_size=1, max_size=3), st.data())
def test_after_a_torn_record_the_log_is_read_again(
    suffix: str, torn: LogMessage, logged: list[LogMessage], data: st.DataObject
) -> None:
    """A server that crashed in the middle of a line, and one that went on in the same file."""
    form = form_of(suffix)
    record = written(suffix, torn)
    start = record[: data.draw(st.integers(1, len(record) - 1))]
    log = start + b"".join(written(suffix, x) for x in logged)
    found = [form.parse(x) for x in form.records(log, is_end=True)]
    # The first went on in the torn line, unless its line ends let it stand alone.
    expected = [as_read(suffix, x) for x in logged[1:]]
    assert [whole(x) for x in found[len(found) - len(expected) :]] == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(entries)
def test_the_finder_finds_every_wanted_record(suffix: str, entry: LogMessage) -> None:
    wanted = Wanted(("ERROR", "FATAL"), ("automatic ", "checkpoint "))
    form = form_of(suffix)
    finder = form.finder(wanted)
    record = written(suffix, entry)
    if wanted.has(entry):
        assert finder.search(record)
    begun = LogMessage(NOON, "LOG", f"automatic {entry.message}", "00000", 1)
    assert wanted.has(begun)
    assert finder.search(written(suffix, begun))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_finder_finds_nothing_where_nothing_is_wanted(suffix: str) -> None:
    entry = LogMessage(NOON, "ERROR", "automatic", "40P01", 1)
    assert not form_of(suffix).finder(Wanted()).search(written(suffix, entry))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_stamp_is_the_moment_to_a_hundredth_of_a_second(suffix: str) -> None:
    record = written(suffix, LogMessage(NOON, "LOG", "x", "00000", 1))
    [stamp] = form_of(suffix).stamps([record])
    assert unix_s(stamp.decode(), UTC) == pytest.approx(NOON_UNIX_S - 0.005)


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_a_statement_of_a_megabyte_is_one_message(suffix: str) -> None:
    entry = LogMessage(NOON, "LOG", 'statement: "\n' * 80_000, "40P01", 1)
    [record] = form_of(suffix).records(written(suffix, entry), is_end=True)
    assert whole(form_of(suffix).parse(record)) == entry


def test_csv_of_a_process_without_a_session_is_read() -> None:
    record = (
        b"2026-11-21 12:00:00.125 UTC,,,77,,6921a1b2.4d,1,,2026-11-21 11:00:00 UTC,,0,LOG,00000,"
        b'"checkpoint starting: time",,,,,,,,,"","checkpointer",,0\n'
    )
    assert CsvLog().records(record, is_end=False) == [record]
    parsed = CsvLog().parse(record)
    assert parsed == LogMessage(NOON, "LOG", "checkpoint starting: time", "00000", 77)


@pytest.mark.parametrize("torn", [b'{"timestamp":"x"}', b"[1]", b"7", b"{", b"", b"\xff", b'"\n'])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_record_is_no_message(suffix: str, torn: bytes) -> None:
    assert form_of(suffix).parse(torn) is None


def test_bytes_that_are_no_utf8_do_not_hide_a_message() -> None:
    for suffix in SUFFIXES:
        entry = LogMessage(NOON, "ERROR", "b?d", "40P01", 1)
        record = written(suffix, entry).replace(b"b?d", b"b\xe9d")
        assert whole(form_of(suffix).parse(record)).message == "b\ufffdd"


@pytest.mark.parametrize(
    ("prefix", "line", "expected"),
    [
        ("", "LOG:  ready", LogMessage("", "LOG", "ready")),
        ("%m [%p] ", f"{NOON} [12] LOG:  ready", LogMessage(NOON, "LOG", "ready", pid=12)),
        (
            "%t %p ",
            "2026-11-21 12:00:00 UTC 12 LOG:  x",
            LogMessage("2026-11-21 12:00:00 UTC", "LOG", "x", pid=12),
        ),
        ("%n|%e|", "1795262400.125|23505|ERROR:  x", LogMessage("1795262400.125", "ERROR", "x", "23505")),
        ("%-8u%5p: ", "bob        12: LOG:  x", LogMessage("", "LOG", "x", pid=12)),
        ("%%%m%% ", f"%{NOON}% LOG:  x", LogMessage(NOON, "LOG", "x")),
        ("%m %q[%u@%d] ", f"{NOON} LOG:  no session", LogMessage(NOON, "LOG", "no session")),
        ("%m %q[%u@%d] ", f"{NOON} [u@d] LOG:  x", LogMessage(NOON, "LOG", "x")),
        ("%m %t %p/%p ", f"{NOON} 2026-11-21 12:00:00 UTC 7/7 LOG:  x", LogMessage(NOON, "LOG", "x", pid=7)),
        ("%c:%l:%x:%v:%i:%b ", "69.4d:1:0:3/4:idle:client backend LOG:  x", LogMessage("", "LOG", "x")),
    ],
)  # fmt: skip
def test_a_plain_log_is_read_by_its_prefix(prefix: str, line: str, expected: LogMessage) -> None:
    assert StderrLog(prefix).parse(line.encode() + b"\n") == expected


def test_a_verbose_plain_log_has_the_sqlstate_before_the_message() -> None:
    form = StderrLog("", is_verbose=True)
    assert form.parse(b"ERROR:  42P01: no table\n") == LogMessage("", "ERROR", "no table", "42P01")
    assert form.finder(Wanted((), ("automatic ",))).search(b"LOG:  00000: automatic vacuum")


def test_details_of_a_plain_log_are_no_messages() -> None:
    form = StderrLog("[%p] ")
    log = b"[1] ERROR:  a\n\tb\n[1] DETAIL:  c\n[1] STATEMENT:  SELECT\n\t1\n[1] LOG:  d\n"
    found = [form.parse(x) for x in form.records(log, is_end=True)]
    assert [x.message for x in found if x] == ["a\nb", "d"]


def test_a_plain_log_without_a_time_has_no_stamps() -> None:
    assert list(StderrLog("[%p] ").stamps([b"[1] LOG:  x\n"])) == [b""]
    assert unix_s("", UTC) is None


def test_the_name_of_a_file_tells_its_format() -> None:
    kinds = [type(format_of(Path(x))) for x in ("server.json", "server.csv", "server", "a.log")]
    assert kinds == [JsonLog, CsvLog, StderrLog, StderrLog]


def test_the_writers_write_what_a_server_wrote() -> None:
    known = {"timestamp": NOON, "severity": "LOG", "sqlstate": "00000", "pid": 1}
    assert json_record("a\n", **known).startswith(f'{{"timestamp":"{NOON}","user":"u"')  # type: ignore[arg-type]
    assert csv_record('"', **known).startswith(f'{NOON},"u","d",1,"[local]",')  # type: ignore[arg-type]
    assert stderr_record("a\nb", **known) == f"{NOON} [1] u@d 00000 LOG:  a\n\tb\n"  # type: ignore[arg-type]
