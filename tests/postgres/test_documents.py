"""Does what the documents tell people to type work? Every block of commands runs, on a small scale, unless it says why not.

All servers that the documents name are one server here, and sizes and times are small. A page's commands run in the order
of the page, and pages in the order of their names, in one directory and with one journal, as a reader's would.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from commands import dsn
from watching import NO_INTERFERENCE

from console import DOCUMENTS, ROOT, Shown, console_blocks, has_shape
from in_process import pgdrag
from pgdrag.cli import load_command
from pgdrag.errors import ServerError
from pgdrag.servers.binaries import Binaries, find_binaries
from pgdrag.servers.fetched import fetch
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot

pytestmark = pytest.mark.postgres

# What the reader's machine has and this one has not, and times and sizes that a test has not.
SMALLER = (
    (r"postgresql://\w+@\w+/", "dbname="),
    (r"\bhost=[\w/,]+ | host=[\w/,]+|\buser=\w+ | user=\w+", ""),
    (r"service=bench", "dbname=bench"),
    (r"/etc/postgresql/16/main/postgresql.conf", "my.conf"),
    (r"--warehouses \d+", "--warehouses 1"),
    (r"--from 14:00 --to 14:30", "--from 1h"),
    (r"last A3", "last small"),
    (r"last 7", "last 1"),
    (r"--for \w+", "--for 2s"),
    (r"--every \w+", "--every 1s"),
    (r"--sessions \S+", "--sessions 1..2/1s"),
    (r"--rows \d+", "--rows 10"),
    (r" -T \d+", " -T 1"),
    (r" -t \d+", " -t 5"),
    (r" -s \d+", " -s 1"),
    (r" -c \d+", " -c 2"),
    (r" -R \d+", " -R 100"),
)
# Where a command has the option and the line does not; of a server that is there already, the latter.
MORE = {"--warm-up": ("0",), "-T": ("1",)}
MORE_ON_SERVER = {"--yes": (), "--for": ("2s",)}
NOT_BESIDE = {"-T": {"-t", "--sessions", "-i"}, "--warm-up": {"-i"}}
DATABASES = ("shop", "bench", "tpcc", "test")
A_CONF = "shared_buffers = 16MB\nrandom_page_cost = 1.1\n"
FILES = {
    "my.conf": A_CONF,
    "old.conf": "work_mem = 4MB\n",
    "new.conf": A_CONF,
    "a.conf": "work_mem = 4MB\n",
    "b.conf": A_CONF,
    "good.conf": "work_mem = 64MB\n",
    "bad.conf": A_CONF + "work_mem = 64kB\n",
    "my.sql": "SELECT count(*) FROM pgbench_tellers;\n",
    "read.sql": "SELECT count(*) FROM pgbench_tellers;\n",
    "write.sql": "UPDATE pgbench_tellers SET tbalance = 0 WHERE tid = 1;\n",
    "patroni.yml": "postgresql:\n  parameters:\n    work_mem: 8MB\n",
    "rds-parameters.json": '{"Parameters": [{"ParameterName": "work_mem", "ParameterValue": "8192", "Source": "user"}]}\n',
}
BLOCKS = {
    str(path.relative_to(ROOT)): found for path in DOCUMENTS if (found := [*console_blocks(path)])
}


@dataclass(frozen=True)
class Reader:
    """Somebody who types what the documents show, at one place."""

    directory: Path
    environment: dict[str, str]
    bin_dir: Path

    def types(self, shown: Shown, *, how: str) -> None:
        """Run a command as a reader with little time would, and look at what it prints."""
        words = self.words(shown, how=how)
        for option in {"--out", "--output"} & set(words):
            (self.directory / words[words.index(option) + 1]).unlink(missing_ok=True)
        status, out, err = pgdrag(*words, **self.environment)
        if status == 2 and "pgdrag fetch" in err:
            pytest.skip(f"no such PostgreSQL here: {err}")
        # 1 is an answer: something was found, or does not hold.
        assert status in (0, 1), (shown.line, words, err)
        if shown.into:
            (self.directory / shown.into).write_text(out)
        assert has_shape(err + out, shown.output) or has_shape(out + err, shown.output), (out, err)

    def words(self, shown: Shown, *, how: str) -> list[str]:
        line = " " + shlex.join(shown.words[1:]).replace("/opt/pg19", str(self.bin_dir))
        for pattern, smaller in SMALLER:
            line = re.sub(pattern, smaller, line)
        words = shlex.split(line)
        options = options_of(words)
        wanted = MORE | (MORE_ON_SERVER if "dbname=" in line else {})
        more = [
            one
            for option, value in wanted.items()
            if option in options
            and not (options[option] | NOT_BESIDE.get(option, set())) & set(words)
            for one in (option, *value)
        ]
        if how == "dry run" and "--dry-run" in options and "--dry-run" not in words:
            more.append("--dry-run")
        return [*words, *more]


def options_of(words: list[str]) -> dict[str, set[str]]:
    """Return each option of the command that some words name, with all its names."""
    command: Any = load_command(words[0])
    under = getattr(command, "commands", None)
    if under:
        command = under[words[1]]
    return {
        name: {*option.opts, *option.secondary_opts}
        for option in command.params
        for name in option.opts
    }


@pytest.fixture(scope="module")
def reader(
    scratch: Scratch,
    binaries: Binaries,
    empty_snapshot: Snapshot,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Reader]:
    """A directory with files of the names that documents use, a journal with a run, and a server with tables in use."""
    directory = tmp_path_factory.mktemp("reader")
    try:
        find_binaries("15")
    except ServerError:
        with suppress(ServerError):
            fetch("15")
    (experiment,) = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs/how-to/experiment.md").read_text(), re.DOTALL
    )
    for name, text in {**FILES, "cache.toml": quick(experiment)}.items():
        (directory / name).write_text(text)
    with (
        empty_snapshot.restore(scratch, binaries).cluster as cluster,
        pytest.MonkeyPatch.context() as patches,
        ExitStack() as stack,
    ):
        cluster.configure({**NO_INTERFERENCE, "shared_preload_libraries": "pg_stat_statements"})
        cluster.start()
        with cluster.connect() as connection:
            for database in DATABASES:
                connection.execute(f"CREATE DATABASE {database}".encode())
        environment = {
            "PGHOST": str(cluster.socket_directory),
            "PGPORT": str(cluster.port),
            "PGUSER": "pgdrag",
            "PGDRAG_HOME": str(directory / "home"),
            "PGDRAG_SCRATCH": str(scratch.root),
            "PGDRAG_UNDO": str(directory / "undo"),
        }
        with psycopg.connect(dsn(cluster, database="shop"), autocommit=True) as shop:
            shop.execute("CREATE EXTENSION pg_stat_statements")
        patches.chdir(directory)
        for command in (
            "run cache.toml",
            "bench -i -q dbname=shop",
            "bench -i -q dbname=bench",
            "observe dbname=shop --every 1s --for 2s --out shop.obs",
            "capture twin dbname=shop --for 2s --output shop.twin",
        ):
            if command.startswith("observe"):
                stack.enter_context(in_use(dsn(cluster, database="shop")))
            status, _, err = pgdrag(*command.split(), **environment)
            assert status == 0, (command, err)
        yield Reader(directory, environment, binaries.bin_dir)


@contextmanager
def in_use(server: str) -> Iterator[None]:
    """A database whose client sends a statement now and then."""
    is_over = threading.Event()

    def use() -> None:
        with psycopg.connect(server, autocommit=True) as client:
            while not is_over.wait(0.02):
                client.execute("SELECT abalance FROM pgbench_accounts WHERE aid = %s", [1])

    client = threading.Thread(target=use)
    client.start()
    try:
        yield
    finally:
        is_over.set()
        client.join()


def quick(experiment: str) -> str:
    """The same experiment, in two seconds."""
    for pattern, smaller in (
        (r"warehouses = \d+", "warehouses = 1"),
        (
            r"warm_up_s = \d+, measure_s = \d+, budget_s = \d+",
            "warm_up_s = 0, measure_s = 1, budget_s = 2",
        ),
        (r"(\[scales.quick\])", r"\1\ncheck = false"),
    ):
        experiment, found = re.subn(pattern, smaller, experiment)
        assert found == 1, pattern
    return experiment


@pytest.mark.parametrize("document", BLOCKS)
def test_what_a_document_tells_people_to_type_works(document: str, reader: Reader) -> None:
    for block in BLOCKS[document]:
        for shown in block.commands:
            if block.how == "not run":
                continue
            reader.types(shown, how=block.how)
