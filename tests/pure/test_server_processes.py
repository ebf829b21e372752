"""What kind of process is it, by the title that it gives itself?"""

from __future__ import annotations

import pytest

from pgdrag.servers.processes import backend_type


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("postgres: checkpointer\0\0\0", "checkpointer"),
        ("postgres: shop: autovacuum launcher", "autovacuum launcher"),
        ("postgres: logical replication launcher", "logical replication launcher"),
        ("postgres: io worker 2", "io worker"),
        # Of PostgreSQL 14: else a server that has just started seems to have a client.
        ("postgres: stats collector", "stats collector"),
        ("postgres: load pgdrag [local] idle", "client backend"),
        ("postgres: stats shop [local] SELECT", "client backend"),
        # The postmaster, and a child that has yet to say what it is.
        ("/usr/lib/postgresql/16/bin/postgres\0-D\0/data", None),
    ],
)
def test_a_title_tells_the_kind(title: str, kind: str | None) -> None:
    assert backend_type(title) == kind
