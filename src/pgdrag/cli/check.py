"""`pgdrag check`: would this experiment run here? Nothing is run on a dataset."""

from __future__ import annotations

import dataclasses
import json as json_module
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pgdrag.cli.place import AllowChange, Postgres, open_scratch
from pgdrag.cli.progress import count_words
from pgdrag.errors import UsageError
from pgdrag.experiment import experiment_schema, load_experiment
from pgdrag.experiment.preflight import Checked, check_experiment, first_mistake
from pgdrag.provision import look_here
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.settings import version_text
from pgdrag.units import format_bytes, format_duration

PIPE_WIDTH = 140


def check(
    experiment: Annotated[
        str | None,
        typer.Argument(help='A shipped experiment by name (see "pgdrag list"), or a file'),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check this scale only (default: all)")
    ] = None,
    postgres: Postgres = None,
    allow_change: AllowChange = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout")] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of experiment files, for editors"),
    ] = False,
) -> None:
    """Check an experiment file and its levels against a server, without running it."""
    if schema:
        print(schema_text(), end="")
        return
    if experiment is None:
        raise UsageError(
            "which experiment is to be checked?", hint='Name a file, or one of "pgdrag list".'
        )
    loaded = load_experiment(experiment)
    scales = [scale] if scale else list(loaded.scales)
    studies = [loaded.study(name) for name in scales]
    scratch = open_scratch()
    here = look_here(scratch, find_binaries(postgres), allowed=allow_change or ())
    checked = check_experiment(loaded, studies, here, free_bytes=scratch.free_bytes())
    if json:
        print(json_module.dumps(dataclasses.asdict(checked), indent=2, ensure_ascii=False))
    else:
        _print(checked)
    mistake = first_mistake(checked)
    if mistake is not None:
        raise mistake


def schema_text() -> str:
    """Return the JSON Schema of experiment files, as it is printed and kept."""
    return json_module.dumps(experiment_schema(), indent=2, ensure_ascii=False) + "\n"


def _print(checked: Checked) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    name, title = checked.experiment, checked.title
    out.print(name if title == name else f"{name}: {title}", markup=False, style="bold")
    version = version_text(checked.server_version_num)
    out.print(f"{checked.path}, checked against PostgreSQL {version}\n", markup=False)
    out.print(_levels_table(checked))
    for heading, sentences in (
        ("Problems", [f"line {x.line}: {x.message}. {x.hint}".strip() for x in checked.problems]),
        ("Mended in pasted text", checked.mends),
        ("Notes", checked.notes),
    ):
        if sentences:
            out.print(f"\n{heading}:", style="bold")
            for sentence in sentences:
                out.print(f"  {sentence}", markup=False)
    out.print()
    out.print(_scales_table(checked))


def _levels_table(checked: Checked) -> Table:
    table = _table("line", "factor", "level", "as the server has it", "takes", "default", "verdict")
    for x in checked.levels:
        style = {"mistake": "red", "untestable here": "yellow"}.get(x.verdict)
        table.add_row(
            str(x.line),
            x.name if x.kind == "setting" else f"{x.kind} {x.name}",
            x.value,
            x.canonical,
            x.takes_effect,
            x.default,
            x.verdict,
            style=style,
        )
    return table


def _scales_table(checked: Checked) -> Table:
    table = _table("scale", "trials", "their load: at least", "at most", "disk")
    for x in checked.scales:
        table.add_row(
            x.name,
            count_words(x.trials_least, x.trials_most),
            format_duration(x.load_s_least),
            format_duration(x.load_s_most),
            f"about {format_bytes(x.disk_bytes)}",
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
