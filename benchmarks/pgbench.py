"""pgbench's built-in scripts on pgbench's tables: pgdrag against pgbench, through the Unix socket.

Both read the same text: what pgbench itself prints as its built-in script. In the pipelined variants
pgdrag sends a transaction's statements (or ten selects) in one flight.

Prepared statements run twice: on the threads that are asked for, and with a thread for each client in all programs. Beside
the select of the latter runs a bare loop, `crates/pgdrag-driver/examples/bare_loop.rs`: what no client can do with less.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import scripted
from benchmarks.clients import BenchmarkError, Command, Counter, run_to_end
from benchmarks.contest import Contest, Contestant, Pair, Setting
from benchmarks.driver_job import Script
from benchmarks.rows import Row
from benchmarks.stage import Stage, stage

START_S = 5.0
LOAD_S_PER_SCALE = 0.5
RUNS = 19  # contestants of all duels together
SELECTS = 10
NO_LOWER = ">= 0.98"  # 2 % are the margin within which pgdrag calls two throughputs equal
SELECT_CPU_GOAL = "<= 0.80"
TPCB_CPU_GOAL = "<= 0.85"
TEXT_CPU_GOAL = "<= 0.90"  # where each statement is parsed anew
FLOOR_GOAL = "<= 1.15"
PIPELINED_CPU_GOAL = "<= 0.40"
SELECT_COUNT = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'pgbench_accounts'"
ROWS_PER_SCALE = 100_000
BARE_LOOP = Path(__file__).parents[1] / "target" / "release" / "examples" / "bare_loop"
TPCB_COUNT = "SELECT count(*) FROM pgbench_history"


@dataclass(frozen=True)
class Duel:
    """One script in one mode.

    Attributes:
        title: for the rows.
        work: what is counted, the same for all variants.
        count: query whose result grows by one for each.
        is_statistic: whether it reads statistics, which sessions publish when they end.
        script: pgbench's own.
        mode: simple, extended or prepared.
        cpu_goal: of pgdrag's CPU to pgbench's.
        flight: the pipelined variant; None where there is none.
        flight_work: how much of the work one of its transactions does.
        has_floor: whether a bare loop does the same work.
        has_own_threads: whether each client has a thread of its own, in all programs.
    """

    title: str
    work: str
    count: str
    is_statistic: bool
    script: Script
    mode: str
    cpu_goal: str
    flight: Script | None = None
    flight_work: int = 1
    has_floor: bool = False
    has_own_threads: bool = False

    def pairs(self) -> list[Pair]:
        """Return what is compared: like with like, then pipelined with pgbench's prepared mode."""
        pairs = [Pair(self.what, "pgdrag", "pgbench", NO_LOWER, self.cpu_goal, work=self.work)]
        if self.flight is not None:
            each = "ten selects" if self.flight_work > 1 else "a whole transaction"
            pairs += [
                Pair(
                    self.what,
                    "pgdrag pipelined",
                    "pgbench",
                    NO_LOWER,
                    PIPELINED_CPU_GOAL,
                    note=f"pgdrag sends {each} in one flight, pgbench waits for each answer",
                    work=self.work,
                ),
                Pair(
                    self.what,
                    "pgdrag pipelined",
                    "pgbench pipelined",
                    "",
                    "",
                    note="both run the same script with \\startpipeline; for information",
                    work=self.work,
                ),
            ]
        if self.has_floor:
            note = "the bare loop does nothing else, which no client can do with less"
            for sides, goal in (
                (("pgdrag", "bare loop"), FLOOR_GOAL),
                (("bare loop", "pgbench"), ""),
            ):
                pairs.append(Pair(self.what, *sides, "", goal, note=note, work=self.work))
        return pairs

    @property
    def what(self) -> str:
        """How the names of its rows begin."""
        return f"{self.title}, {self.mode}{', a thread a client' if self.has_own_threads else ''}"


def seconds(setting: Setting) -> float:
    """About how long `run` takes."""
    return _load_s(setting) + setting.rounds * RUNS * scripted.planned_s(setting)


def run(setting: Setting) -> Iterator[Row]:
    """Yield the rows of the comparison with pgbench."""
    with stage() as server:
        with setting.progress.step("pgbench: initialize", _load_s(setting)):
            run_to_end(initialize_command(server, setting.scale), timeout_s=600)
        for duel in _duels(server):
            if setting.is_interrupted:
                return
            contest = _fight(setting, server, duel)
            yield from contest.rows(duel.pairs())


def _load_s(setting: Setting) -> float:
    return START_S + LOAD_S_PER_SCALE * setting.scale


def initialize_command(server: Stage, scale: int) -> Command:
    """Return pgbench as a program that makes its tables."""
    return Command(_argv(server, "--initialize", "--quiet", "--scale", str(scale)))


def builtin_command(
    setting: Setting, server: Stage, name: str, *, connections: int, duration_s: float
) -> Command:
    """Return pgbench as a client that runs a built-in script with prepared statements."""
    argv = _argv(
        server,
        *("--no-vacuum", "--protocol", "prepared", "--builtin", name),
        *("--client", str(connections), "--jobs", str(setting.threads)),
        *("--time", f"{duration_s:.0f}"),
    )
    return Command(argv, own_count=processed)


def _duels(server: Stage) -> list[Duel]:
    select_only = builtin(server.bin_dir, "select-only")
    tpcb_like = builtin(server.bin_dir, "tpcb-like")
    select = ("select-only", "select", SELECT_COUNT, True, select_only)
    tpcb = ("TPC-B-like", "transaction", TPCB_COUNT, False, tpcb_like)
    floor = BARE_LOOP.is_file()
    return [
        Duel(*select, "simple", TEXT_CPU_GOAL),
        Duel(*select, "extended", TEXT_CPU_GOAL),
        Duel(*select, "prepared", SELECT_CPU_GOAL, many(select_only, SELECTS), SELECTS),
        Duel(*select, "prepared", SELECT_CPU_GOAL, has_floor=floor, has_own_threads=True),
        Duel(*tpcb, "simple", TEXT_CPU_GOAL),
        Duel(*tpcb, "prepared", TPCB_CPU_GOAL, pipelined(tpcb_like)),
        Duel(*tpcb, "prepared", TPCB_CPU_GOAL, has_own_threads=True),
    ]


def _fight(setting: Setting, server: Stage, duel: Duel) -> Contest:
    counting = server.counting_statistics if duel.is_statistic else server.counting
    threads = setting.connections if duel.has_own_threads else setting.threads
    own = replace(setting, threads=threads)
    with counting(duel.count, database=server.database) as count:
        contestants = [
            _pgbench(own, server, count, duel, duel.script, "pgbench"),
            _pgdrag(own, server, count, duel, duel.script, "pgdrag"),
        ]
        if duel.flight is not None:
            contestants += [
                _pgbench(own, server, count, duel, duel.flight, "pgbench pipelined"),
                _pgdrag(own, server, count, duel, duel.flight, "pgdrag pipelined"),
            ]
        if duel.has_floor:
            contestants.append(_bare_loop(own, server, count))
        contest = Contest(
            duel.what,
            contestants,
            before_run=lambda: server.tidy(server.database),
        )
        contest.run(setting)
    return contest


def builtin(bin_dir: Path, name: str) -> Script:
    """Return one of pgbench's built-in scripts, as that pgbench shows it.

    Raises:
        BenchmarkError: it does not show it.
    """
    shown = subprocess.run(
        [bin_dir / "pgbench", f"--show-script={name}"], capture_output=True, text=True, check=False
    )
    text = shown.stdout + shown.stderr
    if shown.returncode or "\\set" not in text:
        raise BenchmarkError(f'pgbench does not show its script "{name}"', detail=text.strip())
    # The first line is a comment that names the script.
    return Script(name, text)


def pipelined(script: Script) -> Script:
    """Return the script with its statements in one pipeline, after its \\set lines."""
    lines = script.text.strip().splitlines()
    first_statement = next(i for i, line in enumerate(lines) if not line.startswith(("\\", "--")))
    head, statements = lines[:first_statement], lines[first_statement:]
    text = "\n".join([*head, "\\startpipeline", *statements, "\\endpipeline", ""])
    return Script(f"{script.name}-pipelined", text)


def many(script: Script, times: int) -> Script:
    """Return the script `times` over, each with variables of its own, in one pipeline."""
    lines = [line for line in script.text.strip().splitlines() if not line.startswith("--")]
    heads = [line for line in lines if line.startswith("\\")]
    statements = [line for line in lines if not line.startswith("\\")]
    names = re.findall(r"^\\set (\w+)", "\n".join(heads), flags=re.MULTILINE)

    def numbered(line: str, i: int) -> str:
        for name in names:
            line = re.sub(rf"(\\set |:){name}\b", rf"\g<1>{name}_{i}", line)
        return line

    text = [
        numbered(line, i) for part in (heads, statements) for i in range(times) for line in part
    ]
    return pipelined(Script(f"{script.name}-{times}", "\n".join(text)))


def _pgdrag(
    setting: Setting, server: Stage, count: Counter, duel: Duel, script: Script, name: str
) -> Contestant:
    return scripted.pgdrag(
        setting,
        server,
        count,
        script,
        name=name,
        statements=duel.mode,
        scale=setting.scale,
        work=duel.flight_work if script is duel.flight else 1,
    )


def _pgbench(
    setting: Setting, server: Stage, count: Counter, duel: Duel, script: Script, name: str
) -> Contestant:
    work = duel.flight_work if script is duel.flight else 1
    file = server.directory / f"{script.name}.sql"
    file.write_text(script.text, encoding="utf-8")

    def command(number: int) -> Command:
        argv = _argv(
            server,
            *("--no-vacuum", "--protocol", duel.mode, "--file", file),
            *("--client", str(setting.connections), "--jobs", str(setting.threads)),
            *("--time", f"{scripted.duration_s(setting):.0f}"),
            *("--random-seed", str(setting.seed + number)),
            *("--define", f"scale={setting.scale}"),
        )
        return Command(argv, own_count=lambda output: work * processed(output))

    title = f"pgbench {server.version}, {duel.mode}{name.removeprefix('pgbench')}"
    return scripted.contestant(setting, name, title, command, count)


def _bare_loop(setting: Setting, server: Stage, count: Counter) -> Contestant:
    socket = f"{server.host}/.s.PGSQL.{server.port}"
    rows = setting.scale * ROWS_PER_SCALE
    argv: list[str | Path] = [BARE_LOOP, socket, server.user, server.database]
    argv += [str(setting.connections), f"{scripted.duration_s(setting):.0f}", str(rows)]
    argv += [str(setting.threads)]
    command = Command(argv, own_count=int)
    return scripted.contestant(setting, "bare loop", "bare loop", lambda _: command, count)


def processed(output: str) -> int:
    """Return how many transactions pgbench says that it did.

    Raises:
        BenchmarkError: it does not say.
    """
    found = re.search(r"number of transactions actually processed: (\d+)", output)
    if found is None:
        raise BenchmarkError("pgbench does not say what it did", detail=output[-500:].strip())
    return int(found[1])


def _argv(server: Stage, *arguments: str | Path) -> list[str | Path]:
    place = ("--host", server.host, "--port", str(server.port), "--username", server.user)
    return [server.bin_dir / "pgbench", *place, *arguments, server.database]
