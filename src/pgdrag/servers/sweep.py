"""What did pgdrag processes leave behind that died without a chance to clear away?

Servers end with the process that started them, and each command removes its own clusters. This is for
the rest: kill -9, a crash, a power failure. Every command that makes a cluster sweeps first.
"""

from __future__ import annotations

from collections.abc import Callable

from pgdrag.errors import PgdragError
from pgdrag.servers.owner_file import CLUSTER_PREFIX, OwnerFile
from pgdrag.servers.processes import kill_processes
from pgdrag.servers.scratch import HALF_MADE_PREFIX, OwnedDirectory, Scratch, remove_tree
from pgdrag.servers.shared_memory import free_shared_memory


def sweep(scratch: Scratch) -> list[str]:
    """Remove clusters and half-made copies whose owner has died; those of a live one are safe.

    Returns:
        One sentence for each thing found, also for what could not be removed and why; nothing,
        usually.
    """
    sentences = []
    for owned in scratch.abandoned_directories(scratch.clusters, CLUSTER_PREFIX):
        sentences.append(_swept(owned, _remove_cluster))
    for parent in (scratch.snapshots, scratch.binaries):
        for owned in scratch.abandoned_directories(parent, HALF_MADE_PREFIX):
            sentences.append(_swept(owned, _remove_half_made))
    return sentences


def _swept(owned: OwnedDirectory, remove: Callable[[OwnedDirectory], str]) -> str:
    try:
        return remove(owned)
    except (PgdragError, OSError) as error:
        return f'Could not remove what is left in "{owned.path}": {error}.'
    finally:
        owned.release()


def _remove_cluster(owned: OwnedDirectory) -> str:
    owner = OwnerFile.read(owned.path)
    also = []
    # Without the file the owner died before it made anything else.
    if owner is not None:
        data_directory = owned.path / "data"
        killed = kill_processes(data_directory, owner.postgres)
        if killed:
            also.append(f"{killed} processes")
        if data_directory.exists():
            also += free_shared_memory(data_directory)
        socket_directory = owner.removable_socket_directory()
        if socket_directory is not None:
            remove_tree(socket_directory)
    owned.remove()
    who = "" if owner is None else f" of process {owner.pid}, which is gone"
    return f'Removed cluster "{owned.path.name}"{who}{_list(also)}.'


def _remove_half_made(owned: OwnedDirectory) -> str:
    owned.remove()
    return f'Removed half-made copy "{owned.path}".'


def _list(also: list[str]) -> str:
    return f", with {', '.join(also)}" if also else ""
