"""A fleet answers as one machine does, to the bit, whatever dies meanwhile; nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("cryptography", reason="the extra fleet is not installed")

import fleet_runs
from fleet_host import FULL, REFUSED, TRIAL_S
from fleet_runs import Place, processes_of, refuse_twice, study_of, without_hosts
from pgdrag.errors import ServerError, UsageError
from pgdrag.findings.find import find
from pgdrag.fleet.agent import Ticket
from pgdrag.fleet.coordinator import Coordinator, NoHosts
from pgdrag.fleet.messages import Order
from pgdrag.fleet.starting import Started
from pgdrag.fleet.tls import COORDINATOR, Authority
from pgdrag.host.machine_lock import MACHINE_VARIABLE
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Outcome
from pgdrag.model.events import Event, HostChanged, TrialStarted, ignore

# Long enough for a busy machine: a trial that is lost three times is believed to be the reason.
LOCAL = 'local = 3\nlease = "5s"\n'
ENOUGH_S = 60.0
PORT = 20_000 + os.getpid() % 10_000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("PGDRAG_MACHINE", f"{tmp_path}")
    monkeypatch.setenv("FLEET_MARK", str(tmp_path))
    made = Place(tmp_path)
    made.write(LOCAL)
    yield made
    # Whatever the test did: nothing of any host runs on.
    own = psutil.Process().pid
    left: list[psutil.Process] = []

    def none_left() -> bool:
        left[:] = [x for x in processes_of(str(tmp_path)) if x.pid != own]
        return not left

    try:
        assert wait_until(none_left, ENOUGH_S), [
            x.as_dict(["pid", "ppid", "cmdline"]) for x in left
        ]
    finally:
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()


class Leading:
    """A coordinator in a process of its own."""

    def __init__(self, place: Place, run_id: str) -> None:
        self.place, self.run_id = place, run_id
        self._said = (place.directory / "said").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, fleet_runs.__file__, place.directory, run_id], stderr=self._said
        )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        assert wait_until(lambda: condition() or self.process.poll() is not None, ENOUGH_S)
        assert condition(), (self.place.directory / "said").read_text()

    def finished(self) -> int:
        return sum(outcome is not None for *_, outcome in self.place.attempts(self.run_id))

    def wait(self) -> None:
        assert self.process.wait(ENOUGH_S) == 0, (self.place.directory / "said").read_text()
        self._said.close()


def agents(place: Place) -> list[psutil.Process]:
    return _hosts_own(place, "agent")


def workers(place: Place) -> list[psutil.Process]:
    return _hosts_own(place, "worker")


def _hosts_own(place: Place, kind: str) -> list[psutil.Process]:
    found = []
    for process in processes_of(str(place.directory)):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            argv = process.cmdline()
            if fleet_runs.AGENT[1] in argv and kind in argv:
                found.append(process)
    return found


@contextmanager
def captured(place: Place) -> Iterator[list[bytes]]:
    """Capture what travels to and from the coordinator within the block, where that is allowed; yield what was seen."""
    seen: list[bytes] = []
    if shutil.which("tcpdump") is None or os.geteuid() != 0:
        yield seen
        return
    capture = place.directory / "capture"
    argv = ["tcpdump", "-Z", "root", "-i", "lo", "-U", "-w", capture, f"tcp port {PORT}"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as tcpdump:
        try:
            assert tcpdump.stderr is not None
            assert next(line for line in tcpdump.stderr if b"listening" in line)
            yield seen
            time.sleep(0.5)
        finally:
            tcpdump.terminate()
    seen.append(capture.read_bytes())


def test_three_hosts_answer_as_one_machine_does_and_nobody_can_read_along(place: Place) -> None:
    place.write(f'{LOCAL}join = ["one"]\nlisten = "127.0.0.1:{PORT}"\nreach = "127.0.0.1"\n')
    study = study_of("compare")
    expected = place.alone(study)
    modes: list[tuple[int, int]] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialStarted) and not modes:
            (path,) = (place.directory / "tickets").rglob("*.ticket")
            modes.append((path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777))
            assert Ticket.read(path.read_text()).name == "one"

    with captured(place) as seen:
        found = place.lead(place.begin(study), listen)
    assert without_hosts(found) == without_hosts(expected)
    assert find(found).found == find(expected).found
    refuse_twice(found)
    assert {x.host for x in found.results} <= {"local-1", "local-2", "local-3"}
    assert modes == [(0o600, 0o700)]
    assert not list((place.directory / "tickets").rglob("*"))
    if not seen:
        pytest.skip("what travels was not looked at: that needs tcpdump, as root")
    assert len(seen[0]) > 20_000
    for word in (b"treatment", b"committed", b"simulated", b"local-1", b"lease", b'"kind"'):
        assert word not in seen[0], word


def test_what_is_killed_and_stopped_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRIAL_S, "0.3")
    study = study_of("compare", max_pairs=10, precision=1e-9)
    expected = place.alone(study)
    run_id = place.begin(study)
    leading = Leading(place, run_id)
    leading.wait_for(lambda: leading.finished() >= 3)
    workers(place)[0].send_signal(signal.SIGKILL)
    stopped, killed, *_ = agents(place)
    stopped.send_signal(signal.SIGSTOP)
    leading.wait_for(lambda: leading.finished() >= 6)
    killed.send_signal(signal.SIGKILL)
    leading.wait_for(lambda: any(x[1] > 1 for x in place.attempts(run_id)))
    stopped.send_signal(signal.SIGCONT)
    leading.wait_for(lambda: leading.finished() >= 12)
    leading.process.kill()
    leading.process.wait()
    leading = Leading(place, run_id)
    leading.wait_for(lambda: leading.finished() >= 16)
    leading.process.send_signal(signal.SIGSTOP)
    assert wait_until(lambda: not workers(place), ENOUGH_S), "trials end with their leases"
    leading.process.send_signal(signal.SIGCONT)
    leading.wait()
    found = place.journal.run(run_id)
    assert without_hosts(found) == without_hosts(expected)
    refuse_twice(found)


def test_a_host_that_is_killed_is_named_once_with_the_reason(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRIAL_S, "1")  # the others run on for some ticks of the coordinator
    place.write(LOCAL.replace("3", "2"))
    killed: list[psutil.Process] = []
    said: list[HostChanged] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialStarted) and event.host == "local-2" and not killed:
            killed.extend(x for x in agents(place) if x.environ()["PGDRAG_MACHINE"].endswith("-2"))
            killed[0].kill()
        if isinstance(event, HostChanged) and "ended" in event.reason:
            said.append(event)

    found = place.lead(place.begin(study_of("ladder", replicates=4)), listen)
    reason = "it ended with signal 9"
    assert said == [HostChanged("local-2", x, reason) for x in ("lost", "set aside")]
    refuse_twice(found)


def test_of_two_hosts_that_are_one_machine_one_waits_and_says_for_whom(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Started, "_start_local", _on_one_machine)
    monkeypatch.setenv(TRIAL_S, "0.3")
    place.write(LOCAL.replace("3", "2"))
    waiting: list[HostChanged] = []

    def listen(event: Event) -> None:
        if isinstance(event, HostChanged) and event.state == "waiting":
            waiting.append(event)

    found = place.lead(place.begin(study_of("ladder", replicates=6)), listen)
    assert waiting
    assert all(x.reason.startswith("for ") for x in waiting), waiting
    assert {x.host for x in waiting} | {x.host for x in found.results} == {"local-1", "local-2"}
    refuse_twice(found)


def _on_one_machine(self: Started, ticket: Ticket, argv: Sequence[str]) -> None:
    machine = {MACHINE_VARIABLE: f"{os.environ[MACHINE_VARIABLE]}one"}
    self._start(ticket.name, argv, os.environ | machine).hand_over(ticket)


def test_an_interrupted_run_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRIAL_S, "30")
    run_id = place.begin(study_of("ladder", replicates=3))
    leading = Leading(place, run_id)
    leading.wait_for(lambda: any(x.name() == "sleep" for x in processes_of(str(place.directory))))
    leading.process.send_signal(signal.SIGTERM)
    leading.process.wait(ENOUGH_S)
    assert not [x for x in processes_of(str(place.directory)) if x.pid != os.getpid()]
    assert place.journal.run(run_id).status != "done"


def test_a_host_with_a_full_disk_is_set_aside_and_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = place.directory / "full"
    monkeypatch.setenv(FULL, str(full))
    study = study_of("ablate", replicates=3)
    expected = place.alone(study)
    aside: list[HostChanged] = []
    started: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialStarted) and not started:
            started.append(event.host)
            full.touch()
        if isinstance(event, HostChanged) and event.state == "set aside":
            aside.append(event)
            full.unlink(missing_ok=True)

    found = place.lead(place.begin(study), listen)
    assert aside
    assert {x.reason for x in aside} == {"no space left on device"}
    assert without_hosts(found) == without_hosts(expected)
    assert find(found).found == find(expected).found
    refuse_twice(found)


def test_without_a_host_the_run_ends_and_says_of_each_why(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("local = 1\n")
    monkeypatch.setenv("FLEET_TRUTH", "no JSON")
    with pytest.raises(NoHosts) as caught:
        place.lead(place.begin(study_of()))
    assert caught.value.detail == "local-1: its worker ended with status 1"


def test_a_workload_that_the_server_refuses_ends_the_run_on_all_hosts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REFUSED, "42P01")
    run_id = place.begin(study_of("compare", max_pairs=10, precision=1e-9))
    with pytest.raises(UsageError, match=r'relation "orders" does not exist \(SQLSTATE 42P01\)'):
        place.lead(run_id)
    assert place.journal.run(run_id).status == "failed"
    # A host may have answered first whose pair was begun before the design asked for it.
    found = place.journal.results(run_id, has_ahead=True).values()
    assert {x.outcome for x in found} == {Outcome.STALLED}
    assert len(found) <= 2 * 3, "no host begins another pair after its first"


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        ("192.0.2.7:7433", "cannot assign requested address"),
        ("nowhere.invalid:7433", ""),
    ],
)
def test_an_address_where_nobody_can_listen_is_a_mistake_of_the_file(
    place: Place, listen: str, reason: str
) -> None:
    place.write(f'local = 1\nlisten = "{listen}"\n')
    with pytest.raises(ServerError, match=f"could not listen on {listen}: {reason}") as caught:
        place.lead(place.begin(study_of()))
    assert '"listen"' in str(caught.value.hint)


class TestCertificates:
    def handshake(self, client: ssl.SSLContext | None, name: str = COORDINATOR) -> None:
        """Connect to a coordinator of an authority of its own."""

        async def connect() -> None:
            authority = Authority.new()
            coordinator = Coordinator(None, ["one"], Order(None, None, (), 1.0), listen=ignore)
            identity = authority.identity(COORDINATOR, is_coordinator=True)
            context = client or authority.identity("one").context(is_coordinator=False)
            async with await coordinator.serve(identity, "127.0.0.1") as server:
                port = server.sockets[0].getsockname()[1]
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, server_hostname=name
                )
                try:
                    writer.write(b"\x01\x00\x00\x00\x02{}")
                    await reader.readexactly(1)  # refused at the latest when something is read
                finally:
                    writer.transport.abort()

        asyncio.run(connect())

    def test_a_host_that_says_nothing_until_the_run_is_over_is_no_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def connect() -> None:
            authority = Authority.new()
            coordinator = Coordinator(None, ["one"], Order(None, None, (), 1.0), listen=ignore)
            identity = authority.identity(COORDINATOR, is_coordinator=True)
            server = await coordinator.serve(identity, "127.0.0.1")
            context = authority.identity("one").context(is_coordinator=False)
            address = server.sockets[0].getsockname()
            kept = await asyncio.open_connection(*address, ssl=context, server_hostname=COORDINATOR)
            async with asyncio.timeout(ENOUGH_S):
                while not any("_connected" in repr(x) for x in asyncio.all_tasks()):
                    await asyncio.sleep(0.001)
            server.close()
            del kept

        asyncio.run(connect())
        assert not caplog.records

    def test_a_host_of_another_run_is_refused(self) -> None:
        own = Authority.new()
        foreign = Authority.new().identity("one").context(is_coordinator=False)
        foreign.check_hostname, foreign.verify_mode = False, ssl.CERT_NONE  # it trusts anybody
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            self.handshake(foreign)
        assert own is not None

    def test_nobody_without_a_certificate_is_heard(self) -> None:
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            self.handshake(nobody)

    def test_a_host_cannot_pose_as_the_coordinator(self) -> None:
        async def connect() -> None:
            authority = Authority.new()
            posing = authority.identity(COORDINATOR).context(is_coordinator=True)
            async with await asyncio.start_server(
                lambda reader, writer: None, "127.0.0.1", ssl=posing
            ) as server:
                await asyncio.open_connection(
                    *server.sockets[0].getsockname(),
                    ssl=authority.identity("one").context(is_coordinator=False),
                    server_hostname=COORDINATOR,
                )

        with pytest.raises(ssl.SSLCertVerificationError):
            asyncio.run(connect())
