"""What a fleet file may say, and what its mistakes are called."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    recursive,
    text,
)
from pydantic import ValidationError

from pgdrag.errors import FileError
from pgdrag.fleet.agent import Agent, Ticket
from pgdrag.fleet.file import FleetFile, Kubernetes, read_fleet
from pgdrag.fleet.messages import Order, from_coordinator, from_host, written
from pgdrag.fleet.starting import Started, kubernetes_manifest
from pgdrag.fleet.tls import Identity
from pgdrag.host.machine_lock import MACHINE_VARIABLE, lock_name
from pgdrag.host.process_alive import wait_until
from pgdrag.testing.simulated import simulated_ladder


def read(tmp_path: Path, content: str) -> FleetFile:
    path = tmp_path / "fleet.toml"
    path.write_text(content)
    return read_fleet(path)


def test_hosts_have_names_by_their_kind(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        'local = 2\njoin = ["rack1"]\nlisten = "10.0.0.5:7433"\n[[ssh]]\nhost = "bench@db1"\n'
        '[[ssh]]\nhost = "db2"\nname = "old"\n[slurm]\nhosts = 2\n[kubernetes]\nhosts = 1\nimage = "x"\n',
    )
    assert file.names == (
        "local-1",
        "local-2",
        "slurm-1",
        "slurm-2",
        "kubernetes-1",
        "db1",
        "old",
        "rack1",
    )
    assert (file.lease_s, file.wait_s, file.address) == (30.0, 600.0, ("10.0.0.5", 7433))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it has 0 hosts, and must have 1 to 1,000"),
        ("local = 0", "it has 0 hosts"),
        ("local = 1\nlocals = 2", '2: unknown key "locals"'),
        ('local = 1\n[[ssh]]\nname = "a"', '2: missing key "host" in [[ssh]]'),
        ("local = -1", '"local" must be at least 0, not -1'),
        ("local = [", "is not TOML"),
        ('local = 1\nlease = "soon"', '"soon" is not a duration'),
        ('local = 1\nlease = "0"', '"lease": it is out of range'),
        ('local = 1\nlisten = "here"', '"listen": it must be an address with a port'),
        ('join = ["a", "a"]\nlisten = "10.0.0.1:1"', 'two hosts have the name "a"'),
        ('join = ["a b"]\nlisten = "10.0.0.1:1"', '"a b" is not a name of a host'),
        ('join = ["a"]', "listen must be an address that hosts"),
        (
            '[[ssh]]\nhost = "-oProxyCommand=touch x"',
            '2: "host" in [[ssh]] must be made of letters',
        ),
        ('[[ssh]]\nhost = "a"\nprogram = "rm -rf /"', '"program" in [[ssh]] must be made of'),
        ('[[ssh]]\nhost = "a"\nscratch = "~/x"', 'it must be an absolute path, not "~/x"'),
        (
            '[[ssh]]\nhost = "a"\nprogram = "./x; pgdrag"',
            '3: "program" in [[ssh]] must be made of names',
        ),
        (
            'listen = "10.0.0.1:1"\n[slurm]\nhosts = 1\noptions = ["--wrap=x"]',
            'element 1 of "options" must be',
        ),
    ],
)
def test_a_mistake_says_what_and_where(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        read(tmp_path, content)
    assert message in caught.value.message
    assert str(tmp_path / "fleet.toml") in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_fleet(tmp_path / "none.toml")


TICKET = Ticket("kubernetes-1", "10.0.0.5", 7433, Identity("C", "KEY", "A"))


def test_tickets_of_kubernetes_are_in_a_secret_and_nowhere_else() -> None:
    manifest = kubernetes_manifest(
        Kubernetes(hosts=1, image="x"), [TICKET], "pgdrag-1", ["--allow-run"]
    )
    secret, job = manifest["items"]  # type: ignore[misc]
    assert Ticket.read(secret["stringData"]["kubernetes-1"]) == TICKET  # type: ignore[index]
    assert "KEY" not in json.dumps(job)
    assert job["spec"]["completions"] == 1  # type: ignore[index]
    command = job["spec"]["template"]["spec"]["containers"][0]["command"][-1]  # type: ignore[index]
    assert command.endswith('"/tickets/kubernetes-$((JOB_COMPLETION_INDEX + 1))" --allow-run')


def test_slurm_and_kubernetes_get_a_job_that_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sbatch", "scancel", "kubectl"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\n{{ echo "{name} $*"; cat; }} >> {tmp_path}/said\necho 17\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    file = read(
        tmp_path,
        'listen = "10.0.0.5:7433"\n[slurm]\nhosts = 1\noptions = ["--partition=bench"]\n'
        '[kubernetes]\nhosts = 1\nimage = "x"\n',
    )
    started = Started(
        file,
        lambda name: Ticket(name, "10.0.0.5", 7433, Identity("C", "KEY", "A")),
        run_id="Run-1",
        tickets=tmp_path / "tickets",
    )
    said = (tmp_path / "said").read_text()
    assert (
        "sbatch --parsable --nodes=1 --exclusive --job-name=pgdrag-Run-1 --partition=bench" in said
    )
    assert "exec pgdrag fleet join /dev/fd/3" in said
    # First those go that a killed coordinator has left.
    assert said.startswith("scancel --me --name=pgdrag-Run-1\nsbatch")
    left = "--ignore-not-found job/pgdrag-run-1 secret/pgdrag-run-1\n"
    assert f"kubectl --namespace=default delete --wait {left}kubectl" in said
    started.end()
    said = (tmp_path / "said").read_text()
    assert "scancel 17" in said
    assert said.endswith(f"kubectl --namespace=default delete --wait=false {left}")


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        ("ssh: connect to host a port 22: Connection refused", 255, ""),
        ("Host key verification failed.", 255, " (connect to it once by hand, "),
        ("me@a: Permission denied (publickey).", 255, " (ssh must not ask for a password"),
        ("Error: remote port forwarding failed for listen port 0", 255, " (its sshd must have"),
        ("sh: 1: pgdrag: not found", 127, 'there is no program "pgdrag": install it there'),
    ],
)
def test_a_host_that_ssh_does_not_reach_is_named_with_the_reason_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int, reason: str
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho 'Warning' >&2\necho '{said}' >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = Started(
        read(tmp_path, '[[ssh]]\nhost = "a"\n'),
        lambda name: replace(TICKET, name=name),
        run_id="Run-1",
        tickets=tmp_path / "tickets",
    )
    assert wait_until(started.gone, 20)
    found = started.gone()["a"]
    started.end()
    assert found.startswith(f"{said}{reason}" if status == 255 else reason)


def test_a_host_on_the_machine_of_its_coordinator_does_not_wait_for_that() -> None:
    def lock(ticket: Ticket) -> str | None:
        return Agent(ticket, ["worker"], {}).workers_environment.get(MACHINE_VARIABLE)

    assert lock(TICKET) is None
    assert lock(replace(TICKET, coordinators_lock="another machine")) is None
    assert lock(replace(TICKET, coordinators_lock=lock_name())) == "fleet"


VALUES = recursive(
    none() | booleans() | integers() | floats() | text(),
    lambda inner: lists(inner, max_size=4) | dictionaries(text(), inner, max_size=4),
)


@given(binary() | VALUES.map(lambda x: json.dumps(x).encode()))
def test_what_is_no_message_is_refused_and_nothing_else(content: bytes) -> None:
    with pytest.raises(ValidationError):
        from_host(content)


@given(dictionaries(text(), VALUES), integers(0, 6))
def test_a_message_with_a_known_kind_is_validated_whole(table: dict[str, object], at: int) -> None:
    kinds = ("hello", "facts", "happened", "done", "stopped", "unable", "welcome")
    with pytest.raises(ValidationError):
        from_host(json.dumps({**table, "kind": kinds[at]}).encode())


def test_a_study_without_a_design_is_no_study() -> None:
    order = written(Order(simulated_ladder("a"), None, (), 30.0))
    assert from_coordinator(order).kind == "order"
    with pytest.raises(ValidationError, match="design"):
        from_coordinator(order.replace(b'"design":', b'"desipn":'))
