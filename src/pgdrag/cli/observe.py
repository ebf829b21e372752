"""`pgdrag observe` and `pgdrag observations`: keep what a server that others use does, and see what a stretch of it shows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgdrag.cli.options import Dsn, duration_of
from pgdrag.cli.plain_output import print_document
from pgdrag.english import counted
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INTERRUPTED, UsageError
from pgdrag.units import format_bytes, format_duration, format_number, format_rate, parse_bytes

if TYPE_CHECKING:
    from pgdrag.observations.recorder import Recorder, RecordingProgress
    from pgdrag.observations.store import ObservationWriter

LEAST_EVERY_S, MOST_EVERY_S = 1.0, 3600.0
LONGEST_S = 366 * 86_400.0
_EVERY_S = 10.0
_LINE_EVERY_S = 60.0  # where progress is no terminal's


def observe(
    dsn: Dsn = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", help="Length of a sample: 30s, 1min (default: 10s)"
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="How long to observe: 1h, 7d (default: until Ctrl-C)"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File of observations (default: DATABASE.obs)"
        ),
    ] = None,
    append: Annotated[
        bool,
        typer.Option(
            "--append", help="Append to FILE if it exists; it must be from the same server"
        ),
    ] = False,
    size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Maximum size of FILE; when full, older samples are averaged, then dropped",
        ),
    ] = "50MB",
) -> int:
    """Record a running server's activity in one file.

    The server is only read, over one session. Each sample has the server's counters as rates, what its processes
    waited for (about one look a second), and the statements that took most time, if pg_stat_statements is there.
    No constant of a statement and no secret of a setting is kept.

    Restarts of the server and lost connections are noted; pgdrag connects again. Ctrl-C ends it, and what was observed is
    in the file: see pgdrag observations FILE.

    Exit status: 0 observed, 1 the server was away at the end, 2 misuse or error, 130 interrupted.
    """  # fmt: skip
    from pgdrag.cli.place import refuse_unwritable, say, stderr
    from pgdrag.cli.server_argument import live_line, named_server
    from pgdrag.host.clock import CLOCK
    from pgdrag.observations.recorder import Recorder
    from pgdrag.observations.store import LEAST_BYTES, ObservationWriter

    for_s = math.inf if for_ is None else duration_of(for_, "--for", least_s=1.0, most_s=LONGEST_S)
    every_s = (
        min(_EVERY_S, for_s)
        if every is None
        else duration_of(every, "--every", least_s=LEAST_EVERY_S, most_s=MOST_EVERY_S)
    )
    if every_s > for_s:
        raise UsageError(f"--every {every} is longer than --for {for_}")
    most_bytes = parse_bytes(size)
    if most_bytes < LEAST_BYTES:
        raise UsageError(
            f"--size {size} is too small", hint=f"The least is {format_bytes(LEAST_BYTES)}."
        )
    refuse_unwritable(out, needs_directory=True)
    if out is not None:
        ObservationWriter.refuse_existing(out, append=append)
    example = "pgdrag observe postgresql://me@db1/shop --out shop.obs"
    server = named_server(dsn, example, own_session="observe", even_in_turn=True)
    path = out or Path(f"{server.target.database.replace('/', '_')}.obs")
    file = _opened(path, append=append, most_bytes=most_bytes)
    talk = stderr()
    recorder = Recorder(server, file, every_s=every_s, clock=CLOCK)
    how_long = "until Ctrl-C" if math.isinf(for_s) else f"for {format_duration(for_s)}"
    say(
        f"Observing {server.name} every {format_duration(every_s)} {how_long}, read-only, into {path}."
    )
    status, trouble, said = EXIT_DONE, "", False

    def listen(progress: RecordingProgress) -> None:
        nonlocal trouble, said
        trouble = progress.trouble
        if not said and progress.latest is not None:
            said = True
            for what, why in recorder.missing.items():
                talk.print(f"Cannot see {what}: {why}.", soft_wrap=True)
        show(_progress_words(progress, for_s), progress.elapsed_s, trouble or None)

    try:
        with live_line(talk, first_s=0.0, every_s=max(_LINE_EVERY_S, every_s)) as show:
            recorder.run(for_s, listen)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    finally:
        samples, size_bytes = file.samples, file.size_bytes
        file.close()
    for sentence in _ending(recorder, file, samples, size_bytes):
        say(sentence)
    return EXIT_FAILED_CHECK if trouble and status == EXIT_DONE else status


def _opened(path: Path, *, append: bool, most_bytes: int) -> ObservationWriter:
    from pgdrag.host.clock import CLOCK
    from pgdrag.observations.store import ObservationWriter

    if append and path.exists():
        return ObservationWriter.append(path, most_bytes=most_bytes)
    return ObservationWriter.create(path, began_unix_s=CLOCK.unix_s(), most_bytes=most_bytes)


def _progress_words(progress: RecordingProgress, for_s: float) -> str:
    from pgdrag.cli.server_argument import time_words

    elapsed_s = progress.elapsed_s
    at = format_duration(round(elapsed_s)) if math.isinf(for_s) else time_words(elapsed_s, for_s)
    words = f"{at}: {counted(progress.samples, 'sample')}"
    if progress.trouble:
        return f"{words}; the server is away, retrying ({progress.trouble})"
    latest = progress.latest
    if latest is not None:
        commits, active = (latest.values.get(x) for x in ("commits_per_s", "active_sessions"))
        words += f"; {format_rate(commits.mean)} committed" if commits is not None else ""
        words += f", active sessions: {format_number(active.mean)}" if active is not None else ""
    return words


def _ending(
    recorder: Recorder, file: ObservationWriter, samples: int, size_bytes: int
) -> list[str]:

    found = [recorder.cost.words]
    if file.thinned:
        dropped = f", {counted(file.dropped, 'sample')} dropped" if file.dropped else ""
        found.append(
            f"To keep within the size, {counted(file.thinned, 'older sample')} were averaged{dropped}."
        )
    found.append(
        f"{counted(samples, 'sample')}, {format_bytes(size_bytes)}, in {file.path}; see: pgdrag observations {file.path}"
    )
    return found


def observations(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that pgdrag observe wrote")],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help='Begin: "2026-11-25 14:00", 14:00, or 2h before its end (default: all)',
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End, in the same way (default: all)")
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name is --format
        Literal["terminal", "html", "markdown", "json", "text", "csv", "parquet"],
        typer.Option(
            help="Format; text: a few kB for a colleague or a language model; csv, parquet: tables"
        ),
    ] = "terminal",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to FILE, csv and parquet into this directory (default: html to FILE.html, others to stdout)",
        ),
    ] = None,
) -> None:
    """Show or export part of a recording.

    Shows load, waits over time, statements and events, with what was thinned. It can be read while pgdrag observe writes to
    it. Times without an offset are this machine's; those shown are UTC.
    """  # fmt: skip
    from pgdrag.cli.place import refuse_unwritable, stdout, write_named
    from pgdrag.observations.stretch import bounds, read_stretch
    from pgdrag.report.stretch import blocks, formats, text
    from pgdrag.report.terminal import print_blocks
    from pgdrag.servers.scratch import storage_errors

    if format in ("csv", "parquet"):
        _export(file, *bounds(file, begin, end), format, output)
        return
    to_stdout = (output is None and format != "html") or str(output) == "-"
    target = None if to_stdout else output or Path(f"{file.name.removesuffix('.obs')}.html")
    refuse_unwritable(target)
    stretch = read_stretch(file, begin, end)
    if format == "terminal" and target is None:
        print_blocks(blocks.stretch_blocks(stretch), stdout())
        return
    render = {
        "html": formats.render_stretch_html,
        "markdown": formats.render_stretch_markdown,
        "json": formats.render_stretch_json,
        "text": text.render_stretch_text,
        "terminal": formats.stretch_terminal_text,
    }[format]
    document = render(stretch)
    if target is None:
        print_document(document.rstrip("\n"))
        return
    with storage_errors("write the report", target.absolute().parent, hint="Name another file."):
        write_named(target, document)
    print(target.resolve())


def _export(
    file: Path,
    begin_unix_s: float,
    end_unix_s: float,
    form: Literal["csv", "parquet"],
    output: Path | None,
) -> None:
    from pgdrag.observations.export import export_tables

    directory = output or Path(f"{file.name.removesuffix('.obs')}-{form}")
    for path in export_tables(file, begin_unix_s, end_unix_s, directory, form):
        print(path)
