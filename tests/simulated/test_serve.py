"""`pgdrag serve` over runs of the simulated laboratory: who gets an answer, what the pages show, and how much they read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from in_process import pgdrag
from pgdrag.cli.findings import findings_of
from pgdrag.journal import Journal, live_file
from pgdrag.journal.live_file import LiveReader
from pgdrag.model.events import (
    Listener,
    PhaseStarted,
    Sampled,
    TimeLeft,
    TrialStarted,
)
from pgdrag.model.program import Program
from pgdrag.model.recordings import Series
from pgdrag.report.html import render_html
from pgdrag.serve.server import PageServer
from pgdrag.serve.starting import Planned, Wanted, needed_programs, planned
from pgdrag.serve.watching import Watcher
from pgdrag.testing.simulated import begin_simulated, simulated_ladder
from served import Client, journal_of_its_own, run_simulated, run_under_way, second, serving

NEVER = "nobody-knows"
# Of SQLite, for each further run: a search reads its study, all else no more than its name.
MOST_STEPS_OF_SEARCH, MOST_STEPS = 40, 20


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    with journal_of_its_own(tmp_path, monkeypatch) as journal:
        yield journal


@pytest.fixture
def client(journal: Journal) -> Iterator[Client]:
    with serving(journal) as client:
        yield client


@pytest.fixture
def under_way(journal: Journal) -> Iterator[tuple[str, Listener]]:
    with run_under_way(journal) as found:
        yield found


# --- who gets an answer ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Cookie": ""}, 401),
        ({"Cookie": "pgdrag=guessed"}, 401),
        ({"Cookie": "pgdrag=é;;=\x7f"}, 401),
        ({"Host": "attacker.example"}, 421),
        ({"Host": "127.0.0.1.attacker.example:80"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:9000"}, 200),  # through ssh -L
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "none"}, 200),
    ],
)
def test_only_a_browser_of_this_machine_that_had_the_token_gets_a_page(
    client: Client, headers: dict[str, str], status: int
) -> None:
    found, text, _ = client.ask(client.server.root, **headers)
    assert found == status
    assert ("Runs" in text) == (status == 200)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),  # there is no such run
        ({"Cookie": ""}, 401),
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Content_Length": "100000000"}, 400),
        ({"Content_Length": "-1"}, 400),
    ],
)
def test_a_form_of_another_page_does_nothing(
    client: Client, headers: dict[str, str], status: int
) -> None:
    path = f"{client.server.root}stop"
    assert client.ask(path, method="POST", form={"run": NEVER}, **headers)[0] == status


def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_path_gets(
    client: Client,
) -> None:
    path = f"{client.server.root}enter"
    wrong = client.ask(path, method="POST", form={"token": "guessed"}, Cookie="")
    assert (wrong[0], wrong[2].get("Set-Cookie")) == (403, None)
    status, _, headers = client.ask(
        path, method="POST", form={"token": client.server.token}, Cookie=""
    )
    assert status == 204
    assert headers["Set-Cookie"] == (
        f"pgdrag={client.server.token}; Path={client.server.root}; HttpOnly; SameSite=Strict"
    )
    assert client.server.url.endswith(f"{client.server.root}#{client.server.token}")


@pytest.mark.parametrize("path", ["/", "/x/", "/../../etc/passwd", "//etc/passwd"])
def test_nothing_is_served_beside_the_pages(client: Client, path: str) -> None:
    assert client.ask(path)[:2] == (404, "")


@pytest.mark.parametrize(
    "path",
    ["report/..%2F..%2Fjournal.sqlite", "report/nope", "run/nope", "reports", "report/", "run/a/b"],
)
def test_what_is_no_run_is_not_found(client: Client, path: str) -> None:
    page = client.page(path, status=404)
    assert "does not exist" in page or "no such page" in page


def test_each_page_lets_run_only_its_own_scripts(client: Client, journal: Journal) -> None:
    run_id = run_simulated(journal)
    for path in ("", "start", f"report/{run_id}", "nope"):
        _, _, headers = client.ask(f"{client.server.root}{path}")
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert ("'unsafe-inline'" in policy.partition("script-src")[2]) == path.startswith("report")


def test_too_many_fields_are_refused(client: Client) -> None:
    many = "&".join(f"q={x}" for x in range(200))
    assert client.ask(f"{client.server.root}?{many}")[0] == 400


# --- past runs ---------------------------------------------------------------------------------


def test_a_finished_run_shows_the_page_that_is_saved(client: Client, journal: Journal) -> None:
    run_id = run_simulated(journal)
    status, _, headers = client.ask(f"{client.server.root}run/{run_id}")
    assert (status, headers["Location"]) == (303, f"{client.server.root}report/{run_id}")
    expected = render_html(findings_of(journal.run(run_id), journal))
    assert client.page(f"report/{run_id}") == expected
    saved = journal.path.parent / "reports" / f"{run_id}.html"
    saved.parent.mkdir()
    saved.write_text("as it was saved")
    assert client.page(f"report/{run_id}") == "as it was saved"
    os.utime(saved, (1, 1))  # of before its end
    assert client.page(f"report/{run_id}") == expected


def test_runs_are_found_by_words_of_their_name_and_study(client: Client, journal: Journal) -> None:
    run_id = run_simulated(journal)
    other = begin_simulated(journal, simulated_ladder("jit"))
    journal.set_status(other, "interrupted")
    both = {run_id, other}
    for query, wanted in (
        ("", both),
        ("simulated", both),
        ("WORK_MEM", {run_id}),
        ("jit simulated", {other}),
        ("work_mem jit", set()),
        ("%", set()),
        ("workxmem", set()),  # no wildcard
        ("'; DROP TABLE run; --", set()),
    ):
        found = re.findall(r'href="[^"]*run/([^"]*)"', client.page("?" + urlencode({"q": query})))
        assert set(found) == wanted, query


def test_markup_in_a_search_is_text(client: Client) -> None:
    page = client.page("?" + urlencode({"q": '"><script>alert(1)</script>'}))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize("skip", ["", "0", "50", "-1", "nine", "9" * 40])
def test_a_list_of_runs_has_an_end(client: Client, journal: Journal, skip: str) -> None:
    run_id = run_simulated(journal)
    listed = run_id in client.page(f"?skip={skip}")
    assert listed == (skip in ("", "0", "-1", "nine"))


def test_two_runs_lie_over_each_other_with_what_differs_between_them(
    client: Client, journal: Journal
) -> None:
    first, second = run_simulated(journal), run_simulated(journal)
    page = client.page(f"together?run={first}&run={second}")
    data = json.loads(re.findall(r'id="series-data">(.*?)</script>', page)[0])
    names = [one["name"] for one in data["recordings"]]
    assert names == [f"{first} R0", f"{second} R0", f"{first} R1", f"{second} R1"]
    assert all(one["overlay"] is not None for one in data["figures"])
    assert f"No significant change of 2 treatments in {second} against {first}." in page
    assert "Nothing that a run records" in page
    client.page(f"together?run={first}&run={first}", status=409)
    client.page(f"together?run={first}", status=409)
    client.page(f"together?run={first}&run=nope", status=404)


def test_pages_read_the_same_however_many_runs_there_are(
    client: Client, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, other = run_simulated(journal), run_simulated(journal)

    def counted(path: str) -> tuple[int, int]:
        """How many statements a page makes, and how many steps these take in the journal."""
        statements: list[str] = []
        steps: list[None] = []
        opened = Journal.__init__

        def traced(self: Journal, path: Path) -> None:
            opened(self, path)
            self._db.set_trace_callback(statements.append)
            self._db.set_progress_handler(lambda: steps.append(None), 1)

        client.server.pages._reports.clear()  # the first view
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "__init__", traced)
            client.page(path)
        return len(statements), len(steps)

    pages = (
        *("", "?q=work_mem", "start"),
        f"report/{run_id}",
        f"together?run={run_id}&run={other}",
    )
    few = [counted(path) for path in pages]
    with journal._transaction() as db:
        db.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
            "INSERT INTO run SELECT run_id || '-copy-' || i, experiment, scale, status, study, host, server_wanted, "
            "server_version, pgdrag_version, seed, started_unix_s - i, finished_unix_s - i, pid FROM run, n WHERE run_id = ?",
            (run_id,),
        )
    many = [counted(path) for path in pages]
    assert [statements for statements, _ in many] == [statements for statements, _ in few]
    # Of each of the others no more than its line is read, and none of its trials.
    grown = [(after - before) / 1000 for (_, before), (_, after) in zip(few, many, strict=True)]
    for path, steps in zip(pages, grown, strict=True):
        assert steps < (MOST_STEPS_OF_SEARCH if path.startswith("?") else MOST_STEPS), path
    assert len(re.findall("<tr><th scope=.row", client.page())) == 50
    assert run_id in client.page()


# --- runs under way ----------------------------------------------------------------------------


def test_a_run_under_way_shows_what_it_is_at_and_what_is_left(
    client: Client, journal: Journal, under_way: tuple[str, Listener]
) -> None:
    run_id, listen = under_way
    trial = journal.run(run_id).results[0].trial
    listen(TimeLeft(60.0, 180.0))
    listen(TrialStarted(trial))
    listen(PhaseStarted("measure", 20.0))
    for at in range(1, 5):
        listen(second(at, 1000 + at))
    home = client.page()
    assert f'href="{client.server.root}run/{run_id}">A simulated ladder' in home
    page = client.page(f"run/{run_id}")
    assert re.search(r"Trial 1 of 4, about .+ left, .+ at most", page)
    assert re.search(r"measure \d+ s of 20 s, 1,004/s now", page)
    assert re.search(r"<td>R[01]<td>[\d,]+/s", page)  # the trial that has ended
    data = json.loads(re.findall(r'id="series-data">(.*?)</script>', page)[0])
    (panel, latency, *_) = data["recordings"][0]["panels"]
    assert panel["traces"][0]["values"] == [1001, 1002, 1003, 1004]
    assert [one["label"] for one in latency["traces"]][-1] == "99th percentile"


def test_a_stream_brings_what_is_new_and_says_when_the_run_has_ended(
    client: Client, journal: Journal, under_way: tuple[str, Listener]
) -> None:
    run_id, listen = under_way
    connection = HTTPConnection("127.0.0.1", client.server.server_port, timeout=60)
    path = f"{client.server.root}run/{run_id}/events"
    connection.request(
        "GET", path, headers={"Host": client.host, "Cookie": f"pgdrag={client.server.token}"}
    )
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"

    def until(wanted: Callable[[str, str], bool]) -> str:
        kind, data = "", ""
        while True:
            line = answer.readline().decode()
            assert line, "the stream has ended"
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind, data = line[7:], ""
            elif line.startswith("data: "):
                data += line[6:]
            elif not line and wanted(kind, data):
                return data

    listen(TrialStarted(journal.run(run_id).results[0].trial))
    listen(PhaseStarted("measure", 20.0))
    for at in range(1, 4):
        listen(second(at, 100))
    until(lambda kind, data: kind == "series" and "Throughput" in data)
    listen(second(4, 123))
    until(lambda kind, data: kind == "series" and "123" in data)
    until(lambda kind, data: kind == "state" and "123/s now" in data)
    journal.set_status(run_id, "done")
    until(lambda kind, data: kind == "end")
    connection.close()


def test_nobody_stops_a_run_that_has_ended(client: Client, journal: Journal) -> None:
    run_id = run_simulated(journal)
    status, page, _ = client.post("stop", {"run": run_id})
    assert status == 409
    assert "not running" in page


def test_a_run_needs_the_same_consent_as_on_the_command_line(client: Client) -> None:
    for form in ({}, {"changes": "vm.swappiness", "yes": "yes"}):
        status, page, _ = client.post("start", {"experiment": "slow-42k", **form})
        assert (status, "without consent" in page) == (409, True)


def test_what_an_experiment_starts_is_allowed_as_it_was_seen_or_not_run(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Wanted] = []
    program = Program("put load on the server", "rm \N{RIGHT-TO-LEFT OVERRIDE}x", "/srv")
    plan = Planned("what it would do", is_refused=False, programs=(program,))
    monkeypatch.setattr("pgdrag.serve.pages.planned", lambda wanted: plan)
    monkeypatch.setattr("pgdrag.serve.pages.needed_programs", lambda wanted: plan.programs)
    monkeypatch.setattr("pgdrag.serve.pages.start", started.append)
    _, page, _ = client.post("plan", {"file": "/x.toml"})
    assert "what it would do" in page
    assert "--allow-run" in page
    assert "rm \N{REPLACEMENT CHARACTER}x  # in /srv" in page
    digest = re.findall(r'name="programs" value="(\w+)"', page)[0]
    allowed = {"experiment": "/x.toml", "yes": "yes", "allow-run": "yes", "programs": digest}
    for missing in ({"allow-run": ""}, {"programs": "0"}, {"yes": ""}):
        assert client.post("start", allowed | missing)[0] == 409
    assert started == []
    assert client.post("start", allowed)[0] == 303
    assert [one.command for one in started] == ["pgdrag run /x.toml --allow-run"]


def test_a_plan_names_the_programs_that_a_run_would_start(tmp_path: Path) -> None:
    mark, file = tmp_path / "mark", tmp_path / "own.toml"
    file.write_text(
        f"""
        pgdrag = 1
        name = "own"
        [workload]
        kind = "command"
        profile = "pgbench"
        command = "touch {mark}"
        [[rungs]]
        name = "R1"
        setting = {{ work_mem = "1MB" }}
        [scales.demo.load]
        measure_s = 1
        """
    )
    plan = planned(Wanted(str(file)))
    assert (plan.is_refused, [one.command for one in plan.programs]) == (False, [f"touch {mark}"])
    assert f"touch {mark}" in plan.text
    assert not mark.exists()
    assert needed_programs(Wanted(str(tmp_path / "none.toml"))) == ()


def test_the_name_of_an_experiment_is_no_option() -> None:
    wanted = Wanted("--dsn=x", scale="--yes", changes=("--allow-run",))
    assert wanted.arguments() == [
        "run",
        "--scale=--yes",
        "--allow-change=--allow-run",
        "--",
        "--dsn=x",
    ]


def test_no_second_run_is_started_beside_one(
    client: Client, under_way: tuple[str, Listener]
) -> None:
    status, page, _ = client.post("start", {"experiment": "slow-42k", "yes": "yes"})
    assert status == 409
    assert f"{under_way[0]} is running" in page
    assert "is running" in client.page("start")


# --- the file of a run under way ---------------------------------------------------------------


def live_of(path: Path) -> Watcher:
    watcher = Watcher(path)
    watcher.look()
    return watcher


def test_waits_and_background_work_stand_on_the_axis_of_the_load(tmp_path: Path) -> None:
    with live_file.live_file(tmp_path / "live" / "a.jsonl", is_over=lambda _: True) as listen:
        listen(PhaseStarted("warm up", 5.0))
        listen(second(1, 100))
        listen(PhaseStarted("measure", 5.0))
        watcher = live_of(tmp_path / "live" / "a.jsonl")
        began = watcher.watched._began_unix_s
        assert began is not None
        for at in (2, 3, 4):
            listen(second(at, 100))
            on_cpu = Series("on_cpu_sessions", "on CPU", "count", (began + at,), (float(at),))
            listen(Sampled((on_cpu,), ("checkpointer",) if at > 2 else ()))
        assert watcher.look()
        recording = watcher.watched.figure().recording
    assert recording.length_s == 4.0
    waits = next(x for x in recording.panels if x.title == "Sessions, by what they do")
    assert waits.traces[0].times_s == (2.0, 3.0, 4.0)
    assert waits.traces[0].values == (2.0, 3.0, 4.0)
    assert [mark.kind for mark in recording.marks] == ["warm up", "checkpointer at work"]


def test_a_file_begins_anew_when_it_is_large_and_keeps_what_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_file, "MOST_BYTES", 4000)
    path = tmp_path / "live" / "a.jsonl"
    with live_file.live_file(path, is_over=lambda _: True) as listen:
        listen(TimeLeft(5.0, 6.0))
        listen(PhaseStarted("measure", 100.0))
        watcher = live_of(path)
        for at in range(1, 101):
            listen(second(at, at))
            assert path.stat().st_size <= 4000
            watcher.look()
        assert "measure" in watcher.watched.doing()[""]
        assert watcher.watched.left == TimeLeft(5.0, 6.0)
        assert watcher.watched.length_s == 100.0
    assert not path.exists()
    assert not watcher.look()


def test_a_dead_runs_file_goes_when_another_run_begins(tmp_path: Path) -> None:
    for name in ("dead", "alive"):
        (tmp_path / f"{name}.jsonl").write_text("")
    with live_file.live_file(tmp_path / "new.jsonl", is_over=lambda x: x == "dead"):
        assert {x.stem for x in tmp_path.glob("*.jsonl")} == {"alive"}


def test_a_run_goes_on_where_its_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "live").write_text("no directory")
    with live_file.live_file(tmp_path / "live" / "a.jsonl", is_over=lambda _: True) as listen:
        listen(second(1, 100))


@given(st.integers(0, 600), st.binary(max_size=40))
def test_a_reader_takes_whole_lines_alone(
    tmp_path_factory: pytest.TempPathFactory, cut: int, torn: bytes
) -> None:
    path = tmp_path_factory.mktemp("live") / "a.jsonl"
    with live_file.live_file(path, is_over=lambda _: True) as listen:
        for at in range(1, 4):
            listen(second(at, at))
        whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    reader = LiveReader(path)
    first = reader.read()
    assert len(first) == whole[:cut].count(b"\n")
    with path.open("ab") as file:
        file.write(whole[cut:])
    assert len(first) + len(reader.read()) == 3
    with path.open("ab") as file:
        file.write(torn.replace(b"\n", b"") + b"\n")
    assert reader.read() == []
    reader.close()


# --- the command -------------------------------------------------------------------------------


def test_a_port_in_use_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with PageServer(0) as server:
        found = pgdrag("serve", "--port", str(server.server_port), PGDRAG_HOME=str(tmp_path))
    assert found == (
        2,
        "",
        f"error: port {server.server_port} of 127.0.0.1 is in use\n"
        "hint: Give --port another number, or leave it out to take a free one.\n",
    )


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_text("something else " * 100)
    status, out, err = pgdrag("serve", PGDRAG_HOME=str(tmp_path))
    assert (status, out) == (2, "")
    assert err.startswith("error: could not use journal")
