"""Whatever SQL, scripts and programs of an experiment do, it is contained in the throw-away cluster and ends with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from living import connected, is_alive
from loads import PACED

from capabilities import CAP_SYS_PTRACE, needs_root, without
from pgdrag.factors.programs import programs_of
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Instrument, Level, Outcome, Result, Treatment, Trial, WorkloadSpec
from pgdrag.model.events import Event, PhaseStarted, ignore
from pgdrag.model.load import LoadProfile
from pgdrag.model.recordings import StatementPlan, UpdateSample
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.processes import ServerProcess
from pgdrag.servers.roles import EXTENSIONS_SCHEMA
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import Snapshot
from pgdrag.servers.sweep import sweep
from pgdrag.trial import ServerTrialRunner, run_trial
from stand_ins import kill_with_guardian

LOAD = LoadProfile(connections=1, warm_up_s=0, measure_s=1, budget_s=1, min_commits=0, pacing=PACED)
SOURCE = Path(__file__).parents[2] / "src"
# Forks twice, leaves its session, and forgets where it came from.
DAEMON = "setsid sh -c 'env -i /bin/sleep 1000 & echo $! > {0}.new; mv {0}.new {0}' < /dev/null > /dev/null 2>&1 &"


@pytest.fixture
def told(open_directory: Path) -> Iterator[Path]:
    """A file that the server's user may make, outside of the cluster."""
    place = open_directory / "told"
    place.mkdir()
    place.chmod(0o777)
    yield place / "pid"
    shutil.rmtree(place)


def run(
    bench: ServerTrialRunner, listen: Callable[[Event], None] = ignore, **parameters: object
) -> Result:
    spec = WorkloadSpec("pgbench", parameters)
    bench.allow(x.key for x in programs_of(spec, ()))
    return run_trial(Trial(1, 1, 1, Treatment("T"), spec, LOAD, seed=7), bench, listen)


def script(text: str) -> list[dict[str, object]]:
    return [{"name": "stranger.sql", "text": text, "weight": 1}]


def to_program(command: str) -> str:
    quoted = command.replace("'", "''")
    return f"COPY (SELECT 1) TO PROGRAM '{quoted}';\n"


def test_a_script_is_no_shell(bench: ServerTrialRunner, told: Path) -> None:
    result = run(bench, scripts=script(to_program(f"touch {told}")))
    assert result.outcome is Outcome.STALLED, result
    assert "permission denied to COPY to or from an external program" in result.reason
    assert not told.exists()


# Each runs a program if it finds itself in a superuser's session, where it tries to come by several roads.
AMBUSH = """
CREATE FUNCTION boom() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN
  RESET SESSION AUTHORIZATION;
  IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    EXECUTE 'COPY (SELECT 1) TO PROGRAM ''touch {told}''';
  END IF;
  RETURN 1;
END $f$;
CREATE SCHEMA evil;
CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS
  'SELECT pg_catalog.lower($1) WHERE public.boom() > 0';
CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS
  'SELECT pg_catalog.current_setting($1, $2) WHERE public.boom() > 0';
DO $$ BEGIN ALTER DATABASE pgdrag SET search_path = evil, pg_catalog, public;
EXCEPTION WHEN insufficient_privilege THEN END $$;
"""
ROADS = {
    "plans": "SELECT boom();",
    "update_cost": "UPDATE pgbench_accounts SET filler = boom() WHERE aid = 1;",
}


@pytest.mark.parametrize("road", ROADS)
def test_no_superuser_runs_what_a_workload_has_made(
    bench: ServerTrialRunner, told: Path, road: str
) -> None:
    workload = WorkloadSpec(
        "pgbench", {"scripts": script(ROADS[road]), "setup": AMBUSH.format(told=told)}
    )
    names = Treatment("T", (Level("setting", "search_path", "evil, pg_catalog, public"),))
    looks = Instrument(optional=("update_cost", "row_versions"))
    result = run_trial(Trial(1, 1, 1, names, workload, LOAD, seed=7, instrument=looks), bench)
    assert not told.exists()
    assert result.outcome is Outcome.MEASURED, result.reason
    assert [one.effective for one in result.applied] == ["evil, pg_catalog, public"]
    if road == "plans":
        [plan] = result.recordings.of(StatementPlan)
        assert plan.analyzed, plan.missing
    else:
        assert result.recordings.of(UpdateSample), result.recordings.missing


@pytest.mark.parametrize("role", [Cluster.load_role, Cluster.probe_role])
def test_no_workload_decides_what_a_superuser_calls(running_cluster: Cluster, role: str) -> None:
    with running_cluster.connect(role=role) as workload:
        workload.execute("RESET SESSION AUTHORIZATION")
        for statement in (
            f"ALTER DATABASE {Cluster.database} SET search_path = evil",
            f"ALTER ROLE {Cluster.superuser} SET search_path = evil",
            f"CREATE FUNCTION {EXTENSIONS_SCHEMA}.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            f"DROP SCHEMA {EXTENSIONS_SCHEMA}",
            f"SET ROLE {Cluster.superuser}",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                workload.execute(statement.encode())


@needs_root
def test_what_a_superusers_script_forks_ends_with_the_cluster(
    bench: ServerTrialRunner, told: Path
) -> None:
    lives: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.name == "collect":
            lives.append(is_alive(int(told.read_text())))

    daemon = to_program(f"test -e {told} || {{ {DAEMON.format(told)} }}; sleep 0.1")
    result = run(bench, look, scripts=script(daemon), superuser=True)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert lives == [True]
    assert not is_alive(int(told.read_text()))
    assert told.stat().st_uid not in (0, os.geteuid())


@needs_root
def test_a_program_of_a_script_runs_as_the_servers_user_and_ends_with_the_cluster(
    bench: ServerTrialRunner, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    program = (
        f"\\shell test -e {told} || {{ {DAEMON.format(told)} }}; env > {told}.env\nSELECT 1;\n"
    )
    result = run(bench, scripts=script(program), allow_shell=True)
    assert result.outcome is Outcome.MEASURED, result.reason
    user = bench.scratch.user
    assert user is not None
    assert told.stat().st_uid == user.uid
    assert "AWS_SECRET_ACCESS_KEY" not in told.with_name("pid.env").read_text()
    assert not is_alive(int(told.read_text()))


@needs_root
def test_a_crash_is_seen_without_the_right_to_look_at_processes(bench: ServerTrialRunner) -> None:
    def kill_checkpointer(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.name == "measure":
            checkpointer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
            with connected(bench) as client:
                [victim] = client.execute(checkpointer).fetchone() or ()
            os.kill(victim, signal.SIGKILL)

    with without(CAP_SYS_PTRACE):
        result = run(bench, kill_checkpointer, scripts=["tpcb-like"])
    assert result.outcome is Outcome.CRASHED, result
    assert result.reason.startswith("the server crashed under load")
    assert not result.warnings


def test_a_crash_is_seen_where_no_process_is_in_sight(
    running_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.servers.processes.server_processes", lambda *_: [])
    postmaster = running_cluster.postmaster_pid
    assert postmaster is not None
    assert running_cluster.server_pids() == [ServerProcess(postmaster, "postmaster")]
    before = running_cluster.life()
    with running_cluster.connect() as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
    assert wait_until(lambda: running_cluster.life() != before, 30)


HOLDER = """
import sys
from pathlib import Path
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.snapshot import SnapshotStore
from pgdrag.workloads._program import program_environment, run_program
root, session, key, command = sys.argv[1:]
snapshot = SnapshotStore(Scratch.open(Path(session))).get(key)
cluster = snapshot.restore(Scratch.open(Path(root)), find_binaries(None)).cluster
cluster.start()
print(*(each.pid for each in cluster.server_pids()), flush=True)
target = cluster.target
run_program(command, directory="/", environment=program_environment(target, {}), timeout_s=120,
    purpose="the command", user=target.run_as)
"""


@pytest.fixture
def killed(
    kept: Scratch, empty_snapshot: Snapshot, open_directory: Path, told: Path
) -> Iterator[tuple[Path, list[int]]]:
    """The scratch directory of a pgdrag process ended by SIGKILL: its server and a program live on, their pids."""
    root = open_directory / "killed"
    command = "sleep 1000 & " + DAEMON.format(told).replace("env -i ", "") + " sleep 1000; true"
    arguments = [str(root), str(kept.root), empty_snapshot.key, command]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    ) as pgdrag:
        try:
            assert pgdrag.stdout is not None
            postmaster, *children = map(int, pgdrag.stdout.readline().split())
            assert wait_until(told.exists, 30)
            os.kill(postmaster, signal.SIGSTOP)  # deaf to the signal of its owner's death
        finally:
            kill_with_guardian(pgdrag)
    yield root, [postmaster, *children, int(told.read_text())]
    sweep(Scratch.open(root))
    shutil.rmtree(root)


def test_nothing_of_a_program_is_left_after_kill_9(killed: tuple[Path, list[int]]) -> None:
    root, pids = killed
    assert is_alive(pids[-1]), "it does not die with pgdrag by itself"
    [sentence] = sweep(Scratch.open(root))
    assert sentence.startswith("Removed cluster")
    assert wait_until(lambda: not any(map(is_alive, pids)), 10)


SWEEP = """
import sys
from pathlib import Path
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep
assert "hidepid" in Path("/proc/mounts").read_text()
print(*sweep(Scratch.open(Path(sys.argv[1]))))
"""


@needs_root
def test_what_hidepid_hides_is_ended_and_never_called_gone(
    killed: tuple[Path, list[int]],
) -> None:
    if not (shutil.which("unshare") and shutil.which("capsh")):
        pytest.skip("no unshare (util-linux) or no capsh (libcap2-bin) here")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    root, pids = killed
    hidden = (
        "mount -t proc -o hidepid=2,gid=4711 proc /proc && "
        'exec capsh --drop=cap_sys_ptrace,cap_sys_admin -- -c \'exec "$0" -c "$1" "$2"\' "$@"'
    )
    said = subprocess.check_output(
        ["unshare", "--mount", "sh", "-c", hidden, "sh", sys.executable, SWEEP, str(root)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        text=True,
    )
    assert "Removed cluster" in said
    assert "processes" in said
    assert wait_until(lambda: not any(map(is_alive, pids)), 10)
