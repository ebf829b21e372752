"""Is there anything that somebody else wrote which makes pgdrag stumble?

    python tests/fuzz --cases 10000 --only twin,journal

Each target gets cases that a fuzzer makes of what it has seen before, guided by the code that they reach: Python's by
Atheris, Rust's by libFuzzer, with the stable compiler. What reached something new is kept in a corpus, from which the
next run goes on. A case that makes a target stumble is written down, and said.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / x) for x in (".", "pure", ".."))

from targets import TARGETS

ROOT = Path(__file__).parents[2]
ONE_TARGET = Path(__file__).with_name("one_target.py")
# Bytes that are sent on are small; a case that takes so long has found an endless loop, or nearly one.
LONGEST_S, MOST_MB = 20, 2_000
TELL_S = 60.0  # between two lines on how far a target is
MEMORY = Path("/dev/shm")
# What cargo-fuzz asks of the compiler, but for its sanitizers: they need another one, and find what safe Rust has not.
COVERAGE = (
    "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    " -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks=yes"
)


@dataclass(frozen=True)
class Rust:
    """A target of a crate."""

    crate: str
    name: str
    longest: int
    seeds: tuple[bytes, ...]

    def command(self, directory: Path) -> list[str]:
        """Build it, and return the program."""
        target = os.environ.get("CARGO_TARGET_DIR") or str(directory / "target")
        place = ROOT / "crates" / self.crate / "fuzz" / "Cargo.toml"
        subprocess.run(
            ["cargo", "build", "--release", "--quiet", "--bin", self.name,
             "--manifest-path", place, "--target", _host(), "--target-dir", target],
            check=True, env={**os.environ, "RUSTFLAGS": COVERAGE},
        )  # fmt: skip
        return [str(Path(target) / _host() / "release" / self.name)]


def _host() -> str:
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return next(x.split()[1] for x in said.splitlines() if x.startswith("host:"))


def _wire_seeds() -> tuple[bytes, ...]:
    def message(kind: bytes, body: bytes) -> bytes:
        return kind + (len(body) + 4).to_bytes(4, "big") + body

    error = message(b"E", b"SERROR\0C40001\0Mcould not serialize\0\0")
    row = message(b"D", b"\0\2\0\0\0\x0242\xff\xff\xff\xff")
    columns = message(b"T", b"\0\1a\0\0\0\0\0\0\0\0\0\0\x17\0\4\xff\xff\xff\xff\0\0")
    scram = message(b"R", b"\0\0\0\nSCRAM-SHA-256\0SCRAM-SHA-256-PLUS\0\0")
    onward = message(b"R", b"\0\0\0\x0br=abc,s=QSXCR+Q6sek8bf92,i=4096")
    return (error, columns + row + message(b"C", b"SELECT 1\0"), scram, onward)


def _job_seeds() -> tuple[bytes, ...]:
    server = '"server":{"host":"/tmp","port":5432,"user":"u","database":"d","password":null,"application_name":"x","connect_timeout_s":5}'
    head = '"contract":2,"die_with_parent":false,"seed":1'
    script = '{"name":"a","text":"\\\\set x random(1, 10)\\nSELECT :x;","weight":1}'
    pgbench = (
        f'"workload":{{"kind":"pgbench","scripts":[{script}],"statements":"prepared","variables":{{"y":1}},'
        '"scale":1,"max_tries":1,"allow_shell":false,"time_statements":true,"clients":[],"tables":null}'
    )
    tpcc = (
        '"workload":{"kind":"tpcc","warehouses":1,"isolation":"read committed","max_tries":3,"statements":"prepared","terminals":"benchbase",'
        '"wait_scale":0,"mix":{"new_order":45,"payment":43,"order_status":4,"delivery":4,"stock_level":4}}'
    )
    run = (
        '"run":{"connections":2,"threads":1,"reconnect":false,"warm_up_s":0,"handshake":true,"duration_s":1,"transactions":null,"min_commits":0,'
        '"budget_s":1,"interval_s":1,"grace_s":1,"pacing":{"kind":"open","rate_per_s":9,"arrivals":"poisson","backlog_limit":5},'
        '"steps":[{"at_s":0,"sessions":1,"rate_per_s":5}],"share":{"index":0,"of":2},"latency_limit_us":null}'
    )
    jobs = (
        f'{{{head},"action":"compile",{server},{pgbench},"run":null,"load":null}}',
        f'{{{head},"action":"run",{server},{tpcc},{run},"load":null}}',
        f'{{{head},"action":"watch",{server},"workload":null,"watch":{{"every_s":0.1,"interval_s":1}}}}',
        '{"type":"measure","at_s":12.5}', '{"type":"clock","id":7}', '{"type":"end","at_s":2}',
    )  # fmt: skip
    return tuple(x.encode() for x in jobs)


_SCRIPTS = (
    b"\\set aid random(1, 100000 * :scale)\nBEGIN;\nUPDATE t SET a = a + :aid WHERE b = :aid;\nEND;\n",
    b"\\set x random_zipfian(1, 10, 1.07)\n\\if :x > 5\nSELECT :x AS a \\gset\n\\else\n\\sleep 10 us\n\\endif\n",
    b"\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT permute(:client_id, 10, 5);\n\\endpipeline\n",
    b"\\set y case when :x is null then hash_fnv1a(1) else (2.5 ^ 1) % 7 end\n-- remark\nSELECT $$;$$, ':y', :y;",
)
RUST = {
    "wire": Rust("pgwire", "server_answers", 4_096, _wire_seeds()),
    "script": Rust("pgbench-script", "script", 4_096, _SCRIPTS),
    "caller-lines": Rust("pgdrag-driver", "caller_lines", 8_192, _job_seeds()),
}


@dataclass(frozen=True)
class Found:
    """What came of one target.

    Attributes:
        reached: counters of code that some case reached.
        words: the end of what it wrote, where it stumbled.
    """

    name: str
    cases: int
    reached: int
    kept: int
    took_s: float
    words: str = ""


def fuzz(name: str, cases: int, longest_s: float, place: Path) -> Found:
    """Feed a target with so many cases, or for so long."""
    corpus, stumbled = place / "corpus" / name, place / "stumbled" / name
    for each in (corpus, stumbled):
        each.mkdir(parents=True, exist_ok=True)
    target = RUST.get(name) or TARGETS[name]
    seeds = target.seeds if isinstance(target, Rust) else tuple(target.seeds())
    for number, content in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(content)
    shipped = Path(__file__).with_name("corpus") / name
    command = target.command(place) if isinstance(target, Rust) else [sys.executable, str(ONE_TARGET), name]  # fmt: skip
    command += [
        str(corpus), *([str(shipped)] if shipped.is_dir() else []), f"-runs={cases}", f"-max_total_time={longest_s:.0f}",
        f"-max_len={target.longest}", f"-timeout={LONGEST_S}", f"-rss_limit_mb={MOST_MB}", f"-artifact_prefix={stumbled}/",
        "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    began_s = time.monotonic()
    # libFuzzer ends its process without leave, so what a target writes is removed here.
    with tempfile.TemporaryDirectory(
        prefix="pgdrag-fuzz-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None
    ) as files:
        status, said = _watch(
            command,
            {**os.environ, "TMPDIR": files},
            lambda said: print(
                f"{name:16} {_cases(said):>10,} of {cases:,} cases or more after {time.monotonic() - began_s:.0f} s",
                flush=True,
            ),
        )
    reached = re.findall(r"(?:cov|ft): (\d+)", said)
    words = "" if status == 0 else f"{shlex.join(command)}\n{said[-4_000:]}"
    return Found(
        name,
        _cases(said),
        int(reached[-1]) if reached else 0,
        len(list(corpus.iterdir())),
        time.monotonic() - began_s,
        words,
    )


def _watch(
    command: list[str], environment: dict[str, str], tell: Callable[[str], None]
) -> tuple[int, str]:
    """Run a program, tell now and then what it has written, and return its status and all that it wrote."""
    with tempfile.TemporaryFile() as written:

        def said() -> str:
            # The program writes where this file stands, so that stays as it is.
            return os.pread(written.fileno(), os.fstat(written.fileno()).st_size, 0).decode(errors="replace")  # fmt: skip

        with subprocess.Popen(command, stdout=written, stderr=written, env=environment) as process:
            while True:
                try:
                    return process.wait(TELL_S), said()
                except subprocess.TimeoutExpired:
                    tell(said())


def _cases(said: str) -> int:
    """Return how many cases a fuzzer has run: it says so as it doubles and, but for Atheris ended before, at its end."""
    ran = re.findall(r"(?:stat::number_of_executed_units: *|Done |^#)(\d+)", said, re.MULTILINE)
    return int(ran[-1]) if ran else 0


def main() -> int:
    """Feed the targets asked for; 1: one stumbled."""
    names = [*TARGETS, *RUST]
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="of each target (default: 20000)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for each, at most (default: an hour)")  # fmt: skip
    parser.add_argument("--only", default="", help=f"targets, of {', '.join(names)}")
    parser.add_argument("--jobs", type=int, default=2, help="targets at the same time (default: 2)")
    parser.add_argument("--place", type=Path, default=ROOT / "build" / "fuzz", help="where corpora are kept (default: build/fuzz)")  # fmt: skip
    options = parser.parse_args()
    only = [x for x in options.only.split(",") if x]
    if unknown := set(only) - set(names):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    found = []
    with ThreadPoolExecutor(options.jobs) as pool:
        wanted = [x for x in names if not only or x in only]
        for one in pool.map(
            lambda x: fuzz(x, options.cases, options.seconds, options.place), wanted
        ):
            found.append(one)
            print(
                f"{one.name:16} {one.cases:>10,} cases in {one.took_s:6.0f} s, {one.kept:>5} kept, coverage {one.reached:>6}"
                f"{', STUMBLED:' if one.words else ''}",
                flush=True,
            )
            if one.words:
                print(one.words, flush=True)
    print(
        f"{sum(x.cases for x in found):,} cases of {len(found)} targets, {sum(bool(x.words) for x in found)} stumbled"
    )
    return int(any(x.words for x in found))


if __name__ == "__main__":
    sys.exit(main())
