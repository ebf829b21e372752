"""Does a twin answer as its original does? Seven databases, each captured under load, and configurations tried on both.

For each database: a server with its data and load is captured as a twin; the twin is searched for the original's values, and
checked (`pgdrag twin check`); then throughput is measured with each configuration and without, on the original's data and
on the twin's, in short trials: a block has all of them once, in random order, the original and its twin one after the other.

Each trial is on the disk before the next begins: a run that is broken off goes on where it was. `--fresh` begins anew.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.twins.answers import BASE, ORIGINAL, TWIN, Answer, Answers, Tried, answers
from benchmarks.twins.databases import BASE as BASE_SETTINGS
from benchmarks.twins.databases import Configuration, Database, databases
from pgdrag.capture.log.source import LogRequest
from pgdrag.capture.original_values import original_values
from pgdrag.driver.connection_string import reach
from pgdrag.errors import EXIT_DONE, EXIT_FAILED_CHECK, PgdragError, ServerDidNotStart
from pgdrag.model.events import Event, PhaseStarted
from pgdrag.model.load import LoadProfile
from pgdrag.provision import Provision
from pgdrag.report.json import plain
from pgdrag.report.terminal import blocks_as_text
from pgdrag.report.twin_check_page import check_blocks
from pgdrag.servers.binaries import executable_binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.datasets import target_for
from pgdrag.servers.scratch import Scratch, write_whole
from pgdrag.servers.sweep import sweep
from pgdrag.twin_check import CheckedTwin, Window, captured_under_load, check_twin
from pgdrag.twins import read_twin, twin_bytes
from pgdrag.twins.leaks import scan
from pgdrag.workloads import Workload
from pgdrag.workloads.twin import TwinWorkload

BUILD = Path("build/twins")
WATCHER = "watcher"
LARGEST_BYTES = 5_000_000
WARM_UP_S = 5.0  # before a capture, and before a check


def main() -> int:
    """Run what is missing, and print what all of it comes to."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.twins", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", action="append", choices=[x.name for x in databases()], help="one of the databases; repeatable (default: all)")  # fmt: skip
    parser.add_argument("--configurations", type=int, default=99, metavar="N", help="of each database, at most (default: all)")  # fmt: skip
    parser.add_argument("--blocks", type=int, default=3, help="trials of each configuration and side (default: 3)")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=5.0, help="of a trial (default: 5)")
    parser.add_argument("--warm-up", type=float, default=3.0, metavar="SECONDS", help="before each (default: 3)")  # fmt: skip
    parser.add_argument("--window", type=float, default=30.0, metavar="SECONDS", help="of the capture, and of the check (default: 30)")  # fmt: skip
    parser.add_argument("--scale", type=float, default=1.0, help="of the twins (default: 1)")
    parser.add_argument("--minutes", type=float, default=90.0, help="after which no trial begins (default: 90)")  # fmt: skip
    parser.add_argument("--side", choices=(ORIGINAL, TWIN), help="try one side alone (default: both, one after the other)")  # fmt: skip
    parser.add_argument("--log", action="store_true", help="capture with the server's log, which tells the transactions; kept apart from captures without")  # fmt: skip
    parser.add_argument("--no-trials", action="store_true", help="capture, scan and check only")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs captured and measured")  # fmt: skip
    asked = parser.parse_args()
    chosen = [x for x in databases() if asked.only is None or x.name in asked.only]
    BUILD.mkdir(parents=True, exist_ok=True)
    if asked.fresh:
        for one in chosen:
            for file in BUILD.glob(f"{_stem(one, asked)}.*"):
                file.unlink()
    scratch = Scratch.open()
    sweep(scratch)
    bench = Provision.open(scratch, find_binaries(None))
    end_s = time.monotonic() + 60 * asked.minutes
    is_right = True
    for one in chosen:
        contest = Contest(one, bench, asked)
        is_right &= contest.prepare()
        if not asked.no_trials:
            contest.run(end_s)
    return _tell(chosen, asked) if is_right else EXIT_FAILED_CHECK


def _stem(database: Database, asked: argparse.Namespace) -> str:
    """Return what the files of a database begin with."""
    return f"{database.name}-logged" if asked.log else database.name


class Contest:
    """One database and its twin."""

    def __init__(self, database: Database, bench: Provision, asked: argparse.Namespace) -> None:
        self._database, self._bench, self._asked = database, bench, asked
        self._stem = _stem(database, asked)
        self._twin_file = BUILD / f"{self._stem}.twin"
        self._trials_file = BUILD / f"{self._stem}.trials.jsonl"

    def prepare(self) -> bool:
        """Capture, scan and check, unless that was done; tell whether the file is as promised."""
        facts_file = BUILD / f"{self._stem}.facts.json"
        if not self._twin_file.exists():
            self._capture(facts_file)
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
        print(f"{self._database.name}: {facts['bytes']:,} bytes, {facts['searched']:,} values of the original searched for, {facts['leaks']} found")  # fmt: skip
        if self._asked.side != ORIGINAL:
            self._check()
        return bool(facts["bytes"] < LARGEST_BYTES and not facts["leaks"])

    def _check(self) -> None:
        check_file = BUILD / f"{self._stem}.check.json"
        if not check_file.exists():
            twin = read_twin(self._twin_file)
            found = check_twin(
                CheckedTwin(twin, self._workload(TWIN), self._asked.scale, self._twin_file.name),
                self._bench,
                for_s=self._asked.window,
                sessions=self._database.sessions,
                settings={**BASE_SETTINGS, **self._of_capture()},
                # Equally long since the server's start, after which pages are logged whole.
                warm_up_s=WARM_UP_S,
                listen=_listen,
            )
            write_whole(check_file, json.dumps({"text": blocks_as_text(check_blocks(found)), "check": plain(found), "verdict": found.fidelity.verdict.value, "faithful_share": found.fidelity.faithful_share}))  # fmt: skip
        print(json.loads(check_file.read_text(encoding="utf-8"))["text"], flush=True)

    def run(self, end_s: float) -> None:
        """Run the trials that are missing, until the time is over."""
        known = {(x.side, x.configuration, x.block) for x in trials(self._stem)}
        configurations = [
            Configuration(BASE, {}),
            *self._database.configurations[: self._asked.configurations],
        ]
        for block in range(1, self._asked.blocks + 1):
            rng = random.Random(f"{self._database.name} {block}")
            for one in rng.sample(configurations, len(configurations)):
                for side in rng.sample((ORIGINAL, TWIN), 2):
                    if (side, one.name, block) in known or self._asked.side not in (None, side):
                        continue
                    if time.monotonic() > end_s:
                        print("The time is over; the next run goes on here.", file=sys.stderr)
                        return
                    self._keep(self._trial(side, one, block))

    def _keep(self, tried: Tried) -> None:
        with self._trials_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(tried)) + "\n")
        print(f"  {tried.database}, {tried.side}, {tried.configuration}, block {tried.block}: {tried.tps:,.1f}/s {tried.reason}", file=sys.stderr)  # fmt: skip

    def _workload(self, side: str) -> Workload:
        if side == ORIGINAL:
            return self._database.workload
        return TwinWorkload(file=str(self._twin_file.absolute()), scale=self._asked.scale)

    def _trial(self, side: str, configuration: Configuration, block: int) -> Tried:
        load = LoadProfile(self._database.sessions, self._asked.warm_up, self._asked.seconds, 3 * self._asked.seconds, min_commits=10)  # fmt: skip
        workload = self._workload(side)
        tps, reason = 0.0, ""
        try:
            with self._server(workload, configuration.settings) as cluster:
                target = target_for(workload, cluster)
                with workload.driving(
                    self._bench.driver, target, load, seed=block, listen=lambda _: None
                ) as driving:
                    driving.warm_up()
                    measured = driving.measure()
                tps = measured.total.committed / measured.elapsed_s
                failed = measured.total.failed / max(measured.total.scheduled, 1)
                reason = f"{failed:.1%} failed" if failed else ""
        except ServerDidNotStart as error:
            raise SystemExit(
                f"error: {configuration.name} cannot be tried here: {error}"
            ) from error
        except PgdragError as error:
            reason = error.message
        if not tps:
            tps, reason = 0.5 / self._asked.seconds, reason or "nothing was committed"
        return Tried(self._database.name, side, configuration.name, block, tps, reason)

    @contextmanager
    def _server(self, workload: Workload, settings: Mapping[str, str]) -> Iterator[Cluster]:
        snapshot = self._bench.snapshot(workload, _listen)
        binaries = executable_binaries(self._bench.binaries, self._bench.scratch)
        with snapshot.restore(self._bench.scratch, binaries).cluster as cluster:
            cluster.configure({**BASE_SETTINGS, **settings})
            cluster.start()
            yield cluster

    def _of_capture(self) -> dict[str, str]:
        """Return settings of the original's server while it is captured, which the twin's has while it is checked."""
        # Nothing may be analysed between capture and scan: of a column with all numbers up to 3,000 another sample has
        # some that are tokens by chance.
        logging = {"log_destination": "csvlog", "log_min_duration_statement": "0"} if self._asked.log else {}  # fmt: skip
        return {"autovacuum": "off", **logging}

    def _capture(self, facts_file: Path) -> None:
        workload, window_s = self._database.workload, self._asked.window
        with self._server(workload, self._of_capture()) as cluster:
            log = LogRequest((cluster.log_directory,)) if self._asked.log else None
            with cluster.connect() as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements SCHEMA public")
                connection.execute(f"CREATE ROLE {WATCHER} LOGIN".encode())
                connection.execute(f"GRANT pg_monitor, pg_read_all_data TO {WATCHER}".encode())
                connection.execute("VACUUM ANALYZE")
            load = LoadProfile(self._database.sessions, WARM_UP_S, window_s + 120, window_s + 120)
            twin = captured_under_load(
                workload, cluster, self._bench.driver, load, window=Window(window_s), role=WATCHER, log=log, listen=_listen
            )  # fmt: skip
            content = twin_bytes(twin)
            found = scan(twin, original_values(reach(cluster.conninfo()), rows=1000))
        for leak in found.leaks[:10]:
            print(f'  "{leak.value}" in {leak.where}')
        write_whole(facts_file, json.dumps({"bytes": len(content), "searched": found.searched, "leaks": len(found.leaks)}))  # fmt: skip
        write_whole(self._twin_file, content)


def trials(name: str) -> list[Tried]:
    """Return what was measured of a database; half a line that a crash left is none."""
    file = BUILD / f"{name}.trials.jsonl"
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            found.append(Tried(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def _listen(event: Event) -> None:
    if isinstance(event, PhaseStarted):
        print(f"  {event.name} …", file=sys.stderr)


def _tell(chosen: Sequence[Database], asked: argparse.Namespace) -> int:
    harmless = [(x.name, y.name) for x in chosen for y in x.configurations if y.is_harmless]
    found = answers([y for x in chosen for y in trials(_stem(x, asked))], harmless)
    for one in found.answers:
        print(_line(one))
    _summary(found)
    write_whole(BUILD / "twins.json", json.dumps([{**asdict(x), "distance": x.distance} for x in found.answers], indent=1))  # fmt: skip
    return EXIT_DONE if found.is_met else EXIT_FAILED_CHECK


def _line(one: Answer) -> str:
    sides = "  ".join(
        f"{x.center:6.3f} ({x.low:.2f}–{x.high:.2f}){' guilty' if x.is_guilty else '       '}"
        for x in (one.original, one.twin)
    )
    kind = "harmless" if one.is_harmless else ""
    return f"{one.database:10} {one.configuration:16} {sides}  twin/original {one.twin.center / one.original.center:.2f} {kind}"


def _summary(found: Answers) -> None:
    print(f"{len(found.answers)} configurations; throughput with / without, on the original and on the twin")  # fmt: skip
    missed = [f"{x.database} {x.configuration}" for x in found.guilty if x not in found.found]
    print(f"guilty on the original: {len(found.guilty)}, on the twin, too: {len(found.found)}{'; missed: ' + ', '.join(missed) if missed else ''}")  # fmt: skip
    invented = [f"{x.database} {x.configuration}" for x in found.only_twin]
    print(f"guilty on the twin only: {', '.join(invented) or 'none'}")
    print(f"harmless ones accused: {len(found.accused(ORIGINAL))} on the original, {len(found.accused(TWIN))} on the twin")  # fmt: skip
    print(f"twin/original at the median: ±{found.median_distance:.1%}")


if __name__ == "__main__":
    sys.exit(main())
