"""The file of `pgdrag observe`: what is written is read back, sums survive thinning, it stays small and private, and
others' files are refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observed import BEGAN, QUANTITIES, WAITS, hasty, sample, totals
from pgdrag.errors import ObservationsError, StorageError
from pgdrag.model.observed import (
    GAP,
    OTHER_STATEMENTS,
    ObservedServer,
    Quantity,
    Sample,
    Setting,
    Spread,
    Statement,
    StatementTotals,
    Wait,
)
from pgdrag.model.recordings import Event
from pgdrag.observations.store import LEAST_BYTES, ObservationReader, ObservationWriter
from pgdrag.observations.thinning import (
    LEVELS,
    MOST_STATEMENTS,
    added_up,
    leading,
    level_to_thin,
    merged,
)


@pytest.fixture(scope="module")
def small_bytes() -> Iterator[int]:
    """A bound below the least that people may ask for: fewer samples fill it."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("pgdrag.observations.store.LEAST_BYTES", LEAST_BYTES // 2)
        yield LEAST_BYTES // 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.obs"


@pytest.fixture
def new(path: Path) -> Callable[..., ObservationWriter]:
    def make(most_bytes: int = 50 << 20) -> ObservationWriter:
        return hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=most_bytes))

    return make


def read(path: Path) -> list[Sample]:
    with ObservationReader(path) as reader:
        return list(reader.samples(0, 1e12))


# --- what is written is read back


def test_a_sample_is_read_as_it_was_written(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    written = [sample(x) for x in range(3)]
    writer = new()
    for one in written:
        writer.append_sample(one, QUANTITIES)
    writer.close()
    assert read(path) == written


def test_it_can_be_read_while_it_is_written(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    writer = new()
    writer.append_sample(sample(0), QUANTITIES)
    with ObservationReader(path) as reader:
        writer.append_sample(sample(1), QUANTITIES)
        assert len(list(reader.samples(0, 1e12))) == 1  # what is read is of one moment
    assert len(read(path)) == 2
    writer.close()


def test_server_settings_and_events_are_known_at_any_moment(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    writer = new()
    old, later = ObservedServer("db", "14.1", "7"), ObservedServer("db", "18.6", "7")
    work_mem, gone = Setting("work_mem", "4096kB", "4096kB"), Setting("gone", "on", "off")
    writer.append_server(BEGAN, old)
    assert writer.append_settings(BEGAN, [work_mem, gone]) == []
    writer.append_server(BEGAN + 5, old)
    writer.append_server(BEGAN + 10, later)
    changed = writer.append_settings(BEGAN + 10, [replace(work_mem, value="8192kB")])
    writer.append_event(Event(GAP, BEGAN + 3, BEGAN + 9, "it was away"))
    writer.close()
    assert changed == ["work_mem = 8192kB (was 4096kB)", "gone is gone"]
    with ObservationReader(path) as reader:
        assert (reader.server(BEGAN + 9), reader.server(BEGAN + 10)) == (old, later)
        assert reader.settings(BEGAN + 9) == (gone, work_mem)
        assert reader.settings(BEGAN + 10) == (replace(work_mem, value="8192kB"),)
        assert [x.text for x in reader.events(BEGAN + 8, BEGAN + 9)] == ["it was away"]
        assert not reader.events(BEGAN + 9.5, BEGAN + 12)


def test_reading_leaves_nothing_beside_the_file(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    writer = new()
    writer.append_sample(sample(0), QUANTITIES)
    writer.close()
    read(path)
    assert [x.name for x in path.parent.iterdir()] == [path.name]


def test_what_is_appended_later_goes_on(path: Path, new: Callable[..., ObservationWriter]) -> None:
    writer = new()
    writer.append_sample(sample(0), QUANTITIES)
    writer.close()
    writer = ObservationWriter.append(path, most_bytes=LEAST_BYTES)
    assert writer.ended_unix_s == BEGAN + 10
    writer.append_sample(sample(1), (*QUANTITIES, Quantity("new_s", "new", "s")))
    writer.close()
    assert read(path) == [sample(0), sample(1)]


# --- thinning


def sums(samples: Sequence[Sample]) -> tuple[dict[str, float], dict[Wait, float], StatementTotals]:
    """All that was counted, whatever the intervals."""
    values: dict[str, float] = {}
    waits: dict[Wait, float] = {}
    for one in samples:
        for name, spread in one.values.items():
            values[name] = values.get(name, 0.0) + spread.mean * spread.known_s
        for wait, processes in one.waits.items():
            waits[wait] = waits.get(wait, 0.0) + processes * one.observed_s
    whole = totals(0, 0.0)
    for one_totals in added_up(one.statements for one in samples).values():
        whole += one_totals
    return values, waits, replace(whole, blocks_read=0)


spreads = st.builds(
    lambda mean, below, above, known_s: Spread(mean, mean - below, mean + above, known_s),
    *(st.floats(0, 1e6), st.floats(0, 10), st.floats(0, 10), st.floats(0.1, 60)),
)
samples_of_lengths = st.lists(
    st.builds(
        lambda length_s, values, waits, calls: (length_s, values, waits, calls),
        st.floats(0.5, 60),
        st.dictionaries(st.sampled_from([x.name for x in QUANTITIES]), spreads),
        st.dictionaries(st.sampled_from(WAITS), st.floats(0, 50)),
        st.dictionaries(st.integers(0, 60), st.integers(1, 1000), max_size=60),
    ),
    min_size=1,
    max_size=8,
)


def in_a_row(
    parts: Sequence[tuple[float, dict[str, Spread], dict[Wait, float], dict[int, int]]],
) -> list[Sample]:
    at, found = BEGAN, []
    for length_s, values, waits, calls in parts:
        uses = {
            Statement("", f"SELECT {x}"): replace(totals(n, n / 8), blocks_read=0)
            for x, n in calls.items()
        }
        found.append(Sample(at, at + length_s, length_s, at, values, waits, uses))
        at += length_s
    return found


@given(samples_of_lengths)
def test_merging_keeps_all_sums_and_extremes(
    parts: list[tuple[float, dict[str, Spread], dict[Wait, float], dict[int, int]]],
) -> None:
    given_samples = in_a_row(parts)
    one = merged(given_samples, level=1)
    before, after = sums(given_samples), sums([one])
    assert after[0] == pytest.approx(before[0])
    assert after[1] == pytest.approx(before[1])
    assert after[2].calls == before[2].calls
    assert after[2].exec_s == pytest.approx(before[2].exec_s)
    assert len(one.statements) <= MOST_STATEMENTS + 1
    for name, spread in one.values.items():
        seen = [x.values[name] for x in given_samples if name in x.values]
        assert (spread.low, spread.high) == (min(x.low for x in seen), max(x.high for x in seen))


@given(samples_of_lengths, st.integers(1, 7))
def test_it_does_not_matter_in_how_many_steps_samples_are_merged(
    parts: list[tuple[float, dict[str, Spread], dict[Wait, float], dict[int, int]]], cut: int
) -> None:
    given_samples = in_a_row(parts)
    at_once = merged(given_samples, level=2)
    halves = [merged(x, level=1) for x in (given_samples[:cut], given_samples[cut:]) if x]
    in_steps = merged(halves, level=2)
    assert {x: y.mean for x, y in in_steps.values.items()} == pytest.approx(
        {x: y.mean for x, y in at_once.values.items()}
    )
    assert in_steps.waits == pytest.approx(at_once.waits)


def test_statements_beyond_the_leading_ones_are_added_up() -> None:
    uses = {Statement("", f"SELECT {x}"): totals(x, float(x)) for x in range(MOST_STATEMENTS + 3)}
    kept = leading(uses)
    assert kept[Statement("", OTHER_STATEMENTS)] == totals(3, 3.0).__class__(
        3, 6, 3.0, 0.0, 1.5, 3, 3, 0, 300
    )
    assert leading(kept) == kept


@given(st.lists(st.integers(0, 1000), min_size=LEVELS, max_size=LEVELS).filter(any))
def test_only_a_level_with_samples_is_thinned(counts: list[int]) -> None:
    assert counts[level_to_thin(counts)] > 0


@settings(max_examples=5)
@given(st.integers(15, 25), st.sampled_from([60, 500, 2000]), st.floats(1, 40))
def test_a_file_stays_within_its_bound_and_keeps_the_newest(
    tmp_path_factory: pytest.TempPathFactory, statements: int, text_bytes: int, length_s: float
) -> None:
    path = tmp_path_factory.mktemp("bound") / "x.obs"
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES))
    written = [
        sample(x, length_s=length_s, text_bytes=text_bytes, statements=statements)
        for x in range(700)
    ]
    for one in written:
        writer.append_sample(one, QUANTITIES)
        assert writer.size_bytes <= LEAST_BYTES
    assert path.stat().st_size <= LEAST_BYTES
    writer.close()
    assert path.stat().st_size <= LEAST_BYTES
    assert not path.with_name("x.obs-wal").exists()
    kept = read(path)
    assert kept[-1] == written[-1]
    assert all(x.ended_unix_s <= y.began_unix_s + 1e-6 for x, y in pairwise(kept))
    if kept[0].began_unix_s == BEGAN:  # nothing was dropped: all that was counted is still there
        assert sums(kept)[0] == pytest.approx(sums(written)[0])
        assert sums(kept)[2].calls == sums(written)[2].calls


def test_old_samples_become_coarser_and_then_go(
    path: Path, new: Callable[..., ObservationWriter], small_bytes: int
) -> None:
    writer = new(small_bytes)
    for x in range(350):
        writer.append_sample(sample(x, length_s=3000, statements=25), QUANTITIES)
    assert writer.thinned > 0
    assert writer.dropped > 0
    writer.close()
    kept = read(path)
    levels = [one.level for one in kept]
    assert levels == sorted(levels, reverse=True)
    assert set(levels) == set(range(LEVELS))
    with ObservationReader(path) as reader:
        until = reader.dropped_until()
    assert until is not None
    assert BEGAN < until <= kept[0].began_unix_s


def test_a_smaller_bound_shrinks_a_larger_file(
    path: Path, new: Callable[..., ObservationWriter], small_bytes: int
) -> None:
    writer = new()
    for x in range(750):
        writer.append_sample(sample(x, text_bytes=1500), QUANTITIES)
    writer.close()
    assert path.stat().st_size > small_bytes
    writer = hasty(ObservationWriter.append(path, most_bytes=small_bytes))
    for x in range(750, 790):
        writer.append_sample(sample(x), QUANTITIES)
    writer.close()
    assert path.stat().st_size <= small_bytes
    assert read(path)[-1] == sample(789)


# --- whose file it is


def test_the_file_is_private(path: Path, new: Callable[..., ObservationWriter]) -> None:
    old = os.umask(0)
    try:
        writer = new()
        writer.append_sample(sample(0), QUANTITIES)
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        writer.close()
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}


def test_a_second_writer_is_refused(path: Path, new: Callable[..., ObservationWriter]) -> None:
    writer = new()
    refused = subprocess.run(
        [sys.executable, "-c", _WRITE, str(path), "0"], capture_output=True, text=True, check=False
    )
    assert "another pgdrag writes to this file" in refused.stderr
    writer.append_sample(sample(0), QUANTITIES)
    writer.close()
    ObservationWriter.append(path, most_bytes=LEAST_BYTES).close()


def test_an_existing_file_is_not_overwritten(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    path.write_text("precious")
    with pytest.raises(ObservationsError, match="exists already"):
        new()
    assert path.read_text() == "precious"


def foreign_text(path: Path) -> None:
    path.write_text("hello " * 100)


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE run (x)")
    db.close()


def newer(path: Path) -> None:
    ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def with_trigger(path: Path) -> None:
    ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES).close()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM sample; END")
    db.close()


def torn(path: Path) -> None:
    writer = ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES)
    for x in range(50):
        writer.append_sample(sample(x), QUANTITIES)
    writer.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign_text, "not a file of observations"),
        (foreign_database, "not a file of observations"),
        (newer, "version 99, newer than 1"),
        (with_trigger, "does not have the tables"),
        (torn, "damaged"),
        (lambda path: path.mkdir(), "not a file"),
        (lambda path: None, "no such file"),
    ],
)
def test_other_files_are_refused(path: Path, make: Callable[[Path], None], words: str) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(ObservationsError, match=words):
        read(path)
    with pytest.raises(ObservationsError, match=words):
        ObservationWriter.append(path, most_bytes=LEAST_BYTES)
    if words != "damaged" and path.is_file():
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM statement WHERE id = 1",
        "DELETE FROM quantity WHERE id = 1",
        "DELETE FROM wait_name",
        "UPDATE value SET mean = 'many' WHERE quantity = 1",
        "UPDATE sample SET observed_s = 9e999",
        "UPDATE statement SET text = x'ff' WHERE id = 1",
        # What would be a time beyond all calendars, a division by 0, or a unit without words.
        "DELETE FROM file",
        "UPDATE sample SET wall_unix_s = 1e12",
        "UPDATE sample SET began_unix_s = -1",
        "UPDATE sample SET ended_unix_s = began_unix_s",
        "UPDATE sample SET observed_s = 0.0",
        "UPDATE sample SET level = 9",
        "UPDATE quantity SET unit = 'furlongs' WHERE id = 1",
        "UPDATE value SET mean = 1e200 WHERE quantity = 1",
        "UPDATE value SET known_s = -1.0 WHERE quantity = 1",
        "UPDATE wait SET processes = -1.0",
        "UPDATE statement_use SET wal_bytes = 9223372036854775807",
        "UPDATE statement_use SET calls = -1",
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    path: Path, new: Callable[..., ObservationWriter], damage: str
) -> None:
    writer = new()
    writer.append_sample(sample(0), QUANTITIES)
    writer._db.execute(damage)
    writer.close()
    with pytest.raises(ObservationsError, match="the file is damaged"):
        read(path)
    with pytest.raises(ObservationsError, match="the file is damaged"):
        ObservationWriter.append(path, most_bytes=LEAST_BYTES)


def test_a_full_disk_is_an_error_and_the_file_stays_whole(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    writer = new()
    writer.append_sample(sample(0), QUANTITIES)
    writer._db.execute("PRAGMA max_page_count = 1")
    large = sample(1, text_bytes=190_000)
    with pytest.raises(StorageError, match="full"):
        writer.append_sample(large, QUANTITIES)
    assert read(path)[0] == sample(0)


# --- kill -9

_WRITE = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from observed import QUANTITIES, sample
from pgdrag.observations.store import ObservationWriter
writer = ObservationWriter.append(Path(sys.argv[1]), most_bytes=1 << 20)
number = int(sys.argv[2])
while True:
    writer.append_sample(sample(number), QUANTITIES)
    print(number, flush=True)
    number += 1
"""


def test_kill_minus_nine_loses_at_most_the_sample_being_written(
    path: Path, new: Callable[..., ObservationWriter]
) -> None:
    new(LEAST_BYTES).close()
    number = 0
    for kill in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITE, str(path), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        written = -1
        for line in process.stdout:
            written = int(line)
            if written >= number + 40 + 17 * kill:
                break
        # At a moment that has nothing to do with what it does.
        time.sleep(0.001 * kill)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        written = int(rest[-1]) if rest else written
        newest = read(path)[-1]
        assert newest in (sample(written), sample(written + 1))
        number = written + 2
    writer = ObservationWriter.append(path, most_bytes=LEAST_BYTES)
    assert writer._db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    writer.close()
