"""Where the conformance suites run: a scratch directory, a PostgreSQL, and one cluster for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgdrag.host.undo import UNDO_VARIABLE
from pgdrag.model.events import ignore
from pgdrag.servers.binaries import executable_binaries, find_binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch
from pgdrag.trial import ServerTrialRunner
from pgdrag_demo.lookup import Lookup


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerTrialRunner]:
    """Runs trials on the embedded PostgreSQL, in $PGDRAG_SCRATCH, with an undo journal of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(UNDO_VARIABLE, str(tmp_path_factory.mktemp("undo")))
        scratch = Scratch.open()
        runner = ServerTrialRunner.open(scratch, executable_binaries(find_binaries(None), scratch))
        yield runner
        runner.close()


@pytest.fixture(scope="session")
def cluster(bench: ServerTrialRunner) -> Iterator[Cluster]:
    """A running cluster; old row versions stay until a test vacuums."""
    restored = bench.snapshot(Lookup(), ignore).restore(bench.scratch, bench.binaries)
    with restored.cluster as cluster:
        cluster.configure({"autovacuum": "off"})
        cluster.start()
        yield cluster
