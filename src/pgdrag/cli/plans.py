"""`pgdrag plans`: which plans of a captured workload does a configuration or another version change?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Json, WindowHtml
from pgdrag.cli.plain_output import print_document
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, UsageError

if TYPE_CHECKING:
    from pgdrag.experiment.arms import Arm
    from pgdrag.planning.comparing import Line
    from pgdrag.servers.binaries import Binaries
    from pgdrag.twins.model import Twin


def plans(
    twin: Annotated[Path, typer.Argument(metavar="TWIN", help='A file of "pgdrag capture twin"')],
    conf: Annotated[
        str | None,
        typer.Argument(
            metavar="CONF",
            show_default=False,
            help='A file of settings, comma-separated name=value pairs, or "default" for a server with default settings; what it does not set stays as captured',
        ),
    ] = None,
    version: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="OLD NEW",
            show_default=False,
            help="Plan with the server OLD as captured, and with NEW, each a major version or a bin directory (default: both the captured version, or the nearest one here)",
        ),
    ] = None,
    fail_if_changed: Annotated[
        bool, typer.Option("--fail-if-changed", help="For CI: exit with 1 if a plan changes")
    ] = False,
    html: WindowHtml = None,
    json: Json = False,
) -> int:
    """Show which plans of a twin a configuration changes, or another version.

    Restores the twin's statistics into a throw-away server without rows, where the planner sees the original's
    sizes, and explains each statement under both: which plans change, by which line, for how much of the
    load. Takes seconds, and cannot tell run time: a different plan is not a slower one.

    Exit status: 0 done, 1 a plan changes and --fail-if-changed is given, 2 misuse or error.
    """
    from pgdrag.cli.place import open_scratch, refuse_unwritable, stderr, stdout, write_page
    from pgdrag.experiment.arms import read_arm
    from pgdrag.planning.comparing import PlanQuestion, compare_plans
    from pgdrag.provision import look_here, problems_of
    from pgdrag.report.plans_page import plans_blocks, render_plans_html, render_plans_json
    from pgdrag.report.terminal import print_blocks
    from pgdrag.twins import read_twin

    if conf is None and version is None:
        raise UsageError(
            "nothing to compare with",
            hint="Give a file of settings, name=value pairs, or --version OLD NEW.",
        )
    refuse_unwritable(html)
    captured = read_twin(twin)
    scratch = open_scratch()
    talk = stderr()
    before, after = _servers(captured, version, talk.print)
    here = look_here(scratch, after)
    arm = read_arm(conf, here.settings) if conf is not None else None
    if arm is not None:
        arm.refuse_mistakes(problems_of(arm.levels, here))
        for note in arm.notes:
            talk.print(note)
    question = PlanQuestion(
        before,
        after,
        _lines(arm, captured),
        f"PostgreSQL {before.version} as captured",
        " with ".join(
            filter(
                None, [f"PostgreSQL {after.version}" if version else "", arm.label if arm else ""]
            )
        ),
    )
    found = compare_plans(captured, twin.name, question, scratch, talk.print)
    write_page(html, lambda: render_plans_html(found))
    if json:
        print_document(render_plans_json(found))
    else:
        print_blocks(plans_blocks(found), stdout())
    is_changed = bool(found.flips.flips or found.flips.lost)
    return EXIT_FAILED_CHECK if fail_if_changed and is_changed else EXIT_DONE


def _servers(
    captured: Twin, version: tuple[str, str] | None, say: Callable[[str], None]
) -> tuple[Binaries, Binaries]:
    """Return the servers of the two sides: those that are asked for, or the original's version on both."""
    from pgdrag.servers.binaries import OLDEST_MAJOR, available_binaries, find_binaries

    if version is not None:
        old, new = version
        return find_binaries(old), find_binaries(new)
    wanted = captured.source.version_num // 10_000
    there = [x for x in available_binaries() if x.major >= OLDEST_MAJOR]
    if not there:
        return (find_binaries(None),) * 2
    nearest = min(there, key=lambda x: (abs(x.major - wanted), -x.version_num))
    if nearest.major != wanted:
        say(
            f"PostgreSQL {wanted}, the original's version, is not installed; using {nearest.version}. "
            f"To get it, run: pgdrag fetch {wanted}"
        )
    return nearest, nearest


def _lines(arm: Arm | None, captured: Twin) -> list[Line]:
    """Return the settings that an argument asks for; "default" takes back all that the original sets."""
    from pgdrag.factors import Phase, is_of
    from pgdrag.planning.comparing import Line

    if arm is None:
        return []
    if not arm.levels:
        return [Line(x.name, None) for x in captured.source.settings if x.name != "search_path"]
    return [
        Line(x.name, x.value, _place(arm, x.name))
        for x in arm.levels
        if is_of(Phase.SETTINGS, x.kind)
    ]


def _place(arm: Arm, name: str) -> str:
    at = arm.places.get(name)
    return f"{at.file.name}:{at.line}" if at is not None else ""
