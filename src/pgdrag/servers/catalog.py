"""Which settings does a PostgreSQL know? Asked once of each, then kept on disk."""

from __future__ import annotations

import contextlib

from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch, storage_errors, write_whole
from pgdrag.servers.settings import CATALOG_SQL, LIBRARIES_SQL, SettingsCatalog


def load_settings_catalog(binaries: Binaries, scratch: Scratch) -> SettingsCatalog:
    """What `binaries` say of their settings; the first time takes a throw-away cluster, about 1 s.

    Raises:
        ServerError: the throw-away cluster could not be made or started.
        StorageError: the answer could not be kept.
    """
    # Files without the 2 are of versions that did not ask for the libraries.
    path = scratch.settings / f"{binaries.identity}.2.json"
    # Missing, or of another pgdrag version: it can be made again.
    with contextlib.suppress(OSError, ValueError):
        return SettingsCatalog.from_json(path.read_text(encoding="utf-8"))
    with Cluster.create(scratch, binaries) as cluster:
        cluster.initdb()
        cluster.start()
        with cluster.connect() as connection:
            rows = connection.execute(CATALOG_SQL).fetchall()
            libraries = [name for (name,) in connection.execute(LIBRARIES_SQL)]
            catalog = SettingsCatalog.from_rows(connection.info.server_version, rows, libraries)
    with storage_errors("keep the settings catalogue", scratch.settings):
        # Another pgdrag may read it at any moment.
        write_whole(path, catalog.to_json())
    return catalog
