"""`pgdrag capture twin`, `pgdrag twin show` and `pgdrag twin check`: a server's schema, statistics and workload without its data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgdrag.cli.horizon import capture_app
from pgdrag.cli.options import Dsn, Json, Postgres, Wait, command_group, duration_of
from pgdrag.cli.plain_output import print_document, print_json
from pgdrag.english import counted, did_you_mean, listed
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, EXIT_INTERRUPTED, UsageError
from pgdrag.units import format_bytes, format_duration, format_number

if TYPE_CHECKING:
    from pgdrag.capture.log.reading import LogProgress
    from pgdrag.capture.twin import Cost
    from pgdrag.twins import Twin
    from pgdrag.twins.leaks import Scan

LEAST_S, LONGEST_S = 1.0, 7 * 86_400.0
_SHOWN_LEAKS = 20

app = command_group(
    "Show what is in a twin, search it for values of the original, and check how far it is like it."
)


@capture_app.command("twin")
def capture_twin(
    dsn: Dsn = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to FILE (default: DATABASE.twin)"
        ),
    ] = None,
    for_: Annotated[
        str,
        typer.Option(
            "--for", metavar="TIME", help="How long to watch statements and sessions: 90s, 15min"
        ),
    ] = "15min",
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Also read transactions from the server's log (csvlog, jsonlog or stderr; .gz; or a directory); repeatable",
        ),
    ] = None,
    server_log: Annotated[
        bool,
        typer.Option(
            "--server-log", help="Also read the log that the server writes, through the session"
        ),
    ] = False,
    whole_log: Annotated[
        bool,
        typer.Option(
            "--whole-log",
            help="Read all of the log (default: what is written while pgdrag watches)",
        ),
    ] = False,
) -> int:
    """Capture a database's schema and workload without its data.

    The twin has the schema, the planner's statistics, sizes, settings, statements and sessions. The server is only
    read, over one session, without a lock on any table that others would notice. Values in the planner's statistics, constants in the schema and in statements are replaced by tokens before anything is
    written: see pgdrag twin show.

    A superuser is not needed. A member of pg_monitor sees statements and sessions of all roles; statistics are
    shown of tables that the role may SELECT from (pg_read_all_data). What could not be seen is listed.

    With --log or --server-log the twin also has the shapes of transactions, sessions and parameters: set
    log_min_duration_statement = 0 meanwhile. No value of the log gets into the file.

    Ctrl-C ends the window early, and the twin has what was seen so far; a second Ctrl-C ends the capture without a
    file.

    Exit status: 0 captured, 1 captured, but nothing from the log, 2 misuse, or the server was lost: there is no file then, 130 ended early by Ctrl-C.
    """
    from pgdrag.capture.log.source import LogRequest
    from pgdrag.capture.twin import WATCHING, CaptureProgress, TwinCapture
    from pgdrag.cli.ending import print_error
    from pgdrag.cli.place import refuse_unwritable, say, stderr, write_named
    from pgdrag.cli.server_argument import live_line, named_server, time_words
    from pgdrag.servers.scratch import storage_errors
    from pgdrag.twins import twin_bytes
    from pgdrag.twins.file import LARGEST_TEXT_BYTES, text_bytes

    for_s = duration_of(for_, "--for", least_s=LEAST_S, most_s=LONGEST_S)
    if whole_log and not (log or server_log):
        raise UsageError("--whole-log needs a log", hint="Name it: --log FILE, or --server-log.")
    refuse_unwritable(output, needs_directory=True)
    request = LogRequest(tuple(log or ()), server_log, whole_log) if log or server_log else None
    if request is not None:
        request.refuse_other_files()
    example = "pgdrag capture twin postgresql://me@db1/shop --output shop.twin"
    server = named_server(dsn, example, own_session="capture twin", even_in_turn=True)
    path = output or Path(f"{server.target.database.replace('/', '_')}.twin")
    refuse_unwritable(path)
    say(
        f"Capturing {server.name} for {format_duration(for_s)}, read-only; Ctrl-C ends the window early."
    )
    capture = TwinCapture(server, log=request)

    def listen(progress: CaptureProgress) -> None:
        if progress.step == WATCHING:
            show_line(time_words(progress.elapsed_s, for_s), progress.elapsed_s, None)
        elif progress.log is not None:
            show_line(
                _log_words(progress.log), progress.elapsed_s + progress.log.elapsed_s, progress.step
            )
        else:
            show_line(progress.step, progress.elapsed_s, progress.step)

    with live_line(stderr()) as show_line:
        twin = capture.run(for_s, listen)
    content = twin_bytes(twin)
    with storage_errors("write the twin", path.absolute().parent, hint="Name another file."):
        write_named(path, content)
    if text_bytes(content) > LARGEST_TEXT_BYTES:
        say(f"The twin is larger than {format_bytes(LARGEST_TEXT_BYTES)} unpacked: pgdrag does not read it.")  # fmt: skip
    if capture.log_error is not None:
        print_error(capture.log_error)
    early = ("The window was ended early.",) if capture.was_ended_early else ()
    for sentence in (*early, *twin.not_seen, _cost_words(capture.cost)):
        say(sentence)
    say(f"Written to {path}, {format_bytes(len(content))}; see: pgdrag twin show {path}")
    if capture.was_ended_early:
        return EXIT_INTERRUPTED
    return EXIT_DONE if capture.log_error is None else EXIT_FAILED_CHECK


def _log_words(log: LogProgress) -> str:

    speed = log.done / log.elapsed_s if log.elapsed_s else 0.0
    left = f", {format_duration(round((log.total - log.done) / speed))} left" if speed else ""
    return f"Reading the log: {format_bytes(log.done)} of {format_bytes(log.total)}, {format_bytes(speed)}/s{left}"


def _cost_words(cost: Cost) -> str:

    share = cost.query_s if cost.server_cpu_s is None else cost.server_cpu_s
    of_what = "waiting for answers" if cost.server_cpu_s is None else "of one of the server's processors"  # fmt: skip
    percent = format_number(100 * share / cost.elapsed_s, significant=2) if cost.elapsed_s else "0"
    return (
        f"It took {counted(cost.queries, 'query')} and {format_duration(share)} "
        f"{of_what}, {percent} % of the time."
    )


@app.command("show")
def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Twin that pgdrag capture twin wrote")
    ],
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="PART",
            help="Show settings, schema, relations, statistics, statements, activity, transactions or kept in full; repeatable",
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show all parts in full")] = False,
    scan: Annotated[
        str | None,
        typer.Option(
            "--scan",
            metavar="DSN",
            help="Search the twin for values of this server's database, which is only read",
        ),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            max=1_000_000,
            help="With --scan: also search for the values of N rows of each table (default: only those of pg_stats)",
        ),
    ] = 0,
    json: Json = False,
) -> int:
    """Show what is in a twin: a summary, or each part in full.

    With --scan the original's values (most common values and histogram bounds of pg_stats, and those of some rows)
    are searched for in every text of the file. Numbers up to 99 and values of three characters or less tell nothing
    and are not searched for. Where a value is also a name in the schema, or a constant that the twin lists as kept,
    it is counted separately.

    Exit status: 0 shown, 1 the scan found a value of the original, 2 misuse or error.
    """
    from pgdrag.cli.place import stdout
    from pgdrag.twins import read_twin
    from pgdrag.twins.file import document_text
    from pgdrag.twins.words import PARTS, summary_lines

    for name in part or ():
        if name not in PARTS:
            hint = did_you_mean(name, PARTS) or f"The parts are {listed(tuple(PARTS))}."
            raise UsageError(f'a twin has no part "{name}"', hint=hint)
    twin = read_twin(file)
    found = None if scan is None else _scanned(twin, scan, rows)
    if json and found is None:
        print_document(document_text(twin))
        return EXIT_DONE
    if json:
        return _print_scan_json(found)
    console = stdout(piped_width=100_000)
    wanted = tuple(PARTS) if all_ else tuple(part or ())
    has_summary = all_ or not (part or found is not None)
    lines = list(summary_lines(twin, file.stat().st_size)) if has_summary else []
    for name in wanted:
        lines += [*([""] if lines else []), *PARTS[name](twin)]
    for line in lines:
        console.print(line, soft_wrap=True)
    if found is None:
        return EXIT_DONE
    for line in _scan_lines(found):
        console.print(line, soft_wrap=True)
    return EXIT_FAILED_CHECK if found.leaks else EXIT_DONE


@app.command("check")
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Twin that pgdrag capture twin wrote")
    ],
    scale: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=1,
            help="Share of the rows of tables with more than 1,000",
        ),
    ] = 1.0,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long to watch its load: 30s, 5min")
    ] = "30s",
    connections: Annotated[
        int | None,
        typer.Option(
            "--connections",
            "-c",
            metavar="N",
            min=1,
            max=10_000,
            help="Number of sessions (default: those that were at work in the original)",
        ),
    ] = None,
    postgres: Postgres = None,
    html: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the whole as HTML to FILE"),
    ] = None,
    wait: Wait = None,
    json: Json = False,
) -> int:
    """Check how far a twin's data and load are like the original.

    Makes the twin's data on a throw-away server with the original's settings, drives its load there, captures that, and
    compares each statement with the original: its share of the calls, rows, blocks, WAL and temporary bytes per call, and the
    form of its plan. Runs with this twin at this scale carry what is not alike as warnings.

    Exit status: 0 faithful, or but for some statements, 1 not faithful, 2 misuse or error.
    """
    from pgdrag.cli.place import (
        measuring,
        open_scratch,
        refuse_unwritable,
        stderr,
        stdout,
        write_page,
    )
    from pgdrag.cli.progress import showing_progress
    from pgdrag.provision import Provision
    from pgdrag.report.terminal import print_blocks
    from pgdrag.report.twin_check_page import check_blocks, render_check_html, render_check_json
    from pgdrag.servers.binaries import find_binaries
    from pgdrag.twin_check import CheckedTwin, check_twin, sessions_of
    from pgdrag.twins import read_twin
    from pgdrag.twins.fidelity import Verdict
    from pgdrag.workloads.twin import TwinWorkload

    for_s = duration_of(for_, "--for", least_s=5.0, most_s=86_400.0)
    refuse_unwritable(html)
    twin = read_twin(file)
    workload = TwinWorkload(file=str(file), scale=scale)
    bench = Provision.open(open_scratch(), find_binaries(postgres))
    talk = stderr()
    with measuring(wait), showing_progress(talk) as listen:
        found = check_twin(
            CheckedTwin(twin, workload, scale, file.name),
            bench,
            for_s=for_s,
            sessions=connections or sessions_of(twin),
            listen=listen,
        )
    write_page(html, lambda: render_check_html(found))
    if json:
        print_document(render_check_json(found))
    else:
        print_blocks(check_blocks(found), stdout())
    return EXIT_FAILED_CHECK if found.fidelity.verdict is Verdict.NOT else EXIT_DONE


def _scanned(twin: Twin, dsn: str, rows: int) -> Scan:
    from pgdrag.capture.original_values import original_values
    from pgdrag.cli.server_argument import named_server
    from pgdrag.twins.leaks import scan

    example = "pgdrag twin show shop.twin --scan postgresql://me@db1/shop"
    server = named_server(dsn, example, own_session="twin show --scan", even_in_turn=True)
    return scan(twin, original_values(server, rows=rows))


def _scan_lines(found: Scan) -> list[str]:
    searched = f"{counted(found.searched, 'value')} of the original searched for in {counted(found.texts, 'text')}"  # fmt: skip
    lines = [f"{searched}: {f'{len(found.leaks)} found' if found.leaks else 'none found'}."]  # fmt: skip
    lines += [f'  "{x.value}" in {x.where}' for x in found.leaks[:_SHOWN_LEAKS]]
    if len(found.leaks) > _SHOWN_LEAKS:
        lines.append(f"  and {len(found.leaks) - _SHOWN_LEAKS} more")
    for kind, words in (("name", "in names of the schema"), ("kept", "in constants that are kept")):
        count = sum(x.kind == kind for x in found.excused)
        if count:
            lines.append(f"{counted(count, 'value')} also {words}.")
    return lines


def _print_scan_json(found: Scan | None) -> int:

    print_json(found)
    return EXIT_FAILED_CHECK if found is not None and found.leaks else EXIT_DONE
