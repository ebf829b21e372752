"""Patroni: its own file, or the dynamic configuration as patronictl and its REST API show it."""

from __future__ import annotations

from collections.abc import Iterator

from pgdrag.experiment.formats import Given, Skipped
from pgdrag.experiment.formats._documents import Entry
from pgdrag.experiment.formats._parameters import DocumentFormat, parameters, place_of

# What only its local file has.
_LOCAL = ("scope", "name", "namespace", "restapi", "bootstrap", "etcd", "etcd3", "consul", "zookeeper", "raft", "kubernetes", "exhibitor")  # fmt: skip
# What Patroni takes from the dynamic configuration alone, as all members must agree.
_DYNAMIC_ONLY = frozenset(
    [
        "max_connections",
        "max_locks_per_transaction",
        "max_prepared_transactions",
        "max_replication_slots",
        "max_wal_senders",
        "max_worker_processes",
        "track_commit_timestamp",
        "wal_keep_segments",
        "wal_keep_size",
        "wal_level",
    ]
)


class Patroni(DocumentFormat):
    """`bootstrap.dcs.postgresql.parameters`, then the local `postgresql.parameters`, which count more."""

    name = "patroni"
    summary = "Patroni's YAML, or what patronictl show-config prints (postgresql.parameters)"
    example = "ttl: 30\npostgresql:\n  parameters:\n    work_mem: 64MB\n"

    def has_settings(self, document: Entry) -> bool:
        if document.get("apiVersion") is not None:
            return False
        return any(
            document.get(*above, "postgresql", "parameters") is not None
            for above in ((), ("bootstrap", "dcs"))
        )

    def settings(self, document: Entry) -> Iterator[Given | Skipped]:
        yield from parameters(document.get("bootstrap", "dcs", "postgresql", "parameters"))
        is_local = any(document.get(key) is not None for key in _LOCAL)
        for one in parameters(document.get("postgresql", "parameters")):
            if is_local and one.name.lower() in _DYNAMIC_ONLY:
                why = "Patroni reads this from its dynamic configuration only"
                yield Skipped(one.name, why, one.place)
            else:
                yield one
        custom = document.get("postgresql", "custom_conf")
        if custom is not None and custom.text:
            why = "a file of that server"
            yield Skipped(f"custom_conf {custom.text}", why, place_of(custom))
