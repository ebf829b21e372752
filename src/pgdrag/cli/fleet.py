"""`pgdrag fleet` and `--fleet`: run an experiment on many machines, see what they lack, be one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Json, Postgres, Wait, command_group
from pgdrag.cli.plain_output import print_json
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError
from pgdrag.fleet.messages import Facts, Order
from pgdrag.units import format_bytes

if TYPE_CHECKING:
    from pgdrag.station import TrialRunner

app = command_group("Run experiments on many machines: docs/how-to/fleet.md.")

_FleetFile = Annotated[
    Path, typer.Argument(metavar="FLEET", help="Fleet file: see docs/how-to/fleet.md")
]
_AllowRun = Annotated[
    bool,
    typer.Option("--allow-run", help="Let trials start the programs that the coordinator allows"),
]
_AllowChange = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-change",
        metavar="NAME",
        help="Let trials change this, if the coordinator allows it, too; repeatable",
    ),
]
_ROOM_BYTES = 5 * 2**30


@dataclass(frozen=True)
class CheckedHost:
    """A host of a fleet.

    Attributes:
        facts: what it is; null: it did not answer.
        clock_ahead_s: its clock less this machine's; null: not known.
        problems: why trials cannot run there, in words.
    """

    facts: Facts | None
    clock_ahead_s: float | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class FleetCheck:
    """The hosts of a fleet by name, and in what they differ."""

    hosts: Mapping[str, CheckedHost]
    differences: tuple[str, ...]


@app.command()
def check(
    fleet: _FleetFile,
    postgres: Postgres = None,
    install: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.whl",
            help="Install this wheel first, in a virtual environment, on hosts of [[ssh]] that have another version or none",
        ),
    ] = None,
    wait: Wait = None,
    json: Json = False,
) -> int:
    """Show what each host of a fleet is, and what it lacks.

    Exit status: 0 every host can run trials, and they are alike; 1 one cannot, or they differ.
    """
    from pgdrag.cli.on_fleet import open_fleet, with_consent
    from pgdrag.cli.place import measuring, plain_table, say, stdout
    from pgdrag.fleet.coordinator import differences
    from pgdrag.fleet.installing import install_wheel

    opened = open_fleet(fleet)
    assert opened is not None
    if install is not None:
        for sentence in install_wheel(opened.file.ssh, install):
            say(sentence)
    with measuring(wait):
        opened.sweep()
        opened = with_consent(opened, (), postgres)
        clocks: dict[str, float] = {}
        found = opened.facts(lambda _: None, server_wanted=postgres, clocks=clocks)
    known = {name: one for name, one in found.items() if isinstance(one, Facts)}
    differ = differences(known, clocks)
    problems = {
        name: one.problems if isinstance(one, Facts) else (one,) for name, one in found.items()
    }
    if json:
        print_json(
            FleetCheck(
                {
                    name: CheckedHost(known.get(name), clocks.get(name), tuple(lacks))
                    for name, lacks in problems.items()
                },
                tuple(differ),
            )
        )
    else:
        table = plain_table("Host", "Processors", "Memory", "Kernel", "PostgreSQL", "Free")
        for name, one in known.items():
            machine = one.machine
            cells = (str(machine.cpu_count), format_bytes(machine.memory_bytes), machine.kernel)
            table.add_row(name, *cells, one.server_version, format_bytes(one.free_bytes))
        out = stdout()
        if known:
            out.print(table)
        lacking = [f"{name}: {lacks}" for name, all_of in problems.items() for lacks in all_of]
        for sentence in (*lacking, *differ):
            out.print(sentence, soft_wrap=True, markup=False)
    return EXIT_FAILED_CHECK if differ or any(problems.values()) else EXIT_DONE


@app.command()
def join(
    ticket: Annotated[
        str,
        typer.Argument(metavar="TICKET", help="File that the coordinator wrote, or - for stdin"),
    ],
    allow_run: _AllowRun = False,
    allow_change: _AllowChange = None,
) -> int:
    """Take part in a run as one of its hosts, until the run is over.

    The coordinator, `pgdrag run --fleet`, writes a ticket for each host. Trials run as this user.
    """
    import asyncio

    from pgdrag.fleet.agent import Agent, Ticket

    text = sys.stdin.readline() if ticket == "-" else _read(ticket)
    options = ["--allow-run"] if allow_run else []
    options += [x for name in allow_change or () for x in ("--allow-change", name)]
    argv = [sys.executable, "-m", "pgdrag", "fleet", "worker", *options]
    agent = Agent(Ticket.read(text), argv, ends_with_input=ticket == "-")
    reason = asyncio.run(agent.run())
    if reason:
        raise UsageError(f"this host takes no part: {reason}")
    return EXIT_DONE


@app.command(hidden=True)
def worker(allow_run: _AllowRun = False, allow_change: _AllowChange = None) -> int:
    """Run trials that `pgdrag fleet join` passes on."""
    from pgdrag.fleet.worker import standard_streams, work

    orders, out = standard_streams()
    work(lambda order: _open_bench(order, allow_run, allow_change or ()), orders, out)
    return EXIT_DONE


def _open_bench(
    order: Order, allow_run: bool, allow_change: Sequence[str]
) -> tuple[TrialRunner, Facts]:
    from pgdrag.cli.running import open_runner
    from pgdrag.host.machine import this_host
    from pgdrag.host.machine_lock import lock_name
    from pgdrag.model.program import is_program

    if order.server_wanted is not None and os.sep in order.server_wanted and not allow_run:
        raise UsageError(
            f'the coordinator wants the server in "{order.server_wanted}", which is a program',
            detail="Its host has not been started with --allow-run.",
        )
    allowed = [x for x in order.allowed if (allow_run if is_program(x) else x in allow_change)]
    runner = open_runner(order.server_wanted, allowed)
    free = runner.scratch.free_bytes()
    few = (
        [f"only {format_bytes(free)} are free in {runner.scratch.root}"]
        if free < _ROOM_BYTES
        else []
    )
    facts = Facts(
        machine=this_host(runner.scratch.root) if order.study is None else runner.host(order.study),
        server_version=runner.version,
        free_bytes=free,
        is_root=os.geteuid() == 0,
        problems=tuple(few),
        lock=lock_name(),
    )
    return runner, facts


def _read(ticket: str) -> str:
    hint = "Name the file that the run of the fleet wrote, or - for standard input."
    try:
        return Path(ticket).read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f'could not read ticket "{ticket}": {reason}', hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f'could not read ticket "{ticket}": it is not text', hint=hint) from None
