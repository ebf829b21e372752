"""`pgdrag compare` and `pgdrag calibrate`: is B faster than A, and how noisy is this machine?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import StudyOptions, with_options
from pgdrag.errors import UsageError

if TYPE_CHECKING:
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.arms import Arm
    from pgdrag.experiment.questions import Conditions
    from pgdrag.servers.settings import SettingsCatalog

# No interval is this narrow: a calibration runs all its pairs.
_NEVER = 1e-12

_SAME_HINT = (
    'To measure the noise of this machine, use "pgdrag calibrate"; else give --allow-identical.'
)

ARM_HELP = (
    "A postgresql.conf or another file of settings, comma-separated name=value pairs, EXPERIMENT:RUNG, a server version, "
    'or "default"'
)


@with_options
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=ARM_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help="Arm to compare with A (same syntax)")],
    common: Annotated[
        str | None, typer.Option(metavar="ARM", help="Levels applied to both A and B (same syntax)")
    ] = None,
    with_defaults_of: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Use this version's defaults in both arms wherever they differ"
        ),
    ] = None,
    max_pairs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=4,
            max=1000,
            help="Stop after N complete pairs of trials, even if undecided",
        ),
    ] = 30,
    equivalence: Annotated[
        str, typer.Option(metavar="SHARE", help="Treat differences up to SHARE as equivalent")
    ] = "2%",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Stop once the interval is within ±SHARE of the estimate"
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            metavar="LEVEL", min=0.8, max=0.999, help="Confidence level, over all interim analyses"
        ),
    ] = 0.95,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="For CI: exit with 1 if B is slower than A by more than SHARE, with 3 if inconclusive",
        ),
    ] = None,
    allow_identical: Annotated[
        bool,
        typer.Option(
            "--allow-identical", help="Compare even if both arms have the same effective settings"
        ),
    ] = False,
    *,
    options: StudyOptions,
) -> int:
    """Compare B with A: is it faster or slower, and by how much.

    Trials run in pairs until the answer is certain enough, or --max-pairs is reached.
    """
    from pgdrag.cli.study_command import StudyCommand, share_of
    from pgdrag.experiment.differences import differences
    from pgdrag.experiment.questions import comparison, refuse_same
    from pgdrag.experiment.version_defaults import defaults_that_differ

    margins: dict[str, object] = {"equivalence": share_of(equivalence, "--equivalence")}
    if precision is not None:
        margins["precision"] = share_of(precision, "--precision", can_be_0=False)
    if fail_if_slower is not None:
        margins["fail_if_slower"] = share_of(fail_if_slower, "--fail-if-slower")
    command = StudyCommand.open(options)
    arms, problems = command.arms(a, b, *([] if common is None else [common]))
    if common is not None:
        *arms, shared = arms
        arms = [arm.over(shared) for arm in arms]
    known = [command.settings_of(arm.treatment) for arm in arms]
    if with_defaults_of is not None:
        command.refuse_on_existing("--with-defaults-of")
        shared = _defaults_of(with_defaults_of, command, known)
        arms = [arm.over(shared) for arm in arms]
    first, second = arms
    asked = [level.name for arm in arms for level in arm.levels]
    defaults = defaults_that_differ(known[0], known[1], set_by_arms=asked)
    found = differences(first, second, command.settings, problems)
    if not allow_identical:
        refuse_same(first, second, found, hint=_SAME_HINT)
    under = command.conditions(arms)
    parameters = {
        "max_pairs": max_pairs,
        "confidence": confidence,
        **margins,
        "noise_floor": _noise_floor(command, under),
        "defaults": defaults.words,
    }
    study = comparison(first, second, under, parameters, found)
    if defaults.note:
        study = replace(study, notes=(*study.notes, defaults.note))
    return command.run(study, (*found, *defaults.differences))


@with_options
def calibrate(
    arm: Annotated[str, typer.Argument(metavar="ARM", help=ARM_HELP)] = "default",
    pairs: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=4,
            max=1000,
            help="Number of pairs of trials, or with --collectors of blocks of four turns",
        ),
    ] = 10,
    collectors: Annotated[
        bool,
        typer.Option(
            "--collectors",
            help="Measure the collectors' overhead: switch them on and off in turns within each window",
        ),
    ] = False,
    *,
    options: StudyOptions,
) -> int:
    """Measure this machine's noise or the collectors' cost.

    The same server runs against itself. Later comparisons with the same workload and load report this
    noise and use it to predict how many pairs they need.
    """
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.questions import calibration, overhead

    if options.fleet is not None:
        raise UsageError(
            "a calibration is of one machine: --fleet does not apply to it",
            hint='Run "pgdrag calibrate" on each host.',
        )
    command = StudyCommand.open(options)
    (one,), _ = command.arms(arm)
    under = command.conditions([one])
    if collectors:
        return command.run(overhead(one, under, _turns(under, pairs)))
    study = calibration(one, under, {"max_pairs": pairs, "precision": _NEVER})
    return command.run(study)


def _defaults_of(wanted: str, command: StudyCommand, known: Sequence[SettingsCatalog]) -> Arm:
    from pgdrag.experiment.arms import server_level
    from pgdrag.experiment.version_defaults import with_defaults_of
    from pgdrag.model import Treatment

    levels = (server_level(wanted),)
    for problem in command.runner.check(levels):
        raise UsageError(problem.message, hint=problem.hint)
    own = command.settings_of(Treatment(wanted, levels))
    return with_defaults_of(own, known, f"defaults of {wanted}")


def _turns(under: Conditions, blocks: int) -> dict[str, object]:
    """Return the number of trials that contain this many blocks of turns.

    Raises:
        UsageError: the window is shorter than one block.
    """
    from pgdrag.collectors import BLOCK_S

    within = int(under.load.measure_s / BLOCK_S)
    if not within:
        raise UsageError(
            f"a window of {under.load.measure_s:g} s is shorter than a block of turns, {BLOCK_S:g} s",
            hint="Increase --measure.",
        )
    return {"trials": math.ceil(blocks / within)}


def _noise_floor(command: StudyCommand, under: Conditions) -> dict[str, object] | None:
    """Return the noise found by the newest calibration under the same conditions here, if any."""
    from pgdrag.cli.place import open_journal
    from pgdrag.designs.compare.findings import CompareFinding
    from pgdrag.findings.find import find
    from pgdrag.model.run import CALIBRATE

    here = command.machine
    for run in open_journal().runs_of(CALIBRATE):
        study = run.study
        is_alike = (run.host, study.workload, study.load) == (here, under.workload, under.load)
        found = find(run).found if is_alike and run.status == "done" else None
        if isinstance(found, CompareFinding) and found.pair_log_sd is not None:
            when = time.strftime("%Y-%m-%d", time.localtime(run.started_unix_s))
            return {"log_sd": found.pair_log_sd, "pairs": len(found.pairs), "when": when}
    return None
