"""`pgdrag tpcc load`, `check` and `run`: TPC-C on an existing server, on BenchBase's schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdrag.cli.bench_options import LoadOptions
from pgdrag.cli.options import LARGEST_SEED, Consent, Dsn, Json, Wait, command_group, with_options
from pgdrag.cli.plain_output import print_json
from pgdrag.english import counted
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from pgdrag.driver.connection_string import Server
    from pgdrag.workloads.tpcc import Tpcc

# Loaded without a question where it cannot be seen whether there is room.
_UNASKED_BYTES = 10 * 1000**3

app = command_group("Load, check and run TPC-C on an existing server.")


@dataclass(frozen=True)
class Condition:
    """One consistency condition of TPC-C.

    Attributes:
        demands: what it demands, in words.
        violation: how it is violated; null: it holds.
    """

    condition: str
    demands: str
    violation: str | None


@dataclass(frozen=True)
class ConsistencyCheck:
    """Whether TPC-C's tables are consistent."""

    server: str
    consistent: bool
    conditions: tuple[Condition, ...]


# TPC-C 3.3.2: the consistency conditions.
CONDITIONS = {
    "3.3.2.1": "w_ytd of a warehouse is the sum of d_ytd of its districts",
    "3.3.2.2": "d_next_o_id - 1 of a district is its highest o_id and no_o_id",
    "3.3.2.3": "the no_o_id of a district have no gaps",
    "3.3.2.4": "the sum of o_ol_cnt of a district is the number of its order lines",
    "3.3.2.5": "an order is in new_order if and only if it has no carrier",
    "3.3.2.6": "o_ol_cnt of an order is the number of its lines",
    "3.3.2.7": "an order line has a delivery date if and only if its order has a carrier",
    "3.3.2.8": "w_ytd of a warehouse is the sum of its h_amount",
    "3.3.2.9": "d_ytd of a district is the sum of its h_amount",
    "3.3.2.10": "c_balance is what was delivered, less what was paid",
    "3.3.2.11": "orders less new_order is 2,100 more than what was delivered",
    "3.3.2.12": "c_balance and c_ytd_payment together are what was delivered",
}


@app.command()
def load(
    warehouses: Annotated[
        int,
        typer.Option(
            "--warehouses",
            "-w",
            metavar="N",
            min=1,
            max=100_000,
            help="Number of warehouses, about 110 MB each",
        ),
    ],
    dsn: Dsn = None,
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=256,
            help="Number of connections that load in parallel (default: one per processor, at most 8)",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=LARGEST_SEED,
            help="Seed of the rows; the same seed gives the same rows",
        ),
    ] = 1,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop existing tables of the same names")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print progress")] = False,
    yes: Consent = False,
    wait: Wait = None,
) -> int:
    """Create and load TPC-C's tables, with all keys and constraints."""
    from pgdrag.bench import drop_tables
    from pgdrag.cli.driving import load_tables
    from pgdrag.cli.place import stderr
    from pgdrag.cli.server_argument import free_server, named_server, require_consent
    from pgdrag.driver.connection_string import refuse_standby
    from pgdrag.existing.datasets import existing_tables
    from pgdrag.workloads.tpcc import Tpcc

    example = "pgdrag tpcc load postgresql://me@db1/bench --warehouses 10"
    server = named_server(dsn, example, is_for_driver=True, own_session="tpcc load")
    refuse_standby(server, "tpcc load")
    server = free_server(server, wait)
    there = existing_tables(server, Tpcc.tables)
    if there and not replace:
        raise UsageError(
            f"{server.name} already has tables of these names: {', '.join(there)}",
            hint="Name another database, or give --replace to drop them with all their rows.",
        )
    workload = Tpcc(warehouses=warehouses)
    risk = _lack_of_room(server, workload)
    require_consent(server, "load TPC-C there", is_given=yes, risk=risk)
    if there:
        drop_tables(server, there)
    talk = stderr()
    loaded = load_tables(server, workload.job(), seed=seed, parallelism=parallel, is_quiet=quiet)
    per_min = 60 * warehouses / loaded.elapsed_s
    talk.print(
        f"Loaded {counted(warehouses, 'warehouse')} in {format_duration(loaded.elapsed_s)}: "
        f"{loaded.rows:,} rows, {format_bytes(loaded.bytes)} sent, {per_min:,.1f} warehouses/min."
    )
    phases = ", ".join(
        f"{name.replace('_', ' ')} {format_duration(seconds)}"
        for name, seconds in sorted(loaded.phases_s.items(), key=lambda x: -x[1])
    )
    talk.print(f"Time by phase: {phases}.")
    return EXIT_DONE


def _lack_of_room(server: Server, workload: Tpcc) -> str:
    """Return why the tables may not fit there, or ""."""
    from pgdrag.bench import free_bytes

    wanted_bytes, free = workload.dataset_bytes(), free_bytes(server)
    tables = f"{counted(workload.warehouses, 'warehouse')} take about {format_bytes(wanted_bytes)}"
    if free is None:
        return (
            f"{tables}, and how much room there is on {server.name} cannot be seen from here"
            if (wanted_bytes > _UNASKED_BYTES)
            else ""
        )
    return (
        f"{tables}, and {server.name} has room for {format_bytes(free)}"
        if wanted_bytes > free
        else ""
    )


@app.command()
def check(dsn: Dsn = None, json: Json = False) -> int:
    """Check TPC-C's consistency conditions; nothing is written."""
    from pgdrag.cli.place import plain_table, stdout
    from pgdrag.cli.server_argument import named_server

    example = "pgdrag tpcc check postgresql://me@db1/bench"
    server = named_server(dsn, example, is_for_driver=True, own_session="tpcc check")
    found = _conditions(server)
    is_consistent = not any(found.values())
    if json:
        conditions = tuple(
            Condition(name, CONDITIONS.get(name, ""), broken or None)
            for name, broken in found.items()
        )
        print_json(ConsistencyCheck(server.name, is_consistent, conditions))
    else:
        table = plain_table("condition", "holds", "requirement or violation")
        for name, broken in found.items():
            if broken:
                table.add_row(name, "✗ violated", broken, style="red")
            else:
                table.add_row(name, "✓ ok", CONDITIONS.get(name, ""))
        stdout().print(table)
    return EXIT_DONE if is_consistent else EXIT_FAILED_CHECK


@app.command()
@with_options
def run(
    context: typer.Context,
    dsn: Dsn = None,
    *,
    load: LoadOptions,
    statements: Annotated[
        Literal["simple", "extended", "prepared", "pipelined"],
        typer.Option(help="How statements are sent; pipelined sends independent ones together"),
    ] = "prepared",
    max_tries: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Maximum attempts after serialization failures or deadlocks",
        ),
    ] = 3,
    isolation: Annotated[
        Literal["read committed", "repeatable read", "serializable"],
        typer.Option(help="Transaction isolation level"),
    ] = "read committed",
    terminals: Annotated[
        Literal["benchbase", "specification"],
        typer.Option(
            help="Spread clients over the warehouses as BenchBase does, or ten per warehouse"
        ),
    ] = "benchbase",
    wait_scale: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            min=0,
            max=10,
            help="Keying and think times as a multiple of the specification's; 0: none",
        ),
    ] = 0.0,
    check_after: Annotated[
        bool, typer.Option("--check", help="Check the consistency conditions after the run")
    ] = False,
    yes: Consent = False,
) -> int:
    """Run TPC-C's transactions on loaded tables and report throughput."""
    from pgdrag.bench import refuse_shared_isolation, run_load, tpcc_warehouses
    from pgdrag.cli.driving import report_window, showing_run
    from pgdrag.cli.place import measuring, stderr
    from pgdrag.cli.server_argument import free_server, named_server, require_consent
    from pgdrag.driver.connection_string import refuse_standby
    from pgdrag.driver.pooler import sendable
    from pgdrag.model import WorkloadSpec
    from pgdrag.workloads.tpcc import Tpcc

    profile, seed = load.profile(), load.seed()
    if objection := Tpcc(wait_scale=wait_scale).objection(profile):
        raise UsageError(f"--wait-scale {objection.message}", hint=objection.hint)
    server = named_server(dsn, "pgdrag tpcc run postgresql://me@db1/bench", is_for_driver=True)
    refuse_standby(server, "tpcc run")
    server = free_server(server, load.wait)
    source = context.get_parameter_source("statements")
    is_default = source is not None and source.name == "DEFAULT"
    statements = sendable(server.pooler, statements, is_default=is_default, has_blocks=True)
    refuse_shared_isolation(server, isolation)
    workload = Tpcc(
        warehouses=tpcc_warehouses(server),
        isolation=isolation,
        statements=statements,
        terminals=terminals,
        wait_scale=wait_scale,
        max_tries=max_tries,
    )
    require_consent(server, "run TPC-C there", is_given=yes)
    what = (
        f"TPC-C, {counted(workload.warehouses, 'warehouse')}, {statements} statements, {isolation}"
    )
    spec = WorkloadSpec("tpcc", workload.model_dump(mode="json"))
    with measuring(load.wait), showing_run(profile, every_s=load.progress) as listen:
        found = run_load(server, what, spec, workload.job(), profile, seed=seed, listen=listen)
    status = report_window(found, html=load.html, json=load.json)
    if check_after:
        conditions = _conditions(server)
        violated = [f"{name}: {broken}" for name, broken in conditions.items() if broken]
        stderr().print(*(violated or ["All consistency conditions hold."]), sep="\n")
        status = EXIT_FAILED_CHECK if violated else status
    return status


def _conditions(server: Server) -> dict[str, str]:
    from pgdrag.bench import CHECK_TIMEOUT_S, tpcc_warehouses
    from pgdrag.driver.process import Driver, find_driver
    from pgdrag.workloads.tpcc import Tpcc

    workload = Tpcc(warehouses=tpcc_warehouses(server))
    driver = Driver(find_driver())
    return driver.conditions(server.target, workload.job(), timeout_s=CHECK_TIMEOUT_S)
