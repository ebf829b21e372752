"""`pgdrag claims`: what was published, and what became of it here?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pgdrag.cli.options import Json
from pgdrag.cli.plain_output import print_document, print_json


def claims(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="Names of experiments, or files (default: all that are shipped and claim something)",
            show_default=False,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name is --format
        Literal["terminal", "markdown"], typer.Option(help="Format of the table")
    ] = "terminal",
    json: Json = False,
) -> None:
    """List published figures and whether they hold here.

    Each claim is answered by the newest run of the experiment in this journal that can answer it; a claim that is not
    run yet has the command that answers it. Claims that were added or changed since a run are answered, too.
    """
    from pgdrag.cli.place import open_journal, stdout
    from pgdrag.experiment import load_experiment, shipped_experiments
    from pgdrag.report.claims_page import TITLE, ClaimedStudy, claims_page
    from pgdrag.report.markdown import blocks_as_markdown
    from pgdrag.report.terminal import print_blocks

    journal = open_journal()
    found = {name: load_experiment(name) for name in experiments or shipped_experiments()}
    studies = [
        ClaimedStudy.of([*map(one.study, one.scales)], journal.runs_of(one.name), named=name)
        for name, one in found.items()
    ]
    answered = [one for one in studies if one.claims or experiments]
    if json:
        print_json({one.study.name: one.claims for one in answered})
    elif format == "markdown":
        print_document(blocks_as_markdown(TITLE, claims_page(answered)))
    else:
        print_blocks(claims_page(answered), stdout())
