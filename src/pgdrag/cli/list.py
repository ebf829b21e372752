"""`pgdrag list`: what can run, and what can an experiment file name?"""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pgdrag.experiment import Experiment
    from pgdrag.findings.mechanisms.catalogue import Mechanism

PIPE_WIDTH = 140


@dataclass(frozen=True)
class ShippedExperiment:
    """One experiment of the catalogue."""

    name: str
    title: str
    question: str
    scales: Mapping[str, str]


@dataclass(frozen=True)
class ListedObservation:
    """One observation of a collector; `name` is what an experiment file's `expects` uses."""

    collector: str
    name: str
    unit: str
    label: str


@dataclass(frozen=True)
class ListedMechanism:
    """One way to become slower; `signs` are the observations and what each must show."""

    name: str
    summary: str
    signs: Mapping[str, str]


@dataclass(frozen=True)
class Listing:
    """The shipped experiments, and the summary of every registered plug-in by name."""

    experiments: tuple[ShippedExperiment, ...]
    workloads: Mapping[str, str]
    factors: Mapping[str, str]
    holders: Mapping[str, str]
    designs: Mapping[str, str]
    collectors: Mapping[str, str]
    sections: Mapping[str, str]
    observations: tuple[ListedObservation, ...]
    mechanisms: tuple[ListedMechanism, ...]


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
    listing = make_listing()
    if json:
        print(json_module.dumps(asdict(listing), indent=2, ensure_ascii=False))
    elif observations or mechanisms:
        if observations:
            _print_observations(listing.observations)
        if mechanisms:
            _print_mechanisms(listing.mechanisms)
    else:
        _print(listing)


def make_listing() -> Listing:
    """Return what this installation has."""
    from pgdrag.collectors import all_collectors, all_observations
    from pgdrag.designs import all_designs
    from pgdrag.experiment import shipped_experiments
    from pgdrag.factors import all_factors
    from pgdrag.findings.mechanisms.catalogue import CATALOGUE
    from pgdrag.horizon.holders import all_holders
    from pgdrag.report.sections import all_sections
    from pgdrag.workloads import all_workloads

    return Listing(
        experiments=tuple(_experiment(x) for x in shipped_experiments().values()),
        workloads=_summaries(all_workloads()),
        factors=_summaries(all_factors()),
        holders=_summaries(all_holders()),
        designs=_summaries(all_designs()),
        collectors=_summaries(all_collectors()),
        sections=_summaries(all_sections()),
        observations=tuple(
            ListedObservation(collector, one.name, one.unit, one.label)
            for collector, seen in all_observations().items()
            for one in seen
        ),
        mechanisms=tuple(_mechanism(one) for one in CATALOGUE),
    )


def _mechanism(one: Mechanism) -> ListedMechanism:
    signs = {sign.observation: sign.wanted for sign in one.signs}
    return ListedMechanism(one.name, one.summary, signs)


def _experiment(experiment: Experiment) -> ShippedExperiment:
    return ShippedExperiment(
        experiment.name, experiment.title, experiment.question, dict(experiment.scales)
    )


def _summaries(kinds: Mapping[str, type]) -> dict[str, str]:
    return {name: str(kind.summary) for name, kind in kinds.items()}  # type: ignore[attr-defined]


def _print(listing: Listing) -> None:
    out = _console()
    out.print("Experiments (pgdrag run NAME --scale SCALE)", style="bold")
    for experiment in listing.experiments:
        out.print(f"  {experiment.name}: {experiment.title}", markup=False)
        out.print(f"    {experiment.question}", markup=False)
        out.print(_summary_table(experiment.scales, indent=4))
    for heading, summaries in (
        ("Workloads ([workload] kind)", listing.workloads),
        ("Designs ([design] kind)", listing.designs),
        ("Factors (tables of [baseline], [[rungs]] and scales)", listing.factors),
        ("Holders of the horizon (horizon = { holder = … })", listing.holders),
        ("Collectors (evidence of each trial)", listing.collectors),
        ("Report sections", listing.sections),
    ):
        out.print(f"\n{heading}", style="bold", markup=False)
        out.print(_summary_table(summaries, indent=2))


def _print_observations(observations: Sequence[ListedObservation]) -> None:
    table = _table(("Collector", "Observation", "Unit"), ("Description",))
    before = ""
    for one in observations:
        collector = one.collector if one.collector != before else ""
        table.add_row(collector, one.name, one.unit, one.label)
        before = one.collector
    _console().print(table)


def _print_mechanisms(mechanisms: Sequence[ListedMechanism]) -> None:
    table = _table(("Mechanism",), ("Description", "Signs"))
    for one in mechanisms:
        signs = ", ".join(f"{name} {wanted}" for name, wanted in one.signs.items())
        table.add_row(one.name, one.summary, signs)
    _console().print(table)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def _table(whole: Sequence[str], folded: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=any(whole), padding=(0, 2, 0, 0))
    for heading in whole:
        table.add_column(heading, no_wrap=True)
    for heading in folded:
        table.add_column(heading, overflow="fold")
    return table


def _summary_table(summaries: Mapping[str, str], *, indent: int) -> Table:
    table = _table(("", ""), ("",))
    table.columns[0].width = indent - 2
    for name, summary in summaries.items():
        table.add_row("", name, summary)
    return table
