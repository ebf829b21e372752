"""`pgdrag list`: what can be run, and what an experiment file can name."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pgdrag.collectors import all_collectors
from pgdrag.designs import all_designs
from pgdrag.experiment import Experiment, shipped_experiments
from pgdrag.factors import all_factors
from pgdrag.report.sections import all_sections
from pgdrag.workloads import all_workloads

PIPE_WIDTH = 140


@dataclass(frozen=True)
class ShippedExperiment:
    """One experiment of the catalogue."""

    name: str
    title: str
    question: str
    scales: Mapping[str, str]


@dataclass(frozen=True)
class Listing:
    """What there is: the shipped experiments, and the summary of each registered thing by name."""

    experiments: tuple[ShippedExperiment, ...]
    workloads: Mapping[str, str]
    factors: Mapping[str, str]
    designs: Mapping[str, str]
    collectors: Mapping[str, str]
    sections: Mapping[str, str]


def list_(
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout")] = False,
) -> None:
    """List the shipped experiments, and all workloads, factors, designs, collectors and sections."""
    listing = make_listing()
    if json:
        print(json_module.dumps(asdict(listing), indent=2, ensure_ascii=False))
    else:
        _print(listing)


def make_listing() -> Listing:
    """Return what this installation has."""
    return Listing(
        experiments=tuple(_experiment(x) for x in shipped_experiments().values()),
        workloads=_summaries(all_workloads()),
        factors=_summaries(all_factors()),
        designs=_summaries(all_designs()),
        collectors=_summaries(all_collectors()),
        sections=_summaries(all_sections()),
    )


def _experiment(experiment: Experiment) -> ShippedExperiment:
    return ShippedExperiment(
        experiment.name, experiment.title, experiment.question, dict(experiment.scales)
    )


def _summaries(kinds: Mapping[str, type]) -> dict[str, str]:
    return {name: str(kind.summary) for name, kind in kinds.items()}  # type: ignore[attr-defined]


def _print(listing: Listing) -> None:
    out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    out.print("Experiments (pgdrag run NAME --scale SCALE)", style="bold")
    for experiment in listing.experiments:
        out.print(f"  {experiment.name}: {experiment.title}", markup=False)
        out.print(f"    {experiment.question}", markup=False)
        out.print(_table(experiment.scales, indent=4))
    for heading, summaries in (
        ("Workloads ([workload] kind)", listing.workloads),
        ("Designs ([design] kind)", listing.designs),
        ("Factors (tables of [baseline], [[rungs]] and scales)", listing.factors),
        ("Collectors (evidence of each trial)", listing.collectors),
        ("Report sections", listing.sections),
    ):
        out.print(f"\n{heading}", style="bold", markup=False)
        out.print(_table(summaries, indent=2))


def _table(summaries: Mapping[str, str], *, indent: int) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(width=indent - 2)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, summary in summaries.items():
        table.add_row("", name, summary)
    return table
