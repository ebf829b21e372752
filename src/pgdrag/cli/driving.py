"""What do commands that load a server share: progress and the result?"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgdrag.cli.findings import print_findings, write_report
from pgdrag.cli.place import stderr
from pgdrag.cli.server_argument import live_line
from pgdrag.driver.connection_string import Server
from pgdrag.driver.contract import IntervalLine, Line, PhaseLine, ProgressLine, WarmingLine
from pgdrag.driver.conversation import Listener
from pgdrag.driver.process import Driver, Load, find_driver
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, Interrupted
from pgdrag.findings.values import Findings
from pgdrag.model.load import LoadProfile
from pgdrag.report.html import render_html
from pgdrag.servers.datasets import LOAD_TIMEOUT_S
from pgdrag.units import format_duration, format_rate


def load_tables(
    server: Server,
    job: Mapping[str, object],
    *,
    seed: int,
    parallelism: int | None = None,
    is_quiet: bool = False,
) -> Load:
    """Make and fill a workload's tables, and show the progress with rate and time left.

    Args:
        parallelism: connections that load at once; None: one a processor, at most 8.

    Raises:
        DriverError: the server refused, or the driver failed.
    """
    phase, began_s = "", 0.0
    with live_line(stderr(), every_s=5.0) as show:

        def listen(line: Line) -> None:
            nonlocal phase, began_s
            if is_quiet or not isinstance(line, PhaseLine | ProgressLine):
                return
            name = line.name if isinstance(line, PhaseLine) else line.phase
            if name != phase:
                phase, began_s = name, line.t_s
            text = f"{name.replace('_', ' ')} …"
            elapsed_s = line.t_s - began_s
            if isinstance(line, ProgressLine) and line.done and line.total and elapsed_s > 0:
                left = format_duration(round(elapsed_s * (line.total / line.done - 1)))
                done = f"{line.done} of {line.total}"
                if name == "populate":
                    done = f"{line.done / line.total:.0%}, {line.done / elapsed_s:,.0f} rows/s"
                text = f"{name.replace('_', ' ')}: {done}, {left} left"
            show(text, line.t_s, name)

        return Driver(find_driver()).load(
            server.target,
            job,
            seed=seed,
            parallelism=parallelism or min(8, os.cpu_count() or 1),
            timeout_s=LOAD_TIMEOUT_S,
            listen=listen,
        )


@contextmanager
def showing_run(load: LoadProfile, *, every_s: float | None) -> Iterator[Listener]:
    """Show the progress of a run: live on a terminal, and a line every `every_s` (None: none)."""
    console = stderr()
    phase, began_s, rate, failed = "connect", 0.0, "", 0
    window_s, unsaid = 0.0, list[IntervalLine]()
    window_length_s = load.measure_s if load.transactions is None else None
    expected_s = {"warm_up": load.warm_up_s, "run": window_length_s}
    with live_line(console, first_s=math.inf) as show:

        def listen(line: Line) -> None:
            nonlocal phase, began_s, rate, failed, window_s
            match line:
                case PhaseLine():
                    phase, began_s, rate = line.name, line.t_s, ""
                case WarmingLine() | IntervalLine():
                    rate = f" · {format_rate(line.committed / line.duration_s)}"
                case _:
                    return
            if isinstance(line, IntervalLine):
                failed += sum(x.failed for x in line.transactions.values())
                window_s += line.duration_s
                unsaid.append(line)
                # Intervals are of a second, give or take what a clock does.
                if every_s is not None and sum(x.duration_s for x in unsaid) >= every_s - 0.5:
                    console.print(progress_words(unsaid, window_s))
                    unsaid.clear()
            name = {"warm_up": "warm-up", "run": "measuring"}.get(phase, phase)
            of = f" of {expected_s[phase]:g} s" if expected_s.get(phase) else ""
            errors = f" · {failed:,} failed" if failed else ""
            show(f"{name} {line.t_s - began_s:.0f} s{of}{rate}{errors}", line.t_s, None)

        try:
            yield listen
        except KeyboardInterrupt:
            name = {"warm_up": "warming up", "run": "measuring"}.get(phase, "connecting")
            raise Interrupted(
                f"interrupted while {name}",
                detail="A window that is cut short has no result.",
                hint="Give a shorter --time.",
            ) from None


def progress_words(lines: Sequence[IntervalLine], window_s: float) -> str:
    """Return one line of progress: `5.0 s: 5,120/s, latency mean 0.69 ms, p99 2.1 ms, 0 failed`."""
    counts = [x for line in lines for x in line.transactions.values()]
    seconds = sum(line.duration_s for line in lines)
    committed, failed = sum(x.committed for x in counts), sum(x.failed for x in counts)
    text = f"{window_s:.1f} s: {format_rate(committed / seconds)}"
    latencies = [x.latency for x in counts if x.latency is not None and x.latency.count]
    if latencies:
        number = sum(x.count for x in latencies)
        mean_us = sum(x.mean_us * x.count for x in latencies) / number
        worst_us = max(x.p99_us for x in latencies)
        text += f", latency mean {format_duration(mean_us / 1e6)}, worst p99 {format_duration(worst_us / 1e6)}"
    return f"{text}, {failed:,} failed, {lines[-1].sessions} sessions"


def report_window(findings: Findings, *, html: Path | None, json: bool) -> int:
    """Print the result of one measured window, and return the command's exit status."""
    if html is not None:
        write_report(render_html(findings), html)
    print_findings(findings, json=json)
    measured = findings.run.results[0].measurement
    assert measured is not None, "a run that ended without an error"
    total = measured.total
    if total.failed and json:
        stderr().print(f"{total.failed:,} transactions failed.", style="red")
    return EXIT_DONE if total.committed and not total.failed else EXIT_FAILED_CHECK
