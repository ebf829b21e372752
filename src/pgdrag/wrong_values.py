"""What is wrong with a value that pydantic refuses, as a clause for a message?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from pydantic_core import ErrorDetails

# The shortest of pydantic's texts speak of Python's types; these speak of TOML's.
_WANTED = {
    "missing": "is missing",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be over {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be under {lt}",
    "literal_error": "must be {choices}",
    "string_pattern_mismatch": "must be made of {form}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} element",
}

# What these say of a value needs no repetition of it.
_NOT_OF_VALUE = frozenset({"missing", "too_short", "string_too_short", "pairs", "steps"})


def wanted(details: ErrorDetails, forms: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what is wrong with a value, to complete a sentence: ` must be at least 1, not 0`.

    Args:
        forms: what texts are made of that a pattern matches, by the pattern.
    """
    context = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in details.get("ctx", {}).items()
    }
    # pydantic quotes choices as Python does.
    context["choices"] = str(context.get("expected")).replace("'", '"')
    pattern = str(context.get("pattern"))
    context["form"] = forms.get(pattern, f"what {pattern} matches")
    template = _WANTED.get(details["type"])
    if template is not None:
        text = template.format_map(context)
    else:
        # The words of a model's own validator, which stand behind "Value error, ".
        text = str(context.get("error", "")) or details["msg"]
        text = text[:1].lower() + text[1:]
        if text.startswith("input should"):
            text = "must" + text.removeprefix("input should")
    is_about_value = details["type"] not in _NOT_OF_VALUE
    if details["type"] == "value_error":
        return f": {text}"
    return f" {text}, not {_shown(details['input'])}" if is_about_value else f" {text}"


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value if len(value) <= 40 else f"{value[:39]}…", ensure_ascii=False)
        case dict():
            return "a table"
        case list():
            return "an array"
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case _:
            return str(value)
