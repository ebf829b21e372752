"""What do a treatment's settings, as a person wrote them, come to?"""

from __future__ import annotations

from collections.abc import Mapping

from pgdrag.errors import SettingError
from pgdrag.units import to_base_integer


def whole(settings: Mapping[str, str], name: str) -> int | None:
    """Return a whole-numbered setting; None where it is not set, or is no number."""
    try:
        return to_base_integer(settings[name], None) if name in settings else None
    except SettingError:
        return None


def word(settings: Mapping[str, str], name: str) -> str | None:
    """Return a setting that is a word, in lower case; None where it is not set."""
    return settings[name].strip().lower() if name in settings else None
