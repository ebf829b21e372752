"""A pool of random configurations, on which the surfaces of `make simulate SIMULATE='--only search'` are fitted.

`python -m benchmarks.search_pool run tpcc`, then `python -m benchmarks.search_pool read RUN >
simulations/pools/tpcc.json`. Each configuration changes a tenth of all settings that a search for speed may change,
each to any of its values; ten trials are of the defaults.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pgdrag.cli.place import open_journal
from pgdrag.cli.running import begin_and_report, open_runner
from pgdrag.designs.search.space import Space
from pgdrag.errors import PgdragError
from pgdrag.experiment.questions import conditions_from
from pgdrag.experiment.search_space import search_space
from pgdrag.findings.readings import reading
from pgdrag.host.allowance import allowance
from pgdrag.model import Rung, RunRecord, Study, Treatment
from pgdrag.model.load import LoadProfile
from pgdrag.trial import ServerTrialRunner

LOAD = LoadProfile(connections=8, warm_up_s=3, measure_s=5, budget_s=5)
CHANGED = (
    0.1  # of the settings of a configuration: of many more, one is a disaster and hides the others
)
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


def pool(run: RunRecord, space: Space) -> dict[str, object]:
    """Return the trials of such a run: where each stands in the space, and the logarithm of its throughput.

    A value of None is of a configuration that did not start, crashed or committed nothing.
    """
    results = sorted(run.results, key=lambda one: one.trial.number)
    readings = [reading(one) for one in results]
    return {
        "about": f"{run.study.name}, PostgreSQL {run.server_version}, {run.host.cpu_count} x {run.host.cpu_model}",
        "dimensions": [one.model_dump() for one in space.dimensions],
        "points": [list(space.near(one.trial.treatment)) for one in results],
        "values": [
            None if one is None or one.is_bound else round(one.log_per_s, 4) for one in readings
        ],
        "variances": [0.0 if one is None else round(one.log_se**2, 8) for one in readings],
    }


def main(arguments: Sequence[str]) -> int:
    """Run a pool, or write the trials of one to standard output."""
    parser = argparse.ArgumentParser(prog="search_pool", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the trials")
    run.add_argument("workload", choices=WORKLOADS)
    run.add_argument("--count", type=int, default=150)
    run.add_argument("--seed", type=int, default=1)
    commands.add_parser("read", help="write the trials of a run").add_argument("run")
    options = parser.parse_args(arguments)
    runner = open_runner(None, ())
    space = space_of(runner)
    if options.command == "read":
        print(json.dumps(pool(open_journal().run(options.run), space), separators=(",", ":")))
        return 0
    study = study_of(options.workload, space, options.count, options.seed)
    return begin_and_report(study, runner, wait_s=None, seed=options.seed, html=None, json=False)


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except PgdragError as error:
        raise SystemExit(f"error: {error.message}") from None
