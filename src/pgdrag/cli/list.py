"""`pgdrag list`: what can run, and what can an experiment file name?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdrag.cli.options import Json
from pgdrag.cli.plain_output import print_json

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 140


def list_(
    observations: Annotated[
        bool, typer.Option("--observations", help="List what collectors can observe, with units")
    ] = False,
    mechanisms: Annotated[
        bool,
        typer.Option("--mechanisms", help="List mechanisms of slowdown and their signs"),
    ] = False,
    json: Json = False,
) -> None:
    """List experiments, workloads, factors, collectors and more."""
    from pgdrag.cli.place import plain_table, stdout

    listing = make_listing()
    if json:
        print_json(listing)
        return
    out = stdout(piped_width=PIPE_WIDTH)
    if observations:
        columns = ("Collector", "Observation", "Unit", "Description")
        table = plain_table(*columns, whole=columns[:3])
        before = ""
        for one in listing["observations"]:
            collector = one["collector"] if one["collector"] != before else ""
            table.add_row(collector, one["name"], one["unit"], one["label"])
            before = one["collector"]
        out.print(table)
    if mechanisms:
        table = plain_table("Mechanism", "Description", "Signs", whole=("Mechanism",))
        for one in listing["mechanisms"]:
            signs = ", ".join(f"{name} {wanted}" for name, wanted in one["signs"].items())
            table.add_row(one["name"], one["summary"], signs)
        out.print(table)
    if observations or mechanisms:
        return
    out.print("Experiments (pgdrag run NAME --scale SCALE)", style="bold")
    for experiment in listing["experiments"]:
        out.print(f"  {experiment['name']}: {experiment['title']}")
        out.print(f"    {experiment['question']}")
        out.print(_summary_table(experiment["scales"], indent=4))
    for kinds, heading in (
        ("workloads", "Workloads ([workload] kind)"),
        ("designs", "Designs ([design] kind)"),
        ("factors", "Factors (tables of [baseline], [[rungs]] and scales)"),
        ("holders", "Holders of the horizon (horizon = { holder = … })"),
        ("collectors", "Collectors (evidence of each trial)"),
        ("sections", "Report sections"),
        ("formats", "Files of settings, recognised by their content"),
    ):
        out.print(f"\n{heading}", style="bold")
        out.print(_summary_table(listing[kinds], indent=2))


def make_listing() -> dict[str, Any]:
    """Return what this installation has: experiments, and the summary of every plug-in by name."""
    from pgdrag.collectors import all_collectors, all_observations
    from pgdrag.designs import all_designs
    from pgdrag.experiment import shipped_experiments
    from pgdrag.experiment.formats import all_formats
    from pgdrag.factors import all_factors
    from pgdrag.findings.mechanisms.catalogue import CATALOGUE
    from pgdrag.horizon.holders import all_holders
    from pgdrag.report.sections import all_sections
    from pgdrag.workloads import all_workloads

    plugins: dict[str, Mapping[str, Any]] = {
        "workloads": all_workloads(),
        "factors": all_factors(),
        "holders": all_holders(),
        "designs": all_designs(),
        "collectors": all_collectors(),
        "sections": all_sections(),
        "formats": all_formats(),
    }
    return {
        "experiments": [
            {"name": x.name, "title": x.title, "question": x.question, "scales": dict(x.scales)}
            for x in shipped_experiments().values()
        ],
        **{
            kind: {name: one.summary for name, one in found.items()}
            for kind, found in plugins.items()
        },
        "observations": [
            {"collector": collector, "name": one.name, "unit": one.unit, "label": one.label}
            for collector, seen in all_observations().items()
            for one in seen
        ],
        "mechanisms": [
            {
                "name": one.name,
                "summary": one.summary,
                "signs": {sign.observation: sign.wanted for sign in one.signs},
            }
            for one in CATALOGUE
        ],
    }


def _summary_table(summaries: Mapping[str, str], *, indent: int) -> Table:
    from pgdrag.cli.place import plain_table

    table = plain_table("", "", "")
    table.padding = (0, 2, 0, 0)
    table.columns[0].width = indent - 2
    table.columns[1].no_wrap = True
    for name, summary in summaries.items():
        table.add_row("", name, summary)
    return table
