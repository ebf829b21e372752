"""`pgdrag compare` and `pgdrag calibrate`: is B faster than A, and how noisy is this machine?"""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer

from pgdrag.cli.asking import Asking, asking, share_of, with_common
from pgdrag.cli.place import open_journal
from pgdrag.cli.running import exit_status
from pgdrag.cli.study_options import StudyOptions, with_study_options
from pgdrag.collectors import BLOCK_S
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.errors import UsageError
from pgdrag.experiment.questions import CALIBRATE, Conditions, calibration, comparison, overhead
from pgdrag.findings.find import find
from pgdrag.host.machine import this_host

# No interval is ever so narrow: a calibration runs all its pairs.
_NEVER = 1e-12

ARM_HELP = (
    "A postgresql.conf, name=value pairs with commas between them, EXPERIMENT:RUNG, a server version, "
    'or "default"'
)


@with_study_options
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=ARM_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help="What is compared with it, written alike")],
    options: StudyOptions,
    common: Annotated[
        str | None, typer.Option(metavar="ARM", help="Levels that both sides have, written alike")
    ] = None,
    max_pairs: Annotated[
        int,
        typer.Option(
            metavar="N", min=4, max=1000, help="End after so many pairs of trials, decided or not"
        ),
    ] = 30,
    equivalence: Annotated[
        str, typer.Option(metavar="SHARE", help="Differences up to this count as equal")
    ] = "2%",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Go on until the interval reaches no further to either side"
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(min=0.8, max=0.999, help="Confidence of all looks at the pairs together"),
    ] = 0.95,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="For CI: exit with 1 if B is slower than A by more than this, with 3 if that cannot be told",
        ),
    ] = None,
) -> int:
    """Tell whether B is faster or slower than A, by how much, and how sure that is."""
    margins: dict[str, object] = {"equivalence": share_of(equivalence, "--equivalence")}
    if precision is not None:
        margins["precision"] = share_of(precision, "--precision")
    if fail_if_slower is not None:
        margins["fail_if_slower"] = share_of(fail_if_slower, "--fail-if-slower")
    with asking(options) as place:
        (first, second, *shared), _ = place.arms(a, b, *([common] if common else []))
        first, second = with_common([first, second], shared[0] if shared else None)
        under = options.conditions([first, second])
        parameters = {
            "max_pairs": max_pairs,
            "confidence": confidence,
            **margins,
            "noise_floor": _noise_floor(place, under),
        }
        return exit_status(place.run(comparison(first, second, under, parameters)))


@with_study_options
def calibrate(
    options: StudyOptions,
    arm: Annotated[str, typer.Argument(metavar="[ARM]", help=ARM_HELP)] = "default",
    pairs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=4,
            max=1000,
            help="So many pairs of trials; with --collectors so many blocks of four turns",
        ),
    ] = 10,
    collectors: Annotated[
        bool,
        typer.Option(
            "--collectors",
            help="Measure what the collectors cost: they look and rest in turns within each window",
        ),
    ] = False,
) -> int:
    """Measure this machine's noise: the same server against itself.

    Later comparisons under the same workload and load show it, and foretell by it how many pairs they need.
    """
    with asking(options) as place:
        (one,), _ = place.arms(arm)
        under = options.conditions([one])
        if collectors:
            return exit_status(place.run(overhead(one, under, _turns(under, pairs))))
        study = calibration(one, under, {"max_pairs": pairs, "precision": _NEVER})
        return exit_status(place.run(study))


def _turns(under: Conditions, blocks: int) -> dict[str, object]:
    """Return as many trials as hold so many blocks of turns.

    Raises:
        UsageError: the window holds none.
    """
    within = int(under.load.measure_s / BLOCK_S)
    if not within:
        raise UsageError(
            f"a window of {under.load.measure_s:g} s is shorter than a block of turns, {BLOCK_S:g} s",
            hint="Give a larger --measure.",
        )
    return {"trials": math.ceil(blocks / within)}


def _noise_floor(place: Asking, under: Conditions) -> dict[str, object] | None:
    """Return what the newest calibration under the same conditions on this machine saw; None: there is none."""
    here = this_host(place.bench.scratch.root)
    for run in open_journal().runs_of(CALIBRATE):
        study = run.study
        is_alike = (run.host, study.workload, study.load) == (here, under.workload, under.load)
        found = find(run).found if is_alike and run.status == "done" else None
        if isinstance(found, CompareFinding) and found.pair_log_sd is not None:
            when = time.strftime("%Y-%m-%d", time.localtime(run.started_unix_s))
            return {"log_sd": found.pair_log_sd, "pairs": len(found.pairs), "when": when}
    return None
