"""Several load generators, each a real driver, do on a real server what one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import dsn, heard, outcome, start
from fronts import Front

from capabilities import needs_root
from in_process import pgdrag
from pgdrag.driver.contract import IntervalLine, Line
from pgdrag.driver.conversation import Confined, conversation, ignore
from pgdrag.driver.generators import Talk
from pgdrag.driver.histogram import _counts, _latency
from pgdrag.driver.process import Driver, find_driver
from pgdrag.errors import EXIT_INTERRUPTED, DriverError
from pgdrag.model import Outcome, Treatment, Trial, WorkloadSpec
from pgdrag.model.load import LoadProfile, Open
from pgdrag.model.measurement import Measurement
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner, run_trial
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tpcc import Tpcc

THREE = ("", "", "")
SCRIPT = Script(
    name="note",
    text="\\set delta random(-5000, 5000)\n\\set key random(1, 1000000)\n"
    "INSERT INTO notes (client, key, delta) VALUES (:client_id, :key, :delta);\n",
)
JOB = pgbench_job((SCRIPT,), scale=1, sums=("delta",))


@pytest.fixture
def notes(server: Cluster) -> Cluster:
    """The same, with an empty table of what each client wrote."""
    with server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS notes")
        connection.execute("CREATE TABLE notes (n bigserial, client int, key int, delta int)")
        role = server.load_role
        connection.execute(f"GRANT ALL ON notes TO {role}".encode())
        connection.execute(f"GRANT ALL ON SEQUENCE notes_n_seq TO {role}".encode())
    return server


def load(generators: tuple[str, ...] = (), **given: Any) -> LoadProfile:
    usual = {
        "connections": 7,
        "warm_up_s": 0.0,
        "measure_s": 60.0,
        "budget_s": 60.0,
        "min_commits": 0,
    }
    return LoadProfile(**{**usual, **given}, generators=generators)


def run(
    cluster: Cluster, profile: LoadProfile, listen: Callable[[Line], None] = ignore
) -> Measurement:
    return Driver(find_driver()).run(cluster.target, JOB, profile, seed=11, listen=listen)


def written(cluster: Cluster) -> dict[int, list[tuple[int, int]]]:
    """Return what each client wrote, in its order."""
    with cluster.connect() as connection:
        rows = connection.execute("SELECT client, key, delta FROM notes ORDER BY n").fetchall()
    found: dict[int, list[tuple[int, int]]] = {}
    for client, key, delta in rows:
        found.setdefault(client, []).append((key, delta))
    return found


def test_three_generators_do_what_one_does(notes: Cluster) -> None:
    streams = []
    for generators in ((), THREE):
        found = run(notes, load(generators, transactions=40))
        assert (found.total.committed, found.stopped_by) == (7 * 40, "transactions")
        assert sum(x.committed for x in found.samples) == found.latency["note"].count == 7 * 40
        streams.append(written(notes))
        rows = [delta for stream in streams[-1].values() for _, delta in stream]
        # From the warm-up on: what came before the window is in the table, too.
        sums = found.sums["delta"]
        assert (sums.committed, sums.sum) == (len(rows), sum(rows))
        with notes.connect() as connection:
            connection.execute("TRUNCATE notes")
    one, three = streams
    assert set(one) == set(three) == set(range(7))
    for client, stream in one.items():
        shorter = min(len(stream), len(three[client]))
        assert shorter >= 40
        assert stream[:shorter] == three[client][:shorter]


def test_each_generator_has_its_part_and_all_have_one_window(notes: Cluster) -> None:
    heard: list[Line] = []
    found = run(notes, load(THREE, measure_s=1.5, budget_s=1.5), heard.append)
    assert (found.elapsed_s, found.stopped_by) == (1.5, "deadline")
    assert [x.clients for x in found.generators] == [3, 2, 2]
    assert sum(x.committed for x in found.generators) == found.total.committed
    assert all(x.committed and x.driver.user_cpu_s for x in found.generators)
    assert [(x.t_s, x.sessions) for x in found.samples] == [(1.0, 7), (1.5, 7)]
    assert sum(x.committed for x in heard if isinstance(x, IntervalLine)) == found.total.committed


def test_a_histogram_is_read_as_the_driver_means_it(notes: Cluster) -> None:
    found = run(notes, load(transactions=50)).latency["note"]
    again = _latency(_counts(found), is_encoded=False)
    assert vars(again) == pytest.approx(vars(replace(found, encoded="")))


def test_arrivals_are_divided_between_generators(notes: Cluster) -> None:
    found = run(notes, load(THREE, measure_s=2.0, budget_s=2.0, pacing=Open(300.0, "uniform")))
    assert found.arrivals is not None
    # One more or less at each end for each generator.
    assert abs(found.arrivals.scheduled - found.arrivals.carried - 600) <= 6
    assert found.arrivals.queue_us_p50 is not None


def test_the_window_of_all_goes_on_until_all_together_have_committed_enough(notes: Cluster) -> None:
    slow = Script(name="slow", text="SELECT pg_sleep(0.4);")
    profile = load(THREE, measure_s=0.5, budget_s=60.0, min_commits=12)
    driver = Driver(find_driver())
    found = driver.run(notes.target, pgbench_job((slow,), scale=1), profile, seed=1)
    assert found.stopped_by == "commits"
    assert found.total.committed >= 12
    lengths_s = [x.elapsed_s for x in found.generators]
    assert max(lengths_s) - min(lengths_s) < 1e-6


def drivers() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [x for x in children if x.name() == "pgdrag-driver"]


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "exit status -9"), (signal.SIGSTOP, "has not said anything for 2 s")],
)
def test_a_generator_that_is_lost_ends_all_and_leaves_nothing_running(
    notes: Cluster, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, why: str
) -> None:
    monkeypatch.setattr("pgdrag.driver.together.SILENT_S", 2.0)

    def strike(line: Line) -> None:
        if isinstance(line, IntervalLine) and len(drivers()) == 3:
            drivers()[1].send_signal(number)

    with pytest.raises(DriverError, match=f"generator . of 3 was lost: .*{why}"):
        run(notes, load(THREE), strike)
    assert not drivers()
    with notes.connect(application_name="witness") as connection:
        deadline = time.monotonic() + 30
        left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdrag'"
        while connection.execute(left).fetchall() != [(0,)]:
            assert time.monotonic() < deadline, "sessions of a lost generator go on"
            time.sleep(0.05)


def test_a_trial_that_lost_a_generator_is_invalid(
    bench: ServerTrialRunner,
) -> None:
    struck = []

    def strike(event: object) -> None:
        if getattr(event, "committed", 0) and not struck:
            struck.append(drivers()[0])
            struck[0].kill()

    profile = load(THREE, connections=3)
    spec = WorkloadSpec("pgbench", {"scripts": ["select-only"]})
    trial = Trial(1, 1, 1, Treatment("T", ()), spec, profile, seed=1)
    result = run_trial(trial, bench, strike)
    assert (result.outcome, result.measurement) == (Outcome.INVALID, None)
    assert "of 3 was lost: load driver ended without a result" in result.reason


def test_tpcc_from_three_generators_is_still_consistent(bench: ServerTrialRunner) -> None:
    workload, profile = Tpcc(warehouses=1), load(THREE, connections=6, measure_s=1.0, budget_s=1.0)
    from pgdrag.model.events import ignore as unheard

    with (
        bench.snapshot(workload, unheard).restore(bench.scratch, bench.binaries).cluster as cluster
    ):
        cluster.configure({"fsync": "off"})
        cluster.start()
        found = bench.driver.run(cluster.target, workload.job(), profile, seed=1)
        violations = bench.driver.check(cluster.target, workload.job(), timeout_s=60)
    assert found.total.committed > 0
    assert violations == ()


@dataclass(frozen=True)
class Elsewhere:
    """Hosts, each a network namespace with a cable to this machine; `ssh` runs the driver there.

    Attributes:
        address: of this machine, as they know it.
    """

    names: tuple[str, str]
    address: str

    def cut(self, name: str) -> None:
        """Pull a host's cable."""
        ip("link", "set", name, "down")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """Two hosts; both reach one address of this machine."""
    number = os.getpid() % 60_000
    names = (f"pgd{number}a", f"pgd{number}b")
    network = f"10.213.{number // 250}"
    last = number % 250 // 8 * 8
    try:
        for place, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            own, theirs = (f"{network}.{last + 4 * place + side}" for side in (1, 2))
            ip("address", "add", f"{own}/30", "dev", name)
            ip("link", "set", name, "up")
            ip("-n", name, "address", "add", f"{theirs}/30", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "via", own)
        ssh = tmp_path / "ssh"
        ssh.write_text(
            f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\ncase "$3" in *" pgdrag-driver") ;; *) exit 9; esac\n'
            f'exec ip netns exec "$2" {find_driver()}\n'
        )
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        yield Elsewhere(names, f"{network}.{last + 1}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@needs_root
def test_hosts_that_ssh_reaches_share_a_load_and_one_that_is_cut_off_spoils_it(
    notes: Cluster, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = notes.socket_directory / f".s.PGSQL.{notes.port}"
    with Front(socket, None, address=elsewhere.address).open() as front:
        server = replace(notes.target, host=elsewhere.address, port=front.port)
        driver, hosts = Driver(find_driver()), ("", *elsewhere.names)
        found = driver.run(server, JOB, load(hosts, measure_s=1.0, budget_s=1.0), seed=1)
        assert [x.name for x in found.generators] == [
            "generator 1",
            *(f"generator {n} ({name})" for n, name in enumerate(elsewhere.names, 2)),
        ]
        assert all(x.committed for x in found.generators)

        def cut(line: Line) -> None:
            if isinstance(line, IntervalLine):
                elsewhere.cut(elsewhere.names[1])

        monkeypatch.setattr("pgdrag.driver.together.SILENT_S", 2.0)
        monkeypatch.setattr("pgdrag.driver.together.CERTAINLY", 10)
        why = rf"generator 3 \({elsewhere.names[1]}\) of 3 was lost: it committed nothing for 2 s or longer"
        with pytest.raises(DriverError, match=why):
            driver.run(server, JOB, load(hosts, measure_s=4.5, budget_s=4.5), seed=1, listen=cut)
    assert not drivers()


@dataclass(frozen=True)
class _InAnotherTime:
    """A driver whose clock shows another time than this machine's."""

    host: str
    ahead_s: int

    def started(
        self, job: Mapping[str, Any], confined: Confined | None, *, starts_programs: bool
    ) -> AbstractContextManager[Talk]:
        return conversation(in_another_time(self.ahead_s, str(find_driver())), job, ignore)


def in_another_time(ahead_s: int, *command: str) -> list[str]:
    return ["unshare", "--time", f"--monotonic={ahead_s}", "--fork", "--kill-child", *command]


def test_generators_whose_clocks_differ_by_days_have_one_window(notes: Cluster) -> None:
    if subprocess.run(in_another_time(5, "true"), capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here")
    driver = Driver(find_driver(), lambda host: _InAnotherTime(host, int(host) * 86_400))
    profile = load(("", "1", "30"), measure_s=1.0, budget_s=1.0)
    found = driver.run(notes.target, JOB, profile, seed=1)
    assert (found.elapsed_s, len(found.samples)) == (1.0, 1)
    assert [x.name for x in found.generators][1:] == ["generator 2 (1)", "generator 3 (30)"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, EXIT_INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_whoever_ends_pgdrag_ends_all_generators(
    notes: Cluster, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    script = tmp_path / "note.sql"
    script.write_text(SCRIPT.text)
    common = (
        "bench",
        "-n",
        "-f",
        script,
        "-c",
        "5",
        "-T",
        "600",
        "-P",
        "1",
        "--warm-up",
        "0",
        "-y",
    )
    process = start(*common, "--generators", "3", dsn(notes))
    heard(process, "s: ")
    children = [x for x in psutil.Process(process.pid).children() if x.name() == "pgdrag-driver"]
    assert len(children) == 3
    process.send_signal(number)
    assert outcome(process)[0] == status
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_bench_shows_each_generator(notes: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "note.sql"
    script.write_text(SCRIPT.text)
    common = [
        "bench",
        "-n",
        "-f",
        script,
        "-c",
        "5",
        "-t",
        "20",
        "--warm-up",
        "0",
        "-y",
        dsn(notes),
    ]
    status, out, err = pgdrag(*common, "--generators", "2")
    assert status == 0, err
    assert "of 2 load generators" in " ".join(out.split())
    assert "Generator" in out
    assert out.count("±") == 2
    status, out, err = pgdrag(*common, "--generators", "2", "--json")
    assert status == 0, err
    assert "generator 2" in json.dumps(json.loads(out))
    status, _, err = pgdrag(*common, "--generators", "load-b")
    assert status == 2
    assert 'load generator "load-b" cannot reach' in " ".join(err.split())
