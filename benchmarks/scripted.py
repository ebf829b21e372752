"""pgdrag's side where scripts in pgbench's language are compared; each run is measured whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from benchmarks import driver_job
from benchmarks.clients import Command, Counter, Measured, measure_whole
from benchmarks.contest import Contestant, Setting
from benchmarks.driver_job import Script
from benchmarks.stage import Stage

OVERHEAD_S = 1.5


def duration_s(setting: Setting) -> float:
    """How long each run takes; whole seconds, since pgbench and sysbench take no others."""
    return max(2.0, float(round(setting.window_s * 0.75)))


def planned_s(setting: Setting) -> float:
    """About how long each run takes with what is done before and after it."""
    return duration_s(setting) + OVERHEAD_S


def contestant(
    setting: Setting, name: str, title: str, command: Callable[[int], Command], count: Counter
) -> Contestant:
    """Return a client that is measured from its start to its end."""

    def run(number: int) -> Measured:
        return measure_whole(command(number), count, duration_s=duration_s(setting))

    return Contestant(name, title, run, planned_s(setting))


def pgdrag(
    setting: Setting,
    server: Stage,
    count: Counter,
    script: Script,
    *,
    name: str,
    statements: str,
    scale: int,
    work: int = 1,
) -> Contestant:
    """Return pgdrag with one script, of which each transaction counts as `work`."""

    def command(number: int) -> Command:
        made = driver_job.run_command(
            setting.driver,
            server,
            driver_job.scripts(scale, statements, script),
            database=server.database,
            connections=setting.connections,
            threads=setting.threads,
            duration_s=duration_s(setting),
            seed=setting.seed + number,
        )
        return dataclasses.replace(
            made, own_count=lambda output: work * driver_job.committed(output)
        )

    title = f"{setting.subject}, {statements}{name.removeprefix('pgdrag')}"
    return contestant(setting, name, title, command, count)
