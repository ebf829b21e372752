"""`pgdrag history`: how did an experiment's runs go over time, and what changed where the level did?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from pgdrag.cli.options import Json, WindowHtml
from pgdrag.cli.plain_output import print_json
from pgdrag.english import did_you_mean, listed, listed_some
from pgdrag.errors import UsageError


def history(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help='Name of an experiment that was run, its file, or a command such as "compare"',
        ),
    ],
    scale: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Scale of its runs (default: the newest run's)"),
    ] = None,
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Look at this treatment alone, which finds smaller changes; repeatable (default: all)",
        ),
    ] = None,
    ratio: Annotated[
        bool,
        typer.Option(
            "--ratio",
            help="Look at the slowdown against the baseline, which the machine's drift does not change, in place of throughput",
        ),
    ] = False,
    last: Annotated[
        int, typer.Option(metavar="N", min=2, max=10_000, help="Read the newest N runs")
    ] = 200,
    html: WindowHtml = None,
    json: Json = False,
) -> None:
    """Show how an experiment's runs went over time.

    Finds where the level of a treatment changed, by how much, and what differs between the runs before and after:
    versions, machine, settings.
    """
    from pgdrag.cli.place import open_journal, refuse_unwritable, stderr, stdout, write_page
    from pgdrag.cli.server_argument import LINE_EVERY_S, live_line
    from pgdrag.findings.history import history as history_of
    from pgdrag.report.history_page import history_blocks, render_history_html
    from pgdrag.report.terminal import print_blocks

    refuse_unwritable(html)
    journal = open_journal()
    name = _name_of(experiment)
    summaries = [x for x in journal.summaries() if x.experiment == name]
    if not summaries:
        known = sorted({x.experiment for x in journal.summaries()})
        hint = f"There are runs of {listed_some(known, 8)}." if known else "There are no runs yet."
        raise UsageError(
            f'there is no run of "{experiment}"', hint=did_you_mean(name, known) or hint
        )
    scales = list(dict.fromkeys(x.scale for x in summaries))
    if scale is not None and scale not in scales:
        raise UsageError(
            f'{name} was not run at scale "{scale}"',
            hint=did_you_mean(scale, scales) or f"It was run at {listed(scales)}.",
        )
    ids = [x.run_id for x in summaries if scale in (None, x.scale)][:last]
    runs = []
    began_s = time.monotonic()
    with live_line(stderr(), first_s=LINE_EVERY_S) as show:
        for at, run_id in enumerate(ids, start=1):
            show(f"Reading run {at} of {len(ids)}", time.monotonic() - began_s, None)
            runs.append(journal.run(run_id, has_recordings=False))
    newest = next((run for run in runs if run.status == "done"), runs[0])
    names = [rung.name for rung in newest.study.rungs]
    for one in treatment or ():
        if one not in names:
            raise UsageError(
                f'the newest run of {name} has no treatment "{one}"',
                hint=did_you_mean(one, names) or f"It has {listed(names)}.",
            )
    if ratio and (len(names) < 2 or treatment == names[:1]):
        raise UsageError("--ratio needs a treatment beside the baseline")
    found = history_of(
        runs, quantity="slowdown" if ratio else "throughput", treatments=treatment or ()
    )
    write_page(html, lambda: render_history_html(found))
    if json:
        print_json(found)
    else:
        print_blocks(history_blocks(found, has_details=False), stdout())


def _name_of(experiment: str) -> str:
    from pgdrag.experiment import load_experiment

    is_file = Path(experiment).suffix == ".toml"
    return load_experiment(experiment).name if is_file else experiment
