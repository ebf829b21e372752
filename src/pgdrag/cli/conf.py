"""`pgdrag conf`: what does a configuration say, what is wrong with it, and in what do two differ?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Json, Postgres, command_group
from pgdrag.cli.plain_output import print_json
from pgdrag.english import counted, listed
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError
from pgdrag.paths import is_file

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pgdrag.experiment.conf_diff import ConfDiff, ConfDifference, Side
    from pgdrag.experiment.conf_lines import ConfLine
    from pgdrag.factors import Here
    from pgdrag.provision import Provision

app = command_group("Explain a configuration, check it, or compare two by meaning.")

Conf = Annotated[
    str,
    typer.Argument(
        metavar="CONF",
        help="A postgresql.conf or another file of settings, or comma-separated name=value pairs",
    ),
]
PIPE_WIDTH = 140
_SIDE = 'A file of settings, comma-separated name=value pairs, a server version, or "default"'


@app.command()
def explain(conf: Conf, postgres: Postgres = None, json: Json = False) -> int:
    """Say what each line of a configuration is."""
    from pgdrag.cli.place import stdout
    from pgdrag.cli.running import open_runner

    lines = lines_of(conf, open_runner(postgres, ()).here)
    if json:
        print_json(lines)
        return EXIT_DONE
    out = stdout()
    for one in lines:
        out.print(f"{place_of(one, conf)}{one.name} = {one.value}", style="bold")
        if one.summary:
            out.print(f"  {one.summary} ({one.category})")
        if one.means:
            words = f"  Means {one.means}; the default is {one.default or 'nothing'}"
            out.print(f"{words}. Takes effect: {one.takes_effect}.")
        if one.laboratory:
            out.print(f"  Not applied in the laboratory: {one.laboratory}.")
        for remark in one.remarks:
            words = f"{remark.severity}: {remark.message}. {remark.hint}".rstrip()
            out.print(f"  {words}", soft_wrap=True)
    return EXIT_DONE


@app.command()
def lint(conf: Conf, postgres: Postgres = None, json: Json = False) -> int:
    """List what is wrong with a configuration.

    Exits with 1 if the server refuses a line.
    """
    from pgdrag.cli.place import stdout
    from pgdrag.cli.running import open_runner
    from pgdrag.experiment.conf_lines import Severity

    lines = lines_of(conf, open_runner(postgres, ()).here)
    found = [one for one in lines if any(x.severity is not Severity.NOTE for x in one.remarks)]
    mistakes = sum(x.severity is Severity.MISTAKE for one in lines for x in one.remarks)
    if json:
        print_json(found)
    else:
        out = stdout()
        for one in found:
            for remark in one.remarks:
                if remark.severity is Severity.NOTE:
                    continue
                # The server's words name the setting themselves.
                name = "" if remark.severity is Severity.MISTAKE else f"{one.name}: "
                words = f"{place_of(one, conf)}{remark.severity}: {name}{remark.message}"
                out.print(f"{words}. {remark.hint}".rstrip(), soft_wrap=True)
        if not found:
            out.print(f"Nothing is wrong with {counted(len(lines), 'line')}.")
    return EXIT_FAILED_CHECK if mistakes else EXIT_DONE


@app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    second: Annotated[str, typer.Argument(metavar="B", help=_SIDE)],
    postgres: Postgres = None,
    json: Json = False,
) -> int:
    """Compare two configurations by meaning.

    1024MB is 1GB, and defaults differ by version.
    """
    from pgdrag.cli.running import open_runner
    from pgdrag.experiment.conf_diff import conf_diff

    runner = open_runner(postgres, ())
    sides = _side(first, runner), _side(second, runner)
    found = conf_diff(*sides)
    if json:
        print_json(found)
        return EXIT_DONE
    _print_diff(found, sides)
    return EXIT_DONE


_TABLES = {"setting": "set", "default that changed": "default", "default of the build": "build"}
_EMPTY = "''"


def _print_diff(found: ConfDiff, sides: tuple[Side, Side]) -> None:
    from pgdrag.cli.place import stdout

    out = stdout(piped_width=PIPE_WIDTH)
    printed: list[RenderableType] = []
    for heading, why in _TABLES.items():
        if rows := [x for x in found.differences if x.why == why]:
            printed.append(_table(heading, rows, sides))
    for why, side in (("added", sides[1]), ("removed", sides[0])):
        if rows := [x for x in found.differences if x.why == why]:
            values = [x.after if why == "added" else x.before for x in rows]
            pairs = [f"{x.name} = {v or _EMPTY}" for x, v in zip(rows, values, strict=True)]
            count = counted(len(rows), "setting")
            printed.append(f"Only in {side.version}, {count} with these defaults: {listed(pairs)}.")
    if not found.differences:
        printed.append("They mean the same.")
    if found.same:
        count = counted(len(found.same), "setting")
        printed.append(
            f"Written differently, and the same in both ({count}): {listed(found.same)}."
        )
    for index, one in enumerate(printed):
        out.print(*([""] if index else []), one, sep="\n")


def _table(
    heading: str, rows: Sequence[ConfDifference], sides: tuple[Side, Side]
) -> RenderableType:
    from pgdrag.cli.place import plain_table

    labels = [_label(side, sides) for side in sides]
    table = plain_table(heading, *labels, "note" if any(x.note for x in rows) else "")
    for one in rows:
        is_set = one.why == "set"
        before = _cell(one.before, is_marked=is_set and one.is_default_before)
        after = _cell(one.after, is_marked=is_set and one.is_default_after)
        table.add_row(one.name, before, after, one.note)
    return table


def _label(side: Side, sides: tuple[Side, Side]) -> str:
    """Return what a column is called: with the version where the two differ in it."""
    one, other = sides
    if one.version == other.version or side.version.split(".")[0] in side.label.split():
        return side.label
    return f"{side.label} ({side.version})"


def _cell(value: str | None, *, is_marked: bool) -> str:
    shown = "–" if value is None else value or _EMPTY
    return f"{shown} (default)" if is_marked else shown


def lines_of(conf: str, here: Here) -> tuple[ConfLine, ...]:
    """Return what the lines of a file, or of name=value pairs, mean to a server here."""
    from pgdrag.experiment.conf_lines import conf_lines
    from pgdrag.experiment.formats import Source, read_configuration, read_source
    from pgdrag.host.allowance import allowance

    path = Path(conf)
    if not is_file(path) and "=" not in conf:
        raise UsageError(
            f'there is no file "{conf}"', hint='Name a file of settings, or write "work_mem=64MB".'
        )
    configuration = (
        read_configuration(path)
        if is_file(path)
        else read_source(Source(Path("-"), _as_lines(conf)))
    )
    return conf_lines(configuration, here.settings, allowance(), here.newest_settings)


def _as_lines(pairs: str) -> str:
    from pgdrag.experiment.arms import PAIR

    return "\n".join(part.strip().rstrip(",") for part in PAIR.split(pairs) if part.strip())


def place_of(one: ConfLine, conf: str) -> str:
    """Return where a line stands, to print before it; "" of pairs."""
    if not is_file(conf):
        return ""
    return f"{one.line}: " if one.file == conf else f"{Path(one.file).name}:{one.line}: "


def _side(text: str, runner: Provision) -> Side:
    from pgdrag.experiment.arms import read_arm
    from pgdrag.experiment.conf_diff import Side
    from pgdrag.experiment.formats import read_configuration
    from pgdrag.factors import Phase, is_of
    from pgdrag.factors.programs import programs_of

    path = Path(text)
    if is_file(path) and path.suffix != ".toml":
        given = read_configuration(path).given
        return Side(path.name, {one.name: one.value for one in given}, runner.here.settings)
    arm = read_arm(text, runner.here.settings)
    if arm.experiment is None:  # a directory that was named on the command line
        runner.allow(program.key for program in programs_of(None, arm.levels))
    problems = runner.check(arm.levels)
    arm.refuse_mistakes(problems)
    for problem in problems:
        if is_of(Phase.SERVER, problem.level.kind):
            raise UsageError(problem.message, hint=problem.hint)
    _, here = runner.server_of(arm.treatment)
    return Side(arm.label, arm.treatment.of_kind("setting"), here.settings)
