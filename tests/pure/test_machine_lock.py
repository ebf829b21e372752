"""One pgdrag measures on a machine at a time; another can wait for it, and says for whom."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pgdrag.cli import load_command
from pgdrag.cli.options import LONGEST_WAIT_S, Command
from pgdrag.errors import UsageError
from pgdrag.host import machine_lock, process_alive
from pgdrag.host.kernel_lock import KernelLock
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.host.trusted_path import user_name
from pgdrag.units import format_duration

# As `pgdrag compare …` would look, with a connection string that is nobody's business.
HOLDER = """
import sys
from pgdrag.host.machine_lock import measuring_alone
with measuring_alone():
    print("held", flush=True)
    sys.stdin.read()
"""
ARGUMENTS = ("pgdrag", "bench", "a.conf", "postgresql://me:secret@db1/shop", "later")


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that measures until its standard input is closed."""
    monkeypatch.setenv(MACHINE_VARIABLE, f"waiting-{os.getpid()}")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *ARGUMENTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_who_waits_is_told_for_whom_once_and_goes_on_when_that_one_ends(
    holder: subprocess.Popen[str],
) -> None:
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        assert holder.stdin is not None
        holder.stdin.close()

    with measuring_alone(60, tell):
        assert holder.wait(60) == 0
    assert told == [f"Waiting up to 1 min for process {holder.pid}, pgdrag bench a.conf."]


def test_whom_proc_hides_is_named_however_often_it_is_asked_for(
    holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a process that has changed its user, /proc shows nothing to one without CAP_SYS_PTRACE."""
    monkeypatch.setattr(process_alive, "stat_fields", lambda _: None)
    # More often than there is room for in its queue.
    monkeypatch.setattr(process_alive, "_POLL_S", 0.0001)
    monkeypatch.setattr(process_alive, "_FORKED_CHILD_S", 0.5)
    told: list[str] = []
    with (
        pytest.raises(UsageError, match=f"process {holder.pid}, "),
        measuring_alone(2, told.append),
    ):
        pass
    assert told == [f"Waiting up to 2 s for process {holder.pid}, pgdrag bench a.conf."]


def test_waiting_for_a_process_in_another_container_is_announced(
    holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_lock, "_listener", lambda: None)
    monkeypatch.setattr(process_alive, "_FORKED_CHILD_S", 0.1)
    told: list[str] = []
    with pytest.raises(UsageError, match="cannot be seen"), measuring_alone(0.3, told.append):
        pass
    assert told == ["Waiting up to 300 ms for a process that cannot be seen from here."]


def test_it_waits_no_longer_than_it_was_told(holder: subprocess.Popen[str]) -> None:
    began_s = time.monotonic()
    with (
        pytest.raises(UsageError, match=rf"after waiting for 300 ms \(process {holder.pid}, "),
        measuring_alone(0.3),
    ):
        pass
    assert time.monotonic() - began_s >= 0.3


def test_who_does_not_wait_is_told_how_to(holder: subprocess.Popen[str]) -> None:
    with pytest.raises(UsageError) as refused, measuring_alone():
        pass
    assert re.search(rf"on this machine \(process {holder.pid}, pgdrag", refused.value.message)
    assert "--wait" in refused.value.hint
    assert "secret" not in refused.value.message


def test_waiting_ends_with_an_interrupt(holder: subprocess.Popen[str]) -> None:
    def interrupt(_: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), measuring_alone(60, interrupt):
        pass
    assert machine_lock.measuring_pid() == holder.pid


NAMELESS = "import os; os.environ.pop('PGDRAG_MACHINE', None)\n"
TRY = (
    NAMELESS
    + """
from pgdrag.errors import UsageError
from pgdrag.host import process_alive, kernel_lock, machine_lock
process_alive._FORKED_CHILD_S = 0.1  # nobody here is between fork and exec
machine_lock._address = lambda: "\\0" + NAME
kernel_lock.KernelLock.__init__ = of_a_test
try:
    with machine_lock.measuring_alone(): print("measured")
except UsageError as error: print(error.message, error.detail, error.hint, sep="\\n")
"""
)


class Machine:
    """A machine of a test's own: its name, and a file in the place of the kernel's namespace.

    The real lock is everybody's on this kernel; `test_the_lock_of_a_kernel` takes it for a moment.
    """

    def __init__(self, directory: Path) -> None:
        self.name = f"pgdrag-test-{os.getpid()}-{directory.name}"
        self.lock = directory / "namespace"
        self.lock.touch()
        self.lock.chmod(0o644)
        directory.chmod(0o755)

    def measuring(self, *wrapper: str) -> str:
        """Try to measure in another process, begun by another program; return what it says."""
        prelude = (
            f"NAME = {self.name!r}\n"
            "def of_a_test(lock, namespace):\n"
            f"    import os; lock._fd = os.open({str(self.lock)!r}, os.O_RDONLY)\n"
        )
        command = [*wrapper, sys.executable, "-c", prelude + TRY]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture
def machine() -> Iterator[Machine]:
    # Not pytest's directory, which keeps other users out.
    with tempfile.TemporaryDirectory(prefix="pgdrag-test-", dir="/var/tmp") as directory:
        yield Machine(Path(directory))


def test_alone_one_measures(machine: Machine) -> None:
    assert machine.measuring() == "measured\n"


def test_one_in_another_network_namespace_is_seen(machine: Machine) -> None:
    needs("unshare", "--net", "true")
    with machine.lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = machine.measuring("unshare", "--net")
        assert f"another pgdrag is measuring on this machine (process {os.getpid()}" in said
        # Nor does a container see whose lock it is.
        said = machine.measuring("unshare", "--net", "--pid", "--fork", "--mount-proc")
        assert "(a process that cannot be seen from here)" in said
        assert "It runs in another container" in said
    assert machine.measuring("unshare", "--net") == "measured\n"


def test_another_user_who_took_the_name_is_named_with_a_way_out(machine: Machine) -> None:
    """Fault 24: whoever comes first may not be measuring at all, and locks out nobody."""
    needs("setpriv", "--reuid=65534", "--clear-groups", "true")
    squat = (
        "import socket, sys; held = socket.socket(socket.AF_UNIX); "
        f"held.bind('\\0' + {machine.name!r}); held.listen(); print(flush=True); sys.stdin.read()"
    )
    with running(
        "setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", squat
    ) as other:
        said = machine.measuring()
        assert f'(process {other.pid} of user "{user_name(65534)}")' in said
        assert "set PGDRAG_MACHINE to a name of your own to go on beside it" in said


def test_a_lock_holder_that_does_not_answer_is_reported_with_a_way_to_find_it(
    machine: Machine,
) -> None:
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(f"\0{machine.name}")
        said = machine.measuring()
    assert "(a process that cannot be seen from here)" in said
    assert "does not answer" in said
    assert "ss -xap" in said


def test_a_machine_with_a_name_of_its_own_needs_no_lock_of_the_kernel(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setenv(MACHINE_VARIABLE, machine.name)
    monkeypatch.setattr(KernelLock, "__init__", lambda lock, name: asked.append(name))
    monkeypatch.setattr(KernelLock, "_fd", -1, raising=False)
    with measuring_alone():
        assert asked == [None]


def test_the_lock_of_a_kernel_is_one_for_all_namespaces_and_names_its_holder() -> None:
    try:
        own = KernelLock("user")
        is_taken = own.take()
    except OSError as error:
        pytest.skip(f"no namespaces here: {error}")
    if not is_taken:
        pytest.skip("a pgdrag is changing this machine")
    with closing(own), closing(KernelLock("user")) as other:
        assert not other.take()
        assert other.holder_pid() == os.getpid()
        own.give_up()
        assert other.take()
        other.give_up()


def needs(*command: str) -> None:
    if shutil.which(command[0]) is None or subprocess.run(command, check=False).returncode != 0:
        pytest.skip(f"{command[0]} is not possible here")


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that prints a line when it is ready, and ends with its standard input."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "wait"),
    [
        ([], None),
        (["--wait"], 3600),
        (["--wait", "10min"], 600),
        (["--wait=90s"], 90),
        (["--wait", "15 s"], 15),
    ],
)
@pytest.mark.parametrize("rest", [["15", "18"], ["-c", "4", "15", "18"]])
def test_a_time_may_follow_wait(arguments: list[str], rest: list[str], wait: float | None) -> None:
    command = load_command("compare")
    for given in ([*arguments, *rest], [*rest, *arguments]):
        parsed = command.make_context("compare", given).params
        assert (parsed["wait"], parsed["a"], parsed["b"]) == (wait, "15", "18")


def test_a_time_that_is_too_long_is_refused() -> None:
    with pytest.raises(UsageError, match="out of range") as refused:
        load_command("run").make_context("run", ["slow-42k", "--wait", "900d"])
    assert format_duration(LONGEST_WAIT_S) in refused.value.hint


@pytest.mark.parametrize(
    ("group", "name"),
    [
        *(("", x) for x in ("run", "resume", "compare", "calibrate", "ablate", "bisect")),
        *(("", x) for x in ("screen", "boundary", "search", "bench", "clean")),
        ("tpcc", "run"),
        ("tpcc", "load"),
        ("twin", "check"),
        ("fleet", "check"),
    ],
)
def test_every_command_that_measures_can_wait(group: str, name: str) -> None:
    command = load_command(group).commands[name] if group else load_command(name)
    (option,) = (one for one in command.params if one.name == "wait")
    assert option.opts == ["--wait"]
    assert isinstance(command, Command)  # whose --wait may stand without a time
