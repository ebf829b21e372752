"""Which file did a person mean who named one that does not exist?"""

from __future__ import annotations

from pathlib import Path

from pgdrag.english import did_you_mean


def nearest_file(missing: Path) -> str:
    """Return a question that names the file beside a missing one whose name is nearest, or ""."""
    try:
        names = [each.name for each in missing.parent.iterdir() if each.is_file()]
    except OSError:
        return ""
    meant = did_you_mean(missing.name, names)
    return meant if missing.parent == Path() else meant.replace('"', f'"{missing.parent}/', 1)
