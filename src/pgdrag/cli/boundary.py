"""`pgdrag boundary`: how small can a setting be, and above which value does it gain nothing?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.compare import ARM_HELP
from pgdrag.cli.options import StudyOptions, with_study_options

if TYPE_CHECKING:
    from pgdrag.servers.settings import Setting


@with_study_options
def boundary(
    setting: Annotated[str, typer.Argument(metavar="SETTING", help="Name of a numeric setting")],
    options: StudyOptions,
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
            help="Largest value to try (default: the setting's maximum; for memory, a quarter of RAM)",
        ),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(
            metavar="R",
            min=1.05,
            max=1000,
            help="Ratio of each value to the one below it",
        ),
    ] = 2.0,
    base: Annotated[str, typer.Option(metavar="ARM", help=ARM_HELP)] = "default",
) -> int:
    """Find the smallest value of a setting that still works.

    Also find the knee: the value above which more gains nothing.
    """
    from pgdrag.cli.conditions import conditions
    from pgdrag.cli.running import exit_status
    from pgdrag.cli.study_command import study_command
    from pgdrag.experiment.questions import boundary as boundary_study
    from pgdrag.experiment.questions import boundary_values

    with study_command(options) as command:
        known = command.settings.find(setting)
        values = boundary_values(known, low, high or _largest(known), ratio=ratio)
        (arm,), _ = command.arms(base)
        study = boundary_study(known, values, arm, conditions(options, [arm]), {})
        return exit_status(command.run(study))


def _largest(setting: Setting) -> str | None:
    """Return a quarter of RAM if the setting is an amount of memory, else None: the setting's maximum."""
    import psutil

    if not (setting.unit or "").endswith("B"):
        return None
    own_mb = psutil.virtual_memory().total // 4 // 2**20
    return f"{2 ** (own_mb.bit_length() - 1)}MB"
