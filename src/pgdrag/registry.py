"""What is there of a kind? A thing is registered by being in its folder, and by nothing else.

A folder such as `collectors/` defines one base class in its `__init__.py`; each module beside it
that defines a concrete subclass has thereby registered it under the subclass's `name`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def registered(package: ModuleType, base: type[T]) -> dict[str, type[T]]:
    """Return the concrete subclasses of `base` defined in the package's modules, by `name`, sorted.

    Each class has a class attribute `name`; two of one name are a defect of pgdrag.
    """
    found: dict[str, type[T]] = {}
    for module in _modules(package):
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and not inspect.isabstract(value)
                and value.__module__ == module.__name__
            ):
                name = value.name  # type: ignore[attr-defined]
                assert name not in found, f"two things are named {name!r} in {package.__name__}"
                found[name] = value
    return dict(sorted(found.items()))


@cache
def _modules(package: ModuleType) -> tuple[ModuleType, ...]:
    return tuple(
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if not info.name.startswith("_")
    )
