"""`pgdrag ablate`, `bisect` and `screen`: which of many changes do it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from pgdrag.cli.asking import asking, share_of
from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.running import exit_status
from pgdrag.cli.study_options import StudyOptions, with_study_options
from pgdrag.experiment.questions import over_changes

_TARGET_HELP = ARM_HELP.replace('or "default"', "or an experiment's name for its last rung")
Against = Annotated[
    str,
    typer.Option("--against", metavar="BASE", help="What it is compared with, written alike"),
]
MaxTrials = Annotated[
    int | None,
    typer.Option("--max-trials", metavar="N", min=1, help="Run no more trials than this"),
]


@with_study_options
def ablate(
    conf: Annotated[str, typer.Argument(metavar="CONF", help=_TARGET_HELP)],
    options: StudyOptions,
    against: Against = "default",
    threshold: Annotated[
        str, typer.Option(metavar="SHARE", help="Smallest slowdown or speedup worth a name")
    ] = "5%",
    precision: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Run trials until each share is known to this part of the whole"
        ),
    ] = "5%",
    max_trials: MaxTrials = None,
) -> int:
    """Tell what each setting of a configuration does: alone, in company, and its share of the whole."""
    parameters: dict[str, object] = {
        "threshold": share_of(threshold, "--threshold"),
        "share_precision": share_of(precision, "--precision"),
        "max_trials": max_trials,
    }
    question = (
        "Which of the settings of {target} matter, compared with {reference}, and by how much?"
    )
    return _run("ablate", against, conf, options, parameters, question, is_seeded=True)


@with_study_options
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help=ARM_HELP)],
    bad: Annotated[
        str, typer.Argument(metavar="BAD", help="The slow or broken one, written alike")
    ],
    options: StudyOptions,
    share: Annotated[
        str, typer.Option(metavar="SHARE", help="The set has to keep this part of the log slowdown")
    ] = "90%",
    max_trials: MaxTrials = None,
) -> int:
    """Find a smallest set of settings that makes GOOD as slow, or as broken, as BAD."""
    parameters: dict[str, object] = {"share": share_of(share, "--share"), "groups": {}}
    if max_trials is not None:
        parameters["max_trials"] = max_trials
    question = "Which few of the settings of {target} make {reference} as slow?"
    return _run("bisect", good, bad, options, parameters, question)


@with_study_options
def screen(
    conf: Annotated[str, typer.Argument(metavar="CONF", help=_TARGET_HELP)],
    options: StudyOptions,
    against: Against = "default",
) -> int:
    """Look cheaply at many settings at once: which of them have an effect of their own at all?"""
    question = "Which of the settings of {target} have an effect of their own upon {reference}?"
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
    with asking(options) as place:
        (before, after), problems = place.arms(reference, target)
        under = options.conditions([before, after])
        seed = {"seed": place.seed} if is_seeded else {}
        study = over_changes(
            design,
            before,
            after,
            under,
            place.settings,
            problems,
            {**parameters, **seed},
            question=question,
        )
        return exit_status(place.run(study))
