"""Do the shapes that a server's log shows equal the transactions that ran? Of each version, in each format."""

from __future__ import annotations

import gzip
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from commands import dsn

from conftest import VERSIONS
from in_process import pgdrag
from pgdrag.capture.log.files import LocalLog
from pgdrag.capture.log.reading import LogReader
from pgdrag.capture.log.source import LogRequest
from pgdrag.capture.original_values import original_values
from pgdrag.capture.twin import WATCHING, CaptureProgress, TwinCapture
from pgdrag.driver.connection_string import reach
from pgdrag.host.process_alive import wait_until
from pgdrag.servers.channel import LOG_NAME
from pgdrag.servers.cluster import Cluster
from pgdrag.twins import Twin, read_twin
from pgdrag.twins.leaks import scan
from pgdrag.twins.transactions import LoggedTransactions, TransactionShape

TRANSACTIONS, CLIENTS = 60, 2
PREFIX = "%m [%p] %q%v %Q %u@%d "
# The parameters of pgbench's own script, by the words of its statements: which equals which.
TPCB = ("UPDATE pgbench_accounts", "SELECT abalance", "UPDATE pgbench_tellers", "UPDATE pgbench_branches", "INSERT INTO pgbench_history")  # fmt: skip
ITEMS = """
\\set order random(1, 1000000000)
\\set upper :order + 7
BEGIN;
INSERT INTO orders (id, note) VALUES (:order, 'a new ''order'';
-- with two lines' || :order);
SELECT id FROM orders WHERE id = :order FOR UPDATE;
{items}
UPDATE orders SET items = items + 1, note = NULL WHERE id = :order AND note IS NOT NULL;
COMMIT;
"""
ITEM = "SELECT count(*) FROM orders WHERE id BETWEEN :order AND :upper;\nINSERT INTO lines (of, line) VALUES (:order, {line});\n"

# No foreign key says that a visit is a guest's; how many came is no key.
REFERRING = """
CREATE TABLE guest (id int PRIMARY KEY, came int NOT NULL);
CREATE TABLE visit (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who int NOT NULL, persons int NOT NULL);
INSERT INTO guest SELECT i * 7, i % 50 FROM generate_series(1, 900) AS i;
INSERT INTO visit (who, persons) SELECT 7 * (1 + i % 900), i % 50 FROM generate_series(1, 4000) AS i;
ANALYZE guest, visit;
"""
VISIT = """
\\set guest 7 * random(1, 900)
\\set persons random(1, 50)
BEGIN;
SELECT came FROM guest WHERE id = :guest;
UPDATE guest SET came = :persons WHERE id = :guest;
INSERT INTO visit (who, persons) VALUES (:guest, :persons);
COMMIT;
"""


@pytest.fixture(scope="module", params=VERSIONS)
def logging(
    request: pytest.FixtureRequest, new_cluster: Callable[[str], Cluster]
) -> Iterator[Cluster]:
    """A server of each version that logs all statements in all formats that it has, with pgbench's tables."""
    has_json = int(request.param) >= 15
    with new_cluster(request.param) as cluster:
        cluster.configure(
            {
                "shared_preload_libraries": "pg_stat_statements",
                "log_destination": "csvlog,jsonlog,stderr" if has_json else "csvlog,stderr",
                "log_line_prefix": PREFIX,
                "log_min_duration_statement": "0",
                "autovacuum": "off",
            }
        )
        cluster.start()
        with cluster.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text, items int DEFAULT 0)")  # fmt: skip
            connection.execute("CREATE TABLE lines (of bigint, line int)")
            connection.execute(REFERRING)
        bench(cluster, "-i", "-q")
        yield cluster


def bench(cluster: Cluster, *arguments: str, **settings: str) -> None:
    """Run pgbench, with settings of its sessions."""
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    subprocess.run(
        [cluster.binaries.bin_dir / "pgbench", *arguments, dsn(cluster)],
        check=True,
        capture_output=True,
        env=os.environ | {"PGOPTIONS": options},
    )


def log_file(cluster: Cluster, suffix: str) -> Path:
    return cluster.log_directory / f"{LOG_NAME}{suffix}"


def read(path: Path, **settings: str) -> LoggedTransactions:
    return LogReader([], "pgdrag", settings).read([LocalLog(path)]).transactions()


def since(cluster: Cluster, suffix: str, run: Callable[[], None], place: Path) -> Path:
    """Run a load, and return what was added to a log, as a file of its own."""
    path = log_file(cluster, suffix)
    begin = path.stat().st_size
    run()
    wait_for_log(cluster, path)
    with path.open("rb") as file:
        file.seek(begin)
        copy = place / path.name
        copy.write_bytes(file.read())
    return copy


def wait_for_log(cluster: Cluster, path: Path) -> None:
    """Wait until all that was logged so far is in the file: the server writes it from another process."""
    mark = secrets.token_hex(8)
    with cluster.connect() as connection:
        connection.execute(f"SELECT '{mark}'")
    assert wait_until(lambda: mark.encode() in path.read_bytes(), 20)


def captured(
    cluster: Cluster, log: LogRequest, run: Callable[[], None], *, user: str = "pgdrag"
) -> Twin:
    has_run = False

    def listen(progress: CaptureProgress) -> None:
        nonlocal has_run
        if progress.step == WATCHING and not has_run:
            has_run = True
            run()
            wait_for_log(cluster, log_file(cluster, ".csv"))

    return TwinCapture(reach(dsn(cluster, user), is_for_driver=False), log=log).run(0.5, listen)


def equalities(shape: TransactionShape) -> set[tuple[int, int, int, int]]:
    return {
        (x.step, x.parameter, x.from_step, x.from_parameter)
        for x in shape.links
        if x.source == "transaction" and not x.differences
    }


def is_tpcb(found: LoggedTransactions, texts: Callable[[int], str], transactions: int) -> None:
    """Assert that all transactions are of pgbench's own script."""
    (shape,) = [x for x in found.shapes if x.is_block]
    assert shape.transactions == transactions
    assert shape.ending == "commit"
    assert [texts(x.statement).startswith(y) for x, y in zip(shape.steps, TPCB, strict=True)] == [True] * 5  # fmt: skip
    assert shape.loops == ()
    delta, aid, tid, bid = (1, 1), (1, 2), (3, 2), (4, 2)
    wanted = {(2, 1, *aid), (3, 1, *delta), (4, 1, *delta), (5, 3, *aid), (5, 1, *tid), (5, 4, *delta)}  # fmt: skip
    # With one branch it is a constant, which follows from its column.
    assert wanted <= equalities(shape) <= wanted | {(5, 2, *bid)}
    assert all(x.share > 0.99 for x in shape.links)
    assert shape.pause_s is not None
    assert shape.duration_s.mean > 0


@pytest.mark.parametrize("mode", ["simple", "prepared"])
@pytest.mark.parametrize("suffix", [".csv", ".json", ""])
def test_the_shape_of_pgbenchs_script_is_found_in_each_format(
    logging: Cluster, suffix: str, mode: str, tmp_path: Path
) -> None:
    if suffix == ".json" and logging.binaries.major < 15:
        pytest.skip("PostgreSQL 14 has no jsonlog")
    arguments = ("-n", "-c", str(CLIENTS), "-t", str(TRANSACTIONS), "-M", mode)
    copy = since(logging, suffix, lambda: bench(logging, *arguments), tmp_path)
    found = read(copy, log_line_prefix=PREFIX)
    texts = {x.number: x.text for x in found.statements}
    is_tpcb(found, texts.__getitem__, TRANSACTIONS * CLIENTS)
    assert found.is_complete
    assert (found.cut_transactions, found.errors) == (0, {})
    assert found.sessions is not None
    assert max(found.sessions.transactions.quantiles) == TRANSACTIONS
    assert found.notes == ()


def test_a_capture_has_the_statements_of_the_view_and_no_value(logging: Cluster) -> None:
    log = LogRequest((log_file(logging, ".csv"),))
    twin = captured(logging, log, lambda: bench(logging, "-n", "-c", "2", "-t", "60", "-M", "prepared"))  # fmt: skip
    assert twin.transactions is not None
    texts = {x.number: x.text for x in twin.workload.statements}
    is_tpcb(twin.transactions, texts.__getitem__, 120)
    assert all(x.text == "" for x in twin.transactions.statements if x.number in texts)
    update = next(x for x in twin.transactions.statements if "UPDATE pgbench_accounts" in texts[x.number])  # fmt: skip
    aid = update.parameters[1]
    assert (aid.kind, aid.seen, aid.null_share) == ("number", 120, 0)
    assert 100 < aid.distinct <= 120
    assert sum(aid.positions) == pytest.approx(1, abs=0.01)
    tellers = next(x for x in twin.transactions.statements if "UPDATE pgbench_tellers" in texts[x.number])  # fmt: skip
    assert sum(share for _, share in tellers.parameters[1].common) > 0.9
    values = original_values(reach(dsn(logging), is_for_driver=False), rows=100)
    # The values of the log, too: accounts and amounts.
    log_text = log_file(logging, ".csv").read_text()
    logged = {value for value in re.findall(r"\$\d+ = '([^']*)'", log_text) if len(value) > 3}
    assert len(logged) > 100
    assert scan(twin, values).leaks == ()
    # A number of a token may be some row's by chance: of the log's own values none is in what it showed.
    assert scan(replace(twin, statistics=()), logged).leaks == ()


def test_what_programs_send_equal_to_a_key_refers_to_it(logging: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "visit.sql"
    script.write_text(VISIT)
    log = LogRequest((log_file(logging, ".csv"),))
    twin = captured(logging, log, lambda: bench(logging, "-n", "-t", "60", "-M", "prepared", "-f", str(script)))  # fmt: skip
    classes = {(x.relation, x.column): x.value_class for x in twin.statistics}
    assert classes["visit", "who"] == classes["guest", "id"]
    assert classes["visit", "persons"] != classes["guest", "came"]


def items_script(items: int) -> str:
    return ITEMS.format(items="".join(ITEM.format(line=x) for x in range(1, items + 1)))


@pytest.mark.parametrize("mode", ["simple", "extended"])
def test_loops_ranges_and_texts_of_any_kind_are_found(
    logging: Cluster, mode: str, tmp_path: Path
) -> None:
    scripts = []
    for items in (2, 3, 4):
        path = tmp_path / f"{items}.sql"
        path.write_text(items_script(items))
        scripts += ["-f", str(path)]
    copy = since(logging, ".csv", lambda: bench(logging, "-n", "-c", "2", "-t", "40", "-M", mode, *scripts), tmp_path)  # fmt: skip
    found = read(copy)
    (shape,) = [x for x in found.shapes if x.is_block]
    assert shape.transactions == 80
    assert len(shape.steps) == 5
    (loop,) = shape.loops
    assert (loop.first, loop.last) == (3, 4)
    assert [times for times, _ in loop.repeats] == [2, 3, 4]
    links = {(x.step, x.parameter): x for x in shape.links}
    statements = {x.number: x for x in found.statements}
    insert = statements[shape.steps[0].statement]
    assert insert.text.startswith("INSERT INTO orders")
    line = links[4, 2]
    assert (line.source, line.differences) == ("round", (1.0,))
    update = statements[shape.steps[4].statement]
    assert "IS NOT NULL" in update.text
    assert "order" not in update.text.replace("orders", "")
    assert [x.null_share for x in update.parameters if x.null_share] == [1.0]
    width = links[3, 2]
    assert (width.source, width.from_step, width.from_parameter) == ("transaction", 3, 1)
    assert width.differences == (7.0,)
    assert links[3, 1].share == 1.0


newest_logging = pytest.mark.parametrize("logging", VERSIONS[:1], indirect=True, scope="module")


@newest_logging
def test_the_command_reads_the_servers_own_log(logging: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "x.twin"
    bench(logging, "-n", "-t", "20")
    status, out, err = pgdrag("capture", "twin", dsn(logging), "-o", file, "--for", "1s", "--server-log", "--whole-log")  # fmt: skip
    assert (status, out) == (0, ""), err
    twin = read_twin(file)
    assert twin.transactions is not None
    assert twin.transactions.format == "csvlog"
    status, out, _ = pgdrag("twin", "show", file, "--part", "transactions")
    assert status == 0
    assert "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2" in out
    assert "$1 of step 2 equals $2 of step 1 (100 %)" in out
    assert "pgbench_accounts" in pgdrag("twin", "show", file)[1]


@newest_logging
@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
@pytest.mark.parametrize("suffix", [".csv", ""])
def test_statements_that_are_logged_before_they_run_get_the_durations_that_follow(
    logging: Cluster, suffix: str, mode: str, tmp_path: Path
) -> None:
    settings = {"log_statement": "all", "log_duration": "on", "log_min_duration_statement": "-1"}
    load = partial(bench, logging, "-n", "-c", "2", "-t", "30", "-M", mode, **settings)
    found = read(since(logging, suffix, load, tmp_path), log_line_prefix=PREFIX)
    texts = {x.number: x.text for x in found.statements}
    is_tpcb(found, texts.__getitem__, 60)
    assert found.notes == ()


@newest_logging
def test_a_sample_of_transactions_has_whole_ones(logging: Cluster, tmp_path: Path) -> None:
    settings = {"log_transaction_sample_rate": "0.5", "log_min_duration_statement": "-1"}
    load = partial(bench, logging, "-n", "-c", "2", "-t", "100", **settings)
    found = read(since(logging, ".csv", load, tmp_path))
    (shape,) = [x for x in found.shapes if x.is_block]
    assert len(shape.steps) == 5
    assert 50 < shape.transactions < 150
    assert found.cut_transactions == 0


@newest_logging
def test_a_directory_with_packed_and_older_files_is_read_once(logging: Cluster, tmp_path: Path) -> None:  # fmt: skip
    directory = tmp_path / "logs"
    directory.mkdir()
    first = since(logging, ".csv", lambda: bench(logging, "-n", "-t", "10"), tmp_path)
    (directory / "a.csv.gz").write_bytes(gzip.compress(first.read_bytes()))
    second = since(logging, "", lambda: bench(logging, "-n", "-t", "10"), tmp_path)
    shutil.copy(second, directory / "b.log")
    file = tmp_path / "x.twin"
    status, _, err = pgdrag("capture", "twin", dsn(logging), "-o", file, "--for", "1s", "--log", directory, "--whole-log")  # fmt: skip
    assert status == 0, err
    found = read_twin(file).transactions
    assert found is not None
    assert sum(x.transactions for x in found.shapes if x.is_block) == 10
    assert any("csvlog tells more" in x for x in found.notes)


@newest_logging
def test_what_is_wrong_with_a_log_is_said_before_the_window(logging: Cluster, tmp_path: Path) -> None:  # fmt: skip
    cases = {
        "binary": (bytes(range(256)) * 10, "is no log of PostgreSQL"),
        "text": (b"hello\n" * 10, "is no log of PostgreSQL"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        status, _, err = pgdrag("capture", "twin", dsn(logging), "-o", tmp_path / "x.twin", "--for", "10min", "--log", path)  # fmt: skip
        assert (status, words in err) == (2, True), err
    status, _, err = pgdrag("capture", "twin", dsn(logging), "-o", tmp_path / "x.twin", "--for", "10min", "--log", tmp_path / "none")  # fmt: skip
    assert (status, "no such file" in err) == (2, True), err
    with logging.connect() as connection:
        connection.execute("ALTER SYSTEM SET log_min_duration_statement = -1")
        connection.execute("SELECT pg_reload_conf()")
        try:
            assert wait_until(lambda: least_logged(logging) == "-1", 20)
            status, _, err = pgdrag("capture", "twin", dsn(logging), "-o", tmp_path / "x.twin", "--for", "3s", "--server-log")  # fmt: skip
        finally:
            connection.execute("ALTER SYSTEM RESET log_min_duration_statement")
            connection.execute("SELECT pg_reload_conf()")
    assert wait_until(lambda: least_logged(logging) == "0", 20)
    assert (status, "does not log statements" in err) == (2, True), err
    assert not (tmp_path / "x.twin").exists()


def least_logged(cluster: Cluster) -> str:
    """Return what new sessions have: the server reads its settings a moment after it was asked to."""
    with cluster.connect() as connection:
        [(setting,)] = connection.execute("SHOW log_min_duration_statement").fetchall()
    return str(setting)


@newest_logging
def test_a_log_without_statements_of_the_window_costs_no_capture(logging: Cluster, tmp_path: Path) -> None:  # fmt: skip
    copy = tmp_path / "copy.csv"
    shutil.copy(log_file(logging, ".csv"), copy)
    file = tmp_path / "x.twin"
    status, _, err = pgdrag("capture", "twin", dsn(logging), "-o", file, "--for", "1s", "--log", copy)  # fmt: skip
    assert status == 1
    assert "no statements of the window" in err
    twin = read_twin(file)
    assert twin.transactions is None
    assert any("There are no transactions" in x for x in twin.not_seen)


@newest_logging
def test_a_role_that_may_not_read_the_log_is_told_what_it_takes(logging: Cluster) -> None:
    with logging.connect() as connection:
        connection.execute("CREATE ROLE reader LOGIN")
    status, _, err = pgdrag("capture", "twin", dsn(logging, "reader"), "--for", "10min", "--server-log")  # fmt: skip
    assert status == 2
    assert "GRANT pg_monitor TO reader; GRANT EXECUTE ON FUNCTION pg_read_binary_file" in err
    with logging.connect() as connection:
        connection.execute("GRANT pg_monitor TO reader; GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO reader")  # fmt: skip
    log = LogRequest(is_servers=True)
    twin = captured(logging, log, lambda: bench(logging, "-n", "-t", "10"), user="reader")
    assert twin.transactions is not None
    assert sum(x.transactions for x in twin.transactions.shapes if x.is_block) == 10
