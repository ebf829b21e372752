"""What reads what others wrote, and what is it given to begin with?

Each target takes any bytes. What it may raise is an error of pgdrag's own, with words for people; anything else is a
bug, and so is whatever takes all memory, or no end.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from json_changes import changed_json
from log_writing import csv_record, json_record
from sqlite_changes import changed_sqlite
from test_driver_contract import ARRIVALS, HELLO, WARM, counts, done, interval
from toml_changes import changed_toml

from observed import BEGAN, QUANTITIES, hasty, sample
from pgdrag.agenda import expand
from pgdrag.capture.log.formats import CsvLog, JsonLog, StderrLog
from pgdrag.cli.findings import findings_of
from pgdrag.data_twin.load.mix import mix_of
from pgdrag.driver.contract import DoneLine, IntervalLine, measurement_of, parse_line
from pgdrag.errors import PgdragError
from pgdrag.experiment import parse_experiment, shipped_files
from pgdrag.experiment.formats import Source, all_formats, read_source
from pgdrag.fleet.file import read_fleet
from pgdrag.fleet.messages import (
    Done,
    End,
    Happened,
    Hello,
    Lease,
    Order,
    Renew,
    Run,
    Stopped,
    from_coordinator,
    from_host,
    written,
)
from pgdrag.journal import Journal
from pgdrag.journal.live_file import LiveReader
from pgdrag.model import Block, Host, Trial
from pgdrag.model.events import PhaseStarted, ignore
from pgdrag.model.observed import Stretch
from pgdrag.model.recordings import Recordings, Series, StatementPlan
from pgdrag.observations.export import export_tables
from pgdrag.observations.store import ObservationWriter
from pgdrag.observations.stretch import read_stretch, statement_parts
from pgdrag.report.html import render_html
from pgdrag.report.json import render_json
from pgdrag.report.markdown import render_markdown
from pgdrag.report.stretch.formats import (
    render_stretch_html,
    render_stretch_json,
    render_stretch_markdown,
    stretch_terminal_text,
)
from pgdrag.report.stretch.text import render_stretch_text
from pgdrag.servers.log_formats import FORMATS
from pgdrag.testing.simulated import SimulatedTrialRunner, Truth, simulated_ladder
from pgdrag.twins.file import parse_twin
from pgdrag.twins.words import PARTS, summary_lines

TESTS = Path(__file__).parents[1]
NAME = Path("/fuzzed/file.toml")
PREFIX = "%m [%p] %q%u@%d "
# In memory, where there is some: each case of a file is a file.


@dataclass(frozen=True)
class Target:
    """Something that reads.

    Attributes:
        read: any bytes.
        seeds: what it reads every day.
        longest: bytes of a case; longer ones only repeat.
        change: what makes other content of the same form of it; None: it does not have that form.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    longest: int = 4_096
    change: Callable[[bytes, Random], bytes | None] = changed_json

    def check(self, content: bytes) -> None:
        """Read it; what comes out of here is a bug."""
        with suppress(PgdragError):
            self.read(content)


def _text(content: bytes) -> str:
    # Files are read as UTF-8 before any of these.
    return content.decode("utf-8", "replace")


def _experiment(content: bytes) -> None:
    experiment = parse_experiment(_text(content), NAME)
    for scale in experiment.scales:
        experiment.study(scale)


def _experiments() -> Iterator[bytes]:
    for path in shipped_files().values():
        text = path.read_text()
        yield text.encode()
        # Parts of it, of which each is small enough to be changed everywhere.
        head, *parts = text.split("\n[")
        for part in parts:
            yield f"{head}\n[{part}\n[scales.small]\n".encode()
    yield (TESTS / "campaign" / "tiny.toml").read_bytes()
    yield (TESTS / "campaign" / "system.toml").read_bytes()
    yield (TESTS / "postgres" / "planted.toml").read_bytes()


def _settings(content: bytes) -> None:
    read_source(Source(NAME.with_suffix(".conf"), _text(content)))


def _configurations() -> Iterator[bytes]:
    for format_ in all_formats().values():
        yield format_.example.encode()
    for path in sorted((TESTS / "pure" / "configurations").rglob("*")):
        if path.is_file() and path.stat().st_size <= 2_048:
            yield path.read_bytes()


def _driver_lines(content: bytes) -> None:
    intervals, done = [], None
    for line in content.splitlines():
        found = parse_line(line)
        if isinstance(found, IntervalLine):
            intervals.append(found)
        if isinstance(found, DoneLine):
            done = found
    if done is not None:
        measurement_of(done, intervals)


def _said_by_drivers() -> Iterator[bytes]:
    for lines in (
        [HELLO, WARM, interval(3, scheduled=4), done(**counts(3, in_flight=1))],
        [HELLO, interval(2), interval(1, 3.0, failed=2), done(2.0, **counts(3, failed=2)) | {"arrivals": ARRIVALS}],
        [{"type": "phase", "name": "run", "t_s": 0.5}, {"type": "progress", "phase": "load", "done": 1, "total": 2, "t_s": 1}],
        [{"type": "clock", "id": 1, "received_s": 0.5, "t_s": 1}, {"type": "error", "message": "no", "sqlstate": None, "phase": "run"}],
        [{"type": "waits", "t_s": 1, "duration_s": 1, "looks": 5, "processes": {"client backend": {"": 1}}}],
    ):  # fmt: skip
        yield "\n".join(map(json.dumps, lines)).encode()


def _server_log(content: bytes) -> None:
    for form in FORMATS.values():
        for record in form.records(content):
            found = form.parse(record)
            if found is not None:
                with suppress(ValueError):  # as its readers do
                    found.unix_s  # noqa: B018


def _captured_log(content: bytes) -> None:
    text = _text(content)
    text = text[: text.rfind("\n") + 1]
    for form in (CsvLog(), JsonLog(), StderrLog(PREFIX)):
        form.messages_of(text)
        form.entries(text, is_last=True)


def _logs() -> Iterator[bytes]:
    stamp = {
        "timestamp": "2026-11-21 12:00:00.125 UTC",
        "severity": "LOG",
        "sqlstate": "00000",
        "pid": 7,
    }
    for text in (
        "checkpoint starting: time",
        "duration: 0.5 ms  execute s: SELECT $1\nFROM t",
        'a "quoted" text',
    ):
        for write in (json_record, csv_record):
            yield write(text, **stamp).encode()  # type: ignore[arg-type]
        yield f"2026-11-21 12:00:00.125 UTC [7] u@d LOG:  {text}\n".encode()
    yield b"2026-11-21 12:00:00.125 UTC [7] u@d DETAIL:  parameters: $1 = '5', $2 = NULL\n"


def _twin(content: bytes) -> None:
    # As it is, and as the document that a twin has inside: gzip's checksum lets no changed one through.
    for each in (content, gzip.compress(content, compresslevel=1, mtime=0)):
        with suppress(PgdragError):
            twin = parse_twin(each, NAME)
            for words in (summary_lines(twin, len(each)), *(part(twin) for part in PARTS.values())):
                list(words)
            mix_of(twin)


def _twins() -> Iterator[bytes]:
    content = (TESTS.parent / "src" / "pgdrag" / "workloads" / "example.twin").read_bytes()
    yield content
    document = json.loads(gzip.decompress(content))
    yield json.dumps(document).encode()
    # Parts of it, of which each is small enough to be changed everywhere.
    for key in document:
        yield json.dumps({"pgdrag_twin": document["pgdrag_twin"], key: document[key]}).encode()


@cache
def _place() -> Path:
    """A directory for files, one for each process."""
    made = tempfile.TemporaryDirectory(prefix="pgdrag-fuzz-")
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _observations(content: bytes) -> None:
    """A file, and one of what comes of it: which one, its bytes say."""
    path = _written("fuzzed.obs", content)
    stretch = read_stretch(path)

    def export(stretch: Stretch) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as tables:
            export_tables(path, stretch.began_unix_s, stretch.ended_unix_s, Path(tables), "csv")

    shown: list[Callable[[Stretch], object]] = [
        render_stretch_html,
        render_stretch_markdown,
        render_stretch_json,
        render_stretch_text,
        stretch_terminal_text,
        lambda _: statement_parts(path, "shop", 1.0),
        export,
    ]
    shown[zlib.crc32(content) % len(shown)](stretch)


def _observed() -> Iterator[bytes]:
    path = _written("seed.obs", None)
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=1 << 20))
    for number in range(2):
        writer.append_sample(sample(number, statements=1), QUANTITIES)
    writer.close()
    # In pages of the least size it is small enough to be changed everywhere.
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
        db.execute("PRAGMA journal_mode = WAL")
    yield path.read_bytes()
    path.unlink()


def _journal(content: bytes) -> None:
    """A journal in the place of an own one, with what was written of its log, too: behind a mark."""
    main, _, log = content.partition(WAL_MARK)
    path = _written("journal.sqlite", main)
    if log:
        path.with_name("journal.sqlite-wal").write_bytes(log)
    journal = Journal(path)
    try:
        _report_all(journal, content)
    finally:
        journal.close()


def _report_all(journal: Journal, content: bytes) -> None:
    """Report each run in one of the forms: which one, a case's bytes say."""
    render = (render_json, render_markdown, render_html)[zlib.crc32(content) % 3]
    for one in journal.summaries():
        journal.ended_trials(one.run_id, most=5)
        render(findings_of(journal.run(one.run_id), journal))


WAL_MARK = b"<the log follows>"


def _journals() -> Iterator[bytes]:
    yield _small_journal()
    path = _written("journal.sqlite", _small_journal())
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE run SET status = 'interrupted'")
        log = path.with_name("journal.sqlite-wal").read_bytes()
        yield path.read_bytes() + WAL_MARK + log
    db.close()


@cache
def _small_journal() -> bytes:
    """One run with two results and recordings, in pages of the least size: small enough to be changed everywhere."""
    path = _written("journal.sqlite", b"")
    # What is set before there is anything stays.
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
    db.close()
    study, journal = simulated_ladder("a"), Journal(path)
    host = Host("simulated", 2, 1 << 30, "simulated", "simulated")
    versions = {"server_wanted": None, "server_version": "18.1", "pgdrag_version": "0"}
    run_id = journal.begin_run(study, host, **versions, seed=5)  # type: ignore[arg-type]
    treatments = tuple(x.treatment for x in study.rungs)
    trials = expand(Block(treatments), study, seed=5, block_number=1, first_number=1)
    journal.plan_trials(run_id, trials)
    for trial in trials:
        result = SimulatedTrialRunner(Truth(), seed=3).run(trial, ignore)
        assert result.measurement is not None
        measurement = replace(result.measurement, samples=result.measurement.samples[:1])
        result = replace(result, measurement=measurement, recordings=_RECORDINGS)
        journal.end_attempt(run_id, journal.begin_attempt(run_id, trial.number), result)
    journal.set_status(run_id, "done")
    journal.close()
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    return path.read_bytes()


_RECORDINGS = Recordings(
    (
        Series("wal_bytes_per_s", "WAL", "bytes/s", (1.0, 2.0), (8192.0, 0.0)),
        StatementPlan("SELECT 1", custom={"Node Type": "Result", "Plans": []}),
    ),
    missing={"profile": "no perf here"},
)

# Where a journal has JSON.
_COLUMNS = (("run", "study"), ("run", "host"), ("trial", "trial"), ("attempt", "result"), ("exhibits", "exhibits"))  # fmt: skip


def _journal_content(content: bytes) -> None:
    """A sound journal with content of somebody's in the column that the first byte names."""
    table, column = _COLUMNS[sum(content[:1]) % len(_COLUMNS)]
    value = zlib.compress(content[1:], 1) if table == "exhibits" else _text(content[1:])
    journal = _sound_journal()
    # Never committed, it costs no writing, and the next case finds a sound journal again.
    journal._db.execute("BEGIN")
    try:
        journal._db.execute(f"UPDATE {table} SET {column} = ?", (value,))
        _report_all(journal, content)
    finally:
        journal._db.execute("ROLLBACK")


def _changed_content(content: bytes, draw: Random) -> bytes | None:
    changed = changed_json(content[1:], draw)
    return None if changed is None else content[:1] + changed


@cache
def _sound_journal() -> Journal:
    return Journal(_written("sound.sqlite", _small_journal()))


def _journal_contents() -> Iterator[bytes]:
    path = _written("journal.sqlite", _small_journal())
    with sqlite3.connect(path) as db:
        for number, (table, column) in enumerate(_COLUMNS):
            for (value,) in db.execute(f"SELECT {column} FROM {table} LIMIT 2"):
                text = zlib.decompress(value) if table == "exhibits" else value.encode()
                yield bytes([number]) + text
    db.close()


def _live(content: bytes) -> None:
    reader = LiveReader(_written("live.jsonl", content))
    reader.read()
    reader.close()


def _live_files() -> Iterator[bytes]:
    yield b'[1.5,"TrialsLeft",{"fewest":3,"greatest":5}]\n[2,"TrialBegan",{"number":1,"treatment":"A","replicate":1}]\n'
    yield b'[2,"Progress",{"phase":"measure","done":1,"total":2}]\n[3,"TimeLeft",{"fewest_s":1,"greatest_s":2}]\n'


def _fleet_messages(content: bytes) -> None:
    for read in (from_host, from_coordinator):
        with suppress(ValueError):  # pydantic's, which their readers expect
            read(content)


def _said_in_fleets() -> Iterator[bytes]:
    study, lease = simulated_ladder("a"), Lease(1, 2)
    trial = Trial(1, 1, 1, study.rungs[0].treatment, study.workload, study.load, seed=1)
    result = SimulatedTrialRunner(Truth(), seed=3).run(trial, ignore)
    hello, event = Hello(1, "one", "0", 1.5, lease), Happened(PhaseStarted("measure"))
    yield from map(written, (hello, Renew(1.5), event, Done(lease, result), Stopped(lease, "full")))
    yield from map(
        written, (Order(study, None, ("vm.swappiness",), 30), Run(lease, trial), End(""))
    )


def _fleet_file(content: bytes) -> None:
    read_fleet(_written("lab.toml", content))


def _fleet_files() -> Iterator[bytes]:
    yield b'local = 2\nlease = "5s"\n'
    yield b'listen = "10.0.0.5:7433"\njoin = ["rack1"]\n[slurm]\nhosts = 8\noptions = ["--partition=bench"]\n'
    yield b'[[ssh]]\nhost = "bench@db2.example"\nprogram = "~/venv/bin/pgdrag"\nscratch = "/srv/pgdrag"\n'


def _written(name: str, content: bytes | None) -> Path:
    """Write a file, without what SQLite may have left beside the last one."""
    path = _place() / name
    for beside in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{beside}")  # noqa: PTH108 -- at each of a million cases
    if content is not None:
        path.write_bytes(content)
    return path


TARGETS = {
    one.name: one
    for one in (
        # Longer ones take more time for each case, and have the same kinds of lines.
        Target("experiment", _experiment, _experiments, longest=4_608, change=changed_toml),
        Target("settings", _settings, _configurations, longest=2_048),
        Target("driver-lines", _driver_lines, _said_by_drivers),
        Target("server-log", _server_log, _logs),
        Target("captured-log", _captured_log, _logs),
        Target("twin", _twin, _twins, longest=32_768),
        Target("observations", _observations, _observed, longest=32_768, change=changed_sqlite),
        Target("journal", _journal, _journals, longest=32_768, change=changed_sqlite),
        Target("journal-content", _journal_content, _journal_contents, change=_changed_content),
        Target("live-file", _live, _live_files),
        Target("fleet-messages", _fleet_messages, _said_in_fleets, longest=8_192),
        Target("fleet-file", _fleet_file, _fleet_files, change=changed_toml),
    )
}  # fmt: skip
