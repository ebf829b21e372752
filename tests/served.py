"""`pgdrag serve` in a thread of the tests, over runs of the simulated laboratory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from in_process import OURS
from pgdrag.cli.findings import findings_of
from pgdrag.errors import Interrupted
from pgdrag.host.machine_lock import MACHINE_VARIABLE, measuring_alone
from pgdrag.journal import Journal, live_file
from pgdrag.journal.live_file import live_path
from pgdrag.lab import run_experiment
from pgdrag.model.events import Event, Listener, Throughput, TrialFinished
from pgdrag.model.measurement import Sample
from pgdrag.serve.pages import RunPages
from pgdrag.serve.server import PageServer
from pgdrag.testing.simulated import (
    SimulatedTrialRunner,
    Truth,
    begin_simulated,
    simulated_ladder,
)


@dataclass
class Client:
    """Asks as a browser does that has the cookie."""

    server: PageServer
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def ask(
        self, path: str, *, method: str = "GET", form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        """Return the status, the text and the headers of an answer; a header "" is not sent."""
        sent = {"Host": self.host, "Cookie": f"pgdrag={self.server.token}", **self.headers}
        if method == "POST":
            sent |= {
                "Origin": f"http://{self.host}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
        sent |= {name.replace("_", "-"): text for name, text in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        body = urlencode(form) if form is not None else None
        connection.putrequest(method, path, skip_host=True)
        for name, text in sent.items():
            if text:
                connection.putheader(name, text)
        if method == "POST" and "Content-Length" not in sent:
            connection.putheader("Content-Length", str(len(body or "")))
        connection.endheaders(body.encode() if body else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, dict(answer.getheaders())

    def page(self, path: str = "", *, status: int = 200) -> str:
        found, text, _ = self.ask(f"{self.server.root}{path}")
        assert found == status, text
        return text

    def post(self, path: str, form: dict[str, str]) -> tuple[int, str, dict[str, str]]:
        return self.ask(f"{self.server.root}{path}", method="POST", form=form)


@contextmanager
def journal_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """A journal, on a machine on which nothing else measures."""
    monkeypatch.setenv("PGDRAG_HOME", str(home))
    monkeypatch.setenv(MACHINE_VARIABLE, f"{OURS[MACHINE_VARIABLE]}-serve")
    journal = Journal(home / "journal.sqlite")
    yield journal
    journal.close()


@contextmanager
def serving(journal: Journal) -> Iterator[Client]:
    """The pages of a journal, until the block ends."""
    with PageServer(0) as server:
        server.pages = RunPages(
            server.root,
            server.has_ended,
            lambda: Journal(journal.path),
            findings_of,
            lambda run_id: journal.path.parent / "reports" / f"{run_id}.html",
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Client(server)
        server.shutdown()
        thread.join()


def run_simulated(journal: Journal, **truth: object) -> str:
    study = simulated_ladder("work_mem", replicates=2)
    run_id = begin_simulated(journal, study)
    bench = SimulatedTrialRunner(Truth(slowdowns={"work_mem": 2.0}, noise=0.01, is_observed=True))
    run_experiment(run_id, bench, journal)
    return run_id


@contextmanager
def run_under_way(journal: Journal) -> Iterator[tuple[str, Listener]]:
    """A run of which this process has run one trial, and what listens to its events."""
    study = simulated_ladder("work_mem", replicates=2)
    with measuring_alone():
        run_id = begin_simulated(journal, study)
        path = live_path(journal.path, run_id)
        with live_file.live_file(path, is_over=lambda _: True) as listen:

            def until_first(event: Event) -> None:
                listen(event)
                if isinstance(event, TrialFinished):
                    raise KeyboardInterrupt

            with pytest.raises(Interrupted):
                run_experiment(run_id, SimulatedTrialRunner(Truth()), journal, until_first)
            journal.set_status(run_id, "running")
            yield run_id, listen
    journal.set_status(run_id, "done")


def second(at: int, tps: int) -> Throughput:
    return Throughput(at, at * tps, tps, tps, Sample(float(at), 1.0, tps, 0, 9e3, 8, 1e3, 4e3))
