"""`pgdrag boundary`: how small may a setting be, and where does more of it gain nothing?"""

from __future__ import annotations

from typing import Annotated

import psutil
import typer

from pgdrag.cli.asking import asking
from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.running import exit_status
from pgdrag.cli.study_options import StudyOptions, with_study_options
from pgdrag.experiment.questions import boundary as boundary_study
from pgdrag.experiment.questions import boundary_values
from pgdrag.servers.settings import Setting


@with_study_options
def boundary(
    setting: Annotated[str, typer.Argument(metavar="SETTING", help="A setting that is a number")],
    options: StudyOptions,
    low: Annotated[
        str | None,
        typer.Option(
            "--min", metavar="VALUE", help="Smallest value to try (default: the setting's own)"
        ),
    ] = None,
    high: Annotated[
        str | None,
        typer.Option(
            "--max",
            metavar="VALUE",
            help="Largest value to try (default: the setting's own, and of memory a quarter of the machine's)",
        ),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(
            metavar="R",
            min=1.05,
            max=1000,
            help="Each value tried is this many times the one before",
        ),
    ] = 2.0,
    base: Annotated[str, typer.Option(metavar="ARM", help=ARM_HELP)] = "default",
) -> int:
    """Find the smallest value of a setting at which the workload still runs, and the knee of its curve."""
    with asking(options) as place:
        known = place.settings.find(setting)
        values = boundary_values(known, low, high or _largest(known), ratio=ratio)
        (arm,), _ = place.arms(base)
        study = boundary_study(known, values, arm, options.conditions([arm]), {})
        return exit_status(place.run(study))


def _largest(setting: Setting) -> str | None:
    """Return a quarter of the memory for a setting that is an amount of it; None: its own bound."""
    if not (setting.unit or "").endswith("B"):
        return None
    own_mb = psutil.virtual_memory().total // 4 // 2**20
    return f"{2 ** (own_mb.bit_length() - 1)}MB"
