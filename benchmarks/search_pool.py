"""Pools of real trials, to which the surfaces of `make simulate SIMULATE='--only search'` are fitted.

`python -m benchmarks.search_pool run tpcc`, then `python -m benchmarks.search_pool read RUN >
simulations/pools/tpcc.json`. Each configuration changes a tenth of all settings that a search for speed may change,
each to any of its values; ten trials are of the defaults. `read` also takes searches from one file, such as those of
`benchmarks.search_claims`, several together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from pgdrag.cli.place import open_journal
from pgdrag.cli.running import begin_and_report, open_runner
from pgdrag.designs.search import Search
from pgdrag.designs.search.space import Space
from pgdrag.errors import PgdragError
from pgdrag.experiment.questions import conditions_from
from pgdrag.experiment.search_space import search_space
from pgdrag.findings.readings import reading
from pgdrag.host.allowance import allowance
from pgdrag.model import Rung, RunRecord, Study, Treatment
from pgdrag.model.design import make_design
from pgdrag.model.load import LoadProfile
from pgdrag.trial import ServerTrialRunner

LOAD = LoadProfile(connections=8, warm_up_s=3, measure_s=5, budget_s=5)
CHANGED = (
    0.1  # of the settings of a configuration: of many more, one is a disaster and hides the others
)
_BLOCKS = 1000  # more than a run has
WORKLOADS: Mapping[str, tuple[str, dict[str, object]]] = {
    "tpcc": ("tpcc", {"warehouses": 10}),
    "pgbench": (
        "pgbench",
        {"scale": 50, "scripts": ["tpcb-like@2", "simple-update@2", "select-only@6"]},
    ),
}


def space_of(runner: ServerTrialRunner) -> Space:
    """Return what a search for speed from the defaults may change on this machine."""
    found = search_space(
        runner.here.settings, {}, allowance(), connections=LOAD.connections, goal="maximize"
    )
    return Space(found.dimensions, Treatment("default"))


def study_of(workload: str, space: Space, count: int, seed: int) -> Study:
    """Return the study of so many random configurations."""
    rng = np.random.default_rng(seed)
    rungs = [Rung("default", "", space.base)]
    for number in range(1, count + 1):
        point = tuple(
            int(rng.integers(len(one.values))) if rng.random() < CHANGED else start
            for one, start in zip(space.dimensions, space.start, strict=True)
        )
        name = f"P{number}"
        rungs.append(Rung(name, "", space.treatment(point, name), space.levels(point)))
    study = conditions_from(*WORKLOADS[workload], LOAD).study(
        f"search-pool-{workload}",
        design="one-at-a-time",
        title=f"{count} random configurations",
        question="What do settings do to throughput?",
        rungs=rungs,
        parameters={"headline": 0, "baseline_repeats": 10},
    )
    return replace(study, is_checked=False)


def pool(runs: Sequence[RunRecord], space: Space) -> dict[str, object]:
    """Return the trials of runs from one baseline: where each stands in the space, and the logarithm of its throughput.

    That is relative to the median of the baseline's trials in its run. A value of None is of a configuration that did
    not start, crashed or committed nothing. Of searches it is the short trials, as the others chose nothing.
    """
    points, values, variances, blocks = [], [], [], []
    for run_number, run in enumerate(runs):
        short = [one for one in run.results if one.trial.is_brief] or run.results
        tried = [
            (one.trial.block, space.near(one.trial.treatment), reading(one))
            for one in sorted(short, key=lambda one: one.trial.number)
        ]
        of_start = [
            one.log_per_s for _, point, one in tried if one is not None and point == space.start
        ]
        for block, point, one in tried:
            points.append(list(point))
            values.append(
                None if one is None or one.is_bound else round(one.log_per_s - median(of_start), 4)
            )
            variances.append(0.0 if one is None else round(one.log_se**2, 8))
            blocks.append(run_number * _BLOCKS + block)
    names = ", ".join(run.study.name for run in runs)
    last = runs[-1]
    return {
        "about": f"{names}, PostgreSQL {last.server_version}, {last.host.cpu_count} x {last.host.cpu_model}",
        "dimensions": [one.model_dump() for one in space.dimensions],
        "points": points,
        "values": values,
        "variances": variances,
        "blocks": blocks,
    }


def main(arguments: Sequence[str]) -> int:
    """Run a pool, or write the trials of one to standard output."""
    parser = argparse.ArgumentParser(prog="search_pool", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the trials")
    run.add_argument("workload", choices=WORKLOADS)
    run.add_argument("--count", type=int, default=150)
    run.add_argument("--seed", type=int, default=1)
    read = commands.add_parser("read", help="write the trials of runs from one baseline")
    read.add_argument("runs", nargs="+", metavar="RUN")
    options = parser.parse_args(arguments)
    runner = open_runner(None, ())
    space = space_of(runner)
    if options.command == "read":
        journal = open_journal()
        runs = [journal.run(name) for name in options.runs]
        design = make_design(runs[-1].study)
        found = pool(runs, design.space if isinstance(design, Search) else space)
        print(json.dumps(found, separators=(",", ":")))
        return 0
    study = study_of(options.workload, space, options.count, options.seed)
    return begin_and_report(study, runner, wait_s=None, seed=options.seed, html=None, json=False)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except PgdragError as error:
        raise SystemExit(f"error: {error.message}") from None
