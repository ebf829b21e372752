"""`pgdrag capture horizon`: how long, how often and by what is a live server's horizon held?"""

from __future__ import annotations

import json as json_module
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.options import Dsn, Json
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INTERRUPTED, UsageError

if TYPE_CHECKING:
    from pgdrag.findings.holds.distribution import HoldDistribution
    from pgdrag.horizon.capture import CaptureProgress, HorizonCapture, Listener

LONGEST_S = 31 * 86_400.0
LEAST_EVERY_S = 0.05
# At most this much is lost if the capture is killed.
_KEEP_EVERY_S = 60.0

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Capture from a live server what an experiment can replay.",
)


@app.callback()
def _options() -> None:
    pass


@app.command("horizon")
def horizon(
    dsn: Dsn = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to capture: 90s, 10min, 1h")
    ] = "1h",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Sampling interval: 100ms, 1s")
    ] = "1s",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to FILE (default: stdout)"),
    ] = None,
    applications: Annotated[
        bool,
        typer.Option("--applications", help="Also count holds by application_name"),
    ] = False,
    json: Json = False,
) -> int:
    """Record how long, how often and by what the horizon is held.

    The live server is only read; no statement's text is read or kept. Ctrl-C ends the capture early and
    keeps what was captured.

    Exit status: 0 captured, 1 the server was unreachable at the end, 2 misuse or nothing captured, 130
    interrupted; what was captured is still written.
    """
    from pgdrag.cli.place import stderr
    from pgdrag.cli.server_argument import LINE_EVERY_S, duration_of, live_line, named_server
    from pgdrag.findings.holds.distribution import distribution_json
    from pgdrag.horizon.capture import HorizonCapture
    from pgdrag.horizon.distribution_file import distribution_text
    from pgdrag.units import format_duration

    for_s = duration_of(for_, "--for", least_s=0.1, most_s=LONGEST_S)
    every_s = duration_of(every, "--every", least_s=LEAST_EVERY_S, most_s=3600.0)
    if 2 * every_s > for_s:
        raise UsageError(
            f"--every {every} is too long for --for {for_}: at least two samples are needed"
        )
    _refuse_place(output)
    server = named_server(dsn, "pgdrag capture horizon postgresql://me@db1/shop --for 1h")
    talk = stderr()
    capture = HorizonCapture(server, every_s=every_s, with_applications=applications)
    talk.print(
        f"Sampling {server.name} every {format_duration(every_s)} for {format_duration(for_s)}, "
        "read-only; Ctrl-C ends it and keeps what was captured.",
        soft_wrap=True,
    )
    status = EXIT_DONE

    def words(progress: CaptureProgress) -> str:
        return progress_words(progress, for_s)

    try:
        with live_line(talk, words, first_s=LINE_EVERY_S, is_amiss=_is_blind) as listen:
            capture.run(for_s, _keeping(listen, capture, output))
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    found = capture.found()
    for sentence in (*capture.notes, *capture.cannot_see(), capture.cost()):
        talk.print(sentence, soft_wrap=True)
    talk.print(f"Captured: {found.words}.", soft_wrap=True)
    if output is not None:
        _write(found, output)
        talk.print(f"Written to {output}", soft_wrap=True)
    if json:
        print(json_module.dumps(distribution_json(found), indent=2))
    elif output is None:
        print(distribution_text(found), end="")
    return EXIT_FAILED_CHECK if capture.notes and status == EXIT_DONE else status


def _refuse_place(output: Path | None) -> None:
    """Refuse a file that cannot be written, before an hour is spent on its content."""
    if output is None:
        return
    if output.is_dir():
        raise UsageError(f'cannot write to "{output}", which is a directory')
    parent = output.absolute().parent
    if not os.access(parent if not output.exists() else output, os.W_OK):
        reason = "permission denied" if parent.is_dir() else "there is no such directory"
        raise UsageError(f'cannot write to "{output}": {reason}')


def _write(found: HoldDistribution, output: Path) -> None:
    from pgdrag.horizon.distribution_file import distribution_text
    from pgdrag.servers.scratch import storage_errors

    with storage_errors("write", output.absolute().parent):
        whole = output.with_name(f".{output.name}.new")
        whole.write_text(distribution_text(found), encoding="utf-8")
        whole.replace(output)


def _keeping(listen: Listener, capture: HorizonCapture, output: Path | None) -> Listener:
    """Return a listener that writes what was captured each minute, less often if writing is slow."""
    written_s, pause_s = time.monotonic(), _KEEP_EVERY_S

    def heard(progress: CaptureProgress) -> None:
        nonlocal written_s, pause_s
        listen(progress)
        began_s = time.monotonic()
        if output is not None and began_s - written_s > pause_s and progress.samples > 1:
            _write(capture.found(), output)
            written_s = time.monotonic()
            pause_s = max(_KEEP_EVERY_S, 100 * (written_s - began_s))

    return heard


def _is_blind(progress: CaptureProgress) -> bool:
    return progress.holding is None


def progress_words(progress: CaptureProgress, for_s: float) -> str:
    """Return `5 min of 1 h, 55 min left: 2 hold the horizon, the oldest 1,234 transactions old; 41 seen`."""
    from pgdrag.cli.server_argument import time_words
    from pgdrag.english import counted

    text = f"{time_words(progress.elapsed_s, for_s)}: "
    if progress.holding is None:
        return f"{text}the server is unreachable, retrying ({progress.trouble})"
    oldest = (
        f", the oldest {counted(progress.oldest, 'transaction')} old" if progress.holding else ""
    )
    verb = "holds" if progress.holding == 1 else "hold"
    return f"{text}{progress.holding} {verb} the horizon{oldest}; {progress.seen:,} seen"
