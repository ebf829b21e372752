"""How do the agents of a fleet's hosts start, and how do they end with the run?

Each gets a ticket: who it is, and where the coordinator listens. One that runs on this machine or is reached by SSH gets
it on its standard input, whose end is the coordinator's end; for others it is in a file that only this user can read, in
a job's script or in a Secret. All of them are useless as soon as the run is over.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from pgdrag.driver.generators import SSH, WITH_USERS_PROGRAMS
from pgdrag.errors import ServerError
from pgdrag.fleet.agent import Ticket
from pgdrag.fleet.file import FleetFile, Kubernetes, Slurm, SshHost
from pgdrag.host.machine_lock import MACHINE_VARIABLE

_END_TIMEOUT_S, _COMMAND_TIMEOUT_S = 30.0, 60.0
_MOST_ERRORS_BYTES = 4096
_NO_SUCH_PROGRAM = 127  # what shells and env return
# What to do where ssh, in its last words, says this.
_SSH_REMEDIES = {
    "Host key verification failed": "connect to it once by hand, and look whether its key is the right one",
    "Permission denied": "ssh must not ask for a password: give it a key",
    "remote port forwarding failed": "its sshd must have AllowTcpForwarding yes",
}
_FORWARDED = re.compile(rb"Allocated port (\d+) for remote forward")


@dataclass
class _Process:
    """A process whose end is the end of a host's agent.

    Attributes:
        program: that a shell of that host starts; "": none does.
    """

    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    program: str = ""
    ticket: Ticket | None = None  # to be sent once the port over there is known

    def said(self) -> bytes:
        size = os.fstat(self.errors.fileno()).st_size
        return os.pread(self.errors.fileno(), _MOST_ERRORS_BYTES, max(0, size - _MOST_ERRORS_BYTES))

    def why_ended(self) -> str:
        status = self.process.returncode
        if status == _NO_SUCH_PROGRAM and self.program:
            return f'there is no program "{self.program}": install it there, or with fleet check --install'
        words = self.said().decode(errors="replace").strip().splitlines()
        last = next((x for x in words if x.startswith("error: ")), words[-1] if words else "")
        how = f"signal {-status}" if status < 0 else f"status {status}"
        last = last.removeprefix("error: ") or f"it ended with {how}"
        remedy = next((todo for said, todo in _SSH_REMEDIES.items() if said in last), "")
        return f"{last} ({remedy})" if remedy and self.program else last

    def hand_over(self, ticket: Ticket) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(ticket.written().encode() + b"\n")
            self.process.stdin.flush()
        self.ticket = None


class Started:
    """The agents of all hosts of a fleet file.

    Args:
        tickets: where tickets are written for hosts that come by themselves.
        join_argv: the program of an agent on this machine, which reads its ticket from standard input.
    """

    def __init__(
        self,
        file: FleetFile,
        ticket_for: Callable[[str], Ticket],
        *,
        run_id: str,
        tickets: Path,
        join_argv: Sequence[str] = (sys.executable, "-m", "pgdrag", "fleet", "join", "-"),
        join_options: Sequence[str] = (),
    ) -> None:
        self._processes: list[_Process] = []
        self._undo: list[Callable[[], object]] = []
        self._tickets = tickets
        try:
            for at in range(1, file.local + 1):
                self._start_local(ticket_for(f"local-{at}"), [*join_argv, *join_options])
            for host in file.ssh:
                self._start_ssh(host, ticket_for(host.known_as), join_options)
            if file.join:
                self._write([ticket_for(name) for name in file.join])
            if file.slurm is not None:
                # Those of a killed coordinator have the nodes for a while yet.
                _command(["scancel", "--me", f"--name={_job_name(run_id)}"])
                for at in range(1, file.slurm.hosts + 1):
                    self._submit(file.slurm, ticket_for(f"slurm-{at}"), run_id, join_options)
            if file.kubernetes is not None:
                many = range(1, file.kubernetes.hosts + 1)
                found = [ticket_for(f"kubernetes-{at}") for at in many]
                self._create(file.kubernetes, found, run_id, join_options)
        except BaseException:
            self.end()
            raise

    @property
    def lines(self) -> list[str]:
        """What a person must do for hosts that come by themselves."""
        found = sorted(self._tickets.glob("*.ticket")) if self._tickets.exists() else []
        return [f"On {one.stem}, run: pgdrag fleet join {one.name}   ({one})" for one in found]

    def gone(self) -> dict[str, str]:
        """Return the hosts whose process has ended, each with its last words; the others get their tickets."""
        found = {}
        for one in self._processes:
            if one.ticket is not None and (match := _FORWARDED.search(one.said())):
                one.hand_over(replace(one.ticket, port=int(match[1])))
            if one.process.poll() is not None:
                found[one.name] = one.why_ended()
        return found

    def end(self) -> None:
        """Let every agent end, end those that do not, and remove all tickets."""
        for one in self._processes:
            assert one.process.stdin is not None
            with suppress(OSError):
                one.process.stdin.close()
        for one in self._processes:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(subprocess.TimeoutExpired):
                    one.process.wait(_END_TIMEOUT_S)
                    break
                one.process.send_signal(number)
            one.process.wait()
            one.errors.close()
        for undo in self._undo:
            with suppress(ServerError, OSError):
                undo()
        shutil.rmtree(self._tickets, ignore_errors=True)

    def _start(self, name: str, argv: Sequence[str], environment: dict[str, str]) -> _Process:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as the process lives
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is the coordinator's to pass on
            )
        except OSError as error:
            errors.close()
            raise ServerError(f'cannot execute "{argv[0]}": {error.strerror}') from None
        self._processes.append(_Process(name, process, errors))
        return self._processes[-1]

    def _start_local(self, ticket: Ticket, argv: Sequence[str]) -> None:
        # The coordinator has this machine's lock for all of them.
        machine = f"{os.environ.get(MACHINE_VARIABLE, '')}fleet-{ticket.name}"
        started = self._start(ticket.name, argv, {**os.environ, MACHINE_VARIABLE: machine})
        started.hand_over(replace(ticket, address="127.0.0.1"))

    def _start_ssh(self, host: SshHost, ticket: Ticket, options: Sequence[str]) -> None:
        scratch = shlex.quote(f"PGDRAG_SCRATCH={host.scratch}") if host.scratch else ""
        there = f"{WITH_USERS_PROGRAMS} {scratch} {host.program} fleet join - {shlex.join(options)}"
        argv = [*SSH, "-oLogLevel=INFO", "-oExitOnForwardFailure=yes",
                "-oServerAliveInterval=15", "-R", f"127.0.0.1:0:127.0.0.1:{ticket.port}", "--",
                host.host, there]  # fmt: skip
        started = self._start(ticket.name, argv, dict(os.environ))
        started.ticket, started.program = replace(ticket, address="127.0.0.1"), host.program

    def _write(self, tickets: Sequence[Ticket]) -> None:
        shutil.rmtree(self._tickets, ignore_errors=True)
        self._tickets.mkdir(parents=True, mode=0o700)
        for ticket in tickets:
            path = self._tickets / f"{ticket.name}.ticket"
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
                file.write(ticket.written())

    def _submit(self, slurm: Slurm, ticket: Ticket, run_id: str, options: Sequence[str]) -> None:
        script = (
            f"#!/bin/bash\nexec {slurm.program} fleet join /dev/fd/3 {shlex.join(options)} "
            f"3<<'TICKET'\n{ticket.written()}\nTICKET\n"
        )
        name = f"--job-name={_job_name(run_id)}"
        argv = ["sbatch", "--parsable", "--nodes=1", "--exclusive", name, *slurm.options]
        job = _command(argv, script).strip().partition(";")[0]
        self._undo.append(lambda: _command(["scancel", job]))

    def _create(
        self, kubernetes: Kubernetes, tickets: Sequence[Ticket], run_id: str, options: Sequence[str]
    ) -> None:
        context = [f"--context={kubernetes.context}"] if kubernetes.context else []
        kubectl = ["kubectl", *context, f"--namespace={kubernetes.namespace}"]
        name = _job_name(run_id).lower()
        manifest = kubernetes_manifest(kubernetes, tickets, name, options)
        both = ("--ignore-not-found", f"job/{name}", f"secret/{name}")
        _command([*kubectl, "delete", "--wait", *both])  # those of a killed coordinator
        self._undo.append(lambda: _command([*kubectl, "delete", "--wait=false", *both]))
        _command([*kubectl, "create", "-f", "-"], json.dumps(manifest))


def _job_name(run_id: str) -> str:
    return f"pgdrag-{run_id}"


def kubernetes_manifest(
    kubernetes: Kubernetes, tickets: Sequence[Ticket], name: str, options: Sequence[str]
) -> dict[str, object]:
    """Return a Secret with the tickets, and an indexed job with a pod on a node of its own for each."""
    labels = {"app": name}
    there = 'exec pgdrag fleet join "/tickets/kubernetes-$((JOB_COMPLETION_INDEX + 1))" '
    alone = [{"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}]
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 60,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": alone}},
        "containers": [
            {
                "name": "pgdrag",
                "image": kubernetes.image,
                "command": ["sh", "-c", there + shlex.join(options)],
                "volumeMounts": [{"name": "tickets", "mountPath": "/tickets", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "tickets", "secret": {"secretName": name, "defaultMode": 0o400}}],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "stringData": {one.name: one.written() for one in tickets},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": len(tickets),
            "parallelism": len(tickets),
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return {"apiVersion": "v1", "kind": "List", "items": [secret, job]}


def _command(argv: Sequence[str], text: str = "") -> str:
    """Run a program to its end, and return what it printed.

    Raises:
        ServerError: it is not there, or fails.
    """
    try:
        ran = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f'could not run "{argv[0]}": {error}') from None
    if ran.returncode:
        words = ran.stderr.strip().splitlines()
        raise ServerError(
            f"{argv[0]} failed with status {ran.returncode}", detail=words[-1] if words else None
        )
    return ran.stdout
