"""Does a text that may mean anything name a file or a directory?

Python's Path raises an error where a text is too long for a file's name, as name=value pairs can be.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_file(text: str | Path) -> bool:
    """Whether there is a file of this name."""
    return os.path.isfile(text)  # noqa: PTH113


def is_directory(text: str | Path) -> bool:
    """Whether there is a directory of this name."""
    return os.path.isdir(text)  # noqa: PTH112


def exists(text: str | Path) -> bool:
    """Whether there is anything of this name."""
    return os.path.exists(text)  # noqa: PTH110
