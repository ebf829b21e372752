"""Each format of the server's log gives back what was written, whatever the text."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_writing import WRITERS, csv_record, json_record

from pgdrag.servers.log_formats import FORMATS, CsvLog, LogMessage, Wanted, unix_s

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
    """What both formats have of a message."""
    assert parsed is not None
    return LogMessage(
        parsed.timestamp, parsed.severity, parsed.message, parsed.sqlstate, parsed.pid
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(st.lists(entries, max_size=6))
def test_any_message_is_read_back(suffix: str, logged: list[LogMessage]) -> None:
    form = FORMATS[suffix]
    records = form.records(b"".join(written(suffix, x) for x in logged))
    assert [whole(form.parse(x)) for x in records] == [as_read(suffix, x) for x in logged]


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(st.lists(entries, min_size=1, max_size=4), st.data())
def test_a_log_that_is_still_written_gives_its_whole_records(
    suffix: str, logged: list[LogMessage], data: st.DataObject
) -> None:
    """Cut anywhere, what is there is read, and what is left is the beginning of the next."""
    form = FORMATS[suffix]
    pieces = [written(suffix, x) for x in logged]
    log = b"".join(pieces)
    cut = data.draw(st.integers(0, len(log)))
    found = form.records(log[:cut])
    consumed = sum(len(x) for x in found)
    assert b"".join(found) == log[:consumed]
    # No record is cut in two: each ends where one was written.
    assert consumed in [0, *accumulate(len(x) for x in pieces)]
    rest = form.records(log[consumed:])
    assert [whole(form.parse(x)) for x in [*found, *rest]] == [as_read(suffix, x) for x in logged]


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(entries, st.lists(entries, min_size=1, max_size=3), st.data())
def test_after_a_torn_record_the_log_is_read_again(
    suffix: str, torn: LogMessage, logged: list[LogMessage], data: st.DataObject
) -> None:
    """A server that crashed in the middle of a line, and one that went on in the same file."""
    form = FORMATS[suffix]
    record = written(suffix, torn)
    start = record[: data.draw(st.integers(1, len(record) - 1))]
    log = start + b"".join(written(suffix, x) for x in logged)
    found = [form.parse(x) for x in form.records(log)]
    # The first went on in the torn line, unless its line ends let it stand alone.
    expected = [as_read(suffix, x) for x in logged[1:]]
    assert [whole(x) for x in found[len(found) - len(expected) :]] == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(entries)
def test_the_finder_finds_every_wanted_record(suffix: str, entry: LogMessage) -> None:
    wanted = Wanted(("ERROR", "FATAL"), ("automatic ", "checkpoint "))
    form = FORMATS[suffix]
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
    assert not FORMATS[suffix].finder(Wanted()).search(written(suffix, entry))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_stamp_is_the_moment_to_a_hundredth_of_a_second(suffix: str) -> None:
    record = written(suffix, LogMessage(NOON, "LOG", "x", "00000", 1))
    assert unix_s(record[FORMATS[suffix].stamp].decode()) == pytest.approx(NOON_UNIX_S - 0.005)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_statement_of_a_megabyte_is_one_message(suffix: str) -> None:
    entry = LogMessage(NOON, "LOG", 'statement: "\n' * 80_000, "40P01", 1)
    [record] = FORMATS[suffix].records(written(suffix, entry))
    assert whole(FORMATS[suffix].parse(record)) == entry


def test_csv_of_a_process_without_a_session_is_read() -> None:
    record = (
        b"2026-11-21 12:00:00.125 UTC,,,77,,6921a1b2.4d,1,,2026-11-21 11:00:00 UTC,,0,LOG,00000,"
        b'"checkpoint starting: time",,,,,,,,,"","checkpointer",,0\n'
    )
    assert CsvLog().records(record) == [record]
    parsed = CsvLog().parse(record)
    assert parsed == LogMessage(NOON, "LOG", "checkpoint starting: time", "00000", 77)


@pytest.mark.parametrize("torn", [b'{"timestamp":"x"}', b"[1]", b"7", b"{", b"", b"\xff", b'"\n'])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_record_is_no_message(suffix: str, torn: bytes) -> None:
    assert FORMATS[suffix].parse(torn) is None


def test_bytes_that_are_no_utf8_do_not_hide_a_message() -> None:
    for suffix in SUFFIXES:
        entry = LogMessage(NOON, "ERROR", "b?d", "40P01", 1)
        record = written(suffix, entry).replace(b"b?d", b"b\xe9d")
        assert whole(FORMATS[suffix].parse(record)).message == "b\ufffdd"


def test_the_writers_write_what_a_server_wrote() -> None:
    known = {"timestamp": NOON, "severity": "LOG", "sqlstate": "00000", "pid": 1}
    assert json_record("a\n", **known).startswith(f'{{"timestamp":"{NOON}","user":"u"')  # type: ignore[arg-type]
    assert csv_record('"', **known).startswith(f'{NOON},"u","d",1,"[local]",')  # type: ignore[arg-type]
