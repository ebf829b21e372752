"""Who turns a value into JSON, and JSON into a value of its type? pydantic's adapter of the type, made once.

Making one takes milliseconds, as long as a small report: so it is made when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")
# The `__pydantic_config__` of a type, and of all within it: what is read has no number that is not finite, not as text either.
FINITE: Mapping[str, object] = {"allow_inf_nan": False}


def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """Return the adapter that reads and writes values of a type."""
    found: TypeAdapter[T] = _adapter(kind)  # type: ignore[arg-type]  # a class is hashable
    return found


def first_mistake(error: ValidationError, *within: str) -> str:
    """Return where the first value stands that an adapter refused, and why: `load.warm_up_s: Field required`."""
    found = error.errors(include_url=False)[0]
    where = ".".join(map(str, (*within, *found["loc"])))
    return f"{where}: {found['msg']}" if where else found["msg"]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # what has no JSON to read does not wait for it

    return TypeAdapter(kind)
