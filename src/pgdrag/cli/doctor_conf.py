"""`pgdrag doctor CONF`: which lines of a configuration are known to hurt, by what was measured?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pgdrag.cli.conf import lines_of, place_of
from pgdrag.cli.plain_output import print_json
from pgdrag.english import capital, counted, listed
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK
from pgdrag.paths import is_file

if TYPE_CHECKING:
    from rich.console import Console

    from pgdrag.experiment.conf_doctor import ConfDiagnosis, Figure


def is_configuration(text: str) -> bool:
    """Tell whether an argument of `pgdrag doctor` is a file or name=value pairs, and no connection string."""
    from psycopg import pq

    from pgdrag.experiment.arms import PAIR

    path = Path(text)
    if is_file(path) or (path.suffix == ".conf" and "=" not in text):
        return True
    first = PAIR.split(text)[-1] if PAIR.match(text) else ""
    keywords = {one.keyword.decode() for one in pq.Conninfo.get_defaults()}
    return "=" in first and PAIR.split(text)[1].partition("=")[0].strip().lower() not in keywords


def doctor_conf(conf: str, *, postgres: str | None, json: bool) -> int:
    """Print which lines are known to hurt, with the measurement and the command that repeats it here.

    Returns:
        The command's exit status: 1 where a line is known to hurt, or too large for the memory here.
    """
    from pgdrag.cli.place import open_journal, stdout
    from pgdrag.cli.running import open_runner
    from pgdrag.experiment.conf_doctor import diagnose
    from pgdrag.experiment.known_effects import own_effects, shipped_effects
    from pgdrag.host.allowance import allowance
    from pgdrag.host.machine import this_host

    runner = open_runner(postgres, ())
    lines = lines_of(conf, runner.here)
    names = {x.name for x in lines if x.counts}
    own = own_effects(open_journal(), names, this_host(runner.scratch.root))
    found = diagnose(lines, (*own, *shipped_effects()), runner.here.settings, allowance())
    if json:
        print_json(found)
    else:
        out = stdout()
        _print(found, conf, out)
        if strange := [x.name for x in lines if not x.takes_effect]:
            command = f"pgdrag conf lint {shlex.quote(conf)}"
            what = f"Not known to PostgreSQL {runner.version}: {listed(strange)}"
            out.print(f"{what}. See: {command}", soft_wrap=True)
    return EXIT_FAILED_CHECK if found.suspicions or found.beyond_memory else EXIT_DONE


def _print(found: ConfDiagnosis, conf: str, out: Console) -> None:

    for suspicion in found.suspicions:
        places = [f"{place_of(x, conf)}{x.name} = {x.value}" for x in suspicion.lines]
        out.print(listed(places), style="bold")
        for one in suspicion.figures:
            _print_figure(one, out)
        out.print()
    for name, why in found.beyond_memory.items():
        out.print(f"{capital(name) if ' ' in name else name}: {why}.\n")
    if not found.suspicions:
        out.print("No line is known to hurt.")
    for name, one in found.faster.items():
        out.print(f"{name} was measured to be {one.words} than {one.than}: {_source(one)}.")
    for name, one in found.no_effect.items():
        out.print(f"{name}: {one.words}, not significant: {_source(one)}.")
    if found.at_default:
        out.print(f"Same as the default: {listed(found.at_default)}.")
    if found.unknown:
        out.print(f"Not measured: {listed(found.unknown)}.")
        out.print(f"To measure every line here: pgdrag ablate {shlex.quote(conf)}")
    if found.own_runs:
        runs = counted(len(found.own_runs), "run")
        out.print(
            f"Figures are from {runs} on this machine, and from the table shipped with pgdrag."
        )
    else:
        out.print(
            "Figures are from the table shipped with pgdrag; none is from a run on this machine."
        )


def _print_figure(one: Figure, out: Console) -> None:
    further = "; this value is more extreme than the one measured" if one.is_further else ""
    out.print(f"  {one.words} than {one.than}{further}")
    out.print(f"    {_source(one)}")
    out.print(f"    verify here: {one.verify}", soft_wrap=True)


def _source(one: Figure) -> str:
    effect = one.effect
    where = "this machine" if effect.is_own else effect.machine
    return (
        f"{effect.workload}, {effect.beside}; PostgreSQL {effect.server_version}, {effect.date}, {where} "
        f"({effect.source})"
    )
