"""What belongs to a cluster is known and ended, whatever it does, and it is told nothing that it need not know."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from capabilities import CAP_SYS_PTRACE, needs_root, without
from pgdrag.errors import ServerError
from pgdrag.host import process_sight, server_user
from pgdrag.host.confinement import end_user, mark, marked_pids
from pgdrag.host.process_alive import stat_fields, wait_until
from pgdrag.host.process_sight import all_pids, link_of, pids_of, seeing_as
from pgdrag.host.server_user import OWN_NUMBERS, ServerUser, is_taken
from pgdrag.host.spawn import clean_environment, end_all, run, spawn
from pgdrag.servers.processes import Postmaster, kill_processes

SOURCE = Path(server_user.__file__).parents[2]
# Forks twice, leaves its session, and forgets where it came from.
DAEMON = "setsid sh -c 'env -i sleep 1000 3>&- & echo $! >&3' 3>&1 >/dev/null 2>&1 </dev/null &"


@contextmanager
def living(user: ServerUser | None, *, environment: dict[str, str] | None = None) -> Iterator[int]:
    process = spawn(
        ["sleep", "1000"],
        user=user,
        cwd=Path("/"),
        death_signal=signal.SIGKILL,
        output=subprocess.DEVNULL,
        environment=environment,
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerUser]:
    """A user that not even this process's other tests have."""
    monkeypatch.delenv(server_user.SERVER_USER_VARIABLE, raising=False)
    monkeypatch.setattr(server_user, "_taken", None)
    found = server_user.server_user()
    assert found is not None
    yield found
    end_all(found)


@needs_root
def test_servers_run_as_a_user_that_nobody_else_has(own: ServerUser) -> None:
    assert own.is_own
    assert own == server_user.server_user()
    with pytest.raises(KeyError):
        pwd.getpwuid(own.uid)
    assert pids_of(own) == []
    code = "from pgdrag.host.server_user import server_user; print(server_user().uid)"
    environment = {**os.environ, server_user.SERVER_USER_VARIABLE: ""}
    other = subprocess.check_output([sys.executable, "-c", code], env=environment)
    assert int(other) != own.uid


@needs_root
def test_a_number_that_another_pgdrag_has_is_left_to_it(
    own: ServerUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = server_user._taken
    free = own.uid + 1 if own.uid + 1 in OWN_NUMBERS[0] else own.uid - 1
    monkeypatch.setattr(server_user, "_taken", None)
    monkeypatch.setattr(server_user, "_candidates", lambda: iter([own.uid, free]))
    assert held is not None
    assert server_user.server_user() == server_user.own_user(free)


# Runs as a user of pgdrag's own, whose pgdrag has died.
SURVIVOR = """
import os, socket, sys
number = int(sys.argv[1])
held = socket.socket(socket.AF_UNIX)
held.bind(f"\\0pgdrag-user-{number}")
os.setresgid(number, number, number)
os.setresuid(number, number, number)
if sys.argv[2] == "listens":
    held.listen()
print(flush=True)
sys.stdin.read()
"""


@needs_root
@pytest.mark.parametrize("listens", ["listens", "keeps the name alone"])
def test_a_survivor_that_takes_its_users_number_protects_nobody(listens: str) -> None:
    number = OWN_NUMBERS[0][-1]
    with subprocess.Popen(
        [sys.executable, "-c", SURVIVOR, str(number), listens],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as survivor:
        assert survivor.stdout is not None
        assert survivor.stdout.readline() == "\n"
        assert server_user._take(number) is None, "a pgdrag takes another number"
        assert not is_taken(server_user.own_user(number))
        survivor.kill()


@needs_root
def test_the_number_of_a_living_pgdrag_is_taken(own: ServerUser) -> None:
    assert is_taken(own)
    assert is_taken(own), "asking changes nothing"
    assert not is_taken(server_user.own_user(own.uid ^ 1))


@pytest.mark.parametrize(
    ("numbers_map", "chosen"),
    [
        ("         0          0 4294967295\n", OWN_NUMBERS[0]),
        ("         0     100000      65536\n", OWN_NUMBERS[1]),  # a container without root's rights
        ("         0       1000          1\n         1     100000      65536\n", OWN_NUMBERS[1]),
        ("         0       1000          1\n", None),
        (None, OWN_NUMBERS[0]),  # a kernel without user namespaces
    ],
)
def test_a_container_has_only_the_numbers_that_it_maps(
    numbers_map: str | None, chosen: range | None, tmp_path: Path
) -> None:
    if numbers_map is not None:
        (tmp_path / "map").write_text(numbers_map)
    mapped = [x for x in OWN_NUMBERS if server_user._are_mapped(x, tmp_path / "map")]
    assert next(iter(mapped), None) == chosen


@needs_root
def test_what_hides_and_forgets_its_origin_ends_with_its_user(own: ServerUser) -> None:
    told = run(["sh", "-c", DAEMON], user=own, timeout_s=30)
    daemon = int(told.output)
    # It survives those who started it, of whom the last may be about to end.
    assert wait_until(lambda: pids_of(own) == [daemon], 10)
    assert end_user(own) == 1
    assert pids_of(own) == []


# A program that its user may not read is not dumpable: under hidepid, even that user does not see it.
HIDDEN = """
import shutil, signal, subprocess, sys, tempfile
from pathlib import Path
from pgdrag.host.confinement import end_user
from pgdrag.host.process_sight import pids_of
from pgdrag.host.server_user import server_user
from pgdrag.host.spawn import spawn
with tempfile.TemporaryDirectory(prefix="test-", dir="/var/tmp") as directory:
    Path(directory).chmod(0o711)
    program = Path(shutil.copyfile(shutil.which("sleep"), f"{directory}/sleep"))
    program.chmod(0o711)
    hidden = spawn([program, "60"], user=server_user(), cwd=Path("/"), death_signal=signal.SIGKILL,
                   output=subprocess.DEVNULL)
    assert Path("/proc/1").exists() and not Path(f"/proc/{hidden.pid}").exists()
    print(pids_of(server_user()), end_user(server_user()), hidden.wait())
"""


# What a server used is for its own user to see, and for root with CAP_SYS_PTRACE.
ACCOUNTS = """
import signal, subprocess
from pathlib import Path
from pgdrag.collectors import Unseen, attempt
from pgdrag.collectors._cgroups import io_limits
from pgdrag.collectors._proc import read_io, read_ticks, scheduled_ns
from pgdrag.host.process_alive import wait_until
from pgdrag.host.process_sight import seeing_as
from pgdrag.host.server_user import server_user
from pgdrag.host.spawn import spawn
server = spawn(["sleep", "60"], user=server_user(), cwd=Path("/"), death_signal=signal.SIGKILL,
               output=subprocess.DEVNULL)
def accounts():
    return [attempt(lambda: read(server.pid)) for read in (read_io, read_ticks, scheduled_ns)]
def all_seen():
    with seeing_as(server_user()):
        return not any(isinstance(found, Unseen) for found in accounts())
print({str(found) for found in accounts()}, wait_until(all_seen, 10), all_seen())
print(attempt(lambda: io_limits(server.pid, "8:0", server_user())))
server.kill()
server.wait()
print({str(found) for found in accounts()})
"""


def in_container(program: str) -> str:
    """Return what a program prints as root of a container: its first process has no more rights than this one."""
    if not (shutil.which("unshare") and shutil.which("capsh")):
        pytest.skip("no unshare (util-linux) or no capsh (libcap2-bin) here")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode:
        pytest.skip("no namespaces can be made here")
    container = (
        "mount -t proc -o hidepid=2,gid=4711 proc /proc && "
        'exec capsh --drop=cap_sys_ptrace,cap_sys_admin -- -c \'"$0" -c "$1"; exit $?\' "$@"'
    )
    return subprocess.check_output(
        [
            *["unshare", "--mount", "--pid", "--fork", "sh", "-c"],
            container,
            "sh",
            sys.executable,
            program,
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE), server_user.SERVER_USER_VARIABLE: ""},
        text=True,
        timeout=60,
    )


@needs_root
def test_what_hides_even_from_its_own_user_is_ended_all_the_same() -> None:
    """Fault 16."""
    assert in_container(HIDDEN) == f"[] 0 {-signal.SIGKILL}\n"


SESSION = """
import signal, subprocess
from pathlib import Path
from pgdrag.host import guardian
from pgdrag.host.server_user import server_user
from pgdrag.host.spawn import spawn
stakes = []
guardian._tell = lambda stake, is_at_stake: stakes.append(stake.partition(b"=")[2].decode())
load = spawn(["sh", "-c", "sleep 600 & echo; wait"], user=server_user(), cwd=Path("/"),
             death_signal=signal.SIGKILL, output=subprocess.PIPE)
load.stdout.readline()
with guardian.guarded_session(load.pid, server_user()):
    print(guardian.end_session(stakes[0]), load.wait())
"""


@needs_root
def test_what_a_program_of_the_servers_user_started_is_guarded_and_ended() -> None:
    assert in_container(SESSION) == f"2 {-signal.SIGKILL}\n"


@needs_root
def test_what_a_server_used_is_seen_with_its_users_eyes_and_else_said_to_be_hidden() -> None:
    hidden, limits, gone = in_container(ACCOUNTS).splitlines()
    reason = "/proc hides the server's processes from this user (hidepid); it takes CAP_SYS_PTRACE"
    assert hidden == str({reason}) + " True True"
    assert limits.startswith(("{", "this kernel has no control groups"))
    assert gone == str({"the server's process is gone"})


def test_a_user_that_others_have_is_never_ended_as_a_whole() -> None:
    with pytest.raises(AssertionError, match="others may run processes"):
        end_all(ServerUser("nobody", 65534, 65534))
    with pytest.raises(ValueError, match="1000 is not the number"):
        server_user.own_user(1000)


def test_processes_of_a_shared_user_are_recognised_by_their_mark(tmp_path: Path) -> None:
    user = None if os.geteuid() else ServerUser("nobody", 65534, 65534)
    environment = {**clean_environment(), **mark(tmp_path)}
    with (
        living(user, environment=environment) as pid,
        living(user) as other,
        living(user, environment=mark(tmp_path / "another")) as another,
    ):
        assert wait_until(lambda: marked_pids(tmp_path, user) == [pid], 10)
        assert kill_processes(tmp_path, Path("/nowhere/postgres"), user) == 1
        # With that user's own eyes: root of a container may not see them.
        with seeing_as(user):
            assert wait_until(lambda: stat_fields(pid) is None, 10)
            assert None not in (stat_fields(other), stat_fields(another))


@needs_root
def test_root_of_a_container_sees_what_its_servers_run(own: ServerUser) -> None:
    with living(own) as pid, without(CAP_SYS_PTRACE):
        assert wait_until(lambda: pids_of(own) == [pid], 10)
        assert link_of(pid, "exe") == "", "the kernel does not tell root"
        with seeing_as(own):
            assert wait_until(lambda: Path(link_of(pid, "exe")).name in ("sleep", "busybox"), 10)
            assert link_of(pid, "cwd") == "/"
            assert os.getpid() in all_pids()
        status = Path("/proc/thread-self/status").read_text()
        assert "Uid:\t0\t0\t0\t0\n" in status, "it is root again"


def test_that_nothing_is_seen_is_not_taken_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_sight, "_PROC", tmp_path)
    with pytest.raises(ServerError, match="cannot see which processes run"):
        kill_processes(tmp_path, Path("/nowhere/postgres"), None)


def test_a_crash_is_known_from_the_lock_file_where_no_process_is_in_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.servers.processes.server_processes", lambda *_: [])
    server = Postmaster(tmp_path, Path("/nowhere/postgres"))
    lines = ["4711", "/data", "1700000000", "5432", "/socket", "", "  1234  1", "ready"]
    (tmp_path / "postmaster.pid").write_text("\n".join(lines))
    before = server.life()
    assert server.life() == before
    lines[6] = "  1234  2"  # another segment of shared memory
    (tmp_path / "postmaster.pid").write_text("\n".join(lines))
    assert server.life() != before


def test_programs_of_an_experiment_inherit_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("LC_MESSAGES", "de_DE")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    seen = run(["env"], user=None, timeout_s=30).output.splitlines()
    assert not [line for line in seen if "secret" in line]
    assert {"LC_ALL=C", "MALLOC_ARENA_MAX=2", f"PATH={os.environ['PATH']}"} <= set(seen)
    assert "LC_MESSAGES=de_DE" not in seen


def test_no_program_gets_more_rights_than_it_has() -> None:
    status = run(["cat", "/proc/self/status"], user=None, timeout_s=30).output
    assert "NoNewPrivs:\t1" in status
