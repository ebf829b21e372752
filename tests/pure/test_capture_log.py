"""Are logs of all formats cut into their messages, whatever is in them, and statements matched with those of the view?"""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_writing import csv_record, json_record

from pgdrag.capture.log.files import LocalLog, LogMoments
from pgdrag.capture.log.formats import CsvLog, Entry, JsonLog, LogFormat, StderrLog, recognised
from pgdrag.capture.log.reading import LogReader, check_logs, check_statements_are_logged
from pgdrag.capture.log.texts import KnownStatement, StatementTexts
from pgdrag.errors import LogError
from pgdrag.twins.transactions import LoggedTransactions

PREFIX = "%m [%p] %q%v %Q %u@%d "
STAMP = "2026-11-26 10:00:00.123 UTC"
# Statements of any text, but for NUL, which no statement has; a log's lines end in \n.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)


def stderr_record(message: str, *, timestamp: str, severity: str, sqlstate: str, pid: int) -> str:
    return f"{timestamp} [{pid}] 3/4 0 u@d {severity}:  " + message.replace("\n", "\n\t") + "\n"


FORMATS = [
    (CsvLog, csv_record),
    (JsonLog, json_record),
    (lambda: StderrLog(PREFIX), stderr_record),
]


def line(write: object, message: str, *, at: str = STAMP, severity: str = "LOG", pid: int = 77) -> str:  # fmt: skip
    return write(message, timestamp=at, severity=severity, sqlstate="00000", pid=pid)  # type: ignore[operator,no-any-return]


def entries(log: LogFormat, text: str, cuts: Sequence[int] = ()) -> list[Entry]:
    """Read a text in pieces, as a file is read: whole lines, and again what was not used."""
    found: list[Entry] = []
    rest = ""
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        piece = rest + text[begin:end]
        cut = piece.rfind("\n") + 1
        some, used = log.entries(piece[:cut])
        found += some
        rest = piece[used:]
    some, _ = log.entries(rest + "\n", is_last=True)
    return found + some


@pytest.mark.parametrize(("make", "write"), FORMATS)
@given(data=st.data())
def test_statements_of_any_text_are_read_as_they_were_sent(
    make: type[LogFormat], write: object, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=5))
    messages = [f"duration: 1.500 ms  statement: {x}" for x in texts]
    text = "".join(line(write, x) for x in messages)
    places = st.lists(st.integers(0, len(text)), max_size=3).map(sorted)
    log = make()
    found = entries(log, text, data.draw(places))
    assert [x.message for x in found] == messages
    assert log.skipped == 0
    assert {x.user for x in found} == {"u"}
    assert {x.transaction for x in found} == {"4"}


@pytest.mark.parametrize(("make", "write"), FORMATS)
@given(foreign=TEXTS, cut=st.integers(1, 40))
def test_foreign_lines_and_torn_ends_spoil_no_other_message(
    make: type[LogFormat], write: object, foreign: str, cut: int
) -> None:
    whole = line(write, "duration: 1.0 ms  statement: SELECT 'x'")
    text = whole + "sh: " + foreign.replace('"', "'") + "\n" + whole + whole[:-cut]
    found = entries(make(), text)
    assert [x.message for x in found[:2]] == ["duration: 1.0 ms  statement: SELECT 'x'"] * 2


@given(st.text())
def test_no_text_breaks_a_format(text: str) -> None:
    for make, _ in FORMATS:
        entries(make(), text)
    recognised(text, [PREFIX])


@given(TEXTS, TEXTS)
def test_no_statement_breaks_the_matching_of_texts(known: str, text: str) -> None:
    texts = StatementTexts([KnownStatement(1, known, "u", 0), KnownStatement(2, text, "u", 5)])
    for query_id in (0, 5, 7):
        texts.read(text, "u", query_id, "Parameters: $1 = 'a''b', $2 = NULL")


def test_a_parameters_values_are_those_of_the_detail() -> None:
    texts = StatementTexts([KnownStatement(1, "SELECT $1, $2 FROM t WHERE a = $3", "u", 0)])
    [(statement, values)] = texts.read("select $1, $2 from t where a = 5", "u", 0, "parameters: $1 = 'it''s', $2 = NULL")  # fmt: skip
    assert statement.known is not None
    assert values == ((1, "it's"), (2, None), (3, "5"))


@pytest.mark.parametrize(
    ("known", "text", "values"),
    [
        ("SELECT * FROM t WHERE a = $1 AND b = $2", "select *\n from T where a=7 and b='x''y'", ["7", "x'y"]),
        ("UPDATE t SET a = a + $1", "UPDATE t SET a = a + -5", ["-5"]),
        ("UPDATE t SET a = a - $1", "UPDATE t SET a = a - 5", ["5"]),
        ("SELECT $1, a-$2", "SELECT -1, a-2", ["-1", "2"]),
        ("INSERT INTO t VALUES ($1, $2, $3)", "INSERT INTO t VALUES (1, NULL, true)", ["1", None, "true"]),
        ("SELECT 1 FROM t WHERE a IS NOT NULL AND b = $1", "SELECT 1 FROM t WHERE a IS NOT NULL AND b = 3", ["3"]),
        ("SELECT * FROM t WHERE a IN ($1 /*, ... */)", "SELECT * FROM t WHERE a IN (1, 2, 3)", ["{1,2,3}"]),
        ("SELECT a2 FROM t1 WHERE \"B;1\" = $1", "SELECT a2 FROM t1 WHERE \"B;1\" = E'x\\'y' -- why", ["x'y"]),
        ("SELECT $1::date, $2", "SELECT '2026-01-02'::date, $$a'b$$", ["2026-01-02", "a'b"]),
    ],
)  # fmt: skip
def test_a_text_is_found_with_its_constants(
    known: str, text: str, values: list[str | None]
) -> None:
    texts = StatementTexts([KnownStatement(1, known, "u", 0), KnownStatement(2, "SELECT 1", "u", 0)])  # fmt: skip
    [(statement, found)] = texts.read(text, "u", 0, "")
    assert statement.known is not None
    assert statement.known.number == 1
    assert [value for _, value in found] == values


def test_lengths_of_lists_that_the_server_shortened_are_told() -> None:
    known = KnownStatement(1, "SELECT * FROM t WHERE a IN ($1 /*, ... */) AND b > $2", "u", 0)
    texts = StatementTexts([known])
    for numbers in ("1, 2", "1, 2, 3", "1, 2, 3", "1, 2, 3, 4, 5, 6, 7"):
        [(statement, values)] = texts.read(f"SELECT * FROM t WHERE a IN ({numbers}) AND b > 9", "u", 0, "")  # fmt: skip
        assert values == ((1, f"{{{numbers.replace(' ', '')}}}"), (2, "9"))
    assert {n: (x.least, x.total / x.count, x.most) for n, x in statement.lists.items()} == {1: (2, 3.75, 7)}  # fmt: skip


def test_a_text_that_is_not_known_has_no_constant() -> None:
    texts = StatementTexts([])
    [(statement, values)] = texts.read("SELECT a FROM t WHERE b = 'secret' AND c > 12345.6", "u", 0, "")  # fmt: skip
    assert statement.text == "SELECT a FROM t WHERE b = $1 AND c > $2"
    assert values == ((1, "secret"), (2, "12345.6"))


@pytest.mark.parametrize("number", ["5", "-5", "- 5"])
def test_a_text_that_is_not_known_reads_the_same_with_a_number_below_zero(number: str) -> None:
    [(statement, values)] = StatementTexts([]).read(f"UPDATE t SET a = a + {number}", "u", 0, "")
    assert statement.text == "UPDATE t SET a = a + $1"
    assert values == ((1, number.replace(" ", "")),)


def test_a_statement_is_that_of_the_user_and_of_the_querys_id() -> None:
    texts = StatementTexts(
        [
            KnownStatement(1, "SELECT $1", "alice", 5),
            KnownStatement(2, "SELECT $1", "bob", 5),
            KnownStatement(3, "SELECT $1 + $2", "bob", 6),
        ]
    )
    found = [texts.read(*x, "")[0][0].known for x in (("SELECT 1", "bob", 0), ("SELECT 2", "carol", 5), ("SELECT 1 /* other */ + 2", "bob", 6))]  # fmt: skip
    assert [x.number for x in found if x] == [2, 1, 3]


# --- transactions ---------------------------------------------------------------------------


class Log:
    """A log of one session after the other, written as a server does."""

    def __init__(self, write: object = csv_record) -> None:
        self.text, self._write, self._ms = "", write, 0

    def say(self, *statements: str, pid: int = 77, pause_ms: int = 2, took_ms: int = 5) -> Log:
        for one in statements:
            self._ms += pause_ms + took_ms
            # The virtual transaction of a statement that is none of a block's has no number when it is logged.
            self.text += line(self._write, f"duration: {took_ms}.000 ms  statement: {one}", at=self.now, pid=pid).replace("3/4", "3/0")  # fmt: skip
        return self

    @property
    def now(self) -> str:
        seconds, ms = divmod(self._ms, 1000)
        return f"2026-11-26 10:{seconds // 60:02}:{seconds % 60:02}.{ms:03} UTC"

    def error(self, words: str) -> Log:
        self.text += line(self._write, words, at=self.now, severity="ERROR")
        return self


def read(log: Log | str | bytes, tmp_path: Path, *, name: str = "x.log", moments: LogMoments | None = None, **settings: str) -> LoggedTransactions:  # fmt: skip
    path = tmp_path / name
    content = log.text if isinstance(log, Log) else log
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return LogReader([], "d", {"log_line_prefix": PREFIX, **settings}, moments).read([LocalLog(path)]).transactions()  # fmt: skip


def test_steps_pauses_durations_and_endings_are_those_of_the_log(tmp_path: Path) -> None:
    log = Log(stderr_record)
    for _ in range(10):
        log.say("BEGIN", "SELECT 1 FROM a", "UPDATE a SET b = 2", "COMMIT", pause_ms=10, took_ms=5)
    log.say("BEGIN", "SELECT 1 FROM a").error("division by zero").say("ROLLBACK")
    found = read(log, tmp_path)
    commit, error = found.shapes
    assert (commit.transactions, commit.ending, error.transactions, error.ending) == (10, "commit", 1, "error")  # fmt: skip
    texts = {x.number: x.text for x in found.statements}
    assert [texts[x.statement] for x in commit.steps] == ["SELECT $1 FROM a", "UPDATE a SET b = $1"]
    pauses = [x.pause_s.mean for x in commit.steps if x.pause_s is not None]
    assert pauses == pytest.approx([0.01, 0.01], rel=1e-3)
    assert commit.duration_s.mean == pytest.approx(0.05, rel=1e-3)
    assert commit.last_pause_s is not None
    assert commit.last_pause_s.mean == pytest.approx(0.01, rel=1e-3)
    assert commit.pause_s is not None
    assert commit.pause_s.mean == pytest.approx(0.01, rel=1e-3)
    assert found.errors == {"": 1}


@given(st.lists(st.integers(1, 9), min_size=3, max_size=8))
def test_a_loop_of_any_length_is_one_shape(rounds: list[int]) -> None:
    import tempfile

    log = Log()
    for count in rounds:
        log.say("BEGIN", "SELECT a", *["SELECT b", "UPDATE c SET d = 1", "UPDATE c SET d = 1"] * count, "SELECT e", "COMMIT")  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        found = read(log, Path(place))
    (shape,) = found.shapes
    assert len(shape.steps) == 4
    outer = [x for x in shape.loops if (x.first, x.last) == (2, 3)]
    repeats = [times for x in outer for times, _ in x.repeats]
    assert repeats == (sorted(set(rounds)) if max(rounds) > 1 else [])


def test_loops_that_run_as_often_as_each_other_say_so(tmp_path: Path) -> None:
    log = Log()
    for count in (3, 5, 2):
        log.say("BEGIN", *["SELECT a"] * count, "SELECT x", *["SELECT b"] * count, "SELECT y", *["SELECT c"] * (count + 1), "COMMIT")  # fmt: skip
    (shape,) = read(log, tmp_path).shapes
    assert [x.like for x in shape.loops] == [0, 1, 0]


def test_links_are_found_and_chance_is_not_taken_for_one(tmp_path: Path) -> None:
    rng = random.Random(3)
    log = Log()
    for _ in range(60):
        key, other, dice, low = rng.randrange(10**6), rng.randrange(10**6), rng.randint(1, 3), rng.randrange(10**6)  # fmt: skip
        items = [rng.randrange(10**6) for _ in range(rng.randint(2, 4))]
        log.say(
            "BEGIN",
            f"SELECT 1 FROM a WHERE k = {key} AND d = {dice}",
            f"SELECT 2 FROM b WHERE k = {other} AND d = {rng.randint(1, 3)}",
            *[f"SELECT 3 FROM c WHERE i = {x} AND n = {at}" for at, x in enumerate(items)],
            "SELECT 4 FROM e",
            *[f"INSERT INTO g VALUES ({key}, {x})" for x in items],
            f"SELECT 5 FROM f WHERE t BETWEEN {low} AND {low + 1234 + rng.randint(0, 9)}",
            "COMMIT",
        )
    (shape,) = read(log, tmp_path).shapes
    links = {(x.step, x.parameter): x for x in shape.links}
    assert (links[5, 1].source, links[5, 1].from_step, links[5, 1].from_parameter) == ("transaction", 1, 2)  # fmt: skip
    assert (links[5, 2].source, links[5, 2].from_step, links[5, 2].from_parameter) == ("loop", 3, 2)
    assert (links[3, 3].source, links[3, 3].differences) == ("round", (1.0,))
    width = links[6, 3]
    assert (width.source, width.from_parameter) == ("transaction", 2)
    assert width.differences[0] == pytest.approx(1234, rel=0.1)
    assert all(x % 1 for x in width.differences)
    assert not {(2, 2), (2, 3)} & links.keys(), "dice fall alike now and then"


def test_a_session_that_keeps_to_its_customer_is_seen(tmp_path: Path) -> None:
    log = Log()
    for _ in range(40):
        for pid in (100, 200, 300, 400):
            log.say(f"SELECT a FROM b WHERE c = {pid * 1111}", pid=pid)
    # As the session's name the records have one for all.
    text = log.text.replace("6921a1b2.3e8", "")
    (shape,) = read(text, tmp_path).shapes
    (link,) = shape.links
    assert (link.source, link.from_shape, link.share) == ("session", 1, 1.0)


def test_what_a_session_keeps_is_seen_in_a_loop_too(tmp_path: Path) -> None:
    """All rounds have it, and the first one has it from the transaction before."""
    log = Log()
    for _ in range(15):
        for pid in (100, 200, 300, 400):
            log.say("BEGIN", *[f"SELECT a FROM b WHERE c = {pid * 1111} AND d = {n}" for n in (1, 2, 3)], "COMMIT", pid=pid)  # fmt: skip
    (shape,) = read(log.text.replace("6921a1b2.3e8", ""), tmp_path).shapes
    found = [(x.parameter, x.source, x.share, x.differences) for x in shape.links]
    assert found == [(1, "round", 1.0, ()), (1, "session", 1.0, ()), (2, "round", 1.0, (1.0,))]


def test_how_many_statements_were_prepared_is_told(tmp_path: Path) -> None:
    sent = ["execute S_1: SELECT a", "execute <unnamed>: SELECT b", "statement: SELECT c", "statement: BEGIN", "statement: UPDATE d SET e = 1"]  # fmt: skip
    text = "".join(line(csv_record, f"duration: 1.000 ms  {x}") for x in sent)
    assert read(text, tmp_path).prepared_share == 0.25


def test_new_ids_frequent_values_and_nulls_are_told(tmp_path: Path) -> None:
    log = Log()
    for at in range(400):
        log.say(f"INSERT INTO a VALUES ({1000 + at}, {'NULL' if at % 4 == 0 else 7 if at % 2 else at}, 'text {at:04}')")  # fmt: skip
    found = read(log, tmp_path)
    ids, values, texts = next(x for x in found.statements if len(x.parameters) == 3).parameters
    assert (ids.kind, ids.ascending_share, ids.distinct) == ("number", 1.0, 400)
    kept = [x.parameters[1] for x in found.statements]
    assert max(x.top_shares[0] for x in kept) > 0.5
    assert sum(x.null_share * x.seen for x in kept) == pytest.approx(100)
    assert values.seen == 400
    assert texts.kind == "text"
    assert texts.lengths is not None
    assert set(texts.lengths.quantiles) == {9.0}


def test_constants_of_a_text_are_told_from_parameters_that_are_always_the_same(tmp_path: Path) -> None:  # fmt: skip
    log = Log()
    for at in range(9):
        log.say(f"SELECT a FROM b WHERE c = {100 + at} AND d = 'secret' LIMIT 20")
    [statement] = read(log, tmp_path).statements
    assert [(x.is_constant, x.common) for x in statement.parameters] == [(False, ()), (False, ()), (True, (("20", 1.0),))]  # fmt: skip
    assert "secret" not in repr(statement)
    assert not any(x.is_sent for x in statement.parameters)
    known = StatementTexts([])
    for _ in range(9):
        [(seen, _)] = known.read("SELECT a FROM b WHERE c = $1 AND d = 5", "u", 0, "parameters: $1 = '7'")  # fmt: skip
    assert seen.sent == {1}


def test_times_that_programs_take_from_their_clock_are_told_by_their_age(tmp_path: Path) -> None:
    log, lot = Log(), random.Random(5)
    for at in range(200):
        now = datetime.fromisoformat(log.now.replace(" UTC", "+00:00"))
        since = now - timedelta(minutes=60 if at % 4 == 0 else 15)
        any_day = datetime(2026, 1, 1) + timedelta(seconds=lot.randrange(10**7))
        log.say(f"SELECT z FROM a WHERE b > '{since}' AND c > '2026-11-26 09:00:00+00' AND d = '{any_day}' AND e < '{now + timedelta(days=1)}'", pause_ms=500)  # fmt: skip
    [statement] = read(log, tmp_path).statements
    first, constant, any_, later = statement.parameters
    assert [x for _, x in first.ages] == [pytest.approx(0.75, abs=0.05), pytest.approx(0.25, abs=0.05)]  # fmt: skip
    assert [x for x, _ in first.ages] == [pytest.approx(900, rel=0.1), pytest.approx(3600, rel=0.1)]
    assert (constant.ages, any_.ages) == ((), ())
    assert [x for x, _ in later.ages] == [pytest.approx(-86_400, rel=0.1)]


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_log_that_begins_and_ends_within_transactions_counts_them_as_cut(
    name: str, tmp_path: Path
) -> None:
    log = Log().say("SELECT a", "COMMIT").say("BEGIN", "SELECT b", "COMMIT").say("BEGIN", "SELECT c")  # fmt: skip
    content = log.text.encode()
    found = read(gzip.compress(content) if name.endswith("gz") else content, tmp_path, name=name)
    assert (found.transactions, found.cut_transactions) == (1, 2)


def test_a_window_takes_its_messages_alone(tmp_path: Path) -> None:
    log = Log()
    for _ in range(100):
        log.say("SELECT 1 FROM a", took_ms=100)
    begin_s = read(log, tmp_path).window_s
    moments = LogMoments(1795687200 + 3, 1795687200 + 5)
    found = read(log, tmp_path, moments=moments)
    assert begin_s > 9
    assert 10 < found.transactions < 30
    with pytest.raises(LogError, match="no statements of the window"):
        read(log, tmp_path, moments=LogMoments(0, 1))


def test_a_torn_packed_log_is_read_up_to_there_and_says_so(tmp_path: Path) -> None:
    log = Log()
    for at in range(5000):
        log.say(f"SELECT {random.Random(at).random()} FROM a")
    found = read(gzip.compress(log.text.encode())[:-5000], tmp_path)
    assert found.transactions > 100
    assert any("torn or damaged" in x for x in found.notes)


@pytest.mark.parametrize(
    ("content", "settings", "words"),
    [
        (b"\x7fELF\0\0" * 100, {}, "it is binary"),
        (b"hello\n" * 100, {}, "is no log of PostgreSQL that pgdrag reads"),
        (b"", {}, "the log is empty"),
        (b"x" * (3 << 20), {}, "is no log of PostgreSQL"),
        (b"2026-11-26 10:00:00 UTC LOG:  duration: 1.0 ms  statement: SELECT 1\n", {"log_line_prefix": "%t "}, "it does not tell sessions apart: %p or %c"),
        (b"[77] LOG:  duration: 1.0 ms  statement: SELECT 1\n", {"log_line_prefix": "[%p] "}, "it has no time: %m"),
        (line(csv_record, "checkpoint starting: time").encode(), {}, "the log has no statements"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused_in_words(
    content: bytes, settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(LogError) as found:
        read(content, tmp_path, **settings)
    assert words in found.value.message
    assert found.value.hint or "binary" in words


def test_a_message_that_is_longer_than_any_piece_is_read_and_one_without_end_is_skipped(
    tmp_path: Path,
) -> None:
    long = "x" * (5 << 20)
    log = Log().say("BEGIN", f"INSERT INTO a VALUES ('{long}')", "COMMIT")
    (shape,) = read(log, tmp_path).shapes
    assert len(shape.steps) == 1
    torn = log.text + '2026-11-26 10:00:00.123 UTC,"' + long + "\n" + Log().say("SELECT 1").text
    assert read(torn, tmp_path).transactions == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"log_min_duration_statement": "500"}, "Only some statements were logged"),
        ({"log_min_duration_sample": "0", "log_statement_sample_rate": "0.1", "log_min_duration_statement": "-1"}, "single ones by lot"),
        ({"log_parameter_max_length": "0"}, "log_parameter_max_length = -1"),
    ],
)  # fmt: skip
def test_settings_that_hide_statements_are_named(
    settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    found = read(Log().say("SELECT 1"), tmp_path, **settings)
    assert words in " ".join(found.notes)


def test_a_sample_of_transactions_says_which_share_it_is(tmp_path: Path) -> None:
    found = read(Log().say("SELECT 1"), tmp_path, log_min_duration_statement="-1", log_transaction_sample_rate="0.25")  # fmt: skip
    assert (found.sampled_share, found.is_complete) == (0.25, True)


def test_statements_without_durations_and_whole_seconds_are_said(tmp_path: Path) -> None:
    lines = "".join(f"2026-11-26 10:00:{x:02} UTC [77]: LOG:  statement: SELECT {x}\n" for x in range(20))  # fmt: skip
    found = read(lines, tmp_path, log_line_prefix="%t [%p]: ")
    assert found.transactions == 20
    assert "log_min_duration_statement = 0" in found.notes[0]
    assert any("whole seconds" in x for x in found.notes)
    assert found.shapes[0].pause_s is None


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"log_min_duration_statement": "0"},
        {"log_statement": "all"},
        {"log_transaction_sample_rate": "0.1"},
        {"log_min_duration_sample": "0"},
    ],
)
def test_a_server_that_logs_no_statements_is_told_before_the_window(
    change: dict[str, str],
) -> None:
    silent = {"log_min_duration_statement": "-1", "log_min_duration_sample": "-1", "log_statement": "none", "log_transaction_sample_rate": "0"}  # fmt: skip
    if change:
        check_statements_are_logged(silent | change)
        return
    with pytest.raises(LogError, match="does not log statements"):
        check_statements_are_logged(silent)


def test_a_language_that_nobody_here_reads_is_refused_before_the_window() -> None:
    with pytest.raises(LogError, match="not in English: lc_messages is de_DE"):
        check_logs([], {"lc_messages": "de_DE.UTF-8"})


@pytest.mark.parametrize(
    "prefix",
    ["%t [%p]: user=%u,db=%d,app=%a,client=%h ", "%t:%r:%u@%d:[%p]:", "%m [%p]: [%l-1] db=%d,user=%u ", "%t-%c-", "%n [%p] ", "%-20a%m %p %e "],
)  # fmt: skip
def test_prefixes_of_services_are_inferred_and_others_taken_from_the_server(prefix: str) -> None:
    parts = {"%t": "2026-11-26 10:00:00 UTC", "%m": STAMP, "%n": "1795687200.123", "%p": "77", "%u": "u", "%d": "d", "%-20a": "my app".ljust(20), "%a": "my app", "%h": "10.0.0.1", "%r": "10.0.0.1(5432)", "%l": "3", "%c": "6921a1b2.3e8", "%e": "00000"}  # fmt: skip
    written = prefix
    for letter, value in parts.items():
        written = written.replace(letter, value)
    text = f"{written}LOG:  duration: 1.0 ms  execute <unnamed>: SELECT $1\n{written}DETAIL:  parameters: $1 = 'a\n\tb'\n"
    log = recognised(text, [prefix] if prefix.startswith("%-") else [])
    assert log is not None
    (entry,) = entries(log, text)
    assert entry.detail == "parameters: $1 = 'a\nb'"
    assert entry.session in ("77", "6921a1b2.3e8")


def test_small_numbers_of_no_column_are_told_with_their_shares(tmp_path: Path) -> None:
    """Numbers up to 99 are their own tokens; of a parameter with any other value nothing is told."""
    log = Log()
    for at in range(100):
        log.say(f"SELECT a FROM b WHERE c < current_date + {at % 4} AND d > e + {at}00")
    [statement] = read(log, tmp_path).statements
    days, amounts = statement.parameters
    assert sorted(days.common) == [(str(x), 0.25) for x in range(4)]
    assert days.has_all_numbers
    assert not days.is_constant
    assert (amounts.common, amounts.has_all_numbers) == ((), False)
