"""What is there of a kind? A thing is registered by being in its folder, and by nothing else.

A folder such as `collectors/` defines one base class; each module in it that defines a concrete
subclass has thereby registered it under the subclass's `name`. A class without a `name` is a base
for others. What is a value and no class, such as an analysis, is registered by a module that has it.
A package from outside registers what it has through one entry point in the group `pgdrag`, which
names the package: whatever its modules define is found as ours is.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from pgdrag.errors import PluginError

ENTRY_POINT_GROUP = "pgdrag"

T = TypeVar("T")


def registered(folder: str, base: type[T], *, module: str = "") -> dict[str, type[T]]:
    """Return the concrete subclasses of `base` in a folder and in plug-ins, by `name`, sorted.

    Each has a class attribute `name`, and no two of a kind the same.

    Args:
        folder: dotted name of the package whose modules are searched, one level deep.
        module: search only the module of this name in each package of the folder.

    Raises:
        PluginError: a package from outside cannot be imported, or takes a name that is taken.
    """
    return dict(_subclasses((*_modules(folder, module), *_plugin_modules()), base))  # type: ignore[arg-type]


@cache
def _subclasses(modules: tuple[ModuleType, ...], base: type[T]) -> dict[str, type[T]]:
    return _by_name(
        (each, value)
        for each in modules
        for value in vars(each).values()
        if inspect.isclass(value)
        and issubclass(value, base)
        and not inspect.isabstract(value)
        and value.__module__ == each.__name__
        and hasattr(value, "name")
    )


def registered_values(folder: str, kind: type[T], *, module: str = "") -> dict[str, T]:
    """Return the instances of a class in the modules of a folder and in plug-ins, by `name`; otherwise like `registered`."""
    return dict(_values((*_modules(folder, module), *_plugin_modules()), kind))  # type: ignore[arg-type]


@cache
def _values(modules: tuple[ModuleType, ...], kind: type[T]) -> dict[str, T]:
    return _by_name(
        (each, value)
        for each in modules
        for value in vars(each).values()
        if isinstance(value, kind)
    )


def _by_name(found: Iterable[tuple[ModuleType, T]]) -> dict[str, T]:
    by_name: dict[str, tuple[ModuleType, T]] = {}
    for module, value in found:
        name: str = value.name  # type: ignore[attr-defined]
        where, other = by_name.setdefault(name, (module, value))
        if other is not value:
            raise PluginError(
                f'two plug-ins of one kind are named "{name}"',
                detail=f"{where.__name__} has one and {module.__name__} the other.",
            )
    return {name: by_name[name][1] for name in sorted(by_name)}


def shipped(found: dict[str, T]) -> dict[str, T]:
    """Return of registered classes those that come with pgdrag itself."""
    return {name: x for name, x in found.items() if x.__module__.split(".")[0] == "pgdrag"}


def plugin_directories() -> list[Path]:
    """Return the directories of the packages from outside, which are not imported for it."""
    specs = (importlib.util.find_spec(x.module) for x in _entry_points())
    places = (spec.submodule_search_locations or () for spec in specs if spec is not None)
    return [Path(place) for each in places for place in each]


@cache
def _modules(folder: str, module: str) -> tuple[ModuleType, ...]:
    package = importlib.import_module(folder)
    found = [x for x in pkgutil.iter_modules(package.__path__) if not x.name.startswith("_")]
    names = [f"{folder}.{each.name}" for each in found if not module or each.ispkg]
    if module:
        names = [f"{name}.{module}" for name in names]
        names = [name for name in names if importlib.util.find_spec(name) is not None]
    return tuple(importlib.import_module(name) for name in names)


@cache
def _entry_points() -> EntryPoints:
    # Each look reads the metadata of all that is installed.
    return entry_points(group=ENTRY_POINT_GROUP)


@cache
def _plugin_modules() -> tuple[ModuleType, ...]:
    found: list[ModuleType] = []
    for entry_point in _entry_points():
        try:
            found += _all_modules(entry_point.load())
        except Exception as error:
            raise PluginError(
                f'could not load plug-in "{entry_point.name}": {type(error).__name__}: {error}',
                hint=f"Repair or uninstall the package that has {entry_point.value}.",
            ) from error
    return tuple(found)


def _all_modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        yield importlib.import_module(info.name)
