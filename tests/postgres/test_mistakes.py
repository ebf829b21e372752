"""The mistakes that people make most, and what is said: the table tests/golden/mistakes.txt.

Each command runs as a person types it, in a directory with a few files, while another pgdrag measures on
this machine: nothing has to wait for that which would fail anyway. Each must end with 2 and print nothing
on standard output; what it says on standard error must say what is wrong, where, and what to do.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import pgdrag
from analysis_runs import result, run_of, rung
from pgdrag.cli import run_command
from pgdrag.cli.ending import status_of
from pgdrag.cli.place import open_journal
from pgdrag.host.machine import this_host
from pgdrag.host.machine_lock import measuring_alone
from pgdrag.servers.binaries import Binaries, find_binaries
from pgdrag.servers.scratch import Scratch

GOLDEN = Path(__file__).parents[1] / "golden" / "mistakes.txt"
FILES = {
    "old.conf": "work_mem = 4MB\nshared_buffers = 64MB\n",
    "new.conf": "work_mem = 16MB\nshared_buffers = 128MB\n",
    "typo.conf": "work_mem = 16MB\nshared_bufers = 1GB\n",
    "broken.conf": "work_mem = '16MB\n",
    "empty.conf": "# nothing yet\n",
    "notes.txt": "Dear all, the database is slow again.\n",
    "photo.png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "mine.toml": 'pgdrag = 1\nname = "mine"\n[workload]\nkind = "pgbench"\n[[rungs]]\nname = "M1"\n'
    'setting = { work_mem = "1MB" }\n[scales.small]\n',
    "key.toml": 'pgdrag = 1\nname = "key"\n[workload]\nkind = "tpcc"\nterminals = 10\n[scales.s]\n',
    "syntax.toml": "pgdrag = 1\nname = mine\n",
    "confs/a.conf": "work_mem = 8MB\n",
    "script.toml": 'pgdrag = 1\nname = "script"\n[workload]\nkind = "pgbench"\nscripts = ["bad.sql"]\n'
    '[[rungs]]\nname = "M1"\nsetting = { work_mem = "1MB" }\n[scales.small]\n',
    "bad.sql": "\\set n random(1, 10\nSELECT :n;\n",
    "torn.twin": "\x1f\x8b\b\0\0\0\0\0\2\xff",
    "lab.toml": "local = 2\n",
    "none.toml": 'lease = "5s"\n',
    "odd.toml": 'local = 2\nlease = "soon"\n',
    "word.toml": 'local = 2\nhosts = ["db1"]\n',
    "ticket": "not a ticket",
    "empty.sql": "",
    "foreign.log": "2026-11-27 12:00:00 UTC host kernel: eth0 up\n",
}
# By subject, as they are in the golden.
MISTAKES = {
    "Commands and options": """
        pgdrag rum slow-42k
        pgdrag comapre old.conf new.conf
        pgdrag help
        pgdrag -v
        pgdrag tpcc lod --warehouses 10
        pgdrag horizon kill
        pgdrag run
        pgdrag compare old.conf
        pgdrag bisect
        pgdrag compare old.conf new.conf third.conf
        pgdrag calibrate --fleet lab.toml
        pgdrag compare old.conf new.conf -T 60
        pgdrag compare old.conf new.conf --duration 60
        pgdrag compare old.conf new.conf --clients 8
        pgdrag compare old.conf new.conf -s 10
        pgdrag compare old.conf new.conf -h db1
        pgdrag compare old.conf new.conf --runs 5
        pgdrag compare old.conf new.conf --warmup 5
        pgdrag compare old.conf new.conf --workload
        pgdrag compare old.conf new.conf --json=yes
        pgdrag compare old.conf new.conf --warehouses ten
        pgdrag compare old.conf new.conf --warehouses 0
        pgdrag compare old.conf new.conf --connections -8
        pgdrag compare old.conf new.conf --measure 30s
        pgdrag compare old.conf new.conf --confidence 95
        pgdrag run slow-42k --seed abc
        pgdrag run slow-42k --replicates 0
        pgdrag report last --format pdf
        pgdrag bench -M prepard shop
        pgdrag list experiments
        pgdrag completions tcsh
    """,
    "Arms": """
        pgdrag compare old.conf nwe.conf
        pgdrag compare old.conf confs/b.conf
        pgdrag compare old.conf ~/no-such-directory/new.conf
        pgdrag compare old.conf confs
        pgdrag compare old.conf ''
        pgdrag compare old.conf notes.txt
        pgdrag compare old.conf photo.png
        pgdrag compare old.conf empty.conf
        pgdrag compare old.conf broken.conf
        pgdrag compare old.conf typo.conf
        pgdrag compare old.conf old.conf
        pgdrag compare default default
        pgdrag compare default work_mem=4MB
        pgdrag compare default work_mem = 64MB
        pgdrag compare default work_mem
        pgdrag compare default work_mem:64MB
        pgdrag compare default wrok_mem=64MB
        pgdrag compare default work_mem=64MG
        pgdrag compare default work_mem=64mb
        pgdrag compare default work_mem=64%
        pgdrag compare default work_mem=8MB,work_mem=9MB
        pgdrag compare default shared_buffers=64kB
        pgdrag compare default shared_buffers=100TB
        pgdrag compare default random_page_cost=low
        pgdrag compare default jit=maybe
        pgdrag compare default wal_level=logicl
        pgdrag compare default server_version=17
        pgdrag compare 17 18
        pgdrag compare default 12
        pgdrag compare default 99
        pgdrag compare 18 slow-42k:A9
        pgdrag compare default slow-42
        pgdrag compare default missing.toml
        pgdrag ablate default
        pgdrag ablate nwe.conf
        pgdrag bisect old.conf old.conf
        pgdrag boundary shared_bufers
        pgdrag boundary fsync
        pgdrag boundary shared_buffers --min 1GB --max 1MB
        pgdrag boundary shared_buffers --max lots
        pgdrag boundary shared_buffers --max 10TB
        pgdrag boundary work_mem --ratio 1
        pgdrag boundary shared_buffers=1GB
        pgdrag search
        pgdrag search --maximize --minimize
        pgdrag search --maximize --objective speed
        pgdrag search --maximize --settings work_mem,shared_bufers
        pgdrag search --maximize --settings fsync
        pgdrag search --maximize --settings shared_buffers --no-restart
        pgdrag search --maximize --commit-within soon
        pgdrag search --maximize --trials 2
    """,
    "Workload, time and answer": """
        pgdrag compare old.conf new.conf --workload tpch
        pgdrag compare old.conf new.conf --workload pgbench --warehouses 10
        pgdrag compare old.conf new.conf -b slect-only
        pgdrag compare old.conf new.conf -f missing.sql
        pgdrag compare old.conf new.conf --scale demo
        pgdrag compare old.conf new.conf --experiment slow-42
        pgdrag compare old.conf new.conf --experiment slow-42k --warehouses 10
        pgdrag compare old.conf new.conf --budget soon
        pgdrag compare old.conf new.conf --budget -5min
        pgdrag compare old.conf new.conf --budget 0
        pgdrag compare old.conf new.conf --budget 2x
        pgdrag compare old.conf new.conf --measure 60 --window-budget 30
        pgdrag compare old.conf new.conf --fail-if-slower %
        pgdrag compare old.conf new.conf --fail-if-slower three
        pgdrag compare old.conf new.conf --fail-if-slower 3
        pgdrag compare old.conf new.conf --equivalence -2%
        pgdrag compare old.conf new.conf --html confs
        pgdrag compare old.conf new.conf --html old.conf/report.html
        pgdrag compare old.conf new.conf --postgres 12
        pgdrag compare old.conf new.conf --postgres latest
        pgdrag compare old.conf new.conf --postgres confs
    """,
    "Experiments": """
        pgdrag run slow42k
        pgdrag run missing.toml
        pgdrag run confs
        pgdrag run new.conf
        pgdrag run syntax.toml
        pgdrag run key.toml
        pgdrag run slow-42k --scale big
        pgdrag run mine.toml --postgres 99
        pgdrag check
        pgdrag check nwe.conf
        pgdrag check nosuch
    """,
    "Runs": """
        pgdrag show
        pgdrag show yesterday
        pgdrag show demo-2026
        pgdrag resume yesterday
        pgdrag explain last A9
        pgdrag explain last 99
        pgdrag report yesterday
        pgdrag report last --output confs
        pgdrag resume last --budget 1s
    """,
    "Servers": """
        pgdrag bench
        pgdrag bench -c 0 shop
        pgdrag bench -c 2.5 shop
        pgdrag bench -T -5 shop
        pgdrag bench -i -c 4 shop
        pgdrag bench -f missing.sql shop
        pgdrag bench -f bad.sql shop
        pgdrag bench -b slect-only shop
        pgdrag bench -D n shop
        pgdrag bench -t 100 -T 60 shop
        pgdrag bench --sessions 5-9/1min shop
        pgdrag bench --random-seed lucky shop
        pgdrag bench -d shop store
        pgdrag bench -p 99999 shop
        pgdrag bench --throw-away shop
        pgdrag bench --throw-away --postgres 99
        pgdrag bench hots=db1
        pgdrag bench postgresql://me:hush%zz@db1/shop
        pgdrag bench host=/nowhere
        pgdrag bench 'host=127.0.0.1 port=1'
        pgdrag bench 'host=/nowhere sslmode=verify'
        pgdrag tpcc load shop
        pgdrag tpcc load --warehouses 10
        pgdrag tpcc load --warehouses 0 shop
        pgdrag tpcc run --isolation serialisable shop
        pgdrag tpcc check
        pgdrag horizon show
        pgdrag horizon hold --for ten shop
        pgdrag horizon hold --for 2d shop
        pgdrag horizon hold --kind slot shop
        pgdrag capture horizon --for 1s --every 1s shop
        pgdrag capture horizon --output confs shop
        pgdrag capture horizon --output missing/holds.toml shop
        pgdrag fetch
        pgdrag fetch 12
        pgdrag fetch latest
        pgdrag restore --force
    """,
    "Places": """
        pgdrag run mine.toml
        PGDRAG_SCRATCH=old.conf pgdrag compare default work_mem=8MB
        PGDRAG_HOME=old.conf pgdrag show last
        PGDRAG_HOME=/proc/nowhere pgdrag runs
        PGDRAG_DRIVER=old.conf pgdrag compare default work_mem=8MB
    """,
    "Live servers and recordings": """
        pgdrag doctor
        pgdrag doctor 'host=127.0.0.1 port=1'
        pgdrag doctor --for soon shop
        pgdrag doctor --for 0s shop
        pgdrag doctor --since missing.obs shop
        pgdrag doctor --since notes.txt shop
        pgdrag doctor shop --json=yes
        pgdrag doctor nwe.conf
        pgdrag doctor broken.conf
        pgdrag doctor new.conf --for 10s
        pgdrag doctor confs
        pgdrag doctor host=/nowhere user=me
        pgdrag observe
        pgdrag observe --every 0 shop
        pgdrag observe --every 1d --for 1s shop
        pgdrag observe --for ten shop
        pgdrag observe --out confs shop
        pgdrag observe --out missing/x.obs shop
        pgdrag observe --out notes.txt --append shop
        pgdrag observe --out notes.txt shop
        pgdrag observe --size 1 shop
        pgdrag observe --size many shop
        pgdrag observations
        pgdrag observations missing.obs
        pgdrag observations notes.txt
        pgdrag observations photo.png
        pgdrag observations confs
        pgdrag observations notes.txt --from yesterday
        pgdrag observations notes.txt --format pdf
        pgdrag observe notes.txt
        pgdrag observe --for -1h shop
        pgdrag observe -o shop
        pgdrag doctor .
        pgdrag doctor notes.txt
        pgdrag doctor new.conf old.conf
        pgdrag doctor --since confs shop
        pgdrag doctor --since shop
        pgdrag horizon show notes.txt
        pgdrag restore new.conf
        pgdrag restore nosuch://x
        pgdrag bench new.conf
        pgdrag bench ./confs
    """,
    "Configurations": """
        pgdrag conf show new.conf
        pgdrag conf explain
        pgdrag conf explain nwe.conf
        pgdrag conf explain photo.png
        pgdrag conf explain broken.conf
        pgdrag conf explain new.conf --postgres 12
        pgdrag conf lint confs
        pgdrag conf diff new.conf
        pgdrag conf diff old.conf nwe.conf
        pgdrag conf diff old.conf postgresql://me:hush%zz@db1/shop
        pgdrag check broken.conf
        pgdrag schema nosuch
        pgdrag schema runs show
    """,
    "Twins and plans": """
        pgdrag capture twin
        pgdrag capture twin --output confs shop
        pgdrag capture twin --output missing/x.twin shop
        pgdrag capture twin --for never shop
        pgdrag capture twin --log missing.log shop
        pgdrag capture twin shop --log old.conf new.conf
        pgdrag capture twin --whole-log shop
        pgdrag twin show
        pgdrag twin show missing.twin
        pgdrag twin show notes.txt
        pgdrag twin show torn.twin
        pgdrag twin show confs
        pgdrag twin show torn.twin --part nosuch
        pgdrag twin check missing.twin
        pgdrag twin check torn.twin
        pgdrag plans
        pgdrag plans missing.twin new.conf
        pgdrag plans torn.twin new.conf
        pgdrag compare old.conf new.conf --workload missing.twin
        pgdrag compare old.conf new.conf --workload torn.twin
        pgdrag compare old.conf new.conf --workload twin
        pgdrag compare old.conf new.conf --twin-scale 0.1
        pgdrag compare old.conf new.conf --workload new.conf
        pgdrag capture shop
        pgdrag capture twin torn.twin
        pgdrag twin list
        pgdrag twin check torn.twin --scale 2
        pgdrag twin check torn.twin --for 1s
        pgdrag plans torn.twin
        pgdrag plans new.conf torn.twin
        pgdrag plans torn.twin --version 15
    """,
    "Fleets, pages and history": """
        pgdrag fleet check
        pgdrag fleet check missing.toml
        pgdrag fleet check notes.txt
        pgdrag fleet check none.toml
        pgdrag fleet check odd.toml
        pgdrag fleet check word.toml
        pgdrag fleet check lab.toml --install missing.whl
        pgdrag fleet join
        pgdrag fleet join missing.ticket
        pgdrag fleet join ticket
        pgdrag run mine.toml --fleet missing.toml
        pgdrag run mine.toml --fleet odd.toml
        pgdrag run mine.toml --fleet lab.toml --dsn shop
        pgdrag resume last --fleet missing.toml
        pgdrag serve --port 99999
        pgdrag serve --port http
        pgdrag serve 8080
        pgdrag history
        pgdrag history nosuch
        pgdrag history demo --scale big
        pgdrag history demo --ratio A9
        pgdrag history demo --runs 1
        pgdrag rm
        pgdrag rm yesterday
        pgdrag search work_mem=2MB --maximize --settings nosuch
        pgdrag search old.conf new.conf --maximize
        pgdrag search --maximize --clusters 1
        pgdrag search maximize
        pgdrag search --maximize --settings ''
        pgdrag search --maximize --settings work_mem=8MB
        pgdrag search --minimize --objective latency
        pgdrag history missing.toml
        pgdrag history demo --html confs
        pgdrag history demo --from yesterday
        pgdrag report last yesterday
        pgdrag report last --format comment --link notaurl
        pgdrag rm last yesterday
        pgdrag fleet list
        pgdrag fleet check confs
        pgdrag run mine.toml --fleet lab.toml --generators 2
        pgdrag serve --host 0.0.0.0
        pgdrag compare old.conf new.conf --dsn new.conf
        pgdrag compare old.conf new.conf --allow-change restart
        pgdrag compare old.conf new.conf --restart-command 'pg_ctl restart'
        pgdrag compare old.conf new.conf --generators ''
        pgdrag compare old.conf new.conf --generators load-a
        pgdrag bench --generators 0 shop
        pgdrag bench --generators 3.5 shop
        pgdrag bench --generators notes.txt shop
        pgdrag bench --generators missing.toml shop
    """,
    "Before anything is connected to, started or loaded": """
        pgdrag capture twin --log notes.txt shop
        pgdrag capture twin --log photo.png shop
        pgdrag capture twin --log foreign.log shop
        pgdrag capture twin --log old.conf --whole-log shop
        pgdrag bench -f notes.txt shop
        pgdrag bench --throw-away -f notes.txt
        pgdrag bench -f empty.sql shop
        pgdrag bench -f confs shop
        pgdrag bench -f photo.png shop
        pgdrag bench --html confs --throw-away
        pgdrag bench --html old.conf/r.html shop
        pgdrag tpcc run --html confs shop
        pgdrag compare old.conf new.conf -f notes.txt
        pgdrag compare old.conf new.conf -f bad.sql
        pgdrag compare old.conf new.conf --allow-change nosuch
        pgdrag compare old.conf new.conf --allow-change workmem
        pgdrag run mine.toml --allow-change nosuch
        pgdrag run mine.toml --allow-change restart
        pgdrag run mine.toml --dsn shop --restart-command true
        pgdrag run mine.toml --only M9
        pgdrag check mine.toml --allow-change setings
        pgdrag search --maximize --allow-change nosuch
        pgdrag resume last --allow-change nosuch
        pgdrag resume last --dsn shop
        pgdrag compare default mine.toml:
        pgdrag compare default mine.toml:M9
        pgdrag compare default /etc/passwd
        pgdrag run mine.toml --fleet photo.png
        pgdrag fleet check photo.png
        pgdrag fleet join photo.png
        pgdrag fleet join confs
        pgdrag horizon hold --for -5s shop
        pgdrag observe --size -1MB shop
        pgdrag observe --out photo.png --append shop
        pgdrag restore mine.toml
        pgdrag fetch 9.6
        pgdrag boundary work_mem --max 1kB
        pgdrag conf explain old.conf --postgres nosuch
        pgdrag claims nosuch
        PGSERVICE=nosuch pgdrag doctor
        PGSSLMODE=nosuch pgdrag observe shop
    """,
    "A variable of the shell that is not set": """
        pgdrag rm ''
        pgdrag show ''
        pgdrag resume ''
        pgdrag report ''
        pgdrag report last --output ''
        pgdrag history ''
        pgdrag history demo --html ''
        pgdrag compare '' ''
        pgdrag compare old.conf new.conf --html=
        pgdrag compare old.conf new.conf --dsn ''
        pgdrag compare old.conf new.conf --allow-change ''
        pgdrag compare old.conf new.conf --workload ''
        pgdrag compare old.conf new.conf --common ''
        pgdrag compare old.conf new.conf --experiment ''
        pgdrag run ''
        pgdrag run mine.toml --scale ''
        pgdrag claims ''
        pgdrag bench --sessions '' shop
        pgdrag ablate new.conf --against ''
        pgdrag search --maximize --objective ''
        pgdrag explain last ''
        pgdrag boundary work_mem --min ''
        pgdrag bench ''
        pgdrag bench -f '' shop
        pgdrag doctor ''
        pgdrag observe ''
        pgdrag observe --out '' shop
        pgdrag observations ''
        pgdrag horizon show ''
        pgdrag restore ''
        pgdrag capture twin ''
        pgdrag capture twin -o '' shop
        pgdrag capture twin --log '' shop
        pgdrag twin show ''
        pgdrag plans '' new.conf
        pgdrag fleet check ''
        pgdrag fleet join ''
        pgdrag fetch ''
        pgdrag schema ''
        pgdrag serve --port ''
        pgdrag check ''
        pgdrag conf explain ''
    """,
    "Values out of range, and options that do not go together": """
        pgdrag compare old.conf new.conf --max-pairs 3
        pgdrag compare old.conf new.conf --precision 0
        pgdrag compare old.conf new.conf --precision 200%
        pgdrag compare old.conf new.conf --fail-if-slower -3%
        pgdrag compare old.conf new.conf --equivalence nan%
        pgdrag compare old.conf new.conf --confidence nan
        pgdrag compare old.conf new.conf --measure inf
        pgdrag compare old.conf new.conf --budget 1e400h
        pgdrag compare old.conf new.conf --connections 20000
        pgdrag compare old.conf new.conf --generators 200
        pgdrag compare old.conf new.conf --common typo.conf
        pgdrag compare old.conf new.conf --with-defaults-of 12
        pgdrag compare old.conf new.conf --with-defaults-of new.conf
        pgdrag compare old.conf new.conf --workload pgbench -b tpcb-like@0
        pgdrag compare old.conf new.conf --workload pgbench -b tpcb-like@many
        pgdrag compare old.conf new.conf --workload tpcc -b tpcb-like
        pgdrag compare old.conf new.conf --workload command
        pgdrag compare old.conf new.conf --fleet lab.toml --dsn shop
        pgdrag compare old.conf new.conf --dsn shop --postgres 18
        pgdrag compare old.conf,new.conf default
        pgdrag compare HEAD~1 HEAD
        pgdrag compare PG17 PG18
        pgdrag compare default 'work_mem=8MB;jit=off'
        pgdrag compare default shared_buffers=25%
        pgdrag compare default effective_cache_size=-1
        pgdrag compare default listen_addresses=*
        pgdrag compare default :A1
        pgdrag ablate new.conf --against nwe.conf
        pgdrag ablate new.conf --against new.conf
        pgdrag ablate new.conf --threshold 5
        pgdrag ablate new.conf --threshold 0%
        pgdrag ablate new.conf --precision 0
        pgdrag ablate new.conf --max-trials 1
        pgdrag ablate empty.conf
        pgdrag bisect old.conf new.conf --share 2
        pgdrag bisect old.conf new.conf --share 0%
        pgdrag bisect old.conf new.conf --max-trials 5
        pgdrag screen empty.conf
        pgdrag boundary
        pgdrag boundary jit
        pgdrag boundary work_mem --min 4MB --max 4MB
        pgdrag boundary work_mem --base nwe.conf
        pgdrag boundary work_mem --ratio nan
        pgdrag search --maximise
        pgdrag search --maximize --settings work_mem,,jit
        pgdrag search --minimize --memory-ceiling lots
        pgdrag search --minimize --recovery-within -1s
        pgdrag search --minimize --commit-within 1ms
        pgdrag search --list-space
        pgdrag calibrate --pairs 2
        pgdrag calibrate nwe.conf
        pgdrag run slow-42k --only A0
        pgdrag run slow-42k tpcb
        pgdrag resume last --wait=-5
        pgdrag resume last --seed 3
        pgdrag fleet run lab.toml
        pgdrag fleet check lab.toml --install notes.txt
        pgdrag history demo --treatment A9
        pgdrag history demo --ratio --treatment A0
        pgdrag claims missing.toml
        pgdrag report last last
        pgdrag report last --format conf
        pgdrag report last --format HTML
        pgdrag report last --format csv --output notes.txt
        pgdrag report last --json
        pgdrag serve last
        pgdrag rm '*'
        pgdrag rm last --yes=no
        pgdrag conf lint 18
        pgdrag conf explain work_mem
        pgdrag bench -R 100/s shop
        pgdrag bench -T nan shop
        pgdrag bench -D 1a=5 shop
        pgdrag bench -b tpcb-like@-1 shop
        pgdrag bench --arrivals poison -R 10 shop
        pgdrag bench --sessions 0..2/60s shop
        pgdrag bench --sessions 5..22 shop
        pgdrag bench --sessions 1..4/10s -T 5 shop
        pgdrag bench --partitions 4 shop
        pgdrag bench -i -I xyz shop
        pgdrag bench -i -f bad.sql shop
        pgdrag bench -i --partition-method hash shop
        pgdrag bench --throw-away -h db1
        pgdrag bench --throw-away -i
        pgdrag bench mysql://db1/shop
        pgdrag tpcc run --wait-scale 1 -R 5 shop
        pgdrag tpcc run --statements fast shop
        pgdrag tpcc drop shop
        pgdrag doctor --postgres 15 shop
        pgdrag doctor --since notes.txt new.conf
        pgdrag doctor jdbc:postgresql://db1/shop
        pgdrag doctor db1:5432
        pgdrag doctor me:hush@db1.example:6432/shop
        pgdrag compare old.conf new.conf --dsn localhost:5432
        pgdrag run script.toml
        pgdrag check script.toml
        pgdrag compare old.conf new.conf --experiment script.toml
        pgdrag horizon hold --kind holder shop
        pgdrag observe --every 10ms shop
        pgdrag observe --size 1GB50 shop
        pgdrag capture horizon --every 2h shop
        pgdrag capture twin --for 30d shop
        pgdrag twin show torn.twin --scan
        pgdrag twin check torn.twin --scale 0
        pgdrag fetch v16
        pgdrag fetch 16 nosuch
        pgdrag schema compare.json
        pgdrag clean --wait=often
        pgdrag completions
        pgdrag -h
        pgdrag --json runs
        PGPORT=abc pgdrag doctor
    """,
}


@pytest.fixture
def desk(
    no_libpq_environment: None,
    tmp_path: Path,
    scratch: Scratch,
    binaries: Binaries,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A directory with a few files, a journal with a run, and another pgdrag that measures."""
    # With an undo journal of its own: each command would try again to undo what this machine's has.
    places = {"PGDRAG_SCRATCH": scratch.root, "PGDRAG_HOME": tmp_path / "home", "PGDRAG_UNDO": tmp_path / "undo"}  # fmt: skip
    machine = {"PGDRAG_MACHINE": f"mistakes-{os.getpid()}", "COLUMNS": "100", "HOME": tmp_path}
    for name, value in (places | machine).items():
        monkeypatch.setenv(name, str(value))
    embedded = find_binaries(None)
    monkeypatch.setattr("pgdrag.servers.binaries.available_binaries", lambda: [embedded])
    monkeypatch.setattr("pgdrag.driver.connect_errors.SOCKET_DIRECTORIES", ())
    desk = tmp_path / "desk"
    for name, text in FILES.items():
        path = desk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="latin-1")
    monkeypatch.chdir(desk)
    _record_runs(scratch.root, embedded.version)
    with measuring_alone():
        yield desk


def _record_runs(scratch: Path, version: str) -> None:
    """Put two runs into the journal, of which one has a trial."""
    record = run_of([rung("A0", 1000), rung("A1", 100)], [])
    journal, here = open_journal(), this_host(scratch)
    for _ in range(2):
        run_id = journal.begin_run(
            replace(record.study, name="demo"),
            here,
            server_wanted=None,
            server_version=version,
            pgdrag_version=pgdrag.__version__,
            seed=1,
        )
    measured = replace(result("A0", 60_000), phases_s={"measure": 60.0})
    journal.plan_trials(run_id, [measured.trial])
    journal.end_attempt(run_id, journal.begin_attempt(run_id, measured.trial.number), measured)
    journal.set_status(run_id, "interrupted")


def test_each_mistake_is_answered_as_in_the_table(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, wrong, embedded = [], [], find_binaries(None)
    for subject, lines in MISTAKES.items():
        answers.append(f"\n# {subject}\n")
        for line in lines.split("\n"):
            if not line.strip():
                continue
            words = shlex.split(line.strip())
            with monkeypatch.context() as changed:
                while "=" in words[0]:
                    changed.setenv(*words.pop(0).split("=", 1))
                changed.setattr(sys, "argv", [os.path.expanduser(x) for x in words])  # noqa: PTH111
                status = status_of(run_command)
            out, err = capsys.readouterr()
            # An estimate may come before it.
            told = err[max(err.find("error: "), 0) :]
            if (status, out) != (2, "") or not told.startswith("error: ") or "hush" in err:
                wrong.append(f"{line.strip()}: {status}, {out!r}, {err!r}")
            answers.append(f"\n$ {line.strip()}\n{_anywhere(told, desk, embedded)}")
    found = "".join(answers).lstrip()
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert wrong == []
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_there_are_four_hundred_of_them() -> None:
    assert sum(line.strip() != "" for x in MISTAKES.values() for line in x.split("\n")) >= 400


def _anywhere(text: str, desk: Path, embedded: Binaries) -> str:
    """Return what was said without what differs from machine to machine."""
    text = text.replace(str(desk), "/desk").replace(str(desk.parent), "/home/me")
    text = text.replace(str(embedded.bin_dir), "/embedded/bin").replace(embedded.version, "18.6")
    text = re.sub(r"demo-\d{8}-\d{4}", "demo-20260101-1200", text)
    text = re.sub(r"/var/tmp/pgdrag-test-[^/]*/session", "/scratch", text)
    return re.sub(r"\(process \d+\)|user \d+", lambda x: re.sub(r"\d+", "1000", x[0]), text)


LONG = """
    pgdrag compare default {}
    pgdrag compare default work_mem={}
    pgdrag run {}
    pgdrag check {}
    pgdrag doctor {}
    pgdrag conf lint {}
    pgdrag observe --out {} shop
    pgdrag report last --output {}
    pgdrag compare old.conf new.conf --postgres {}
    pgdrag compare old.conf new.conf -f {}
    pgdrag search --maximize --settings {}
    pgdrag bench --generators {} shop
"""


def test_what_is_longer_than_the_name_of_a_file_is_refused_in_words(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = ",".join(f"no_setting_{x}=1" for x in range(30))
    for line in [*LONG.strip().splitlines(), f"pgdrag compare default {pairs}"]:
        monkeypatch.setattr(sys, "argv", line.format("x" * 300).split())
        status = status_of(run_command)
        out, err = capsys.readouterr()
        assert (status, out) == (2, ""), line
        assert err.startswith("error: "), line
