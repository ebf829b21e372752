"""`pgdrag ablate`, `bisect`, `screen` and `boundary`: which changes matter, and how far?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.options import StudyOptions, with_options
from pgdrag.errors import UsageError

if TYPE_CHECKING:
    from pgdrag.servers.settings import Setting

_TARGET_HELP = ARM_HELP.replace('or "default"', "or an experiment (its last rung)")
Against = Annotated[
    str, typer.Option("--against", metavar="BASE", help="Arm to compare with (same syntax)")
]
MaxTrials = Annotated[
    int | None,
    typer.Option(
        "--max-trials", metavar="N", min=1, help="Maximum number of trials (default: the design's)"
    ),
]


@with_options
def ablate(
    conf: Annotated[str, typer.Argument(metavar="CONF", help=_TARGET_HELP)],
    against: Against = "default",
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="Smallest slowdown or speedup to report")
    ] = "5%",
    precision: Annotated[
        str, typer.Option(metavar="SHARE", help="Target precision of each setting's share")
    ] = "5%",
    max_trials: MaxTrials = None,
    *,
    options: StudyOptions,
) -> int:
    """Measure what each setting of a configuration contributes.

    Shows the effect of each setting alone, together with the others, and its share of the whole.
    """
    from pgdrag.cli.study_command import share_of

    parameters: dict[str, object] = {
        "threshold": share_of(threshold, "--threshold", can_be_0=False),
        "share_precision": share_of(precision, "--precision", can_be_0=False),
        "max_trials": max_trials,
    }
    question = (
        "Which of the settings of {target} matter, compared with {reference}, and by how much?"
    )
    return _run("ablate", against, conf, options, parameters, question, is_seeded=True)


@with_options
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help=ARM_HELP)],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="The slow or broken arm (same syntax)")],
    share: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Share of the slowdown, on the log scale, that the set must explain",
        ),
    ] = "90%",
    max_trials: MaxTrials = None,
    *,
    options: StudyOptions,
) -> int:
    """Find the few settings that make GOOD as slow as BAD.

    If BAD breaks the server, find those that break it. The set is minimal: each setting is needed.
    """
    from pgdrag.cli.study_command import share_of

    least = share_of(share, "--share", can_be_0=False)
    parameters: dict[str, object] = {"share": least, "groups": {}}
    if max_trials is not None:
        parameters["max_trials"] = max_trials
    question = "Which few of the settings of {target} make {reference} as slow?"
    return _run("bisect", good, bad, options, parameters, question)


@with_options
def screen(
    conf: Annotated[str, typer.Argument(metavar="CONF", help=_TARGET_HELP)],
    against: Against = "default",
    *,
    options: StudyOptions,
) -> int:
    """Screen many settings for main effects in few trials."""
    question = "Which of the settings of {target} have a main effect on {reference}?"
    return _run("screen", against, conf, options, {}, question)


def _run(
    design: str,
    reference: str,
    target: str,
    options: StudyOptions,
    parameters: Mapping[str, object],
    question: str,
    *,
    is_seeded: bool = False,
) -> int:
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.differences import differences
    from pgdrag.experiment.questions import over_changes

    command = StudyCommand.open(options)
    (before, after), problems = command.arms(reference, target)
    under = command.conditions([before, after])
    seed = {"seed": command.seed} if is_seeded else {}
    study = over_changes(
        design,
        before,
        after,
        under,
        command.settings,
        problems,
        {**parameters, **seed},
        question=question,
    )
    return command.run(study, differences(before, after, command.settings, problems))


@with_options
def boundary(
    setting: Annotated[str, typer.Argument(metavar="SETTING", help="Name of a numeric setting")],
    low: Annotated[
        str | None,
        typer.Option(
            "--min", metavar="VALUE", help="Smallest value to try (default: the setting's minimum)"
        ),
    ] = None,
    high: Annotated[
        str | None,
        typer.Option(
            "--max",
            metavar="VALUE",
            help="Largest value to try (default: the setting's maximum; for memory, a quarter of what is allowed here)",
        ),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(
            metavar="R", min=1.05, max=1000, help="Ratio of each value to the one below it"
        ),
    ] = 2.0,
    base: Annotated[str, typer.Option(metavar="ARM", help=ARM_HELP)] = "default",
    *,
    options: StudyOptions,
) -> int:
    """Find the smallest value of a setting that still works.

    Also find the knee: the value above which more gains nothing.
    """
    from pgdrag.cli.study_command import StudyCommand
    from pgdrag.experiment.differences import tried_values
    from pgdrag.experiment.questions import boundary as boundary_study
    from pgdrag.experiment.questions import boundary_values

    for option, value in (("--min", low), ("--max", high)):
        if value == "":
            raise UsageError(f"{option} is empty", hint="Omit it for the setting's own.")
    command = StudyCommand.open(options)
    known = command.settings.find(setting)
    values = boundary_values(known, low, high or _largest(known), ratio=ratio)
    (arm,), _ = command.arms(base)
    study = boundary_study(known, values, arm, command.conditions([arm]), {})
    return command.run(study, [tried_values(known, values, arm)])


def _largest(setting: Setting) -> str | None:
    """Return a quarter of the memory allowed here if the setting is an amount of memory, else None: the setting's maximum."""
    from pgdrag.host.allowance import allowance

    if not (setting.unit or "").endswith("B"):
        return None
    own_mb = allowance().memory_bytes // 4 // 2**20
    return f"{2 ** (own_mb.bit_length() - 1)}MB"
