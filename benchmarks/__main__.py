"""`python -m benchmarks`: pgdrag against its peers, interleaved on one server; see docs/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Protocol, cast

import psycopg
import typer
from rich.console import Console

from benchmarks import rows as rows_of
from benchmarks.contest import Setting
from benchmarks.peers import Missing, find_peers
from benchmarks.progress import Progress
from benchmarks.rows import Row
from pgdrag import __version__
from pgdrag.driver.process import find_driver
from pgdrag.errors import EXIT_FAILED_CHECK, EXIT_INTERRUPTED, EXIT_MISUSE, PgdragError, UsageError
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.servers.scratch import storage_errors, write_whole

# Each is a module of this folder. Those with the goals that matter most come first.
BENCHMARKS = (
    "tpcc_benchbase",
    "tpcc_go_tpc",
    "pgbench",
    "sysbench",
    "population",
    "population_peers",
    "memory",
    "scale",
    "reading",
)


FILE_WIDTH = 150
QUIET_LOAD = 0.7


class Benchmark(Protocol):
    """What a module of this folder gives."""

    def seconds(self, setting: Setting) -> float:
        """About how long `run` takes."""

    def run(self, setting: Setting) -> Iterator[Row]:
        """Yield its rows; on Ctrl-C those of the rounds that were done."""


@dataclass(frozen=True)
class Depth:
    """How thorough a run is."""

    rounds: int
    window_s: float
    warm_up_s: float
    scale: int


DEFAULT = Depth(rounds=6, window_s=8.0, warm_up_s=20.0, scale=50)
QUICK = Depth(rounds=2, window_s=3.0, warm_up_s=8.0, scale=20)


def main(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run this benchmark alone; may be given several times.", metavar="NAME"),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds of each comparison (default: 6; with --quick: 2)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and shorter rounds: a look, no proof.")
    ] = False,
    connections: Annotated[int, typer.Option(min=1, help="Connections of each client.")] = 8,
    threads: Annotated[int, typer.Option(min=1, help="Worker threads of pgdrag and pgbench.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of runs and the keys drawn.")] = 1,
    benchbase: Annotated[
        Path | None, typer.Option(help="Directory of BenchBase, with benchbase.jar.")
    ] = None,
    java: Annotated[
        Path | None, typer.Option(help="Java for BenchBase (default: the first that runs it).")
    ] = None,
    go_tpc: Annotated[Path | None, typer.Option(help="The program go-tpc.")] = None,
    sysbench: Annotated[Path | None, typer.Option(help="The program sysbench.")] = None,
    output: Annotated[Path, typer.Option(help="File for the rows.")] = Path("build/bench.json"),
) -> None:
    """Compare pgdrag's load driver with its peers, side by side on one throw-away server.

    Prints a table and writes it to build/bench.json after each benchmark. Names for --only:
    tpcc_benchbase, tpcc_go_tpc, pgbench, sysbench, population, population_peers, memory, scale, reading.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    depth = QUICK if quick else DEFAULT
    try:
        names = _names(only)
        driver = find_driver()
        peers = find_peers(sysbench=sysbench, go_tpc=go_tpc, benchbase=benchbase, java=java)
        setting = Setting(
            driver=driver,
            driver_version=__version__,
            peers=peers,
            connections=connections,
            threads=threads,
            rounds=rounds or depth.rounds,
            window_s=depth.window_s,
            warm_up_s=depth.warm_up_s,
            scale=depth.scale,
            is_quick=quick,
            seed=seed,
            progress=Progress(0.0),
        )
        with measuring_alone():
            found = _run(names, setting, output)
    except PgdragError as error:
        _say(error)
        raise typer.Exit(error.exit_status) from None
    if setting.is_interrupted:
        print("interrupted: the rounds that were done are in the table", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED)
    if setting.has_failed:
        raise typer.Exit(EXIT_MISUSE)
    if any(row.met is False for row in found):
        raise typer.Exit(EXIT_FAILED_CHECK)


def _run(names: list[str], setting: Setting, output: Path) -> list[Row]:
    """Run the benchmarks, keep what each found, print it, and return all rows of this time."""
    modules = {name: _module(name) for name in names}
    setting.progress = Progress(sum(module.seconds(setting) for module in modules.values()))
    _warn(setting)
    found: list[Row] = []
    for name, module in modules.items():
        _add(found, name, module, setting)
        _keep(found, output)
        if setting.is_interrupted:
            break
    _print(found)
    return found


def _warn(setting: Setting) -> None:
    for peer in (setting.peers.benchbase, setting.peers.go_tpc, setting.peers.sysbench):
        if isinstance(peer, Missing):
            print(f"left out: {peer.note}", file=sys.stderr)
    if (load := os.getloadavg()[0]) > QUIET_LOAD:
        print(
            f"warning: this machine is busy (load {load:.1f}): take the figures for rough",
            file=sys.stderr,
        )


def _add(found: list[Row], name: str, module: Benchmark, setting: Setting) -> None:
    """Add a benchmark's rows as they come, so that those before a failure stay."""
    try:
        for row in module.run(setting):
            found.append(row)
    except KeyboardInterrupt:
        setting.is_interrupted = True
    except PgdragError as error:
        setting.has_failed = True
        _say(error, f"{name}: ")
    except psycopg.Error as error:
        setting.has_failed = True
        print(f"error: {name}: {str(error).strip()}", file=sys.stderr)


def _print(found: list[Row]) -> None:
    # A file or a pipe has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    console.print(rows_of.table(found, width=console.width))
    console.print(rows_of.summary(found))
    for note in rows_of.notes(found):
        console.print(f"- {note}", soft_wrap=True, highlight=False, markup=False)


def _keep(found: list[Row], output: Path) -> None:
    """Write the rows; those of benchmarks that were not run this time stay as they are."""
    rows = rows_of.merged(rows_of.from_json(output), found)
    with storage_errors("write the rows", output, hint="Name another file with --output."):
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, rows_of.to_json(rows))


def _module(name: str) -> Benchmark:
    return cast(Benchmark, importlib.import_module(f"benchmarks.{name}"))


def _names(only: list[str] | None) -> list[str]:
    wanted = [name.replace("-", "_") for name in only or BENCHMARKS]
    for name in wanted:
        if name not in BENCHMARKS:
            raise UsageError(
                f'there is no benchmark "{name}"', hint=f"There are: {', '.join(BENCHMARKS)}."
            )
    return [name for name in BENCHMARKS if name in wanted]


def _say(error: PgdragError, where: str = "") -> None:
    print(f"error: {where}{error.message}", file=sys.stderr)
    for word, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            print(f"{word}: {text}", file=sys.stderr)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    typer.run(main)
