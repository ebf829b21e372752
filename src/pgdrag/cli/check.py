"""`pgdrag check`: would this experiment, or this file of settings, run here? No dataset is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import AllowChange, Json, Postgres
from pgdrag.cli.plain_output import print_json
from pgdrag.errors import UsageError
from pgdrag.paths import is_file
from pgdrag.units import format_bytes, format_duration

if TYPE_CHECKING:
    from pgdrag.experiment.preflight import Checked, CheckedLevel, CheckedProblem, CheckedSkip

PIPE_WIDTH = 140


def check(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT|FILE",
            help='Name of a shipped experiment (see "pgdrag list"), or a file: an experiment, or settings such as a postgresql.conf',
            show_default=False,
        ),
    ] = "",
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check only this scale (default: all)")
    ] = None,
    postgres: Postgres = None,
    allow_change: AllowChange = None,
    json: Json = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of experiment files, for editors"),
    ] = False,
) -> None:
    """Check an experiment or settings file without running it.

    A PostgreSQL of this machine checks the settings. Nothing that the file names is started, and no dataset is loaded.
    """
    from pgdrag.bench import check_own_scripts
    from pgdrag.cli.place import open_scratch
    from pgdrag.existing.permission import refuse_meaningless_names
    from pgdrag.experiment import experiment_schema, load_experiment
    from pgdrag.experiment.arms import read_arm
    from pgdrag.experiment.preflight import check_arm, check_experiment, first_mistake
    from pgdrag.provision import look_here
    from pgdrag.servers.binaries import find_binaries

    if schema:
        print_json(experiment_schema())
        return
    if not experiment:
        raise UsageError(
            "no experiment was named", hint='Name a file, or an experiment of "pgdrag list".'
        )
    path = Path(experiment)
    is_settings = is_file(path) and path.suffix != ".toml"
    if is_settings and scale:
        raise UsageError(f'"{experiment}" has no scales', hint="Omit --scale.")
    loaded = None if is_settings else load_experiment(experiment)
    studies = [loaded.study(x) for x in ([scale] if scale else loaded.scales)] if loaded else []
    for study in studies:
        check_own_scripts(study.workload)
    scratch = open_scratch()
    here = look_here(scratch, find_binaries(postgres), allowed=allow_change or ())
    refuse_meaningless_names(allow_change or (), here.settings)
    if loaded is None:
        checked = check_arm(read_arm(experiment, here.settings, allowed=here.allowed), path, here)
    else:
        checked = check_experiment(loaded, studies, here, free_bytes=scratch.free_bytes())
    if json:
        print_json(checked)
    else:
        _print(checked)
    mistake = first_mistake(checked)
    if mistake is not None:
        raise mistake


def _print(checked: Checked) -> None:
    from pgdrag.cli.consent import program_words
    from pgdrag.cli.place import plain_table, stdout
    from pgdrag.cli.progress import count_words
    from pgdrag.factors import Phase, is_of
    from pgdrag.servers.settings import version_text

    out = stdout(piped_width=PIPE_WIDTH)
    name, title = checked.experiment, checked.title
    out.print(name if title == name else f"{name}: {title}", style="bold")
    version = version_text(checked.server_version_num)
    out.print(f"{checked.path}, checked against PostgreSQL {version}\n")
    levels = plain_table(
        "line", "factor", "level", "value on the server", "applied by", "default", "verdict"
    )
    for x in checked.levels:
        levels.add_row(
            _place(x, checked),
            x.name if is_of(Phase.SETTINGS, x.kind) else f"{x.kind} {x.name}",
            x.value,
            x.canonical,
            x.takes_effect,
            x.default,
            x.verdict,
            style={"mistake": "red", "untestable here": "yellow"}.get(x.verdict),
        )
    out.print(levels)
    for heading, sentences in (
        (
            "Problems",
            [f"line {_place(x, checked)}: {x.message}. {x.hint}".strip() for x in checked.problems],
        ),
        ("Not applied", [f"line {_place(x, checked)}: {x.name}: {x.why}" for x in checked.skipped]),
        (
            "Not started, so not known to work",
            [program_words(x).replace("\n", "\n  ") for x in checked.programs],
        ),
        ("Corrected in pasted text", checked.mends),
        ("Notes", checked.notes),
    ):
        if sentences:
            out.print(f"\n{heading}:", style="bold")
            for sentence in sentences:
                out.print(f"  {sentence}")
    if not checked.scales:
        return
    out.print()
    scales = plain_table("scale", "trials", "load time: least", "most", "disk")
    for scale in checked.scales:
        scales.add_row(
            scale.name,
            count_words(scale.trials_least, scale.trials_most),
            format_duration(scale.load_s_least),
            format_duration(scale.load_s_most),
            f"about {format_bytes(scale.disk_bytes)}",
        )
    out.print(scales)


def _place(x: CheckedLevel | CheckedProblem | CheckedSkip, checked: Checked) -> str:
    """Return the line, after the file's name where it is one that the checked file includes."""
    return str(x.line) if x.file == checked.path else f"{Path(x.file).name}:{x.line}"
