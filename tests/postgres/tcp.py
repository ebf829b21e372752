"""Clusters that are reached by TCP on the loopback interface."""

from __future__ import annotations

import socket
from pathlib import Path

from pgdrag.servers.cluster import Cluster


class TcpCluster(Cluster):
    """A cluster that listens on the loopback interface as well."""

    def _command(self) -> list[str | Path]:
        addresses = "127.0.0.1,::1" if has_ipv6() else "127.0.0.1"
        return [*super()._command(), "-c", f"listen_addresses={addresses}"]  # the last one counts


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def has_ipv6() -> bool:
    """Whether this machine has the loopback address of IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
