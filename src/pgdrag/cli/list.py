"""`pgdrag list`: what can run, and what can an experiment file name?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgdrag.cli.options import Json
from pgdrag.cli.plain_output import print_json

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 140


@dataclass(frozen=True)
class ListedExperiment:
    """A shipped experiment, with what each of its scales is."""

    name: str
    title: str
    question: str
    scales: Mapping[str, str]


@dataclass(frozen=True)
class ListedObservation:
    """Something that a collector observes."""

    collector: str
    name: str
    unit: str
    label: str


@dataclass(frozen=True)
class ListedMechanism:
    """A mechanism of slowdown, and which way it moves observations."""

    name: str
    summary: str
    signs: Mapping[str, str]


@dataclass(frozen=True)
class Listing:
    """What this installation has: experiments, and the summary of every plug-in by name."""

    experiments: tuple[ListedExperiment, ...]
    workloads: Mapping[str, str]
    factors: Mapping[str, str]
    holders: Mapping[str, str]
    designs: Mapping[str, str]
    collectors: Mapping[str, str]
    sections: Mapping[str, str]
    formats: Mapping[str, str]
    observations: tuple[ListedObservation, ...]
    mechanisms: tuple[ListedMechanism, ...]


def list_(
    observations: Annotated[
        bool, typer.Option("--observations", help="List what collectors can observe, with units")
    ] = False,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="List mechanisms of slowdown and their signs")
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
        for one in listing.observations:
            collector = one.collector if one.collector != before else ""
            table.add_row(collector, one.name, one.unit, one.label)
            before = one.collector
        out.print(table)
    if mechanisms:
        table = plain_table("Mechanism", "Description", "Signs", whole=("Mechanism",))
        for each in listing.mechanisms:
            signs = ", ".join(f"{name} {wanted}" for name, wanted in each.signs.items())
            table.add_row(each.name, each.summary, signs)
        out.print(table)
    if observations or mechanisms:
        return
    out.print("Experiments (pgdrag run NAME --scale SCALE)", style="bold")
    for experiment in listing.experiments:
        out.print(f"  {experiment.name}: {experiment.title}")
        out.print(f"    {experiment.question}")
        out.print(_summary_table(experiment.scales, indent=4))
    for heading, summaries in (
        ("Workloads ([workload] kind)", listing.workloads),
        ("Designs ([design] kind)", listing.designs),
        ("Factors (tables of [baseline], [[rungs]] and scales)", listing.factors),
        ("Holders of the horizon (horizon = { holder = … })", listing.holders),
        ("Collectors (evidence of each trial)", listing.collectors),
        ("Report sections", listing.sections),
        ("Files of settings, recognised by their content", listing.formats),
    ):
        out.print(f"\n{heading}", style="bold")
        out.print(_summary_table(summaries, indent=2))


def make_listing() -> Listing:
    """Return what this installation has."""
    from pgdrag.collectors import all_collectors, all_observations
    from pgdrag.designs import all_designs
    from pgdrag.experiment import shipped_experiments
    from pgdrag.experiment.formats import all_formats
    from pgdrag.factors import all_factors
    from pgdrag.findings.mechanisms.catalogue import CATALOGUE
    from pgdrag.horizon.holders import all_holders
    from pgdrag.report.sections import all_sections
    from pgdrag.workloads import all_workloads

    def summaries(plugins: Mapping[str, Any]) -> dict[str, str]:
        return {name: one.summary for name, one in plugins.items()}

    return Listing(
        experiments=tuple(
            ListedExperiment(x.name, x.title, x.question, x.scales)
            for x in shipped_experiments().values()
        ),
        workloads=summaries(all_workloads()),
        factors=summaries(all_factors()),
        holders=summaries(all_holders()),
        designs=summaries(all_designs()),
        collectors=summaries(all_collectors()),
        sections=summaries(all_sections()),
        formats=summaries(all_formats()),
        observations=tuple(
            ListedObservation(collector, one.name, one.unit, one.label)
            for collector, seen in all_observations().items()
            for one in seen
        ),
        mechanisms=tuple(
            ListedMechanism(one.name, one.summary, {x.observation: x.wanted for x in one.signs})
            for one in CATALOGUE
        ),
    )


def _summary_table(summaries: Mapping[str, str], *, indent: int) -> Table:
    from pgdrag.cli.place import plain_table

    table = plain_table("", "", "")
    table.padding = (0, 2, 0, 0)
    table.columns[0].width = indent - 2
    table.columns[1].no_wrap = True
    for name, summary in summaries.items():
        table.add_row("", name, summary)
    return table
