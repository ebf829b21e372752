"""How does one load run on one server as it is? One treatment, once: `pgdrag bench` and `pgdrag tpcc run`."""

from __future__ import annotations

from pgdrag.designs import OneBlock
from pgdrag.designs.window.analysis import finding_of
from pgdrag.designs.window.findings import WindowFinding
from pgdrag.model import Block, RunRecord


class Window(OneBlock):
    """The first rung, once; nothing is compared."""

    name = "window"
    summary = "one treatment, once: what one measured window shows"

    def block(self) -> Block:
        """Return the one trial."""
        return Block((self.rungs[0].treatment,))

    def find(self, run: RunRecord) -> WindowFinding:
        """Return what the window showed."""
        return finding_of(run)
