"""`pgdrag clean`: free the disk space that datasets and dead processes use."""

from __future__ import annotations

from typing import Annotated

import typer


def clean(
    snapshots: Annotated[
        bool,
        typer.Option(
            "--snapshots",
            help="Also remove the dataset snapshots; they are loaded again when needed",
        ),
    ] = False,
) -> None:
    """Remove what dead pgdrag processes left behind.

    Also list the dataset snapshots, or remove them.
    """
    from pgdrag.cli.place import clear_up
    from pgdrag.host.machine_lock import measuring_alone
    from pgdrag.servers.scratch import Scratch
    from pgdrag.servers.snapshot import SnapshotStore
    from pgdrag.units import format_bytes

    scratch = Scratch.open()
    with measuring_alone():
        for sentence in clear_up(scratch):
            print(sentence)
        store = SnapshotStore(scratch)
        for snapshot in store.list():
            if snapshots:
                store.remove(snapshot.key)
            verb = "Removed" if snapshots else "Kept"
            print(f"{verb} snapshot {snapshot.key}, {format_bytes(snapshot.bytes)}.")
