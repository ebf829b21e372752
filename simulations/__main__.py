"""`make simulate`: every module of this folder that has a `simulate`, and build/simulate.json."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

import simulations
from simulations.rows import Row, table_of, write_json

Simulate = Callable[[float], list[Row]]


def main() -> int:
    """Run the simulations that are asked for; 1 where a promise is broken."""
    known = _simulations()
    parser = argparse.ArgumentParser(prog="python -m simulations", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=sorted(known), help="run only this one (repeatable)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the full number of repeats (default: 1)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/simulate.json"),
        help="where the rows go (default: %(default)s)",
    )
    options = parser.parse_args()
    out, talk = Console(width=150), Console(stderr=True)
    rows: list[Row] = []
    for name in options.only or sorted(known):
        began_s = time.monotonic()
        talk.print(f"{name} …")
        found = known[name](options.scale)
        talk.print(f"{name}: {len(found)} promises looked at in {time.monotonic() - began_s:.0f} s")
        rows += found
        write_json(rows, options.json)
    out.print(table_of(rows))
    broken = [row.name for row in rows if row.met is False]
    for name in broken:
        talk.print(f"broken: {name}", style="bold red")
    return 1 if broken else 0


def _simulations() -> dict[str, Simulate]:
    names = [info.name for info in pkgutil.iter_modules(simulations.__path__)]
    modules = {
        x: importlib.import_module(f"simulations.{x}") for x in names if not x.startswith("__")
    }
    return {x: module.simulate for x, module in modules.items() if hasattr(module, "simulate")}


if __name__ == "__main__":
    sys.exit(main())
