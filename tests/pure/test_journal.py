"""The journal keeps what it was given, and says what is wrong with a file that is none."""

import errno
import fcntl
import itertools
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_core import to_jsonable_python

from capabilities import needs_root
from pgdrag.agenda import expand
from pgdrag.errors import JournalError, StorageError
from pgdrag.findings.find import find
from pgdrag.journal import Journal
from pgdrag.journal._base import unpacked
from pgdrag.journal._file import SCHEMA
from pgdrag.model import Block, Host
from pgdrag.model.load import BenchBaseRate, Closed, Pacing
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series, StatementPlan
from pgdrag.report.json import render_json
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, simulated_ladder

STUDY = simulated_ladder("a", "b", replicates=2)
HOST = Host("simulated", 2, 1 << 30, "simulated", "simulated")

EXHIBITS = Recordings(
    (
        Series("wal_bytes_per_s", "WAL", "bytes/s", (1.0, 2.0), (8192.0, 0.0)),
        StatementPlan("SELECT 1", custom={"Node Type": "Result", "Plans": []}),
    ),
    missing={"profile": "no perf here"},
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "deep" / "journal.sqlite")


def begin(journal: Journal) -> str:
    return journal.begin_run(
        STUDY, HOST, server_wanted="15", server_version="15.1", pgdrag_version="0", seed=5
    )


def test_a_result_comes_back_as_it_was_given_samples_and_recordings_included(
    journal: Journal,
) -> None:
    run_id = begin(journal)
    trials = expand(
        Block((STUDY.rungs[1].treatment,)),
        STUDY,
        seed=5,
        block_number=1,
        first_number=1,
    )
    journal.plan_trials(run_id, trials)
    given = SimulatedTrialRunner(Truth(noise=0.1)).run(trials[0], lambda event: None)
    assert given.measurement is not None
    first, *others = given.measurement.samples
    first = replace(first, p50_us=1.5, p95_us=2.5, p99_us=3.5)
    measurement = replace(given.measurement, samples=(first, *others))
    given = replace(given, recordings=EXHIBITS, measurement=measurement)
    journal.end_attempt(run_id, journal.begin_attempt(run_id, 1), given)
    reopened = Journal(journal.path).run(run_id)
    assert reopened.results == (given,)
    assert len(measurement.samples) == 20
    assert (reopened.study, reopened.host, reopened.seed) == (STUDY, HOST, 5)


def test_a_second_attempt_takes_the_place_of_the_first(journal: Journal) -> None:
    run_id = begin(journal)
    (first, *_) = trials = expand(
        Block((STUDY.rungs[0].treatment,)), STUDY, seed=5, block_number=1, first_number=1
    )
    journal.plan_trials(run_id, trials)
    for seed in (1, 2):
        result = SimulatedTrialRunner(Truth(noise=0.1), seed=seed).run(first, lambda event: None)
        journal.end_attempt(run_id, journal.begin_attempt(run_id, 1), result)
    assert journal.results(run_id) == {1: result}


def test_an_attempt_has_one_result_and_none_once_another_has_begun(journal: Journal) -> None:
    run_id = begin(journal)
    (first, *_) = trials = expand(
        Block((STUDY.rungs[0].treatment,)), STUDY, seed=5, block_number=1, first_number=1
    )
    journal.plan_trials(run_id, trials)
    one, other = (
        SimulatedTrialRunner(Truth(noise=0.1), seed=x).run(first, lambda event: None)
        for x in (1, 2)
    )
    early, late = journal.begin_attempt(run_id, 1, "a"), journal.begin_attempt(run_id, 1, "b")
    assert not journal.end_attempt(run_id, early, one)
    assert journal.results(run_id) == {}
    assert journal.end_attempt(run_id, late, one)
    assert not journal.end_attempt(run_id, late, other)
    assert not journal.end_attempt(run_id, late + 1, other)
    assert journal.results(run_id) == {1: one}


def test_trials_planned_ahead_are_no_part_of_a_run_until_they_are_asked_for(
    journal: Journal,
) -> None:
    run_id = begin(journal)
    block = Block(tuple(rung.treatment for rung in STUDY.rungs))
    guess, other = (
        expand(block, STUDY, seed=seed, block_number=1, first_number=1) for seed in (5, 6)
    )
    assert journal.plan_trials(run_id, guess, is_ahead=True)
    result = SimulatedTrialRunner(Truth()).run(guess[0], lambda event: None)
    assert journal.end_attempt(run_id, journal.begin_attempt(run_id, 1), result)
    assert (journal.run(run_id).results, journal.run(run_id).planned_trials) == ((), 0)
    assert journal.valid_results(run_id) == {1: result}
    assert journal.plan_trials(run_id, guess)
    assert journal.run(run_id).results == (result,)
    journal.forget_ahead(run_id)
    assert journal.run(run_id).results == (result,)
    assert not journal.plan_trials(run_id, other, is_ahead=True), "the design has asked for others"


def test_a_wrong_guess_gives_way_with_its_results(journal: Journal) -> None:
    run_id = begin(journal)
    block = Block(tuple(rung.treatment for rung in STUDY.rungs))
    guess, asked = (
        expand(block, STUDY, seed=seed, block_number=1, first_number=1) for seed in (5, 6)
    )
    journal.plan_trials(run_id, guess, is_ahead=True)
    result = SimulatedTrialRunner(Truth()).run(guess[0], lambda event: None)
    late = journal.begin_attempt(run_id, 1)
    assert journal.plan_trials(run_id, asked)
    assert not journal.end_attempt(run_id, late, result)
    assert journal.run(run_id).planned_trials == len(asked)


def test_a_page_gets_the_last_trials_that_have_ended_and_how_many_there_are(
    journal: Journal,
) -> None:
    run_id = begin(journal)
    block = Block(tuple(rung.treatment for rung in STUDY.rungs) * 2)
    *trials, last = expand(block, STUDY, seed=5, block_number=1, first_number=1)
    journal.plan_trials(run_id, trials)
    journal.plan_trials(run_id, [last], is_ahead=True)
    for trial in (trials[0], *trials, last):  # the first one twice
        result = SimulatedTrialRunner(Truth()).run(trial, lambda event: None)
        journal.end_attempt(run_id, journal.begin_attempt(run_id, trial.number), result)
    assert journal.ended_trials(run_id, most=0) == (len(trials), [])
    journal.begin_attempt(run_id, 2)
    count, lines = journal.ended_trials(run_id, most=2)
    assert count == len(trials) - 1
    assert [x.number for x in lines] == [x.number for x in (*trials[:1], *trials[2:])][:-3:-1]


def test_runs_are_found_by_id_by_start_and_as_the_last(journal: Journal) -> None:
    first, second = begin(journal), begin(journal)
    assert second != first
    assert journal.find(second) == second
    assert journal.find("last") == second
    assert journal.find(first) == first  # although it is the start of the other, too
    with pytest.raises(JournalError, match='"simul" names 2 runs'):
        journal.find("simul")
    with pytest.raises(JournalError, match='run "other" does not exist'):
        journal.find("other")


def test_a_planned_trial_cannot_silently_become_another(journal: Journal) -> None:
    run_id = begin(journal)
    plan = {"block_number": 1, "first_number": 1}
    block = Block(tuple(rung.treatment for rung in STUDY.rungs))
    journal.plan_trials(run_id, expand(block, STUDY, seed=5, **plan))
    journal.plan_trials(run_id, expand(block, STUDY, seed=5, **plan))
    with pytest.raises(JournalError, match=r"plans trial \d+ differently"):
        journal.plan_trials(run_id, expand(block, STUDY, seed=6, **plan))


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_text("not a database, but long enough to be taken for one" * 30)
    with pytest.raises(JournalError, match="file is not a database"):
        Journal(path)


def test_a_journal_from_a_newer_pgdrag_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    with pytest.raises(JournalError, match="newer than"):
        Journal(path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file\": it is not a directory") as found:
        Journal(tmp_path / "file" / "journal.sqlite")
    assert found.value.hint == "Name another directory in PGDRAG_HOME."  # there is room


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (errno.EROFS, "Name another directory in PGDRAG_HOME."),
        (errno.EACCES, "Name another directory in PGDRAG_HOME."),
        (errno.ENOSPC, "Make room there, or name another directory in PGDRAG_HOME."),
    ],
)
def test_room_is_to_be_made_only_where_there_is_none(
    reason: int, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(reason, os.strerror(reason), str(tmp_path / "home"))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StorageError, match=os.strerror(reason).lower()) as found:
        Journal(tmp_path / "home" / "journal.sqlite")
    assert found.value.hint == hint


def test_the_journal_is_its_users_alone_also_one_that_an_older_pgdrag_made(
    tmp_path: Path,
) -> None:
    path = tmp_path / "home" / "journal.sqlite"
    for _ in range(2):
        journal = Journal(path)
        begin(journal)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        files = list(path.parent.iterdir())
        assert {each.name for each in files} == {f"{path.name}{x}" for x in ("", "-wal", "-shm")}
        assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
        journal.close()
        path.chmod(0o644)


@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("is_fifo", [True, False])
def test_a_strangers_home_leads_the_journal_to_no_other_file(
    tmp_path: Path, part: str, is_fifo: bool
) -> None:
    """Root would close the file that a link names to all others, or change it."""
    home, foreign = tmp_path / "home", tmp_path / "passwd"
    home.mkdir()
    foreign.write_text("root")
    foreign.chmod(0o644)
    Journal(home / "journal.sqlite").close()
    place = home / f"journal.sqlite{part}"
    place.unlink(missing_ok=True)
    if is_fifo:
        os.mkfifo(place)
    else:
        place.symlink_to(foreign)
    with pytest.raises(
        JournalError, match=rf'"journal.sqlite{part}" is not one of pgdrag\'s files'
    ):
        Journal(home / "journal.sqlite")
    assert (foreign.read_text(), foreign.stat().st_mode & 0o777) == ("root", 0o644)


def test_a_rollback_journal_of_a_strangers_deletes_no_file(tmp_path: Path) -> None:
    """SQLite rolls it back before the first look, and deletes the "super-journal" that it names."""
    path, precious = tmp_path / "journal.sqlite", tmp_path / "precious"
    Journal(path).close()
    precious.write_text("root")
    name, magic = os.fsencode(precious), bytes.fromhex("d9d505f920a163d7")
    pages = path.stat().st_size // 4096
    head = magic + struct.pack(">5I", 0, 1, pages, 512, 4096)
    end = struct.pack(f">I{len(name)}s2I", 0x40000000 // 4096 + 1, name, len(name), sum(name))
    (tmp_path / "journal.sqlite-journal").write_bytes(head.ljust(512, b"\0") + end + magic)
    with pytest.raises(JournalError, match="is not one of pgdrag's files"):
        Journal(path)
    assert precious.read_text() == "root"


@pytest.mark.parametrize("version", [0, 1, len(SCHEMA)])
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, version: int) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(f"CREATE TABLE mail (text); PRAGMA user_version = {version};")
    db.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="it is a database of another program"):
        Journal(path)
    assert path.read_bytes() == before


@needs_root
def test_root_keeps_no_journal_where_another_user_could_put_links(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 4711, 4711)
    with pytest.raises(JournalError, match="others could replace the journal") as refused:
        Journal(tmp_path / "home" / "journal.sqlite")
    assert "PGDRAG_HOME" in str(refused.value.hint)


@pytest.mark.parametrize("run_id", ["../../www/index", "/srv/www/index", ".", "", "a/b"])
def test_a_run_whose_id_leads_elsewhere_is_nobodys(journal: Journal, run_id: str) -> None:
    own = begin(journal)
    with sqlite3.connect(journal.path) as db:
        db.execute("UPDATE run SET run_id = ?, started_unix_s = 9e9", (run_id,))
    db.close()
    with pytest.raises(JournalError, match="does not exist"):
        journal.find("last")
    assert begin(journal) == own == journal.find("last")
    assert [x.run_id for x in journal.summaries()] == [own]


def test_two_first_starts_at_once_both_succeed(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from pgdrag.journal import Journal; sys.stdin.read(1); "
        "print(len(Journal(pathlib.Path(sys.argv[1])).summaries()))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "home" / "journal.sqlite")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for each in both:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    for each in both:
        said, complained = each.communicate(timeout=60)
        assert (said, complained, each.returncode) == ("0\n", "", 0)


def test_a_second_start_waits_for_the_first_one_to_make_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.journal._file._LOCK_TIMEOUT_S", 0.05)
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)  # what the first one holds meanwhile
    with pytest.raises(JournalError, match="is locked by another process"):
        Journal(tmp_path / "journal.sqlite")
    assert list(tmp_path.iterdir()) == []
    os.close(fd)
    assert Journal(tmp_path / "journal.sqlite").summaries() == []


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "fuse.gcsfuse", "9p"])
def test_a_journal_on_a_network_file_system_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"36 35 0:44 / {tmp_path} rw,relatime - {kind} server:/home rw\n"
    (tmp_path / "mountinfo").write_text(line)
    monkeypatch.setattr("pgdrag.host.mounts._MOUNTINFO", tmp_path / "mountinfo")
    with pytest.raises(JournalError, match=rf"network file system \({kind}\)") as raised:
        Journal(tmp_path / "home" / "journal.sqlite")
    assert raised.value.hint == "Set PGDRAG_HOME to a directory of a local file system."
    assert not (tmp_path / "home" / "journal.sqlite").exists()
    (tmp_path / "mountinfo").write_text(line.replace(kind, "ext4"))
    assert Journal(tmp_path / "home" / "journal.sqlite").summaries() == []


def test_a_damaged_journal_is_told_without_a_traceback(journal: Journal) -> None:
    begin(journal)
    journal.close()
    size = journal.path.stat().st_size
    with journal.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    damaged = Journal(journal.path)
    with pytest.raises(JournalError, match="could not use journal"):
        damaged.summaries()


def test_a_value_of_another_kind_in_any_column_is_read_or_told_in_words(journal: Journal) -> None:
    run_id = begin(journal)
    trials = expand(Block((STUDY.rungs[1].treatment,)), STUDY, seed=5, block_number=1, first_number=1)  # fmt: skip
    journal.plan_trials(run_id, trials)
    result = SimulatedTrialRunner(Truth()).run(trials[0], lambda event: None)
    result = replace(result, recordings=EXHIBITS)
    journal.end_attempt(run_id, journal.begin_attempt(run_id, 1), result)
    journal.close()
    sound = journal.path.read_bytes()
    told = set()
    for table in ("run", "trial", "attempt", "sample", "exhibits"):
        with closing(sqlite3.connect(journal.path)) as db:
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
        for column, value in itertools.product(columns, ("words", b"\xff", None, 1e300)):
            # A connection that is not closed lives until the garbage collector finds it, and keeps the log of what
            # came after it beside the file.
            assert [x.name for x in journal.path.parent.iterdir()] == [journal.path.name]
            journal.path.write_bytes(sound)
            with (
                closing(sqlite3.connect(journal.path, isolation_level=None)) as db,
                suppress(sqlite3.IntegrityError),  # SQLite itself lets no such value in
            ):
                db.execute(f"UPDATE {table} SET {column} = ?", (value,))
            with closing(Journal(journal.path)) as opened:
                try:
                    for one in opened.summaries():
                        opened.ended_trials(one.run_id, most=5)
                        render_json(find(opened.run(one.run_id)))
                except JournalError:
                    told.add((table, column))
    assert {
        ("run", "run_id"), ("run", "started_unix_s"), ("sample", "committed"), ("sample", "t_s"),
    } <= told  # fmt: skip


@pytest.mark.parametrize("number", ["1e200", "-1e999", "NaN", "9" * 400])
def test_numbers_that_nobody_measures_are_told_before_anything_reckons_with_them(
    journal: Journal, number: str
) -> None:
    run_id = begin(journal)
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as db:
        (study,) = db.execute("SELECT study FROM run").fetchone()
        changed = re.sub(r'"warm_up_s":[\d.]+', f'"warm_up_s":{number}', study)
        assert changed != study
        db.execute("UPDATE run SET study = ?", (changed,))
    with pytest.raises(JournalError, match="could not read run"):
        journal.run(run_id)


@pytest.mark.parametrize(
    "packed",
    [zlib.compress(bytes(2**20)), zlib.compress(b"{}")[:-1], b"no zlib"],
    ids=["too much", "torn", "something else"],
)
def test_recordings_of_a_strangers_journal_take_no_more_memory_than_any_have(
    packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.journal._base.LARGEST_RECORDINGS_BYTES", 2**20 - 1)
    with pytest.raises(JournalError, match="recordings of a trial are damaged"):
        unpacked(packed)


# What the first version wrote, as far as the next ones changed it.
OLD_LOAD = {"connections": 2, "warm_up_s": 1, "measure_s": 2, "budget_s": 3, "rate_per_s": 100.0}
OLD_DRIVER = {
    "user_cpu_s": 1.0,
    "system_cpu_s": 0.5,
    "loop_lag_us_p99": 7.0,
    "loop_lag_us_max": 9.0,
    "threads": 1,
}


@pytest.mark.parametrize(
    ("rate_per_s", "pacing"), [(100.0, BenchBaseRate(100.0, 10_000)), (None, Closed())]
)
def test_a_run_of_the_first_version_is_read_with_what_its_rate_meant(
    tmp_path: Path, rate_per_s: float | None, pacing: Pacing
) -> None:
    load = OLD_LOAD | {"rate_per_s": rate_per_s}
    study = to_jsonable_python(STUDY) | {"load": load}
    (first, *_) = expand(
        Block((STUDY.rungs[0].treatment,)), STUDY, seed=5, block_number=1, first_number=1
    )
    trial = to_jsonable_python(first) | {"load": load}
    window = {
        "elapsed_s": 2.0,
        "stopped_by": "deadline",
        "transactions": {"payment": {"scheduled": 3, "committed": 3}},
        "latency": {},
        "samples": [],
        "driver": OLD_DRIVER,
        "queue_us_p99": 5.0,
        "max_queue": 3,
    }
    result = {"trial": trial, "outcome": "measured", "started_unix_s": 0.0, "measurement": window}
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(f"{SCHEMA[0]}; PRAGMA user_version = 1;")
        run = ("old", "x", "demo", "done", json.dumps(study), json.dumps(to_jsonable_python(HOST)))
        db.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?, NULL, '18', '0', 5, 0, 1, 1)", run)
        db.execute("INSERT INTO trial VALUES ('old', 1, 1, 1, 'R0', ?)", (json.dumps(trial),))
        db.execute(
            "INSERT INTO attempt VALUES ('old', 1, 1, 0, 1, 'measured', '', 3, 2.0, ?)",
            (json.dumps(result),),
        )
        db.execute("INSERT INTO sample VALUES ('old', 1, 1, 1, 1.0, 1.0, 3, 0, 5.0)")
    journal = Journal(path)
    found = journal.run("old")
    (only,) = found.results
    assert (found.study.load.pacing, only.trial.load.pacing) == (pacing, pacing)
    assert only.measurement is not None
    assert only.measurement.samples == (Sample(1.0, 1.0, 3, 0, 5.0, None),)
    driver = only.measurement.driver
    assert (driver.user_cpu_s, driver.stall_us_p99, driver.busiest_thread_cpu_s) == (1.0, 7.0, None)
    journal.plan_trials("old", [replace(first, load=only.trial.load)])
